//! Comparison with the definitions in f64.

use crate::testing::{Numbers, assert_close, exact_sum, layouts, rounded, tensor};
use ternion_core::DType;
use ternion_core::dispatch::apply;
use ternion_core::ops::norm::{LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad};

const EPS: f64 = 1e-5;

/// Returns the mean (0 if not centered) and the reciprocal standard deviation of a row.
fn statistics(x: &[f64], centered: bool) -> (f64, f64) {
    let width = x.len() as f64;
    let mean = if centered { exact_sum(x.iter().copied()) / width } else { 0.0 };
    let variance = exact_sum(x.iter().map(|x| (x - mean).powi(2))) / width;
    (mean, 1.0 / (variance + EPS).sqrt())
}

struct Case {
    x: Vec<f64>,
    dy: Vec<f64>,
    weight: Vec<f64>,
    bias: Vec<f64>,
    shape: [usize; 3],
}

impl Case {
    fn new(shape: [usize; 3], dtype: DType, numbers: &mut Numbers) -> Case {
        let count = shape.iter().product();
        let mut some = |low, high, count| rounded(dtype, &numbers.between(low, high, count));
        let (x, dy) = (some(-2.0, 3.0, count), some(-1.0, 1.0, count));
        Case { x, dy, weight: some(0.5, 1.5, shape[2]), bias: some(-1.0, 1.0, shape[2]), shape }
    }

    /// Returns y, the means and the reciprocal standard deviations.
    fn forward(&self, centered: bool, weight: bool, bias: bool) -> [Vec<f64>; 3] {
        let width = self.shape[2];
        let rows: Vec<(f64, f64)> = self.x.chunks(width).map(|x| statistics(x, centered)).collect();
        let y = self.x.iter().enumerate().map(|(index, x)| {
            let ((mean, rstd), column) = (rows[index / width], index % width);
            let scaled = (x - mean) * rstd * if weight { self.weight[column] } else { 1.0 };
            scaled + if bias { self.bias[column] } else { 0.0 }
        });
        [y.collect(), rows.iter().map(|row| row.0).collect(), rows.iter().map(|row| row.1).collect()]
    }

    /// Returns dx, dweight and dbias.
    fn gradient(&self, centered: bool, weight: bool) -> [Vec<f64>; 3] {
        let width = self.shape[2];
        let (mut dx, mut dweight, mut dbias) = (vec![], vec![0.0; width], vec![0.0; width]);
        for (x, dy) in self.x.chunks(width).zip(self.dy.chunks(width)) {
            let (mean, rstd) = statistics(x, centered);
            let n: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
            let g: Vec<f64> = (0..width).map(|c| dy[c] * if weight { self.weight[c] } else { 1.0 }).collect();
            let mean_g = if centered { g.iter().sum::<f64>() / width as f64 } else { 0.0 };
            let projection = g.iter().zip(&n).map(|(g, n)| g * n).sum::<f64>() / width as f64;
            for column in 0..width {
                dx.push(rstd * (g[column] - mean_g - n[column] * projection));
                dweight[column] += dy[column] * n[column];
                dbias[column] += dy[column];
            }
        }
        [dx, dweight, dbias]
    }
}

fn cases() -> impl Iterator<Item = (DType, Case)> {
    let mut numbers = Numbers::new(6);
    let shapes = [[2, 3, 5], [1, 1, 1], [3, 100, 33], [0, 2, 4], [40, 20, 64], [1, 3, 3000]];
    let all: Vec<_> = shapes
        .into_iter()
        .flat_map(|shape| DType::FLOATS.map(|dtype| (shape, dtype)))
        .map(|(shape, dtype)| (dtype, Case::new(shape, dtype, &mut numbers)))
        .collect();
    all.into_iter()
}

const SWITCHES: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

#[test]
fn forward() {
    let device = crate::device();
    for (dtype, case) in cases() {
        let vector = |values: &[f64]| tensor(dtype, values, &[case.shape[2]], &device);
        let parameters = [vector(&case.weight), vector(&case.bias)];
        for x in layouts(dtype, &case.x, &case.shape, &device) {
            for (weight, bias) in SWITCHES {
                let mut inputs = vec![&x];
                inputs.extend(weight.then_some(&parameters[0]));
                inputs.extend(bias.then_some(&parameters[1]));
                let outputs = apply(LayerNorm { eps: EPS, weight, bias, out_dtype: None }, &inputs).unwrap();
                for (output, want) in outputs.iter().zip(case.forward(true, weight, bias)) {
                    assert_close(&format!("layer_norm {:?}", case.shape), output, &want, 16.0);
                }
                if bias {
                    continue;
                }
                let outputs = apply(RmsNorm { eps: EPS, weight, out_dtype: None }, &inputs).unwrap();
                let [y, _, rstd] = case.forward(false, weight, false);
                assert_close(&format!("rms_norm {:?}", case.shape), &outputs[0], &y, 16.0);
                assert_close("rms", &outputs[1], &rstd, 16.0);
            }
        }
    }
}

#[test]
fn gradients() {
    let device = crate::device();
    for (dtype, case) in cases() {
        let [rows, width] = [case.shape[0] * case.shape[1], case.shape[2]];
        let of_rows = |values: &[f64]| tensor(dtype.accumulator(), values, &case.shape[..2], &device);
        // Parameter gradients are sums over the rows, whose rounding errors grow like a random
        // walk.
        let limit = 16.0 + 8.0 * (rows.max(width) as f64).sqrt();
        let weight_tensor = tensor(dtype, &case.weight, &[width], &device);
        let dys = layouts(dtype, &case.dy, &case.shape, &device);
        for (x, dy) in layouts(dtype, &case.x, &case.shape, &device).iter().zip(dys.iter().rev()) {
            for (weight, bias) in SWITCHES {
                let [_, mean, rstd] = case.forward(true, false, false);
                let (mean, rstd) = (of_rows(&mean), of_rows(&rstd));
                let mut inputs = vec![x, &mean, &rstd, dy];
                inputs.extend(weight.then_some(&weight_tensor));
                let outputs =
                    apply(LayerNormGrad { weight, bias, residual: false, rounds: false }, &inputs).unwrap();
                let [dx, dweight, dbias] = case.gradient(true, weight);
                let mut want = vec![dx];
                want.extend(weight.then_some(dweight));
                want.extend(bias.then_some(dbias));
                assert_eq!(outputs.len(), want.len());
                for (output, want) in outputs.iter().zip(want) {
                    assert_close(&format!("layer_norm_grad {rows} x {width}"), output, &want, limit);
                }
                if bias {
                    continue;
                }
                let [_, _, rstd] = case.forward(false, false, false);
                let rstd = of_rows(&rstd);
                let mut inputs = vec![x, &rstd, dy];
                inputs.extend(weight.then_some(&weight_tensor));
                let outputs = apply(RmsNormGrad { weight, residual: false, rounds: false }, &inputs).unwrap();
                let want = case.gradient(false, weight);
                for (output, want) in outputs.iter().zip(want) {
                    assert_close(&format!("rms_norm_grad {rows} x {width}"), output, &want, limit);
                }
            }
        }
    }
}
