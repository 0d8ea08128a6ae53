//! Comparison with the definition in f64, query by query.

use crate::testing::{Numbers, assert_close, layouts, rounded, tensor};
use ternion_core::dispatch::apply;
use ternion_core::ops::attention::{Attention, AttentionConfig, AttentionGrad};
use ternion_core::{DType, Device, Layout, Shape, Tensor};

#[derive(Clone, Copy, PartialEq, Debug)]
enum MaskKind {
    None,
    Bool,
    Additive,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    dims: [usize; 2],
    causal: bool,
    window: Option<usize>,
    mask: MaskKind,
}

const PLAIN: Case = Case {
    batch: 1,
    heads: 1,
    kv_heads: 1,
    queries: 5,
    keys: 7,
    dims: [4, 3],
    causal: false,
    window: None,
    mask: MaskKind::None,
};

fn cases() -> Vec<Case> {
    vec![
        PLAIN,
        Case { batch: 2, heads: 4, kv_heads: 2, causal: true, ..PLAIN },
        Case { queries: 9, keys: 4, causal: true, ..PLAIN },
        Case { heads: 3, kv_heads: 1, window: Some(2), ..PLAIN },
        Case { causal: true, window: Some(3), queries: 70, keys: 140, ..PLAIN },
        Case { window: Some(0), ..PLAIN },
        Case { batch: 2, heads: 2, mask: MaskKind::Bool, ..PLAIN },
        Case {
            heads: 2,
            kv_heads: 2,
            mask: MaskKind::Additive,
            queries: 65,
            keys: 129,
            causal: true,
            ..PLAIN
        },
        Case { heads: 2, kv_heads: 2, queries: 130, keys: 300, dims: [16, 8], causal: true, ..PLAIN },
        Case { batch: 3, keys: 0, ..PLAIN },
        Case { queries: 0, ..PLAIN },
        Case { batch: 0, ..PLAIN },
    ]
}

impl Case {
    fn q_shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.dims[0]]
    }
    fn k_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.dims[0]]
    }
    fn v_shape(&self) -> [usize; 4] {
        [self.batch, self.kv_heads, self.keys, self.dims[1]]
    }
    fn y_shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.dims[1]]
    }

    /// Returns the number that is added to the score of a key: -infinity if it is masked. The mask
    /// is the same for all heads and batches.
    fn bias(&self, query: usize, key: usize, mask: &[f64]) -> f64 {
        let position = query as isize + self.keys as isize - self.queries as isize;
        let distance = key as isize - position;
        let excluded = (self.causal && distance > 0)
            || self
                .window
                .is_some_and(|window| distance <= -(window as isize) || distance >= window as isize);
        let masked = mask.get(query * self.keys + key).copied();
        match (excluded, self.mask) {
            (true, _) => f64::NEG_INFINITY,
            (_, MaskKind::None) => 0.0,
            (_, MaskKind::Bool) => {
                if masked == Some(0.0) {
                    f64::NEG_INFINITY
                } else {
                    0.0
                }
            }
            (_, MaskKind::Additive) => masked.unwrap_or(0.0),
        }
    }
}

