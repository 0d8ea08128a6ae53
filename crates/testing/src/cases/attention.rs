//! Rows of scaled dot-product attention.

mod dropout;
mod far_below;
mod grad_mask;
mod ieee;
mod many_keys;
mod peers;
mod upper_left;
mod varlen;

use dropout::dropped;
use crate::oracle::{log_sum_exp, random_word};
use crate::prelude::*;
use ternion_core::{AttentionOptions, Causal};
use ternion_core::dispatch::apply;
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::ops::random::Dropout;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [unmasked(), masked(), wide(), tiled(), many_keys::rows(), ops(), far_below::rows(), upper_left::rows(), dropout::rows(), grad_mask::rows(), ieee::rows(), varlen::rows()].into_iter().flatten().collect()
}

const PLAIN: AttentionConfig =
    AttentionConfig { scale: 0.5, ..AttentionConfig::PLAIN };

/// Creates a row for queries, keys and values. The mask options of the configuration follow from
/// the inputs.
fn attention(parameters: &str, config: AttentionConfig) -> OpCase {
    OpCase::new("attention", parameters)
        .configured(peers::configuration(&config))
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .input(Uniform(-2.0, 2.0))
        .f32_limit(3e-6, 2e-6)
        .run(move |x| {
            let AttentionConfig { scale, causal, window, dropout, .. } = config;
            let dropout = dropout.map_or(0.0, |dropout| dropout.p);
            let causal = Causal::lower_right(causal);
            let options = AttentionOptions { mask: x.get(3), causal, window, scale: Some(scale), dropout };
            x[0].scaled_dot_product_attention(&x[1], &x[2], options)
        })
        .oracle(move |x| definition(&config, x).0)
        .rounded_oracle(move |round, x| output_with_rounded_weights(round, &config, x).0)
        .rounded_gradients(move |round, x, dy| rounded_gradients(round, &config, x, &dy[0]))
        // The gradients of the scores are rounded before they are multiplied by queries and keys.
        .grad_roundings(2)
}

/// Adds instances with different numbers of queries and keys, odd sizes, value_dim different from
/// head_dim, grouped-query attention, and sizes of one.
fn on_default_shapes(case: OpCase) -> OpCase {
    case.on([&[2, 3, 4, 5], &[2, 3, 6, 5], &[2, 3, 6, 4]])
        .on([&[1, 4, 5, 3], &[1, 2, 5, 3], &[1, 2, 5, 3]])
        .on([&[1, 1, 1, 1], &[1, 1, 1, 1], &[1, 1, 1, 1]])
}

/// Creates a row with more than 64 queries or 128 keys, so that kernels compute several tiles.
fn beyond_a_block(parameters: &str, config: AttentionConfig) -> OpCase {
    attention(parameters, config).dtypes(&[F32, BF16]).dense_only("small rows show the layouts")
}

