//! Runs the op table on a device that runs nothing, so no adapter is needed. naga must accept every
//! shader. In f32, each op must queue the documented number of launches, which shows that fused ops
//! are not composed.

use crate::WgpuBackend;
use crate::gpu::Gpu;
use crate::options::Options;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use ternion_core::backend::{Backend, Meta, Plan, Unsupported, View};
use ternion_core::ops::attention::{Attention, AttentionGrad};
use ternion_core::ops::index::ScatterMode;
use ternion_core::{DType, Device, Op, Result, delegate_backend};
use ternion_testing::table::{OpCase, table};
use ternion_testing::{Target, suite};

/// Ops that must have dedicated shaders.
const FUSED: [&str; 38] = [
    "adam_step",
    "attention",
    "attention_grad",
    "avg_pool2d",
    "avg_pool2d_grad",
    "batch_norm",
    "batch_norm_grad",
    "col2im",
    "conv2d",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "cross_entropy",
    "cross_entropy_grad",
    "cross_entropy_grad_update",
    "cross_entropy_with_grad",
    "dropout",
    "gather",
    "im2col",
    "index_add",
    "index_select",
    "layer_norm",
    "layer_norm_grad",
    "log_softmax",
    "log_softmax_grad",
    "logsumexp",
    "max_pool2d",
    "max_pool2d_grad",
    "multi_tensor_norm",
    "normal",
    "rms_norm",
    "rms_norm_grad",
    "scatter_add",
    "scatter_set",
    "sgd_step",
    "softmax",
    "softmax_grad",
    "uniform",
    "var",
];

/// Minimum number of elements of a row, or of terms of a sum, that may be split into parts. A call
/// then makes two launches.
const LONG: usize = 128;

