//! The windows of pools, of any number of axes.

use super::axis_windows::AxisWindows;
use crate::error::{Error, Result};
use crate::geometry::SlidingWindow;

/// The window of a pooling over `N` axes, `[height, width]` of two: `PoolOptions { padding: [1, 1], ..PoolOptions::new([3, 3]) }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions<const N: usize = 2> {
    /// Size of the window.
    pub kernel: [usize; N],
    /// Distance of neighbouring windows; the kernel by default.
    pub stride: [usize; N],
    /// Border around the image, on both sides, at most half the kernel; none by default.
    pub padding: [usize; N],
    /// Distance of neighbouring elements in a window; 1 by default, and always for averages.
    pub dilation: [usize; N],
    /// Whether the border counts in the divisor of an average; yes by default.
    pub count_include_pad: bool,
    /// Whether a last window that reaches beyond the border is kept, if it begins before the border behind the image; not by default. What lies beyond never counts.
    pub ceil_mode: bool,
    /// By what the sums of averages are divided in place of the number of elements: not 0.
    pub divisor_override: Option<i64>,
}

impl<const N: usize> PoolOptions<N> {
    /// Windows side by side, without padding: PyTorch's defaults.
    pub fn new(kernel: [usize; N]) -> PoolOptions<N> {
        PoolOptions {
            kernel,
            stride: kernel,
            padding: [0; N],
            dilation: [1; N],
            count_include_pad: true,
            ceil_mode: false,
            divisor_override: None,
        }
    }

    /// The same over other axes.
    pub(super) fn over<const M: usize>(&self, of: impl Fn(&[usize; N]) -> [usize; M]) -> PoolOptions<M> {
        PoolOptions {
            kernel: of(&self.kernel),
            stride: of(&self.stride),
            padding: of(&self.padding),
            dilation: of(&self.dilation),
            count_include_pad: self.count_include_pad,
            ceil_mode: self.ceil_mode,
            divisor_override: self.divisor_override,
        }
    }

    /// Elements along `axis` beyond the border of an image of `size` that the last window reaches; none but in [`ceil_mode`](PoolOptions::ceil_mode).
    pub(crate) fn beyond_along(&self, axis: usize, size: usize) -> usize {
        if !self.ceil_mode {
            return 0;
        }
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let span = self.span(axis).unwrap_or(usize::MAX);
        let padded = padding.saturating_mul(2).saturating_add(size);
        // Where the first window begins that does not fit. The op reports strides of 0 and images that hold no window.
        let start = match (padded.checked_sub(span), stride) {
            (_, 0) => return 0,
            (Some(rest), stride) if rest % stride == 0 => return 0,
            (Some(rest), stride) => (rest / stride).saturating_add(1).saturating_mul(stride),
            (None, stride) if span - padded < stride => 0,
            (None, _) => return 0,
        };
        if start < padding.saturating_add(size) { start.saturating_add(span) - padded } else { 0 }
    }

    /// How far a window reaches along `axis`, if that is a number.
    fn span(&self, axis: usize) -> Option<usize> {
        self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)
    }

    /// The windows along `axis` of an image of `size`.
    ///
    /// # Errors
    /// Zero kernel, stride or dilation, padding above half the kernel, no window that fits.
    fn sliding(&self, op: &'static str, size: &[usize; N], axis: usize) -> Result<SlidingWindow> {
        let (kernel, stride, dilation) = (self.kernel[axis], self.stride[axis], self.dilation[axis]);
        let padding = self.padding[axis];
        if kernel == 0 || stride == 0 || dilation == 0 {
            let PoolOptions { kernel, stride, dilation, .. } = self;
            let detail =
                format!("kernel {kernel:?}, stride {stride:?} and dilation {dilation:?} must be at least 1");
            return Err(Error::invalid(op, detail));
        }
        if padding > kernel / 2 {
            let PoolOptions { padding, kernel, .. } = self;
            return Err(Error::invalid(
                op,
                format!("padding {padding:?} is more than half of kernel {kernel:?}"),
            ));
        }
        let too_large = || {
            let PoolOptions { kernel, dilation, padding, .. } = self;
            let detail = format!(
                "window {kernel:?} with dilation {dilation:?} is larger than image {size:?} with padding {padding:?}"
            );
            Error::invalid(op, detail)
        };
        let span = self.span(axis).ok_or_else(too_large)?;
        let padded = padding.checked_mul(2).and_then(|both| both.checked_add(size[axis]));
        let rest = padded
            .and_then(|padded| padded.checked_add(self.beyond_along(axis, size[axis]))?.checked_sub(span))
            .ok_or_else(too_large)?;
        let count = rest / stride + 1;
        Ok(SlidingWindow { kernel, stride, padding, dilation, size: size[axis], count })
    }

    /// The windows along each axis of an image of `size`.
    ///
    /// # Errors
    /// Windows that do not fit, or lie entirely in the padding.
    pub(super) fn windows(&self, op: &'static str, size: [usize; N]) -> Result<[AxisWindows; N]> {
        let mut found = Vec::with_capacity(N);
        for axis in 0..N {
            self.sliding(op, &size, axis)?;
        }
        for axis in 0..N {
            let windows = AxisWindows::sliding(&self.sliding(op, &size, axis)?)?.ok_or_else(|| {
                let PoolOptions { kernel, stride, padding, dilation, .. } = self;
                let window = format!(
                    "kernel {kernel:?}, stride {stride:?}, padding {padding:?}, dilation {dilation:?}"
                );
                Error::invalid(
                    op,
                    format!("a window ({window}) on an image of {size:?} lies entirely in the padding"),
                )
            })?;
            found.push(windows);
        }
        found.try_into().map_err(|_| Error::invalid(op, "as many windows as axes"))
    }

    /// How many elements each window along `axis` is divided by, the border counted if it shall be.
    pub(super) fn divisors(&self, axis: usize, size: usize, windows: &AxisWindows) -> Vec<f64> {
        let (kernel, stride, padding) = (self.kernel[axis], self.stride[axis], self.padding[axis]);
        let counted = |(at, &inside): (usize, &usize)| match self.count_include_pad {
            true => kernel.min(size + 2 * padding - at * stride) as f64,
            false => inside as f64,
        };
        windows.counts().iter().enumerate().map(counted).collect()
    }
}
