//! Windows that slide over an image, as parameters of shaders (window.wgsl).

use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::View;
use ternion_core::geometry::{SlidingWindow, sliding_windows};
use ternion_core::ops::conv::Window;
use ternion_core::{Error, Result};

/// A window along one axis: `WindowAxis` of the shaders.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct WindowAxis {
    size: i32,
    pub(crate) count: i32,
    kernel: i32,
    stride: i32,
    padding: i32,
    dilation: i32,
    window_step: i32,
    tap_step: i32,
}

impl WindowAxis {
    /// Converts `window` to the integers of a shader.
    fn new(op: &'static str, window: SlidingWindow) -> Result<WindowAxis> {
        // Every index of every window is below this, so all other values are below 2^31, too.
        let pixels = window.padded_size();
        if i32::try_from(pixels).is_err() {
            return Err(Error::invalid(
                op,
                format!("{pixels} pixels with padding, of which a shader counts up to 2^31 - 1"),
            ));
        }
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
        })
    }
}

/// Returns the windows along both axes of an image of `size` that has `count` windows along each
/// axis.
pub(crate) fn window_axes(
    op: &'static str,
    window: &Window,
    size: [usize; 2],
    count: [usize; 2],
) -> Result<[WindowAxis; 2]> {
    let [vertical, horizontal] = sliding_windows(window, size, count);
    Ok([WindowAxis::new(op, vertical)?, WindowAxis::new(op, horizontal)?])
}

/// Returns height and width of `[batch, channels, height, width]`.
pub(crate) fn image(op: &'static str, view: &View<'_>) -> Result<[usize; 2]> {
    let [_, _, height, width] = view.layout.shape().to_array(op)?;
    Ok([height, width])
}

/// Returns the sizes of the first view and the strides of all views, without merging axes.
pub(crate) fn unmerged_space(views: &[&View<'_>]) -> Space {
    let mut space = Space::EMPTY;
    for (size, &dim) in space.sizes.iter_mut().zip(views[0].layout.shape().dims()) {
        *size = dim as u32;
    }
    for (strides, view) in space.strides.iter_mut().zip(views) {
        for (to, &stride) in strides.iter_mut().zip(view.layout.strides()) {
            *to = stride as u32;
        }
    }
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_steps_may_be_long() {
        let window = Window { kernel: [3, 1], stride: [1 << 40, 1], padding: [0; 2], dilation: [1, 1 << 40] };
        let [vertical, horizontal] = window_axes("test", &window, [4, 5], [1, 5]).expect("fits");
        assert_eq!((vertical.stride, horizontal.dilation), (1, 1));
        let window = Window { padding: [1 << 30, 0], ..window };
        let error = window_axes("test", &window, [4, 5], [1, 5]).expect_err("too large").to_string();
        assert!(error.contains("2147483652"), "{error}");
    }
}
