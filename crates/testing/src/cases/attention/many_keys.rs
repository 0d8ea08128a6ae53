//! A few queries with many keys, as in a step of generation: a device may split the keys
//! (split-KV).

use super::{PLAIN, beyond_a_block, scrambled_values};
use crate::prelude::*;
use ternion_core::ops::attention::AttentionConfig;

/// Returns this module's rows of the op table.
pub(super) fn rows() -> Vec<OpCase> {
    let window = AttentionConfig { causal: true, window: Some(900), ..PLAIN };
    let [q, k, v]: [&'static [usize]; 3] = [&[1, 4, 1, 8], &[1, 2, 1040, 8], &[1, 2, 1040, 4]];
    let several_queries: [&'static [usize]; 3] = [&[1, 2, 3, 8], &[1, 2, 1040, 8], &[1, 2, 1040, 4]];
    let row = |what: &str, config| {
        let case = beyond_a_block(&format!("many keys{what}"), config);
        case.forward_only("the gradient walks over keys as over few").dtypes(&[F32, F16, BF16])
    };
    // The query of each of four heads: the first and the last attend to only a few keys (the
    // others are masked by -1e9), the second to none, the third to all.
    let mut mask = vec![-1e9; 4 * 1040];
    mask[600..700].fill(0.5);
    mask[1040..2080].fill(f64::NEG_INFINITY);
    mask[2080..3120].fill(1.0);
    mask[4000..4010].fill(0.0);
    let (mut keys, mut queries) = (scrambled_values(2 * 1040 * 8), scrambled_values(4 * 8));
    (keys[7 * 8], keys[1000 * 8]) = (f64::NAN, f64::INFINITY);
    queries[9] = 0.0;
    let values = || Array::new(v, scrambled_values(2 * 1040 * 4));
    vec![
        row("", PLAIN).on([q, k, v]).on(several_queries).adversarial(
            "nan and infinity among keys",
            [Array::new(q, queries), Array::new(k, keys), values()],
        ),
        row(" causal window=900", window).on([q, k, v]).on(several_queries),
        row(" bool mask", window).input(Input::bool()).on([q, k, v, &[4, 1, 1040]]),
        row(" additive mask constant", PLAIN)
            .input(Input::float(Uniform(-2.0, 2.0)).constant())
            .on([q, k, v, &[4, 1, 1040]])
            .adversarial(
                "keys masked by numbers",
                [Array::new(q, scrambled_values(4 * 8)), Array::new(k, scrambled_values(2 * 1040 * 8)), values(), Array::new(&[4, 1, 1040], mask)],
            ),
    ]
}