/// Returns the number of elements that are reduced to one or that share a sum, or of products that
/// are added to an element.
fn length(op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> usize {
    let elements = |view: &View<'_>| view.layout.elements();
    let last = |view: &View<'_>| view.layout.shape().dim(view.layout.shape().rank() - 1);
    match op {
        Op::Reduce(_) | Op::Variance(_) => elements(&inputs[0]) / elements(&outputs[0]),
        Op::CumulativeSum(sum) => outputs[0].layout.shape().dim(sum.axis),
        Op::Softmax(softmax) => outputs[0].layout.shape().dim(softmax.axis),
        Op::SoftmaxGrad(softmax) => outputs[0].layout.shape().dim(softmax.axis),
        Op::LogSoftmax(softmax) => outputs[0].layout.shape().dim(softmax.axis),
        Op::LogSoftmaxGrad(softmax) => outputs[0].layout.shape().dim(softmax.axis),
        Op::CrossEntropy(_) | Op::LayerNorm(_) | Op::RmsNorm(_) | Op::Matmul(_) => last(&inputs[0]),
        Op::CrossEntropyGrad(_) => last(&outputs[0]),
        Op::BatchNorm(_) => elements(&inputs[0]) / inputs[0].layout.shape().dim(1),
        // Channels of a group times indices of the window, or images times pixels of the output:
        // fewer than the elements of the larger operand.
        Op::Conv2d(_) | Op::Conv2dGradInput(_) | Op::Conv2dGradWeight(_) => {
            elements(&inputs[0]).max(elements(&inputs[1]))
        }
        _ => 0,
    }
}

/// Returns the number of launches of a call with contiguous tensors, as documented in
/// docs/kernels/wgsl.md.
fn documented(op: &Op, inputs: &[View<'_>], outputs: &[View<'_>], small: bool) -> RangeInclusive<u64> {
    let exactly = |launches: u64| launches..=launches;
    let copied = u64::from(!inputs.first().is_some_and(|base| outputs[0].is(base)));
    let sorted = |keys: usize| {
        let digits = u64::from(usize::BITS - keys.leading_zeros()).div_ceil(4);
        exactly(copied + 2 + 3 * digits)
    };
    match op {
        Op::Iota(_) => exactly(0),
        Op::SgdStep(step) => exactly((inputs.len() / step.width()) as u64 * (1 + u64::from(step.half_copy))),
        // Half-precision copies are separate casts.
        Op::AdamStep(step) => exactly((inputs.len() / step.width()) as u64 * (1 + u64::from(step.half_copy))),
        Op::MultiTensorNorm(_) => exactly(inputs.len().div_ceil(7) as u64 + 1),
        Op::LayerNormGrad(_) | Op::RmsNormGrad(_) if outputs.len() > 1 => exactly(2),
        Op::BatchNormGrad(_) if outputs.len() > 1 => exactly(3),
        Op::Attention(_) if small && is_by_products(inputs) => 2..=3,
        Op::AttentionGrad(_) if small && is_by_products(inputs) => 6..=9,
        Op::AttentionGrad(_) => exactly(3),
        Op::MaxPool2dGrad(_) => exactly(3),
        Op::SliceAssign(_) => exactly(copied + 1),
        Op::IndexAdd(add) => sorted(outputs[0].layout.shape().dim(add.axis)),
        Op::Scatter(scatter) if scatter.mode == ScatterMode::Add => sorted(outputs[0].layout.elements()),
        Op::Scatter(_) => exactly(copied + 3),
        _ if length(op, inputs, outputs) >= LONG => 1..=2,
        _ => exactly(1),
    }
}

/// Returns whether attention is unfused, that is, separate matrix products, for all heads of the
/// table's rows at once. This is so if there are more queries and keys than a tile of the fused
/// shaders has, and rows can be read as vec4.
fn is_by_products(inputs: &[View<'_>]) -> bool {
    let last = |input: usize, back: usize| {
        let shape = inputs[input].layout.shape();
        shape.dim(shape.rank() - back)
    };
    [0, 1].iter().all(|&input| last(input, 2) > 64) && [0, 1, 2].iter().all(|&input| last(input, 1) % 4 == 0)
}

/// Statistics of calls of f32 ops.
#[derive(Debug, Default)]
struct CallStats {
    /// How often each op ran.
    runs: BTreeMap<&'static str, usize>,
    /// Calls whose number of launches differs from the documentation.
    wrong: Vec<String>,
    /// Ops that were unsupported, and therefore composed.
    composed: Vec<&'static str>,
}

/// A device that computes nothing and observes calls in f32.
#[derive(Debug)]
struct Observed {
    gpu: Arc<Gpu>,
    inner: Device,
    stats: Arc<Mutex<CallStats>>,
}

impl Observed {
    fn stats(&self) -> MutexGuard<'_, CallStats> {
        self.stats.lock().expect("no panic while it was held")
    }
}

/// Returns whether there is no shader for this variant: attention with dropout, with sequences of
/// different lengths, or with wide heads in small sizes, norms whose rows are rounded or whose
/// gradients are added to others, losses whose gradients are written over the logits.
fn is_composed(op: &Op, inputs: &[Meta<'_>]) -> bool {
    match op {
        Op::Attention(Attention { config }) | Op::AttentionGrad(AttentionGrad { config }) => {
            config.dropout.is_some() || config.varlen || has_small_wide_heads(inputs)
        }
        Op::CrossEntropyWithGrad(both) => both.in_place,
        Op::LayerNorm(norm) => norm.out_dtype.is_some(),
        Op::RmsNorm(norm) => norm.out_dtype.is_some(),
        Op::LayerNormGrad(gradient) => gradient.residual || gradient.rounds,
        Op::RmsNormGrad(gradient) => gradient.residual || gradient.rounds,
        _ => false,
    }
}

/// Returns whether heads of attention have more than 128 columns, and either at most 64 queries and
/// keys or rows that are not whole vec4.
fn has_small_wide_heads(inputs: &[Meta<'_>]) -> bool {
    let [q, k, v] = [0, 1, 2].map(|input| inputs[input].shape().dims());
    let is_whole = |dims: &[usize]| dims[3].is_multiple_of(4);
    let is_small = q[2] <= 64 && k[2] <= 64;
    q[3].max(v[3]) > 128 && (is_small || !is_whole(q) || !is_whole(v))
}

impl Backend for Observed {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory);

    fn name(&self) -> &str {
        "observed"
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        let planned = self.inner.backend().plan(op, inputs);
        let is_f32 = inputs.first().is_some_and(|meta| meta.dtype == DType::F32);
        if planned.is_err() && is_f32 && !is_composed(op, inputs) {
            self.stats().composed.push(op.name());
        }
        planned
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let before = self.gpu.launches();
        self.inner.backend().run(op, inputs, outputs)?;
        let launches = self.gpu.launches() - before;
        let views = || inputs.iter().chain(outputs);
        let dense = views().all(|view| view.layout.is_contiguous() && view.layout.elements() > 0);
        if dense && outputs[0].dtype == DType::F32 {
            let expected = documented(op, inputs, outputs, self.gpu.small_products);
            let mut stats = self.stats();
            *stats.runs.entry(op.name()).or_default() += 1;
            if !expected.contains(&launches) {
                let shapes: Vec<_> = views().map(|view| *view.layout.shape()).collect();
                stats
                    .wrong
                    .push(format!("{} of {shapes:?}: {launches} launches, not {expected:?}", op.name()));
            }
        }
        Ok(())
    }
}

/// A run of the op table's rows on their smallest shapes: in f32 if a row has it, otherwise in the
/// first dtype that the device supports. Nothing is computed, so results are meaningless.
struct TableRun {
    gpu: Arc<Gpu>,
    stats: Arc<Mutex<CallStats>>,
}

impl TableRun {
    /// Runs these rows. With `small_products`, attention of few tiles is unfused, as on software
    /// adapters.
    fn by(rows: impl Iterator<Item = OpCase>, small_products: bool) -> TableRun {
        let gpu = Gpu::noop(Options { small_products, ..Options::default() });
        let stats = Arc::new(Mutex::new(CallStats::default()));
        let inner = Device::new(WgpuBackend { gpu: gpu.clone() });
        let observed = Observed { gpu: gpu.clone(), inner, stats: stats.clone() };
        // Every dtype, if the requested shaders are recorded.
        let dtypes_of = |row: &OpCase| match row.dtypes.contains(&DType::F32) {
            _ if crate::record::folder().is_some() => row.dtypes.iter().map(|&dtype| vec![dtype]).collect(),
            true => vec![vec![DType::F32]],
            false => vec![row.dtypes.clone()],
        };
        let in_dtypes =
            |row: OpCase| dtypes_of(&row).into_iter().map(move |dtypes| OpCase { dtypes, ..row.clone() });
        let rows: Vec<OpCase> = rows.flat_map(in_dtypes).collect();
        suite::reached(&rows, &Target::new(Device::new(observed)));
        TableRun { gpu, stats }
    }

    fn check(&self, ops: &[&str], least_shaders: usize) {
        let (compiled, rejected) = self.gpu.compiled();
        assert!(rejected.is_empty(), "{} shaders were rejected, the first: {}", rejected.len(), rejected[0]);
        assert!(compiled > least_shaders, "only {compiled} shaders were requested");
        let stats = self.stats.lock().expect("no panic while it was held");
        assert!(stats.wrong.is_empty(), "{} calls, the first: {}", stats.wrong.len(), stats.wrong[0]);
        for op in ops {
            assert!(stats.runs.contains_key(op), "{op} never ran in f32");
            assert!(!stats.composed.contains(op), "{op} was composed");
        }
    }
}

#[test]
fn shaders_are_valid_and_fused_ops_of_every_f32_row_launch_what_is_documented() {
    TableRun::by(table().into_iter(), false).check(&FUSED, 150);
}

/// The rows of attention, unfused for few tiles.
#[test]
fn attention_of_few_tiles_launches_what_is_documented() {
    let rows = table().into_iter().filter(|row| row.op == "attention");
    TableRun::by(rows, true).check(&["attention", "attention_grad"], 8);
}
