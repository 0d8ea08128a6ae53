//! Rows of attention with dropout.

use super::{
    Formula, GRAD_SHAPES_WITH_MASK, PLAIN, attention, beyond_a_block, definition, gradient, gradients,
    on_default_shapes, output_with_rounded_weights, peers, zeros,
};
use crate::prelude::*;
use ternion_core::AttentionOptions;
use ternion_core::dispatch::apply;
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::ops::random::Dropout;

/// Returns this module's rows of the op table.
pub(super) fn rows() -> Vec<OpCase> {
    [dropping(), dropping_ops()].into_iter().flatten().collect()
}

/// Sets dropout with this probability. The first random numbers of a device that was just seeded
/// with 0 start at block 0.
pub(super) fn dropped(p: f64, config: AttentionConfig) -> AttentionConfig {
    AttentionConfig { dropout: Some(Dropout { p, offset: 0 }), ..config }
}

/// Dropout with every kind of mask. Some numbers of keys are multiples of four (a block of the
/// random generator has four words), others are not.
fn dropping() -> Vec<OpCase> {
    let causal = AttentionConfig { causal: true, ..PLAIN };
    let window = AttentionConfig { causal: true, window: Some(60), ..PLAIN };
    let tiled: [&'static [usize]; 3] = [&[1, 2, 70, 8], &[1, 1, 140, 8], &[1, 1, 140, 12]];
    let odd: [&'static [usize]; 3] = [&[1, 2, 70, 3], &[1, 2, 139, 3], &[1, 2, 139, 2]];
    let [q, k, v] = tiled;
    let tiled_dropping = |parameters: &str, config| beyond_a_block(parameters, config).dtypes(&[F32]);
    vec![
        // Second-order gradients are exact in f16 and bf16: with a single key, the gradient of its
        // score is always 0.
        on_default_shapes(attention("dropout=0.5", dropped(0.5, PLAIN)))
            .on([&[1, 2, 17, 8], &[1, 2, 33, 8], &[1, 2, 33, 8]])
            .on([&[1, 1, 2, 3], &[1, 1, 0, 3], &[1, 1, 0, 2]])
            .on([&[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 1, 2, 2]])
            .double_backward()
            .rejects("attention: probability 1.5, expected 0 to 1", |device| {
                let q = zeros(&[1, 2, 2, 2], device)?;
                let options = AttentionOptions { dropout: 1.5, ..Default::default() };
                q.scaled_dot_product_attention(&q, &q, options)
            })
            .rejects("attention: probability NaN, expected 0 to 1", |device| {
                let q = zeros(&[1, 2, 2, 2], device)?;
                let options = AttentionOptions { dropout: f64::NAN, ..Default::default() };
                q.scaled_dot_product_attention(&q, &q, options)
            })
            .perf([&[4, 16, 1024, 64], &[4, 16, 1024, 64], &[4, 16, 1024, 64]]),
        on_default_shapes(attention("dropout=1", dropped(1.0, PLAIN))),
        // In f16 and bf16 a gradient that cancels to 0, such as that of equal keys, is computed as
        // the rounding error of y.
        attention("causal dropout=0.5, more queries than keys", dropped(0.5, causal))
            .dtypes(&[F32, F64])
            .on([&[1, 2, 5, 3], &[1, 1, 3, 3], &[1, 1, 3, 2]]),
        on_default_shapes(attention("causal dropout=0.5", dropped(0.5, causal)))
            .perf([&[4, 16, 1024, 64], &[4, 16, 1024, 64], &[4, 16, 1024, 64]]),
        attention("bool mask dropout=0.3", dropped(0.3, PLAIN))
            .input(Input::bool())
            .on([&[2, 4, 4, 5], &[2, 2, 6, 5], &[2, 2, 6, 4], &[2, 1, 1, 6]]),
        attention("additive mask dropout=0.3", dropped(0.3, PLAIN))
            .input(Uniform(-2.0, 2.0))
            .on([&[1, 3, 4, 5], &[1, 3, 6, 5], &[1, 3, 6, 4], &[1, 3, 4, 6]])
            .double_backward(),
        tiled_dropping("tiled dropout=0.2", dropped(0.2, PLAIN)).on(tiled).on(odd),
        tiled_dropping("tiled causal window=60 dropout=0.2", dropped(0.2, window)).on(tiled).on(odd),
        tiled_dropping("tiled bool mask dropout=0.2", dropped(0.2, PLAIN)).input(Input::bool()).on([
            q,
            k,
            v,
            &[2, 70, 140],
        ]),
        tiled_dropping("tiled additive mask constant dropout=0.2", dropped(0.2, window))
            .input(Input::float(Uniform(-2.0, 2.0)).constant())
            .on([q, k, v, &[70, 140]]),
    ]
}

/// A state with a negative seed, a base just below the carry into the upper half, and an offset, so
/// that every part of the counter matters.
pub(super) const STATE: [i64; 2] = [-0x1234_5678_9abc_def1, 0xffff_fffe];

/// The ops themselves, with the dropout state as the last input.
fn dropping_ops() -> Vec<OpCase> {
    let config = |mask: bool| AttentionConfig {
        mask,
        dropout: Some(Dropout { p: 0.4, offset: 5 }),
        causal: true,
        ..PLAIN
    };
    let state = |device: &Device| Tensor::from_slice(&STATE, [2], device);
    let formula = move |mask: bool| Formula { config: config(mask), state: STATE };
    let any = || Uniform(-2.0, 2.0);
    let plain: [&'static [usize]; 6] =
        [&[1, 2, 3, 2], &[1, 1, 7, 2], &[1, 1, 7, 5], &[1, 2, 3, 5], &[1, 2, 3], &[1, 2, 3, 5]];
    let run = move |mask: bool| {
        move |x: &[Tensor], device: &Device, _| {
            let state = state(device)?;
            let inputs: Vec<&Tensor> = x.iter().chain([&state]).collect();
            Ok(apply(AttentionGrad { config: config(mask) }, &inputs)?.into_vec())
        }
    };
    vec![
        OpCase::new("attention", "op causal dropout offset=5")
            .configured(peers::configuration(&config(false)))
            .input(any())
            .input(any())
            .input(any())
            .on([&[2, 2, 4, 5], &[2, 1, 6, 5], &[2, 1, 6, 4]])
            .on([&[1, 2, 70, 4], &[1, 1, 80, 4], &[1, 1, 80, 4]])
            .f32_limit(3e-6, 2e-6)
            .run_on(move |x, device, _| {
                let inputs = [&x[0], &x[1], &x[2], &state(device)?];
                Ok(apply(Attention { config: config(false) }, &inputs)?.into_vec())
            })
            .oracle(move |x| definition(formula(false), x))
            .rounded_oracle(move |round, x| output_with_rounded_weights(round, formula(false), x))
            .rejects("attention: state is i32, expected i64", move |device| {
                let q = zeros(&[1, 1, 2, 2], device)?;
                let state = Tensor::zeros([2], I32, device)?;
                Ok(apply(Attention { config: config(false) }, &[&q, &q, &q, &state])?.into_vec())
            }),
        gradients("causal dropout offset=5")
            .configured(peers::configuration(&config(false)))
            .on(plain)
            .run_on(run(false))
            .oracle(move |x| gradient(&|weight| weight, formula(false), x))
            .rounded_oracle(move |round, x| gradient(round, formula(false), x)),
        gradients("causal mask dropout offset=5")
            .configured(peers::configuration(&config(true)))
            .input(Input::bool())
            .on(GRAD_SHAPES_WITH_MASK)
            .run_on(run(true))
            .oracle(move |x| gradient(&|weight| weight, formula(true), x))
            .rounded_oracle(move |round, x| gradient(round, formula(true), x)),
    ]
}

