//! The op table on a device that runs nothing, also where there is no adapter: naga accepts every shader, and each op launches so many as documented,
//! in f32: what is fused is no composition.

use crate::gpu::Gpu;
use crate::{Options, WgpuBackend};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use ternion_core::backend::{Backend, Meta, Plan, Unsupported, View};
use ternion_core::ops::index::ScatterMode;
use ternion_core::ops::step::AdamStep;
use ternion_core::{DType, Device, Op, Result, delegate_backend};
use ternion_testing::table::{OpCase, table};
use ternion_testing::{Target, suite};

/// Ops that must have shaders of their own.
const FUSED: [&str; 37] = [
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

/// Elements of a row, or products of a sum, from which on it may be cut into parts: two launches.
const LONG: usize = 128;

/// How many launches a call takes whose tensors all lie dense, as docs/kernels/wgsl.md says.
fn documented(op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> RangeInclusive<u64> {
    let exactly = |launches: u64| launches..=launches;
    let longest = inputs.iter().map(|view| view.layout.elements()).max().unwrap_or(0);
    let copied = u64::from(!inputs.first().is_some_and(|base| outputs[0].is(base)));
    let sorted = |places: usize| {
        let digits = u64::from(usize::BITS - places.leading_zeros()).div_ceil(4);
        exactly(copied + 2 + 3 * digits)
    };
    match op {
        Op::Iota(_) => exactly(0),
        Op::SgdStep(step) => exactly((inputs.len() / (3 + step.states())) as u64),
        Op::AdamStep(_) => exactly((inputs.len() / (3 + AdamStep::STATES)) as u64),
        Op::LayerNormGrad(_) | Op::RmsNormGrad(_) if outputs.len() > 1 => exactly(2),
        Op::BatchNormGrad(_) if outputs.len() > 1 => exactly(3),
        Op::Attention(_) if is_by_products(inputs) => 2..=3,
        Op::AttentionGrad(_) if is_by_products(inputs) => 6..=9,
        Op::AttentionGrad(_) => exactly(3),
        Op::MaxPool2dGrad(_) => exactly(3),
        Op::SliceAssign(_) => exactly(copied + 1),
        Op::IndexAdd(add) => sorted(outputs[0].layout.shape().dim(add.axis)),
        Op::Scatter(scatter) if scatter.mode == ScatterMode::Add => sorted(outputs[0].layout.elements()),
        Op::Scatter(_) => exactly(copied + 3),
        Op::Reduce(_) | Op::Variance(_) | Op::CumulativeSum(_) if longest >= LONG => 1..=2,
        Op::Softmax(_) | Op::SoftmaxGrad(_) | Op::LogSoftmax(_) | Op::LogSoftmaxGrad(_)
            if longest >= LONG =>
        {
            1..=2
        }
        Op::CrossEntropy(_) | Op::CrossEntropyGrad(_) if longest >= LONG => 1..=2,
        Op::LayerNorm(_) | Op::RmsNorm(_) | Op::BatchNorm(_) if longest >= LONG => 1..=2,
        Op::Matmul(_) | Op::Conv2d(_) | Op::Conv2dGradInput(_) | Op::Conv2dGradWeight(_)
            if longest >= LONG =>
        {
            1..=2
        }
        _ => exactly(1),
    }
}

/// Whether attention goes through whole products, of the heads of the table in one go: more queries and keys than a tile of the other shaders has, in fours.
fn is_by_products(inputs: &[View<'_>]) -> bool {
    let last = |input: usize, back: usize| {
        let shape = inputs[input].layout.shape();
        shape.dim(shape.rank() - back)
    };
    [0, 1].iter().all(|&input| last(input, 2) > 64) && [0, 1, 2].iter().all(|&input| last(input, 1) % 4 == 0)
}

/// What calls of f32 ops did.
#[derive(Debug, Default)]
struct Seen {
    /// How often each op ran.
    runs: BTreeMap<&'static str, usize>,
    /// Calls that took other numbers of launches than those documented.
    wrong: Vec<String>,
    /// Ops that were refused, and so composed.
    composed: Vec<&'static str>,
}

/// A device that computes nothing and looks at calls in f32.
#[derive(Debug)]
struct Observed {
    gpu: Arc<Gpu>,
    inner: Device,
    seen: Arc<Mutex<Seen>>,
}

impl Observed {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no panic while it was held")
    }
}

impl Backend for Observed {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory);

    fn name(&self) -> &str {
        "observed"
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        let planned = self.inner.backend().plan(op, inputs);
        if planned.is_err() && inputs.first().is_some_and(|meta| meta.dtype == DType::F32) {
            self.seen().composed.push(op.name());
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
            let expected = documented(op, inputs, outputs);
            let mut seen = self.seen();
            *seen.runs.entry(op.name()).or_default() += 1;
            if !expected.contains(&launches) {
                let shapes: Vec<_> = views().map(|view| *view.layout.shape()).collect();
                seen.wrong
                    .push(format!("{} of {shapes:?}: {launches} launches, not {expected:?}", op.name()));
            }
        }
        Ok(())
    }
}

/// What the rows of the op table did on their smallest shapes: those in f32 that have it, others in the first dtype that the device has. Results
/// mean nothing, since nothing is computed.
struct Reached {
    gpu: Arc<Gpu>,
    seen: Arc<Mutex<Seen>>,
}

/// Run once for all tests.
fn reached() -> &'static Reached {
    static REACHED: LazyLock<Reached> = LazyLock::new(|| {
        let gpu = Gpu::noop(Options::default());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let inner = Device::new(WgpuBackend { gpu: gpu.clone() });
        let observed = Observed { gpu: gpu.clone(), inner, seen: seen.clone() };
        let in_f32 = |row: OpCase| match row.dtypes.contains(&DType::F32) {
            true => OpCase { dtypes: vec![DType::F32], ..row },
            false => row,
        };
        let rows: Vec<OpCase> = table().into_iter().map(in_f32).collect();
        suite::reached(&rows, &Target::new(Device::new(observed)));
        Reached { gpu, seen }
    });
    &REACHED
}

#[test]
fn every_shader_is_valid() {
    let (compiled, refused) = reached().gpu.compiled();
    assert!(refused.is_empty(), "{} shaders were refused, the first: {}", refused.len(), refused[0]);
    assert!(compiled > 150, "only {compiled} shaders were asked for");
}

#[test]
fn fused_ops_of_every_f32_row_launch_what_is_documented() {
    let seen = reached().seen.lock().expect("no panic while it was held");
    assert!(seen.wrong.is_empty(), "{} calls, the first: {}", seen.wrong.len(), seen.wrong[0]);
    for op in FUSED {
        assert!(seen.runs.contains_key(op), "{op} never ran in f32");
        assert!(!seen.composed.contains(&op), "{op} was composed");
    }
}