fn unmasked() -> Vec<OpCase> {
    let causal = AttentionConfig { causal: true, ..PLAIN };
    let default_scale = AttentionConfig { scale: 1.0 / 7f64.sqrt(), ..PLAIN };
    vec![
        on_default_shapes(attention("", PLAIN))
            .on([&[1, 2, 17, 8], &[1, 2, 33, 8], &[1, 2, 33, 8]])
            .on([&[1, 1, 2, 3], &[1, 1, 0, 3], &[1, 1, 0, 2]])
            .on([&[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 1, 2, 2]])
            .double_backward()
            .adversarial(
                "large scores",
                [
                    Array::new(&[1, 1, 2, 1], vec![200.0, -200.0]),
                    Array::new(&[1, 1, 2, 1], vec![200.0, 199.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, -1.0]),
                ],
            )
            .adversarial(
                "equal scores of 5e7",
                [
                    Array::new(&[1, 1, 1, 1], vec![1e4]),
                    Array::new(&[1, 1, 2, 1], vec![1e4, 1e4]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, -2.0]),
                ],
            )
            .adversarial(
                "nan",
                [
                    Array::new(&[1, 1, 2, 1], vec![f64::NAN, 1.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, 2.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, -1.0]),
                ],
            )
            .rejects("attention: 3 query heads are not a multiple of 2 key heads", |device| {
                let (q, k) = (zeros(&[1, 3, 2, 2], device)?, zeros(&[1, 2, 2, 2], device)?);
                q.scaled_dot_product_attention(&k, &k, AttentionOptions::default())
            })
            .rejects("attention: key has shape [1, 2, 2, 3], expected [1, 2, 2, 2]", |device| {
                let (q, k) = (zeros(&[1, 2, 2, 2], device)?, zeros(&[1, 2, 2, 3], device)?);
                q.scaled_dot_product_attention(&k, &k, AttentionOptions::default())
            })
            .rejects("attention: expected 4 axes, got shape [2, 2, 2]", |device| {
                let q = zeros(&[2, 2, 2], device)?;
                q.scaled_dot_product_attention(&q, &q, AttentionOptions::default())
            })
            .rejects("attention: query is i32, expected a floating dtype", |device| {
                let q = Tensor::zeros([1, 2, 2, 2], I32, device)?;
                q.scaled_dot_product_attention(&q, &q, AttentionOptions::default())
            })
            .perf([&[4, 16, 1024, 64], &[4, 16, 1024, 64], &[4, 16, 1024, 64]]),
        OpCase::new("attention", "default scale")
            .configured(peers::configuration(&default_scale))
            .input(Uniform(-2.0, 2.0))
            .shapes([&[1, 2, 3, 7]])
            .f32_limit(3e-6, 2e-6)
            .run(|x| x[0].scaled_dot_product_attention(&x[0], &x[0], AttentionOptions::default()))
            .oracle(move |x| definition(&default_scale, &[x[0].clone(), x[0].clone(), x[0].clone()]).0)
            .rounded_oracle(move |round, x| {
                let x = [x[0].clone(), x[0].clone(), x[0].clone()];
                output_with_rounded_weights(round, &default_scale, &x).0
            }),
        beyond_a_block("beyond a block", PLAIN).on([&[1, 1, 2, 3], &[1, 1, 150, 3], &[1, 1, 150, 2]]),
        beyond_a_block("causal, beyond a block", causal).on([&[1, 1, 70, 2], &[1, 1, 140, 2], &[1, 1, 140, 2]]),
        // With more queries than keys the first queries attend to no key: their output is 0, and
        // they propagate no gradient.
        on_default_shapes(attention("causal", causal))
            .on([&[1, 2, 5, 3], &[1, 1, 3, 3], &[1, 1, 3, 2]])
            .double_backward()
            .perf([&[4, 16, 1024, 64], &[4, 16, 1024, 64], &[4, 16, 1024, 64]]),
        on_default_shapes(attention("causal window=2", AttentionConfig { window: Some(2), ..causal }))
            .double_backward(),
        on_default_shapes(attention("window=2", AttentionConfig { window: Some(2), ..PLAIN })),
        on_default_shapes(attention("window=0", AttentionConfig { window: Some(0), ..PLAIN })),
        on_default_shapes(attention(
            "causal window=all",
            AttentionConfig { window: Some(usize::MAX), ..causal },
        )),
    ]
}

