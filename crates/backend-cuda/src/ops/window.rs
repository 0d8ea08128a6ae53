//! Sliding windows over an image, as kernels take them (window.cuh).

use crate::gpu::Gpu;
use crate::space::{Divisor, Space};
use ternion_core::backend::View;
use ternion_core::geometry::{SlidingWindow, axes_of, sliding_windows};
use ternion_core::ops::conv::Window;
use ternion_core::{Layout, Result};

/// A window along one axis; mirrors `WindowAxis` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowAxis {
    /// Pixels.
    size: i32,
    /// Windows.
    count: i32,
    kernel: i32,
    stride: i32,
    padding: i32,
    dilation: i32,
    /// From a window that covers a pixel to the next such window.
    window_step: i32,
    /// The index within the kernel (tap) that falls on this pixel is less by this in the next
    /// window.
    tap_step: i32,
    by_stride: Divisor,
    by_dilation: Divisor,
}

impl WindowAxis {
    /// Returns `window` with the values that the kernels compute with.
    fn new(op: &'static str, window: SlidingWindow) -> Result<WindowAxis> {
        // Every index of every window is less than the padded size, so all other values are also
        // less than 2^31.
        super::check_fits(op, &[window.padded_size()])?;
        let window = window.with_taken_steps();
        let (window_step, tap_step) = window.steps_over_element();
        Ok(WindowAxis {
            size: window.size as i32,
            count: window.count as i32,
            kernel: window.kernel as i32,
            stride: window.stride as i32,
            padding: window.padding as i32,
            dilation: window.dilation as i32,
            window_step: window_step as i32,
            tap_step: tap_step as i32,
            by_stride: Divisor::new(window.stride),
            by_dilation: Divisor::new(window.dilation),
        })
    }
}

/// Returns the window along both axes of an image of `size` with `count` windows.
pub(crate) fn window_axes(
    op: &'static str,
    window: &Window,
    size: [usize; 2],
    count: [usize; 2],
) -> Result<[WindowAxis; 2]> {
    let [vertical, horizontal] = sliding_windows(window, size, count);
    Ok([WindowAxis::new(op, vertical)?, WindowAxis::new(op, horizontal)?])
}

/// The sizes with which an element's index in `[batch, channels, rows, columns]` is decomposed;
/// mirrors `Extent` in the kernels.
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

/// Returns the strides of a view of `N` axes.
pub(crate) fn strides<const N: usize>(view: &View<'_>) -> [i64; N] {
    std::array::from_fn(|axis| view.layout.strides()[axis] as i64)
}

/// Returns whether the elements are contiguous in the order of the shape.
pub(crate) fn is_dense(layout: &Layout) -> bool {
    Space::in_order(&axes_of([layout])).is_dense()
}

/// Returns whether threads can write `view` in runs of `bytes` bytes.
pub(crate) fn supports_runs(gpu: &Gpu, op: &'static str, view: &View<'_>, bytes: u64) -> Result<bool> {
    Ok(is_dense(view.layout) && gpu.address(op, view)?.is_multiple_of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion_core::Shape;

    fn window_axis(kernel: usize, stride: usize, padding: usize, dilation: usize, size: usize) -> WindowAxis {
        let [kernel, stride, padding, dilation] = [kernel, stride, padding, dilation].map(|both| [both; 2]);
        let window = Window { kernel, stride, padding, dilation };
        let count = window.output_size("test", [size; 2]).expect("windows")[0];
        let [window_axis, _] = window_axes("test", &window, [size; 2], [count; 2]).expect("small");
        window_axis
    }

    /// Returns what `windows_over` of window.cuh computes: window and tap for each window that
    /// covers `pixel`.
    fn windows_over(window_axis: &WindowAxis, pixel: i32) -> Vec<(i32, i32)> {
        let from_border = pixel + window_axis.padding;
        let span = (window_axis.kernel - 1) * window_axis.dilation;
        let last = (from_border / window_axis.stride).min(window_axis.count - 1);
        let mut first =
            if from_border > span { (from_border - span - 1) / window_axis.stride + 1 } else { 0 };
        while first <= last && (from_border - first * window_axis.stride) % window_axis.dilation != 0 {
            first += 1;
        }
        let tap = (from_border - first * window_axis.stride) / window_axis.dilation;
        (first..=last)
            .step_by(window_axis.window_step as usize)
            .enumerate()
            .map(|(index, window)| (window, tap - index as i32 * window_axis.tap_step))
            .collect()
    }

    #[test]
    fn pixels_find_their_windows() {
        for kernel in 1..5 {
            for (stride, padding, dilation, size) in
                [(1, 0, 1, 9), (2, 1, 1, 8), (3, 2, 2, 9), (2, 3, 4, 17), (4, 0, 6, 23), (7, 1, 3, 12)]
            {
                let window_axis = window_axis(kernel, stride, padding, dilation, size);
                for pixel in 0..window_axis.size {
                    let expected: Vec<(i32, i32)> = (0..window_axis.count)
                        .flat_map(|window| (0..window_axis.kernel).map(move |tap| (window, tap)))
                        .filter(|(window, tap)| {
                            window * window_axis.stride + tap * window_axis.dilation - window_axis.padding
                                == pixel
                        })
                        .collect();
                    assert_eq!(windows_over(&window_axis, pixel), expected, "{window_axis:?} pixel {pixel}");
                }
            }
        }
    }

    #[test]
    fn unused_steps_may_be_long() {
        let window = Window { kernel: [3, 1], stride: [1 << 40, 1], padding: [0; 2], dilation: [1, 1 << 40] };
        let [vertical, horizontal] = window_axes("test", &window, [4, 5], [1, 5]).expect("fits");
        assert_eq!((vertical.stride, horizontal.dilation), (1, 1));
        let window = Window { padding: [1 << 30, 0], ..window };
        let error = window_axes("test", &window, [4, 5], [1, 5]).expect_err("too large").to_string();
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