/// Returns `[y, lse, dq, dk, dv]`.
fn reference(case: &Case, scale: f64, [q, k, v, dy, mask]: [&[f64]; 5]) -> [Vec<f64>; 5] {
    let ([d, e], group) = (case.dims, case.heads / case.kv_heads);
    let (mut y, mut sums) = (vec![0.0; dy.len()], vec![]);
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    for row in 0..case.batch * case.heads * case.queries {
        let (head, query) = (row / case.queries, row % case.queries);
        let kv = head / case.heads * case.kv_heads + head % case.heads / group;
        let key = |index: usize| kv * case.keys + index;
        let scores: Vec<f64> = (0..case.keys)
            .map(|index| {
                let dot: f64 = (0..d).map(|c| q[row * d + c] * k[key(index) * d + c]).sum();
                scale * dot + case.bias(query, index, mask)
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max == f64::NEG_INFINITY {
            sums.push(max);
            continue;
        }
        let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
        sums.push(max + sum.ln());
        let p: Vec<f64> = scores.iter().map(|score| (score - max).exp() / sum).collect();
        for (index, p) in p.iter().enumerate() {
            for c in 0..e {
                y[row * e + c] += p * v[key(index) * e + c];
                dv[key(index) * e + c] += p * dy[row * e + c];
            }
        }
        let delta: f64 = (0..e).map(|c| dy[row * e + c] * y[row * e + c]).sum();
        for (index, p) in p.iter().enumerate() {
            let dp: f64 = (0..e).map(|c| dy[row * e + c] * v[key(index) * e + c]).sum();
            for c in 0..d {
                dq[row * d + c] += scale * p * (dp - delta) * k[key(index) * d + c];
                dk[key(index) * d + c] += scale * p * (dp - delta) * q[row * d + c];
            }
        }
    }
    [y, sums, dq, dk, dv]
}

/// Returns the mask `[queries, keys]`, broadcast to every head of every batch.
fn expanded(case: &Case, dtype: DType, mask: &[f64], device: &Device) -> Tensor {
    let small = tensor(dtype, mask, &[case.queries, case.keys], device);
    let shape = Shape::new(&[case.batch, case.heads, case.queries, case.keys]).unwrap();
    let layout = Layout::new(shape, &[0, 0, case.keys as isize, 1], 0).unwrap();
    Tensor::from_buffer(small.buffer().clone(), layout, dtype, small.device()).unwrap()
}

#[test]
fn forward_and_gradient() {
    let device = crate::device();
    let mut numbers = Numbers::new(16);
    let size = |shape: [usize; 4]| shape.iter().product::<usize>();
    for case in cases() {
        for dtype in DType::FLOATS {
            let mut some = |shape| rounded(dtype, &numbers.between(-1.0, 1.0, size(shape)));
            let (q, k, v) = (some(case.q_shape()), some(case.k_shape()), some(case.v_shape()));
            let dy = some(case.y_shape());
            let mask: Vec<f64> = match case.mask {
                MaskKind::None => vec![],
                MaskKind::Bool => numbers
                    .below(2, case.queries * case.keys)
                    .iter()
                    .map(|&attended| attended as f64)
                    .collect(),
                MaskKind::Additive => numbers
                    .between(-2.0, 2.0, case.queries * case.keys)
                    .iter()
                    .map(|&value| if value < -1.5 { f64::NEG_INFINITY } else { value })
                    .collect(),
            };
            let mask = rounded(dtype, &mask);
            let scale = 0.75;
            let [y, sums, dq, dk, dv] = reference(&case, scale, [&q, &k, &v, &dy, &mask]);
            let config = AttentionConfig {
                scale,
                causal: case.causal,
                window: case.window,
                mask: case.mask != MaskKind::None,
                ..AttentionConfig::PLAIN
            };
            let mask = match case.mask {
                MaskKind::None => None,
                MaskKind::Bool => Some(expanded(&case, DType::Bool, &mask, &device)),
                MaskKind::Additive => Some(expanded(&case, dtype, &mask, &device)),
            };
            let all = |values: &[f64], shape: [usize; 4]| layouts(dtype, values, &shape, &device);
            let (qs, ks, vs, dys) = (
                all(&q, case.q_shape()),
                all(&k, case.k_shape()),
                all(&v, case.v_shape()),
                all(&dy, case.y_shape()),
            );
            for (index, q) in qs.iter().enumerate() {
                let (k, v, dy) = (&ks[(index + 1) % 4], &vs[(index + 2) % 4], &dys[(index + 3) % 4]);
                let mut inputs = vec![q, k, v];
                inputs.extend(&mask);
                let outputs = apply(Attention { config }, &inputs).unwrap();
                assert_close(&format!("y of {case:?}"), &outputs[0], &y, 16.0);
                assert_close(&format!("log-sum-exp of {case:?}"), &outputs[1], &sums, 16.0);
                // The gradient gets its own inputs: a rounded y would mix its errors with those of
                // the forward pass.
                let saved = tensor(dtype, &y, &case.y_shape(), &device);
                let mut inputs = vec![q, k, v, &saved, &outputs[1], dy];
                inputs.extend(&mask);
                let gradients = apply(AttentionGrad { config }, &inputs).unwrap();
                for (what, got, want) in
                    [("dq", &gradients[0], &dq), ("dk", &gradients[1], &dk), ("dv", &gradients[2], &dv)]
                {
                    assert_close(&format!("{what} of {case:?}"), got, want, 32.0);
                }
            }
        }
    }
}

#[test]
fn invalid_lengths_are_rejected() {
    let device = crate::device();
    let config = AttentionConfig { varlen: true, ..AttentionConfig::PLAIN };
    let x = Tensor::zeros([1, 1, 4, 2], DType::F32, &device).unwrap();
    let rejected = |queries: [i32; 3], keys: [i32; 3]| {
        let [queries, keys] = [queries, keys].map(|ends| Tensor::from_slice(&ends, [3], &device).unwrap());
        apply(Attention { config }, &[&x, &x, &x, &queries, &keys]).err().map(|error| error.to_string())
    };
    let fine = [0, 2, 4];
    assert_eq!(rejected(fine, [0, 0, 3]), None);
    let cases = [
        ([1, 2, 4], fine, "attention: cu_seqlens_q: begins with 1, expected 0"),
        (fine, [0, 3, 2], "attention: cu_seqlens_k: 2 behind 3, expected ends that do not fall"),
        (fine, [0, -1, 4], "attention: cu_seqlens_k: -1 behind 0, expected ends that do not fall"),
        ([0, 2, 5], fine, "attention: cu_seqlens_q: ends at 5, expected at most 4 rows"),
    ];
    for (queries, keys, message) in cases {
        assert_eq!(rejected(queries, keys).as_deref(), Some(message));
    }
}
