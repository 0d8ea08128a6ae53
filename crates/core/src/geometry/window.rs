//! Sliding windows over an image, one axis at a time: which elements of a window are inside the
//! image.

use crate::ops::conv::Window;
use std::ops::Range;

/// A window along one axis of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Number of elements of a window.
    pub kernel: usize,
    /// Distance between the starts of neighboring windows, in elements.
    pub stride: usize,
    /// Number of padding elements before the image, and the same number after it.
    pub padding: usize,
    /// Distance between neighboring elements of a window, in elements of the image.
    pub dilation: usize,
    /// Number of elements of the image.
    pub size: usize,
    /// Number of windows.
    pub count: usize,
}

/// Returns the windows along both axes of an image of `size`, with `count` windows along each axis.
pub fn sliding_windows(window: &Window, size: [usize; 2], count: [usize; 2]) -> [SlidingWindow; 2] {
    [0, 1].map(|axis| SlidingWindow {
        kernel: window.kernel[axis],
        stride: window.stride[axis],
        padding: window.padding[axis],
        dilation: window.dilation[axis],
        size: size[axis],
        count: count[axis],
    })
}

impl SlidingWindow {
    /// Returns the index in the image of element `tap` of window `output`, if it is inside the
    /// image.
    #[inline]
    pub fn index(&self, output: usize, tap: usize) -> Option<usize> {
        (output * self.stride + tap * self.dilation)
            .checked_sub(self.padding)
            .filter(|&index| index < self.size)
    }

    /// Returns the elements of window `output` that are inside the image.
    #[inline]
    pub fn taps(&self, output: usize) -> Range<usize> {
        let start = output * self.stride;
        let first = self.padding.saturating_sub(start).div_ceil(self.dilation);
        let end = (self.size + self.padding).saturating_sub(start).div_ceil(self.dilation).min(self.kernel);
        first.min(end)..end
    }

    /// Returns the windows in the range `among` whose element `tap` is inside the image.
    #[inline]
    pub fn outputs(&self, tap: usize, among: Range<usize>) -> Range<usize> {
        let start = tap * self.dilation;
        let first = self.padding.saturating_sub(start).div_ceil(self.stride).max(among.start);
        let end = (self.size + self.padding).saturating_sub(start).div_ceil(self.stride).min(among.end);
        first.min(end.max(among.start))..end.max(among.start)
    }

    /// Returns the number of elements of the padded image, which contains every element of every
    /// window; saturating.
    pub fn padded_size(&self) -> usize {
        self.padding.saturating_mul(2).saturating_add(self.size)
    }

    /// Returns the same windows with steps that fit in the padded image: a stride or dilation that
    /// is never used may be of any size, and becomes 1.
    #[must_use]
    pub fn with_taken_steps(self) -> SlidingWindow {
        SlidingWindow {
            stride: if self.count == 1 { 1 } else { self.stride },
            dilation: if self.kernel == 1 { 1 } else { self.dilation },
            ..self
        }
    }

    /// Returns the step from one window that covers an element to the next one that does: the
    /// difference of the window indices, and the decrease of the element's index in the window.
    /// (The smallest steps with `windows * stride == taps * dilation`.)
    pub fn steps_over_element(&self) -> (usize, usize) {
        let common = greatest_common_divisor(self.stride, self.dilation);
        (self.dilation / common, self.stride / common)
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Various windows, each with as many positions as fit into the padded image.
    fn examples() -> impl Iterator<Item = SlidingWindow> {
        [
            (3, 1, 1, 1, 5),
            (3, 2, 1, 1, 6),
            (2, 3, 0, 2, 9),
            (5, 1, 4, 1, 2),
            (2, 1, 1, 3, 2),
            (1, 2, 0, 1, 1),
            (4, 2, 3, 2, 7),
            (4, 4, 0, 6, 23),
        ]
        .into_iter()
        .map(|(kernel, stride, padding, dilation, size)| {
            let span = (kernel - 1) * dilation + 1;
            let count = (size + 2 * padding - span) / stride + 1;
            SlidingWindow { kernel, stride, padding, dilation, size, count }
        })
    }

    #[test]
    fn ranges_are_those_of_the_definition() {
        for window in examples() {
            let SlidingWindow { kernel, count, .. } = window;
            for output in 0..count {
                let taps: Vec<usize> =
                    (0..kernel).filter(|&tap| window.index(output, tap).is_some()).collect();
                assert_eq!(window.taps(output).collect::<Vec<_>>(), taps, "{window:?} window {output}");
            }
            for tap in 0..kernel {
                for (start, end) in [(0, count), (count / 2, count), (count / 3, count / 2), (count, count)] {
                    let outputs: Vec<usize> =
                        (start..end).filter(|&output| window.index(output, tap).is_some()).collect();
                    let actual: Vec<usize> = window.outputs(tap, start..end).collect();
                    assert_eq!(actual, outputs, "{window:?} element {tap}");
                }
            }
        }
    }

    #[test]
    fn steps_lead_over_all_windows_that_cover_an_element() {
        for window in examples() {
            let (windows, taps) = window.steps_over_element();
            for element in 0..window.size {
                let covering: Vec<(usize, usize)> = (0..window.count)
                    .flat_map(|output| (0..window.kernel).map(move |tap| (output, tap)))
                    .filter(|&(output, tap)| window.index(output, tap) == Some(element))
                    .collect();
                for pair in covering.windows(2) {
                    let step = (pair[1].0 - pair[0].0, pair[0].1 - pair[1].1);
                    assert_eq!(step, (windows, taps), "{window:?} element {element}");
                }
            }
        }
    }

    #[test]
    fn steps_that_are_not_taken_may_be_long() {
        let window = Window { kernel: [3, 1], stride: [1 << 40, 1], padding: [2, 0], dilation: [1, 1 << 40] };
        let [vertical, horizontal] =
            sliding_windows(&window, [4, 5], [1, 5]).map(SlidingWindow::with_taken_steps);
        assert_eq!((vertical.stride, vertical.dilation), (1, 1));
        assert_eq!((horizontal.stride, horizontal.dilation), (1, 1));
        assert_eq!(vertical.padded_size(), 8);
        let vast = SlidingWindow { padding: usize::MAX, ..vertical };
        assert_eq!(vast.padded_size(), usize::MAX);
    }
}
