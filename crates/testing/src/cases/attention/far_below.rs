//! The gradient of attention with a mask far below all scores.

use super::{PLAIN, definition, gradient, peers};
use crate::prelude::*;
use ternion_core::{AttentionOptions, GradOptions, enable_grad, grad};

/// Rows with a mask of -1e30 for every key, which absorbs the scores. All weights must be equal,
/// also in the gradients, although the log-sum-exp of such scores has no bits left for the
/// logarithm of the number of keys. A kernel computes the row whose mask has no gradient, a
/// composition of other ops the row whose mask has one.
pub(super) fn rows() -> Vec<OpCase> {
    let any = || Uniform(-2.0, 2.0);
    let gradients_of = |x: &[Tensor], mask: &Tensor| {
        let mut leaves = x[..3].iter().map(Tensor::requires_grad).collect::<Result<Vec<_>>>()?;
        leaves.extend(mask.needs_grad().then(|| mask.clone()));
        let options = AttentionOptions { mask: Some(mask), scale: Some(PLAIN.scale), ..Default::default() };
        let y = enable_grad(|| leaves[0].scaled_dot_product_attention(&leaves[1], &leaves[2], options))?;
        grad(&[y], &leaves, &[x[3].clone()], GradOptions::default())?
            .into_iter()
            .take(3)
            .map(|gradient| gradient.ok_or_else(|| Error::autograd("no gradient")))
            .collect::<Result<Vec<Tensor>>>()
    };
    let row = |parameters: &str, is_tracked: bool| {
        OpCase::new("attention", parameters)
            .configured(peers::filled_mask(&PLAIN, -1e30, is_tracked))
            .input(any())
            .input(any())
            .input(any())
            .input(any())
            // In f16 the mask would be -infinity.
            .dtypes(&[F32, F64, BF16])
            .dense_only("other rows show the layouts")
            .forward_only("a gradient itself")
            .f32_limit(2e-5, 1e-5)
            // Weights of 1 / 8 and so on are exact in bf16. Inexact equal weights would all have
            // the same rounding error, for which the tolerance makes no allowance.
            .on([&[2, 3, 4, 5], &[2, 3, 8, 5], &[2, 3, 8, 4], &[2, 3, 4, 4]])
            .on([&[1, 2, 70, 8], &[1, 1, 256, 8], &[1, 1, 256, 12], &[1, 2, 70, 12]])
            .on([&[1, 2, 5, 64], &[1, 1, 16, 64], &[1, 1, 16, 48], &[1, 2, 5, 48]])
            .run(move |x| {
                let mask = Tensor::full([1, 1, x[0].dims()[2], x[1].dims()[2]], -1e30, x[0].dtype(), x[0].device())?;
                gradients_of(x, &if is_tracked { mask.requires_grad()? } else { mask })
            })
            .oracle(|x| far_below_gradients(&|weight| weight, x))
            .rounded_oracle(|round, x| far_below_gradients(round, x))
    };
    vec![
        row("additive mask of -1e30, gradient", false),
        row("additive mask of -1e30 with a gradient, gradient", true),
    ]
}

/// Returns the gradients of queries, keys and values from q, k, v and dy, if all keys have equal
/// weights.
fn far_below_gradients(round: &dyn Fn(f64) -> f64, x: &[Array]) -> Vec<Array> {
    let (zero_queries, zero_keys) = (Array::zeros(&x[0].shape), Array::zeros(&x[1].shape));
    let (y, lse) = definition(&PLAIN, &[zero_queries.clone(), zero_keys.clone(), x[2].clone()]);
    let gradients = |q: &Array, k: &Array| {
        let inputs = [q, k, &x[2], &y, &lse, &x[3]].map(Array::clone);
        gradient(round, &PLAIN, &inputs)
    };
    // If queries or keys are zero, all scores are 0. The gradient of the queries is a sum over
    // keys, and the gradient of the keys a sum over queries.
    let [dq, _, dv]: [Array; 3] = gradients(&zero_queries, &x[1]).try_into().expect("three gradients");
    let [_, dk, _]: [Array; 3] = gradients(&x[0], &zero_keys).try_into().expect("three gradients");
    vec![dq, dk, dv]
}