fn masked() -> Vec<OpCase> {
    let causal = AttentionConfig { causal: true, ..PLAIN };
    vec![
        attention("bool mask", PLAIN)
            .input(Input::bool())
            .on([&[2, 3, 4, 5], &[2, 3, 6, 5], &[2, 3, 6, 4], &[2, 3, 4, 6]])
            .on([&[2, 4, 4, 5], &[2, 2, 6, 5], &[2, 2, 6, 4], &[2, 1, 1, 6]])
            .double_backward()
            .adversarial(
                "one fully masked query",
                [
                    Array::new(&[1, 1, 2, 1], vec![1.0, 2.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, 2.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, -1.0]),
                    Array::new(&[2, 2], vec![0.0, 0.0, 1.0, 0.0]),
                ],
            )
            .rejects("attention: mask has shape [3], expected [1, 2, 2, 4]", |device| {
                let (q, k) = (zeros(&[1, 2, 2, 2], device)?, zeros(&[1, 2, 4, 2], device)?);
                let mask = Tensor::zeros([3], Bool, device)?;
                q.scaled_dot_product_attention(
                    &k,
                    &k,
                    AttentionOptions { mask: Some(&mask), ..Default::default() },
                )
            })
            .rejects("attention: mask is f64, expected bool or the query's dtype", |device| {
                let q = zeros(&[1, 2, 2, 2], device)?;
                let mask = Tensor::zeros([2, 2], F64, device)?;
                q.scaled_dot_product_attention(
                    &q,
                    &q,
                    AttentionOptions { mask: Some(&mask), ..Default::default() },
                )
            }),
        attention("additive mask", PLAIN)
            .input(Uniform(-2.0, 2.0))
            .on([&[1, 3, 4, 5], &[1, 3, 6, 5], &[1, 3, 6, 4], &[1, 3, 4, 6]])
            .on([&[2, 4, 3, 2], &[2, 2, 3, 2], &[2, 2, 3, 2], &[3, 3]])
            .double_backward(),
        // A mask without a gradient uses the fused path.
        attention("additive mask constant", PLAIN)
            .input(Input::float(Uniform(-2.0, 2.0)).constant())
            .on([&[2, 4, 3, 2], &[2, 2, 3, 2], &[2, 2, 3, 2], &[4, 1, 3]])
            .adversarial(
                "-infinity everywhere",
                [
                    Array::new(&[1, 1, 2, 1], vec![1.0, 2.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, 2.0]),
                    Array::new(&[1, 1, 2, 1], vec![1.0, -1.0]),
                    Array::new(&[2, 2], vec![f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0, f64::NEG_INFINITY]),
                ],
            ),
        attention("additive mask causal window=3", AttentionConfig { window: Some(3), ..causal })
            .input(Uniform(-2.0, 2.0))
            .on([&[1, 2, 4, 3], &[1, 1, 5, 3], &[1, 1, 5, 2], &[4, 5]])
            .double_backward(),
        attention("bool mask causal", causal).input(Input::bool()).on([
            &[1, 2, 4, 3],
            &[1, 1, 5, 3],
            &[1, 1, 5, 2],
            &[5],
        ]),
    ]
}

/// Returns values from -1 to 1 in no particular order.
fn scrambled_values(count: usize) -> Vec<f64> {
    (0..count).map(|at| ((at * 37 + at * at) % 41) as f64 / 20.0 - 1.0).collect()
}

