//! Windows that slide over an image, as kernels take them (window.cuh).

use crate::gpu::Gpu;
use crate::space::{Divisor, Space};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{Layout, MAX_RANK, Result};

/// A window along one axis, as `Slide` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    size: i32,
    count: i32,
    kernel: i32,
    stride: i32,
    padding: i32,
    dilation: i32,
    window_step: i32,
    tap_step: i32,
    by_stride: Divisor,
    by_dilation: Divisor,
}

impl Slide {
    /// `window` along `axis` of an image of `size` pixels, on which `count` windows fit.
    fn new(op: &'static str, window: &Window, axis: usize, size: usize, count: usize) -> Result<Slide> {
        let padding = window.padding[axis];
        // Every place of every window lies within these, so that all other numbers are below 2^31 too.
        super::fits(op, &[padding.saturating_mul(2).saturating_add(size)])?;
        // Steps that are never made may be of any length.
        let stride = if count == 1 { 1 } else { window.stride[axis] };
        let dilation = if window.kernel[axis] == 1 { 1 } else { window.dilation[axis] };
        let common = greatest_common_divisor(stride, dilation);
        Ok(Slide {
            size: size as i32,
            count: count as i32,
            kernel: window.kernel[axis] as i32,
            stride: stride as i32,
            padding: padding as i32,
            dilation: dilation as i32,
            window_step: (dilation / common) as i32,
            tap_step: (stride / common) as i32,
            by_stride: Divisor::new(stride),
            by_dilation: Divisor::new(dilation),
        })
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The window along both axes of an image of `size` on which `count` windows fit.
pub(crate) fn slides(
    op: &'static str,
    window: &Window,
    size: [usize; 2],
    count: [usize; 2],
) -> Result<[Slide; 2]> {
    Ok([Slide::new(op, window, 0, size[0], count[0])?, Slide::new(op, window, 1, size[1], count[1])?])
}

/// By what positions in `[batch, channels, rows, columns]` are taken apart, as `Extent` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    channels: Divisor,
    rows: Divisor,
    columns: Divisor,
}

impl Extent {
    pub(crate) fn new(channels: usize, [rows, columns]: [usize; 2]) -> Extent {
        Extent { channels: Divisor::new(channels), rows: Divisor::new(rows), columns: Divisor::new(columns) }
    }
}

/// The strides of a view of `N` axes.
pub(crate) fn strides<const N: usize>(view: &View<'_>) -> [i64; N] {
    std::array::from_fn(|axis| view.layout.strides()[axis] as i64)
}

/// Whether the elements lie one after the other, in the order of the shape.
pub(crate) fn is_dense(layout: &Layout) -> bool {
    let axes: SmallVec<[(usize, [i64; 1]); MAX_RANK]> = layout
        .shape()
        .dims()
        .iter()
        .zip(layout.strides())
        .map(|(&size, &stride)| (size, [stride as i64]))
        .collect();
    Space::in_order(&axes).is_line()
}

/// Whether threads can write `view` in runs of `bytes` bytes.
pub(crate) fn takes_runs(gpu: &Gpu, op: &'static str, view: &View<'_>, bytes: u64) -> Result<bool> {
    Ok(is_dense(view.layout) && gpu.address(op, view)?.is_multiple_of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion_core::Shape;

    fn slide(kernel: usize, stride: usize, padding: usize, dilation: usize, size: usize) -> Slide {
        let [kernel, stride, padding, dilation] = [kernel, stride, padding, dilation].map(|both| [both; 2]);
        let window = Window { kernel, stride, padding, dilation };
        let count = window.output_size("test", [size; 2]).expect("windows")[0];
        Slide::new("test", &window, 0, size, count).expect("small")
    }

    /// What `windows_over` of window.cuh gives: window and place for each window that shows `pixel`.
    fn windows_over(slide: &Slide, pixel: i32) -> Vec<(i32, i32)> {
        let from_border = pixel + slide.padding;
        let span = (slide.kernel - 1) * slide.dilation;
        let last = (from_border / slide.stride).min(slide.count - 1);
        let mut first = if from_border > span { (from_border - span - 1) / slide.stride + 1 } else { 0 };
        while first <= last && (from_border - first * slide.stride) % slide.dilation != 0 {
            first += 1;
        }
        let tap = (from_border - first * slide.stride) / slide.dilation;
        (first..=last)
            .step_by(slide.window_step as usize)
            .enumerate()
            .map(|(number, window)| (window, tap - number as i32 * slide.tap_step))
            .collect()
    }

    #[test]
    fn pixels_find_their_windows() {
        for kernel in 1..5 {
            for (stride, padding, dilation, size) in
                [(1, 0, 1, 9), (2, 1, 1, 8), (3, 2, 2, 9), (2, 3, 4, 17), (4, 0, 6, 23), (7, 1, 3, 12)]
            {
                let slide = slide(kernel, stride, padding, dilation, size);
                for pixel in 0..slide.size {
                    let shown: Vec<(i32, i32)> = (0..slide.count)
                        .flat_map(|window| (0..slide.kernel).map(move |tap| (window, tap)))
                        .filter(|(window, tap)| {
                            window * slide.stride + tap * slide.dilation - slide.padding == pixel
                        })
                        .collect();
                    assert_eq!(windows_over(&slide, pixel), shown, "{slide:?} pixel {pixel}");
                }
            }
        }
    }

    #[test]
    fn steps_that_are_not_made_may_be_long() {
        let window = Window { kernel: [3, 1], stride: [1 << 40, 1], padding: [0; 2], dilation: [1, 1 << 40] };
        let [down, across] = slides("test", &window, [4, 5], [1, 5]).expect("fits");
        assert_eq!((down.stride, across.dilation), (1, 1));
        let window = Window { padding: [1 << 30, 0], ..window };
        let error = slides("test", &window, [4, 5], [1, 5]).expect_err("too large").to_string();
        assert!(error.contains("2147483652"), "{error}");
    }

    #[test]
    fn dense_is_in_the_order_of_the_shape() {
        let layout = Layout::row_major(Shape::new(&[2, 1, 3, 4]).expect("a shape"));
        assert!(is_dense(&layout) && is_dense(&layout.slice(0, 1, 2, 1).expect("a slice")));
        assert!(!is_dense(&layout.permute(&[0, 1, 3, 2]).expect("a permutation")));
        assert!(!is_dense(&layout.slice(3, 0, 3, 1).expect("a slice")));
    }
}
