//! The gradient of an additive mask that has an element for each score, or is broadcast along any
//! of the axes.

use super::dropout::{STATE, dropped};
use super::{
    Formula, PLAIN, attention, beyond_a_block, gradients, peers, score_gradient, scores, zeros,
};
use crate::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::attention::{AttentionConfig, AttentionGradMask};
use ternion_core::ops::random::Dropout;

/// Returns this module's rows of the op table.
pub(super) fn rows() -> Vec<OpCase> {
    let causal = AttentionConfig { causal: true, ..PLAIN };
    let mut all = vec![
        repeated("additive mask repeated", PLAIN, &[&[2, 1, 1, 5], &[2, 1, 3, 5], &[4, 1, 5]]).double_backward(),
        repeated("additive mask repeated causal", causal, &[&[2, 1, 1, 5], &[4, 1, 5]]),
        // A constant added to all scores of a query does not change the weights: in half precision
        // its gradient is the rounding error of 0.
        repeated("additive mask of queries", PLAIN, &[&[1, 4, 3, 1], &[3, 1], &[1]]).dtypes(&[F32, F64]),
        tiled("additive mask of the batch beyond a block", PLAIN),
        tiled("additive mask of the batch causal window=60 beyond a block", AttentionConfig { window: Some(60), ..causal }),
        tiled("additive mask of the batch dropout=0.2 beyond a block", dropped(0.2, PLAIN)),
    ];
    all.extend(ops());
    all
}

/// Creates a row with masks that have size 1 along some axes, or fewer axes.
fn repeated(parameters: &str, config: AttentionConfig, masks: &[&'static [usize]]) -> OpCase {
    const SHAPES: [&[usize]; 3] = [&[2, 4, 3, 2], &[2, 2, 5, 2], &[2, 2, 5, 2]];
    let [q, k, v] = SHAPES;
    let case = attention(parameters, config).input(Uniform(-2.0, 2.0));
    masks.iter().fold(case, |case, mask| case.on([q, k, v, mask]))
}

/// More than 64 queries and 128 keys of several heads, with masks that heads share.
fn tiled(parameters: &str, config: AttentionConfig) -> OpCase {
    let [q, k, v]: [&'static [usize]; 3] = [&[2, 2, 70, 4], &[2, 1, 140, 4], &[2, 1, 140, 4]];
    let case = beyond_a_block(parameters, config).dtypes(&[F32]).input(Uniform(-2.0, 2.0));
    [&[2, 70, 140][..], &[2, 1, 1, 140], &[70, 1]].into_iter().fold(case, |case, mask| case.on([q, k, v, mask]))
}

/// The op itself, as a formula of all its inputs.
fn ops() -> Vec<OpCase> {
    const OPERANDS: [&[usize]; 6] =
        [&[2, 2, 3, 2], &[2, 1, 4, 2], &[2, 1, 4, 5], &[2, 2, 3, 5], &[2, 2, 3], &[2, 2, 3, 5]];
    let with_masks = |case: OpCase| {
        let masks: [&'static [usize]; 6] =
            [&[2, 2, 3, 4], &[1, 2, 3, 4], &[2, 1, 3, 4], &[1, 1, 1, 4], &[2, 2, 3, 1], &[1, 1, 1, 1]];
        let [q, k, v, y, lse, dy] = OPERANDS;
        masks.into_iter().fold(case.input(Uniform(-2.0, 2.0)), |case, mask| {
            case.on([q, k, v, y, lse, dy, mask])
        })
    };
    let masked = |config| AttentionConfig { mask: true, ..config };
    let op = |config| move |inputs: &[&Tensor]| Ok(apply(AttentionGradMask { config }, inputs)?.into_vec());
    let causal = masked(AttentionConfig { causal: true, ..PLAIN });
    let dropping =
        AttentionConfig { dropout: Some(Dropout { p: 0.4, offset: 5 }), ..masked(PLAIN) };
    vec![
        with_masks(row("causal"))
            .configured(peers::configuration(&causal))
            .double_backward()
            .run(move |x| op(causal)(&x.iter().collect::<Vec<_>>()))
            .oracle(move |x| of_mask(&causal, x))
            .rejects("attention_grad_mask: no mask that is added to the scores, expected one", move |device| {
                let (q, lse) = (zeros(&[1, 1, 2, 2], device)?, zeros(&[1, 1, 2], device)?);
                let mask = Tensor::zeros([1, 1, 2, 2], Bool, device)?;
                op(causal)(&[&q, &q, &q, &q, &lse, &q, &mask])
            })
            .rejects("attention_grad_mask: no mask that is added to the scores, expected one", move |device| {
                let (q, lse) = (zeros(&[1, 1, 2, 2], device)?, zeros(&[1, 1, 2], device)?);
                op(PLAIN)(&[&q, &q, &q, &q, &lse, &q])
            })
            .rejects("attention_grad_mask: mask has shape [2, 2], expected [1, 1, 2, 2]", move |device| {
                let (q, lse) = (zeros(&[1, 1, 2, 2], device)?, zeros(&[1, 1, 2], device)?);
                let mask = zeros(&[2, 2], device)?;
                op(causal)(&[&q, &q, &q, &q, &lse, &q, &mask])
            }),
        with_masks(row("dropout offset=5"))
            .configured(peers::configuration(&dropping))
            .run_on(move |x, device, _| {
                let state = Tensor::from_slice(&STATE, [2], device)?;
                op(dropping)(&x.iter().chain([&state]).collect::<Vec<_>>())
            })
            .oracle(move |x| of_mask(Formula { config: dropping, state: STATE }, x)),
    ]
}

fn row(parameters: &str) -> OpCase {
    OpCase { op: "attention_grad_mask", ..gradients(parameters) }
}

/// Returns the gradient of the mask from q, k, v, y, the log-sum-exp, dy and the mask: ds of Dao et
/// al. 2022, algorithm 4, summed over the axes along which the mask is broadcast.
pub(super) fn of_mask(formula: impl Into<Formula>, x: &[Array]) -> Array {
    let formula = formula.into();
    let mask = &x[6];
    let scores = scores(&formula.config, &x[0], &x[1], Some(mask));
    let mut dmask = Array::zeros(&mask.shape);
    let mut at = [0; 4];
    for _ in 0..scores.elements() {
        let mut mask_index = at;
        for (axis, index) in mask_index.iter_mut().enumerate() {
            *index = (*index).min(mask.shape[axis] - 1);
        }
        *dmask.at_mut(&mask_index) += score_gradient(&formula, &scores, x, at).ds;
        crate::array::advance(&mut at, &scores.shape);
    }
    dmask
}