/// Heads with the head_dim of real models: a device may have dedicated kernels for them, for each
/// kind of mask.
fn wide() -> Vec<OpCase> {
    let plain = AttentionConfig { scale: 0.1, ..PLAIN };
    let window = AttentionConfig { causal: true, window: Some(3), ..plain };
    // Queries, keys, values, a mask for each head, and a mask for all heads.
    type Heads = [&'static [usize]; 5];
    let heads: [Heads; 4] = [
        [&[1, 2, 5, 64], &[1, 1, 9, 64], &[1, 1, 9, 48], &[2, 5, 9], &[5, 9]],
        [&[1, 2, 5, 104], &[1, 1, 9, 104], &[1, 1, 9, 128], &[2, 5, 9], &[5, 9]],
        [&[1, 2, 3, 192], &[1, 1, 5, 192], &[1, 1, 5, 130], &[2, 3, 5], &[3, 5]],
        [&[1, 2, 2, 200], &[1, 1, 4, 200], &[1, 1, 4, 256], &[2, 2, 4], &[2, 4]],
    ];
    // Smaller than `heads`. The search for planted faults starts with the largest sums, and must
    // still select those of `heads`.
    let dropping_heads: [Heads; 3] = [
        [&[1, 2, 3, 64], &[1, 1, 5, 64], &[1, 1, 5, 48], &[2, 3, 5], &[3, 5]],
        [&[1, 2, 2, 104], &[1, 1, 4, 104], &[1, 1, 4, 128], &[2, 2, 4], &[2, 4]],
        [&[1, 1, 2, 256], &[1, 1, 5, 256], &[1, 1, 5, 224], &[1, 2, 5], &[2, 5]],
    ];
    // A device that computes in half precision cannot represent the smallest of these.
    let mut small = scrambled_values(9 * 36);
    (small[40], small[41], small[42]) = (1e-17, 0.0, -1e-30);
    let small = |length: usize| Array::new(&[1, 1, length, 36], small[..length * 36].to_vec());
    let row = |[q, k, v, each, all]: Heads, what: &str, config: AttentionConfig| {
        let case = attention(&format!("wide {} {what}", q[3]), config);
        // The widest heads are tested in f16 by tests/kernels/attention.rs.
        let dtypes: &[DType] = if q[3] > 128 { &[F32, BF16] } else { &[F32, F16, BF16] };
        let case = case.dtypes(dtypes).dense_only("small rows show the layouts");
        (case, [q, k, v, each, all])
    };
    let rows_of = |heads, suffix: &str, change: fn(AttentionConfig) -> AttentionConfig| {
        let named = |what: &str, config| row(heads, &format!("{what}{suffix}"), change(config));
        let (full, [q, k, v, each, all]) = named("full", plain);
        let (windowed, _) = named("causal window=3", window);
        let (bool_mask, _) = named("bool mask", plain);
        let (added, _) = named("additive mask constant", plain);
        [
            full.on([q, k, v]).adversarial("some far below the others", [small(6), small(9), small(9)]),
            windowed.on([q, k, v]),
            bool_mask.input(Input::bool()).on([q, k, v, each]),
            added.input(Input::float(Uniform(-2.0, 2.0)).constant()).on([q, k, v, all]),
        ]
    };
    let plain_rows = heads.into_iter().flat_map(|heads| rows_of(heads, "", |config| config));
    let some_dropped = |config| dropped(0.2, config);
    plain_rows.chain(dropping_heads.into_iter().flat_map(|heads| rows_of(heads, " dropout=0.2", some_dropped))).collect()
}

/// More than 64 queries and 128 keys, in rows that are vec4-aligned: a device may compute them as
/// complete matrix products.
fn tiled() -> Vec<OpCase> {
    let window = AttentionConfig { causal: true, window: Some(60), ..PLAIN };
    let shapes: [&'static [usize]; 3] = [&[1, 2, 70, 8], &[1, 1, 140, 8], &[1, 1, 140, 12]];
    let [q, k, v] = shapes;
    // A query of NaN, and one with the largest possible scores.
    let mut queries = scrambled_values(70 * 4);
    queries[5 * 4] = f64::NAN;
    queries[66 * 4..67 * 4].fill(1e30);
    vec![
        beyond_a_block("tiled", PLAIN).on([q, k, v]).adversarial(
            "nan and large scores",
            [
                Array::new(&[1, 1, 70, 4], queries),
                Array::new(&[1, 1, 140, 4], scrambled_values(140 * 4)),
                Array::new(&[1, 1, 140, 4], scrambled_values(140 * 4)),
            ],
        ),
        beyond_a_block("tiled causal window=60", window).on([q, k, v]),
        beyond_a_block("tiled bool mask", PLAIN).input(Input::bool()).on([q, k, v, &[2, 70, 140]]),
        beyond_a_block("tiled additive mask constant", window)
            .input(Input::float(Uniform(-2.0, 2.0)).constant())
            .on([q, k, v, &[70, 140]]),
    ]
}

/// The shapes of the operands of the op `attention_grad`, followed by that of a mask.
const GRAD_SHAPES_WITH_MASK: [&[usize]; 7] =
    [&[1, 2, 3, 2], &[1, 2, 4, 2], &[1, 2, 4, 5], &[1, 2, 3, 5], &[1, 2, 3], &[1, 2, 3, 5], &[1, 2, 3, 4]];

/// Creates a row of the op `attention_grad`, whose inputs are q, k, v, y, the log-sum-exp and dy.
fn gradients(parameters: &str) -> OpCase {
    let any = || Uniform(-2.0, 2.0);
    OpCase::new("attention_grad", parameters)
        .input(any())
        .input(any())
        .input(any())
        .input(any())
        .input(Input::accumulator(Uniform(1.0, 3.0)))
        .input(any())
        .f32_limit(2e-5, 1e-5)
}

/// The ops themselves: the log-sum-exp as a second output, and the gradient as a formula of all its
/// inputs.
fn ops() -> Vec<OpCase> {
    let causal = AttentionConfig { causal: true, ..PLAIN };
    let any = || Uniform(-2.0, 2.0);
    vec![
        OpCase::new("attention", "op causal")
            .configured(peers::configuration(&causal))
            .input(any())
            .input(any())
            .input(any())
            .on([&[2, 2, 4, 5], &[2, 1, 6, 5], &[2, 1, 6, 4]])
            .f32_limit(3e-6, 2e-6)
            .double_backward()
            .run(move |x| Ok(apply(Attention { config: causal }, &[&x[0], &x[1], &x[2]])?.into_vec()))
            .oracle(move |x| definition(&causal, x))
            .rounded_oracle(move |round, x| output_with_rounded_weights(round, &causal, x)),
        gradients("causal")
            .configured(peers::configuration(&causal))
            .on([&[1, 2, 3, 2], &[1, 1, 4, 2], &[1, 1, 4, 5], &[1, 2, 3, 5], &[1, 2, 3], &[1, 2, 3, 5]])
            .double_backward()
            .run(move |x| {
                let inputs: Vec<&Tensor> = x.iter().collect();
                Ok(apply(AttentionGrad { config: causal }, &inputs)?.into_vec())
            })
            .oracle(move |x| gradient(&|weight| weight, &causal, x))
            .rounded_oracle(move |round, x| gradient(round, &causal, x))
            .rejects("attention_grad: log_sum_exp is f16, expected f32", |device| {
                let (q, lse) =
                    (Tensor::zeros([1, 1, 2, 2], F16, device)?, Tensor::zeros([1, 1, 2], F16, device)?);
                Ok(apply(AttentionGrad { config: PLAIN }, &[&q, &q, &q, &q, &lse, &q])?.into_vec())
            }),
        gradients("mask").input(Input::bool()).on(GRAD_SHAPES_WITH_MASK)
            .configured(peers::configuration(&PLAIN))
            .run(move |x| {
                let inputs: Vec<&Tensor> = x.iter().collect();
                let config = AttentionConfig { mask: true, ..PLAIN };
                Ok(apply(AttentionGrad { config }, &inputs)?.into_vec())
            })
            .oracle(|x| gradient(&|weight| weight, &PLAIN, x))
            .rounded_oracle(|round, x| gradient(round, &PLAIN, x)),
    ]
}

/// The parameters of attention, and the random state of its dropout.
#[derive(Clone, Copy)]
struct Formula {
    config: AttentionConfig,
    state: [i64; 2],
}

impl From<&AttentionConfig> for Formula {
    fn from(&config: &AttentionConfig) -> Formula {
        Formula { config, state: [0, 0] }
    }
}

impl Formula {
    /// Returns the dropout factor of the weight with this index (Srivastava et al. 2014).
    fn factor(&self, [heads, queries, keys]: [usize; 3], [b, h, i, j]: [usize; 4]) -> f64 {
        let Some(Dropout { p, offset }) = self.config.dropout else { return 1.0 };
        let [seed, base] = self.state.map(|number| number as u64);
        let word = random_word(seed, base.wrapping_add(offset), ((b * heads + h) * queries + i) * keys + j);
        if f64::from(word >> 8) / 16_777_216.0 >= p { 1.0 / (1.0 - p) } else { 0.0 }
    }
}

fn zeros(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, F32, device)
}

/// Returns whether query `query` of `queries` attends to key `key` of `keys`, as far as causal mask
/// and window decide. The last query has the position of the last key (lower-right alignment).
fn attends(config: &AttentionConfig, [query, queries, key, keys]: [usize; 4]) -> bool {
    let position = query as i128 + keys as i128 - queries as i128;
    let key = key as i128;
    let window = config.window.map(|window| window as i128);
    let not_too_early = window.is_none_or(|window| key > position - window);
    let not_too_late =
        if config.causal { key <= position } else { window.is_none_or(|window| key < position + window) };
    not_too_early && not_too_late
}

/// Returns `scale * q kT + mask`, -infinity for a masked key. A mask of only zeros and ones is a
/// bool mask: no row generates such values for an additive mask.
fn scores(config: &AttentionConfig, q: &Array, k: &Array, mask: Option<&Array>) -> Array {
    let [batch, heads, queries, width] = q.sizes();
    let [_, kv_heads, keys, _] = k.sizes();
    let shape = [batch, heads, queries, keys];
    let mask = mask.map(|mask| mask.expand(&shape));
    let is_bool = mask.as_ref().is_some_and(|mask| mask.data.iter().all(|&v| v == 0.0 || v == 1.0));
    Array::from_fn(&shape, |at| {
        let &[b, h, i, j] = at else { unreachable!("four axes") };
        let kv = h / (heads / kv_heads);
        let (query, key) = ((b * heads + h) * queries + i, (b * kv_heads + kv) * keys + j);
        let [query, key] = [(q, query), (k, key)].map(|(x, row)| &x.data[row * width..][..width]);
        let product: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
        let attended = attends(config, [i, queries, j, keys]);
        match &mask {
            _ if !attended => f64::NEG_INFINITY,
            Some(mask) if is_bool && mask.at(at) == 0.0 => f64::NEG_INFINITY,
            Some(mask) if !is_bool => config.scale * product + mask.at(at),
            _ => config.scale * product,
        }
    })
}

/// Returns the output (Vaswani et al. 2017, eq. 1) and the log-sum-exp.
fn definition(formula: impl Into<Formula>, x: &[Array]) -> (Array, Array) {
    output_with_rounded_weights(&|weight| weight, formula, x)
}

/// Returns the same as [`definition`], but rounds each weight before it is multiplied by its value:
/// tensor cores multiply only half-precision operands.
fn output_with_rounded_weights(
    round: &dyn Fn(f64) -> f64,
    formula: impl Into<Formula>,
    x: &[Array],
) -> (Array, Array) {
    let formula = formula.into();
    let (q, k, v) = (&x[0], &x[1], &x[2]);
    let [batch, heads, queries, _] = q.sizes();
    let [_, kv_heads, keys, width] = v.sizes();
    let scores = scores(&formula.config, q, k, x.get(3));
    let lse = scores.reduce(&[3], Keep::No, |row| match row.iter().any(|score| score.is_nan()) {
        true => f64::NAN,
        false => log_sum_exp(row),
    });
    // Each weight is computed once, not once for each output element: central differences call this
    // thousands of times.
    let weights: Vec<f64> = (0..batch * heads * queries)
        .flat_map(|row| weights_of(round, &formula, &scores, lse.data[row], row))
        .collect();
    let y = Array::from_fn(&[batch, heads, queries, width], |at| {
        let &[b, h, i, d] = at else { unreachable!("four axes") };
        let kv = h / (heads / kv_heads);
        let row = &weights[((b * heads + h) * queries + i) * keys..][..keys];
        let value = |j: usize| v.data[((b * kv_heads + kv) * keys + j) * width + d];
        row.iter().enumerate().map(|(j, weight)| weight * value(j)).sum()
    });
    (y, lse)
}

/// Returns the weights of the keys for a query whose scores are row `row`; all 0 if no key is
/// unmasked.
fn weights_of(
    round: &dyn Fn(f64) -> f64,
    formula: &Formula,
    scores: &Array,
    lse: f64,
    row: usize,
) -> Vec<f64> {
    let [_, heads, queries, keys] = scores.sizes();
    if lse == f64::NEG_INFINITY {
        return vec![0.0; keys];
    }
    let [b, h, i] = [row / queries / heads, row / queries % heads, row % queries];
    // Relative to the largest score, because lse is rounded even in f64.
    let row = &scores.data[row * keys..][..keys];
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|score| (score - max).exp()).sum();
    let factor = |j: usize| formula.factor([heads, queries, keys], [b, h, i, j]);
    row.iter().enumerate().map(|(j, score)| round((score - max).exp()) / sum * factor(j)).collect()
}

