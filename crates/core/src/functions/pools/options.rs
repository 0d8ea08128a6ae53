//! The windows of pooling, for any number of axes.

use super::axis_windows::AxisWindows;
use crate::error::{Error, Result};
use crate::geometry::SlidingWindow;

/// The window of pooling over `N` axes, `[height, width]` for two:
/// `PoolOptions { padding: [1, 1], ..PoolOptions::new([3, 3]) }`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions<const N: usize = 2> {
    /// Size of the window.
    pub kernel: [usize; N],
    /// Distance between neighboring windows. Default: the kernel size.
    pub stride: [usize; N],
    /// Padding on both sides of the image, at most half the kernel. Default: 0.
    pub padding: [usize; N],
    /// Distance between neighboring elements of a window. Default: 1, the only value allowed for
    /// averages.
    pub dilation: [usize; N],
    /// Whether padding counts in the divisor of an average. Default: true.
    pub count_include_pad: bool,
    /// Whether a last window that extends beyond the padding is kept, provided that it begins
    /// before the padding at the end. Elements beyond the padding never count. Default: false.
    pub ceil_mode: bool,
    /// Divisor of the sums of averages, instead of the number of elements. Must not be 0.
    pub divisor_override: Option<i64>,
}

impl<const N: usize> PoolOptions<N> {
    /// Returns adjacent windows without padding: PyTorch's defaults.
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

    /// Returns the same options over other axes.
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

    /// Returns the number of elements along `axis` beyond the border of an image of `size` that the
    /// last window contains. It is 0 without [`ceil_mode`](PoolOptions::ceil_mode).
    pub(crate) fn overhang(&self, axis: usize, size: usize) -> usize {
        if !self.ceil_mode {
            return 0;
        }
        let (stride, padding) = (self.stride[axis], self.padding[axis]);
        let span = self.span(axis).unwrap_or(usize::MAX);
        let padded = padding.saturating_mul(2).saturating_add(size);
        // The start of the first window that does not fit. Strides of 0 and images smaller than the
        // window are errors that the op reports.
        let start = match (padded.checked_sub(span), stride) {
            (_, 0) => return 0,
            (Some(rest), stride) if rest % stride == 0 => return 0,
            (Some(rest), stride) => (rest / stride).saturating_add(1).saturating_mul(stride),
            (None, stride) if span - padded < stride => 0,
            (None, _) => return 0,
        };
        if start < padding.saturating_add(size) { start.saturating_add(span) - padded } else { 0 }
    }

    /// Returns the extent of a window along `axis`, or `None` if it overflows.
    fn span(&self, axis: usize) -> Option<usize> {
        self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)
    }

    /// Returns the windows along `axis` of an image of `size`.
    ///
    /// # Errors
    /// Returns an error if kernel, stride or dilation is 0, if the padding is above half the
    /// kernel, or if no window fits.
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
            .and_then(|padded| padded.checked_add(self.overhang(axis, size[axis]))?.checked_sub(span))
            .ok_or_else(too_large)?;
        let count = rest / stride + 1;
        Ok(SlidingWindow { kernel, stride, padding, dilation, size: size[axis], count })
    }

    /// Returns the windows along each axis of an image of `size`.
    ///
    /// # Errors
    /// Returns an error if the windows do not fit, or if one is entirely in the padding.
    pub(super) fn windows(&self, op: &'static str, size: [usize; N]) -> Result<[AxisWindows; N]> {
        let mut all_windows = Vec::with_capacity(N);
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
                    format!("a window ({window}) on an image of {size:?} is entirely in the padding"),
                )
            })?;
            all_windows.push(windows);
        }
        all_windows.try_into().map_err(|_| Error::invalid(op, "as many windows as axes"))
    }

    /// Returns the divisor of each window along `axis`, which counts the padding if
    /// `count_include_pad` is set.
    pub(super) fn divisors(&self, axis: usize, size: usize, windows: &AxisWindows) -> Vec<f64> {
        let (kernel, stride, padding) = (self.kernel[axis], self.stride[axis], self.padding[axis]);
        let counted = |(at, &inside): (usize, &usize)| match self.count_include_pad {
            true => kernel.min(size + 2 * padding - at * stride) as f64,
            false => inside as f64,
        };
        windows.counts().iter().enumerate().map(counted).collect()
    }
}
