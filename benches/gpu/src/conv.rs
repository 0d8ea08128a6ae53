//! Convolutions, forward and backward.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::{Conv2dOptions, DType, GradOptions, Result, Tensor, grad, no_grad};

/// Images and filters, both square.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    channels: usize,
    image: usize,
    filters: usize,
    window: usize,
    stride: usize,
    padding: usize,
}

impl Sizes {
    fn new([batch, channels, image, filters]: [usize; 4], window: [usize; 3]) -> Sizes {
        let [window, stride, padding] = window;
        Sizes { batch, channels, image, filters, window, stride, padding }
    }

    fn name(self) -> String {
        let Sizes { batch, channels, image, filters, window, stride, .. } = self;
        format!("n{batch}c{channels}hw{image}k{filters}r{window}s{stride}")
    }

    /// Returns the multiplications and additions of the forward pass.
    fn operations(self) -> f64 {
        let side = (self.image + 2 * self.padding - self.window) / self.stride + 1;
        let outputs = self.batch * self.filters * side * side;
        2.0 * (outputs * self.channels * self.window * self.window) as f64
    }
}

/// Returns cases of the sizes in the PyTorch script.
pub fn cases() -> Vec<Case> {
    let sizes = [
        Sizes::new([64, 64, 56, 64], [3, 1, 1]),
        Sizes::new([64, 128, 28, 128], [3, 1, 1]),
        Sizes::new([64, 256, 14, 256], [3, 1, 1]),
        Sizes::new([64, 3, 224, 64], [7, 2, 3]),
        Sizes::new([256, 3, 32, 64], [5, 1, 2]),
    ];
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        for sizes in sizes {
            for backward in [false, true] {
                let pass = if backward { "bwd" } else { "fwd" };
                let name = format!("conv/{pass}/{dtype}/{}", sizes.name());
                cases.push(Case::new(name, move |clock, name| run(clock, name, dtype, sizes, backward)));
            }
        }
    }
    cases
}

fn run(clock: &Clock, name: &str, dtype: DType, sizes: Sizes, backward: bool) -> Result<()> {
    let Sizes { batch, channels, image, filters, window, stride, padding } = sizes;
    let x = clock.randn(&[batch, channels, image, image], dtype)?.requires_grad()?;
    let weight = clock.randn(&[filters, channels, window, window], dtype)?.requires_grad()?;
    let options = Conv2dOptions { stride: [stride; 2], padding: [padding; 2], ..Conv2dOptions::default() };
    let convolve = || x.conv2d(&weight, None, options);
    let mut operations = sizes.operations();
    let milliseconds = if backward {
        // The gradient of the images and that of the filters have as many operations each.
        operations *= 2.0;
        let y = convolve()?;
        let dy = Tensor::randn(*y.shape(), dtype, &clock.device)?;
        let retain = || GradOptions { retain_graph: true, ..GradOptions::default() };
        clock
            .median(|| grad(&[y.clone()], &[x.clone(), weight.clone()], &[dy.clone()], retain()).map(drop))?
    } else {
        clock.median(|| no_grad(|| convolve().map(drop)))?
    };
    emit(name, clock.implementation(), milliseconds, operations / milliseconds / 1e9, "TFLOP/s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_output() {
        let sizes = Sizes::new([64, 3, 224, 64], [7, 2, 3]);
        assert_eq!(sizes.name(), "n64c3hw224k64r7s2");
        // 64 images of 64 x 112 x 112 outputs, each of 3 x 7 x 7 products and as many sums.
        assert_eq!(sizes.operations(), 64.0 * 64.0 * 112.0 * 112.0 * 147.0 * 2.0);
    }
}