/// Returns the gradients (Dao et al. 2022, algorithm 4) for q, k, v, y, lse and dy (and mask).
/// `round` rounds weights and their gradients before they are multiplied by an operand.
fn gradient(round: &dyn Fn(f64) -> f64, formula: impl Into<Formula>, x: &[Array]) -> Vec<Array> {
    let formula = formula.into();
    let config = &formula.config;
    let (q, k, v, dy) = (&x[0], &x[1], &x[2], &x[5]);
    let ([_, heads, _, head_dim], [_, kv_heads, _, value_dim]) = (q.sizes(), v.sizes());
    let scores = scores(config, q, k, x.get(6));
    let (mut dq, mut dk, mut dv) = (Array::zeros(&q.shape), Array::zeros(&k.shape), Array::zeros(&v.shape));
    let mut at = [0; 4];
    for _ in 0..scores.elements() {
        let [b, h, i, j] = at;
        let kv = h / (heads / kv_heads);
        let ScoreGradient { p, factor, ds } = score_gradient(&formula, &scores, x, at);
        for d in 0..value_dim {
            *dv.at_mut(&[b, kv, j, d]) += round(p) * factor * dy.at(&[b, h, i, d]);
        }
        for d in 0..head_dim {
            *dq.at_mut(&[b, h, i, d]) += config.scale * round(ds) * k.at(&[b, kv, j, d]);
            *dk.at_mut(&[b, kv, j, d]) += config.scale * round(ds) * q.at(&[b, h, i, d]);
        }
        crate::array::advance(&mut at, &scores.shape);
    }
    vec![dq, dk, dv]
}

