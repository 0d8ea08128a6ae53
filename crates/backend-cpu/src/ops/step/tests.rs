//! Comparison with the update rules in f64, over several steps.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor, values};
use ternion_core::dispatch::apply;
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::{DType, Tensor};

const SHAPE: [usize; 2] = [37, 150];

/// Returns parameter and states in several layouts, with the gradient in other layouts.
fn tensors(dtype: DType, p: &[f64], g: &[f64], states: &[&[f64]]) -> Vec<(Tensor, Tensor, Vec<Tensor>)> {
    let device = crate::device();
    let wide = dtype.accumulator();
    let gradients = layouts(dtype, g, &SHAPE, &device);
    layouts(dtype, p, &SHAPE, &device)
        .into_iter()
        .zip(gradients.into_iter().rev())
        .enumerate()
        .map(|(index, (p, g))| {
            let states =
                states.iter().map(|state| layouts(wide, state, &SHAPE, &device).swap_remove(index)).collect();
            (p, g, states)
        })
        .collect()
}

#[test]
fn sgd() {
    let mut numbers = Numbers::new(11);
    let count = SHAPE.iter().product();
    for dtype in DType::FLOATS {
        let p = rounded(dtype, &numbers.between(-2.0, 2.0, count));
        let g = rounded(dtype, &numbers.between(-1.0, 1.0, count));
        let v = numbers.between(-1.0, 1.0, count);
        for (momentum, dampening, nesterov) in [(0.0, 0.0, false), (0.875, 0.25, false), (0.875, 0.0, true)] {
            for (weight_decay, first) in [(0.0, 0.0), (0.125, 0.0), (0.125, 1.0)] {
                let (rate, clip) = (0.0625, 0.5);
                let (mut new_p, mut new_v) = (vec![], vec![]);
                for ((p, g), v) in p.iter().zip(&g).zip(&v) {
                    let g = g * clip + weight_decay * p;
                    let v = if first == 1.0 { g } else { momentum * v + (1.0 - dampening) * g };
                    let direction = match (momentum, nesterov) {
                        (0.0, _) => g,
                        (_, true) => g + momentum * v,
                        _ => v,
                    };
                    new_p.push(p - rate * direction);
                    new_v.push(v);
                }
                for (p, g, states) in tensors(dtype, &p, &g, &[&v]) {
                    let hyper = tensor(dtype.accumulator(), &[rate, clip, first], &[3], p.device());
                    let op = SgdStep { momentum, dampening, weight_decay, nesterov, half_copy: false };
                    let mut inputs = vec![&p, &g, &hyper];
                    inputs.extend((momentum != 0.0).then_some(&states[0]));
                    apply(op, &inputs).unwrap();
                    assert_close("sgd parameter", &p, &new_p, 4.0);
                    if momentum != 0.0 {
                        assert_close("sgd velocity", &states[0], &new_v, 4.0);
                    }
                }
            }
        }
    }
}

#[test]
fn the_first_velocity_is_ignored() {
    let device = crate::device();
    let vector = |values: &[f64]| tensor(DType::F32, values, &[2], &device);
    let (p, g, v) = (vector(&[1.0, 2.0]), vector(&[0.5, 0.25]), vector(&[f64::NAN, f64::INFINITY]));
    let hyper = tensor(DType::F32, &[1.0, 1.0, 1.0], &[3], &device);
    apply(
        SgdStep { momentum: 0.5, dampening: 0.0, weight_decay: 0.0, nesterov: false, half_copy: false },
        &[&p, &g, &hyper, &v],
    )
    .unwrap();
    assert_eq!((values(&p), values(&v)), (vec![0.5, 1.75], vec![0.5, 0.25]));
}

#[test]
fn adam() {
    let mut numbers = Numbers::new(12);
    let count = SHAPE.iter().product();
    let (beta1, beta2, eps) = (0.875f64, 0.96875f64, 0.015625);
    for dtype in DType::FLOATS {
        let p = rounded(dtype, &numbers.between(-2.0, 2.0, count));
        let g = rounded(dtype, &numbers.between(-1.0, 1.0, count));
        for decay_mode in [DecayMode::Coupled, DecayMode::Decoupled] {
            let (rate, clip, weight_decay) = (0.125, 0.5, 0.25);
            let (mut want_p, mut want_m, mut want_v) = (p.clone(), vec![0.0; count], vec![0.0; count]);
            let all = tensors(dtype, &p, &g, &[&want_m, &want_v]);
            for step in 1..4 {
                let corrections = [1.0 - beta1.powi(step), (1.0 - beta2.powi(step)).sqrt()];
                for index in 0..count {
                    let mut gradient = g[index] * clip;
                    match decay_mode {
                        DecayMode::Coupled => gradient += weight_decay * want_p[index],
                        DecayMode::Decoupled => want_p[index] *= 1.0 - rate * weight_decay,
                    }
                    want_m[index] = beta1 * want_m[index] + (1.0 - beta1) * gradient;
                    want_v[index] = beta2 * want_v[index] + (1.0 - beta2) * gradient * gradient;
                    let denominator = want_v[index].sqrt() / corrections[1] + eps;
                    want_p[index] -= rate / corrections[0] * want_m[index] / denominator;
                }
                // The parameter is rounded to its dtype after each step.
                want_p = rounded(dtype, &want_p);
                for (p, g, states) in &all {
                    let hyper = tensor(
                        dtype.accumulator(),
                        &[rate, clip, corrections[0], corrections[1]],
                        &[4],
                        p.device(),
                    );
                    let op = AdamStep { beta1, beta2, eps, weight_decay, decay_mode, half_copy: false };
                    apply(op, &[p, g, &hyper, &states[0], &states[1]]).unwrap();
                    assert_close("adam parameter", p, &want_p, 16.0);
                    if !dtype.is_half() {
                        assert_close("adam first moment", &states[0], &want_m, 16.0);
                        assert_close("adam second moment", &states[1], &want_v, 16.0);
                    }
                }
            }
        }
    }
}
