//! Windows that slide over an image, one axis at a time: which of their places lie on it.

use std::ops::Range;
use ternion_core::ops::conv::Window;

/// A window along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    pub(crate) kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    /// Elements of the image.
    pub(crate) size: usize,
    /// Windows.
    pub(crate) count: usize,
}

/// The window along both axes of an image of `size` on which `count` windows fit.
pub(crate) fn slides(window: &Window, size: [usize; 2], count: [usize; 2]) -> [Slide; 2] {
    [0, 1].map(|axis| Slide {
        kernel: window.kernel[axis],
        stride: window.stride[axis],
        padding: window.padding[axis],
        dilation: window.dilation[axis],
        size: size[axis],
        count: count[axis],
    })
}

impl Slide {
    /// Where place `tap` of window `output` lies, if it lies on the image.
    #[inline]
    pub(crate) fn place(&self, output: usize, tap: usize) -> Option<usize> {
        (output * self.stride + tap * self.dilation)
            .checked_sub(self.padding)
            .filter(|&place| place < self.size)
    }

    /// The places of window `output` that lie on the image.
    #[inline]
    pub(crate) fn taps(&self, output: usize) -> Range<usize> {
        let start = output * self.stride;
        let first = self.padding.saturating_sub(start).div_ceil(self.dilation);
        let end = (self.size + self.padding).saturating_sub(start).div_ceil(self.dilation).min(self.kernel);
        first.min(end)..end
    }

    /// The windows, among `among`, whose place `tap` lies on the image.
    #[inline]
    pub(crate) fn outputs(&self, tap: usize, among: Range<usize>) -> Range<usize> {
        let start = tap * self.dilation;
        let first = self.padding.saturating_sub(start).div_ceil(self.stride).max(among.start);
        let end = (self.size + self.padding).saturating_sub(start).div_ceil(self.stride).min(among.end);
        first.min(end.max(among.start))..end.max(among.start)
    }

    /// Distance of the same place in neighbouring windows.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_definition() {
        for (kernel, stride, padding, dilation, size) in [
            (3, 1, 1, 1, 5),
            (3, 2, 1, 1, 6),
            (2, 3, 0, 2, 9),
            (5, 1, 4, 1, 2),
            (2, 1, 1, 3, 2),
            (1, 2, 0, 1, 1),
            (4, 2, 3, 2, 7),
        ] {
            let span = (kernel - 1) * dilation + 1;
            let count = (size + 2 * padding - span) / stride + 1;
            let slide = Slide { kernel, stride, padding, dilation, size, count };
            for output in 0..count {
                let taps: Vec<usize> =
                    (0..kernel).filter(|&tap| slide.place(output, tap).is_some()).collect();
                assert_eq!(slide.taps(output).collect::<Vec<_>>(), taps, "{slide:?} window {output}");
            }
            for tap in 0..kernel {
                for (start, end) in [(0, count), (count / 2, count), (count / 3, count / 2), (count, count)] {
                    let outputs: Vec<usize> =
                        (start..end).filter(|&output| slide.place(output, tap).is_some()).collect();
                    assert_eq!(
                        slide.outputs(tap, start..end).collect::<Vec<_>>(),
                        outputs,
                        "{slide:?} place {tap}"
                    );
                }
            }
        }
    }
}