/// Returns the gradients for q, k, v and a mask as kernels compute them: they compute rowsum(dy y)
/// from a y that is a sum of rounded weights and is itself rounded.
fn rounded_gradients(
    round: &dyn Fn(f64) -> f64,
    formula: impl Into<Formula>,
    x: &[Array],
    dy: &Array,
) -> Vec<Array> {
    let formula = formula.into();
    let (y, lse) = output_with_rounded_weights(round, formula, x);
    // With an infinite log-sum-exp all weights of a query without unmasked keys are exp(-inf) = 0.
    let lse = lse.map(|sum| if sum == f64::NEG_INFINITY { f64::INFINITY } else { sum });
    let mask = x.get(3).map(|mask| mask.reshape(&[&vec![1; 4 - mask.shape.len()][..], &mask.shape].concat()));
    let operands = [&x[..3], &[y.map(round), lse, dy.clone()], mask.as_slice()].concat();
    let mut gradients = gradient(round, formula, &operands);
    gradients.extend(x.get(3).map(|mask| grad_mask::of_mask(formula, &operands).reshape(&mask.shape)));
    gradients
}

/// A weight, its dropout factor, and the gradient of its score.
struct ScoreGradient {
    p: f64,
    factor: f64,
    ds: f64,
}

/// Computes the gradient of one score from q, k, v, y, lse and dy.
fn score_gradient(formula: &Formula, scores: &Array, x: &[Array], at: [usize; 4]) -> ScoreGradient {
    let (v, y, lse, dy) = (&x[2], &x[3], &x[4], &x[5]);
    let [_, heads, queries, keys] = scores.sizes();
    let [_, kv_heads, _, value_dim] = v.sizes();
    let [b, h, i, j] = at;
    let p = (scores.at(&at) - lse.at(&[b, h, i])).exp();
    let dot_dy = |other: &Array, head: usize, row: usize| -> f64 {
        (0..value_dim).map(|d| dy.at(&[b, h, i, d]) * other.at(&[b, head, row, d])).sum()
    };
    let factor = formula.factor([heads, queries, keys], at);
    let ds = p * (factor * dot_dy(v, h / (heads / kv_heads), j) - dot_dy(y, h, i));
    ScoreGradient { p, factor, ds }
}
