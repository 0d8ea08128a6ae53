//! Windows that slide over an image, as shaders take them (window.wgsl).

use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{Error, Result};

/// A window along one axis, as `Slide` of the shaders.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct Slide {
    size: i32,
    pub(crate) count: i32,
    kernel: i32,
    stride: i32,
    padding: i32,
    dilation: i32,
    window_step: i32,
    tap_step: i32,
}

impl Slide {
    /// `window` along `axis` of an image of `size` pixels, on which `count` windows fit.
    fn new(op: &'static str, window: &Window, axis: usize, size: usize, count: usize) -> Result<Slide> {
        let padding = window.padding[axis];
        // Every place of every window lies within these, so that all other numbers are below 2^31 too.
        let pixels = padding.saturating_mul(2).saturating_add(size);
        if i32::try_from(pixels).is_err() {
            return Err(Error::invalid(
                op,
                format!("{pixels} pixels with padding, of which a shader counts up to 2^31 - 1"),
            ));
        }
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

/// Height and width of `[batch, channels, height, width]`.
pub(crate) fn image(op: &'static str, view: &View<'_>) -> Result<[usize; 2]> {
    let [_, _, height, width] = view.layout.shape().to_array(op)?;
    Ok([height, width])
}

/// The sizes of the first view, and the strides of all, axis by axis.
pub(crate) fn unmerged(views: &[&View<'_>]) -> Space {
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
    fn steps_that_are_not_made_may_be_long() {
        let window = Window { kernel: [3, 1], stride: [1 << 40, 1], padding: [0; 2], dilation: [1, 1 << 40] };
        let [down, across] = slides("test", &window, [4, 5], [1, 5]).expect("fits");
        assert_eq!((down.stride, across.dilation), (1, 1));
        let window = Window { padding: [1 << 30, 0], ..window };
        let error = slides("test", &window, [4, 5], [1, 5]).expect_err("too large").to_string();
        assert!(error.contains("2147483652"), "{error}");
    }
}
