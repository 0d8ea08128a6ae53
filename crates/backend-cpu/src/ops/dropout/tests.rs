//! Comparison with the definition, word by word.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor};
use ternion_core::dispatch::{apply_into, apply_one};
use ternion_core::ops::random::Dropout;
use ternion_core::{DType, philox};

#[test]
fn masks_are_those_of_the_stream() {
    let device = crate::device();
    let mut numbers = Numbers::new(13);
    for shape in [[3usize, 7], [1, 1], [130, 101], [0, 5]] {
        for (p, offset) in [(0.0, 0), (0.25, 3), (0.7, 1 << 33), (1.0, 5)] {
            let (seed, base) = (0x0123_4567_89ab_cdefi64, 77);
            let state = ternion_core::Tensor::from_slice(&[seed, base], 2usize, &device).unwrap();
            let op = Dropout { p, offset };
            for dtype in DType::FLOATS {
                let x = rounded(dtype, &numbers.between(-4.0, 4.0, shape.iter().product()));
                let keep = |index: usize| {
                    f64::from(philox::word(seed as u64, base as u64 + offset, index as u64) >> 8)
                        * 2f64.powi(-24)
                        >= p
                };
                let want: Vec<f64> = x
                    .iter()
                    .enumerate()
                    .map(|(index, x)| if keep(index) { x / (1.0 - p) } else { 0.0 })
                    .collect();
                for x in layouts(dtype, &x, &shape, &device) {
                    assert_close("dropout", &apply_one(op, &[&x, &state]).unwrap(), &want, 2.0);
                    apply_into(op, &[&x, &state], &x).unwrap();
                    assert_close("dropout in place", &x, &want, 2.0);
                }
            }
        }
    }
    let hostile = tensor(DType::F32, &[f64::NAN, f64::INFINITY], &[2], &device);
    let state = ternion_core::Tensor::from_slice(&[1i64, 2], 2usize, &device).unwrap();
    let dropped = apply_one(Dropout { p: 1.0, offset: 0 }, &[&hostile, &state]).unwrap();
    assert_close("all dropped", &dropped, &[0.0, 0.0], 0.0);
}
