//! The steps of the programs `gpt2`, `tiny_gpt` and `cifar10`: recorded ones train bit-identically
//! to eager ones, also if steps run op by op between them.

#[path = "../../tests/support/cuda.rs"]
pub(crate) mod support;

use std::cell::RefCell;
use std::rc::Rc;
use ternion::data::{RandomWindows, SplitName, Tokens, synthetic_shapes};
use ternion::decorators::NanCheck;
use ternion::nn::optim::LossScaleConfig;
use ternion::nn::{StatsReport, trace};
use ternion::prelude::*;
use ternion::trace::{Span, SpanSink};
use ternion::{Backend, delegate_backend};
use ternion_apps::cifar10::step::{self, ImageStep};
use ternion_apps::support::gpt_step::GptStep;
use ternion_apps::support::learner::Learner;
use ternion_apps::support::nvtx::NvtxRanges;

/// The result of helpers that are shared with the programs.
type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PRECISIONS: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::F16];

/// The CPU, and the first CUDA device if there is one.
fn devices() -> Vec<Device> {
    [ternion_cpu::device()].into_iter().chain(support::cuda()).collect()
}

fn records(device: &Device) -> bool {
    device.backend().capture().is_some()
}

/// The results of a run: the loss of each step, the parameters and buffers of the model by key, and
/// the loss scale.
#[derive(Debug, PartialEq)]
struct Run {
    losses: Vec<f32>,
    state: Vec<(String, Vec<u8>)>,
    scale: Option<String>,
}

impl Run {
    fn of(losses: Vec<f32>, model: &(impl Module + ?Sized), learner: &Learner) -> Result<Run> {
        let state = model.state_dict()?.into_iter().map(|(key, tensor)| Ok((key, tensor.to_bytes()?)));
        let scale = learner.mixed_precision.borrow().report();
        Ok(Run { losses, state: state.collect::<Result<_>>()?, scale })
    }
}

fn learning_rate(step: usize) -> f64 {
    1e-2 / (1 + step) as f64
}

// ---- Transformers

const STEPS: usize = 7;

fn gpt(device: &Device) -> Result<GPT> {
    device.seed(4);
    let config = GPTConfig {
        vocabulary: 11,
        context: 8,
        layers: 2,
        heads: 2,
        width: 16,
        dropout: 0.2,
        ..Default::default()
    };
    GPT::new(config, device)
}

fn windows(device: &Device) -> Outcome<RandomWindows> {
    let tokens = Tokens::new((0..200).map(|at| at * at % 11).collect());
    Ok(tokens.windows(8)?.random(3, 9, device)?)
}

fn gpt_learner(model: &GPT, precision: Precision) -> Result<Learner> {
    let config = AdamWConfig { max_grad_norm: Some(0.5), ..Default::default() };
    Ok(Learner::new(AdamW::new(model.parameters(), config)?, precision))
}

/// Runs steps on `accumulate` batches each; `make` runs the step of the given index.
fn gpt_run(
    device: &Device,
    (accumulate, precision): (usize, Precision),
    capture: bool,
    make: impl Fn(usize, &mut GptStep<'_>, &mut RandomWindows) -> Result<()>,
) -> Outcome<Run> {
    let (model, mut windows) = (gpt(device)?, windows(device)?);
    let learner = gpt_learner(&model, precision)?;
    let sum = Tensor::zeros((), DType::F32, device)?;
    let step = GptStep::new(&model, &learner, [3, accumulate], &sum)?;
    let mut step = if capture { step.captured() } else { step };
    let mut losses = Vec::new();
    for number in 0..STEPS {
        model.train();
        learner.adam.borrow_mut().set_lr(learning_rate(number))?;
        make(number, &mut step, &mut windows)?;
        losses.push(sum.item::<f32>()?);
        sum.fill_(0.0)?;
        // A test between two steps does not influence them.
        model.eval();
        no_grad(|| model.forward(&windows.clone().batch()?.inputs))?;
    }
    assert_eq!(step.is_recorded(), capture && records(device));
    Run::of(losses, &model, &learner).map_err(Into::into)
}

#[test]
fn transformers_learn_the_same_by_recorded_steps() -> Outcome<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        for setting in PRECISIONS.map(|precision| [(1, precision), (3, precision)]).concat() {
            let eager = gpt_run(&device, setting, false, |_, step, windows| step.run(windows))?;
            let captured = gpt_run(&device, setting, true, |_, step, windows| step.run(windows))?;
            assert_eq!(captured, eager, "{device}: {setting:?}");
            let learner = gpt_learner(&gpt(&device)?, setting.1)?;
            let untrained = Run::of(Vec::new(), &gpt(&device)?, &learner)?;
            assert_ne!(untrained.state, eager.state, "{device}: {setting:?}: nothing was trained");
            assert_eq!(eager.scale.is_some(), setting.1 == Precision::F16);
        }
    }
    Ok(())
}

/// As for the step that `tiny_gpt --trace` traces.
#[test]
fn a_step_may_run_op_by_op_between_recorded_ones() -> Outcome<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        for setting in PRECISIONS.map(|precision| (2, precision)) {
            let eager = gpt_run(&device, setting, false, |_, step, windows| step.run(windows))?;
            for apart in [0, 1, 4] {
                let mixed = gpt_run(&device, setting, true, |number, step, windows| match number == apart {
                    true => step.run_op_by_op(windows),
                    false => step.run(windows),
                })?;
                assert_eq!(mixed, eager, "{device}: {setting:?}, step {apart}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_device_that_records_nothing_runs_captured_steps_op_by_op() -> Outcome<()> {
    let device = NanCheck::new(ternion_cpu::device());
    assert!(!records(&device));
    for setting in [(2, Precision::F32), (1, Precision::F16)] {
        let run = |capture| gpt_run(&device, setting, capture, |_, step, windows| step.run(windows));
        assert_eq!(run(true)?, run(false)?, "{setting:?}");
    }
    Ok(())
}

/// With a loss scale that is too large for f16, the first steps are skipped.
#[test]
fn steps_that_a_loss_scale_leaves_out_are_left_out_of_recorded_ones() -> Outcome<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let run = |capture| -> Outcome<Run> {
            let (model, mut windows) = (gpt(&device)?, windows(&device)?);
            let learner = gpt_learner(&model, Precision::F16)?;
            let large = LossScaleConfig { init_scale: 2f64.powi(40), ..Default::default() };
            *learner.mixed_precision.borrow_mut().scale_mut() = LossScale::new(large)?;
            let sum = Tensor::zeros((), DType::F32, &device)?;
            let step = GptStep::new(&model, &learner, [3, 1], &sum)?;
            let mut step = if capture { step.captured() } else { step };
            let (mut losses, before) = (Vec::new(), model.state_dict()?);
            let before: Vec<Vec<u8>> = before.values().map(Tensor::to_bytes).collect::<Result<_>>()?;
            for number in 0..30 {
                step.run(&mut windows)?;
                losses.push(sum.item::<f32>()?);
                let now = model.state_dict()?;
                let now: Vec<Vec<u8>> = now.values().map(Tensor::to_bytes).collect::<Result<_>>()?;
                let skipped = learner.mixed_precision.borrow_mut().scale_mut().skipped();
                assert_eq!(now == before, skipped == number + 1, "{device}, step {number}");
            }
            let skipped = learner.mixed_precision.borrow_mut().scale_mut().skipped();
            assert!((5..25).contains(&skipped), "{device}: {skipped} steps were left out");
            Ok(Run::of(losses, &model, &learner)?)
        };
        assert_eq!(run(true)?, run(false)?, "{device}");
    }
    Ok(())
}

// ---- Images

/// Everything that a classifier of `cifar10` has: normalization with running statistics, and
/// dropout.
fn classifier(device: &Device) -> Result<Sequential> {
    device.seed(6);
    Ok(Sequential::new()
        .with(Conv2d::new(3, 4, [3, 3], device)?)
        .with(BatchNorm2d::new(4, device)?)
        .with(ReLU)
        .with(MaxPool2d::new(5)) // [4, 6, 6]
        .with(Flatten::default())
        .with(Dropout::new(0.3)?)
        .with(Linear::new(4 * 6 * 6, 10, device)?))
}

/// Runs three epochs of three batches, inspected each `every` steps; also returns the reports.
fn image_run(
    device: &Device,
    precision: Precision,
    capture: bool,
    every: Option<u64>,
) -> Outcome<(Run, Vec<StatsReport>)> {
    let batches = synthetic_shapes(24, 1, SplitName::Train)?.shuffled(3).batches(8, device).prefetch(4);
    let model = classifier(device)?;
    let learner = step::learner(&model, 1e-2, 0.05, precision)?;
    let step = ImageStep::new(&model, &learner, [8, 3, 32, 32], 0.1, device)?;
    let step = if capture { step.captured() } else { step };
    let mut step = step.monitored(every)?;
    let (mut losses, mut reports) = (Vec::new(), Vec::new());
    for epoch in 0..3 {
        for batch in batches.epoch(epoch) {
            let number = losses.len();
            learner.adam.borrow_mut().set_lr(learning_rate(number))?;
            let (loss, report) = step.run(&batch?, number as u64)?;
            losses.push(loss.item::<f32>()?);
            reports.extend(report);
        }
    }
    assert_eq!(step.is_recorded(), capture && records(device) && every != Some(1));
    Ok((Run::of(losses, &model, &learner)?, reports))
}

#[test]
fn classifiers_learn_the_same_by_recorded_steps() -> Outcome<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        for precision in PRECISIONS {
            let (eager, _) = image_run(&device, precision, false, None)?;
            let (captured, _) = image_run(&device, precision, true, None)?;
            assert_eq!(captured, eager, "{device}: {precision}");
            assert_eq!(eager.losses.len(), 9);
            let tracked = ("1.num_batches_tracked".to_owned(), 9_i64.to_ne_bytes().to_vec());
            assert!(eager.state.contains(&tracked), "{device}: {:?}", eager.state);
        }
    }
    Ok(())
}

#[test]
fn steps_that_a_monitor_looks_at_run_op_by_op_between_recorded_ones() -> Outcome<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        for precision in PRECISIONS {
            let (plain, _) = image_run(&device, precision, false, None)?;
            for every in [1, 4] {
                let (eager, seen) = image_run(&device, precision, false, Some(every))?;
                assert_eq!(eager, plain, "{device}: {precision}: what is looked at learns something else");
                let captured = image_run(&device, precision, true, Some(every))?;
                assert_eq!(captured, (eager, seen.clone()), "{device}: {precision}, every {every}");
                let steps: Vec<u64> = seen.iter().map(|report| report.step).collect();
                assert_eq!(steps, (0..9).step_by(every as usize).collect::<Vec<_>>());
            }
        }
    }
    Ok(())
}

// ---- Ranges

/// What a profiler receives: each span with its depth.
#[derive(Default)]
struct SpanLog(RefCell<(usize, Vec<(usize, String)>)>);

impl SpanSink for SpanLog {
    fn begin(&self, span: &Span<'_>) {
        let (depth, spans) = &mut *self.0.borrow_mut();
        spans.push((*depth, span.to_string()));
        *depth += 1;
    }

    fn end(&self) {
        self.0.borrow_mut().0 -= 1;
    }
}

#[test]
fn profilers_receive_the_parts_of_a_step() -> Outcome<()> {
    let device = ternion_cpu::device();
    let (model, mut windows) = (gpt(&device)?, windows(&device)?);
    let learner = gpt_learner(&model, Precision::F32)?;
    let sum = Tensor::zeros((), DType::F32, &device)?;
    let mut step = GptStep::new(&model, &learner, [3, 1], &sum)?.captured();
    let mut spans_of_run = || -> Result<Vec<(usize, String)>> {
        let log = Rc::new(SpanLog::default());
        trace(&model, log.clone(), || step.run(&mut windows))?;
        assert_eq!(log.0.borrow().0, 0, "a range was left open");
        Ok(log.0.take().1)
    };
    let (first, replayed) = (spans_of_run()?, spans_of_run()?);
    // The step runs once, while it is recorded.
    assert_eq!(first[0], (0, "step".into()));
    for (depth, name) in
        [(1, "forward"), (2, "GPT"), (3, "h.0 (TransformerBlock)"), (1, "backward"), (1, "adamw")]
    {
        let count = first.iter().filter(|span| **span == (depth, name.to_owned())).count();
        assert_eq!(count, 2, "{name} at depth {depth}: {first:?}");
    }
    // Later steps are replayed as one.
    assert!(
        replayed.iter().all(|(depth, name)| *depth == 0 && name == "step" || *depth == 1),
        "{replayed:?}"
    );
    assert!(!replayed.iter().any(|(_, name)| name == "forward"), "{replayed:?}");
    Ok(())
}

#[test]
fn ranges_are_rejected_on_devices_of_others_and_otherwise_leave_all_as_it_is() -> Outcome<()> {
    let device = ternion_cpu::device();
    let model = gpt(&device)?;
    let rejection = NvtxRanges::new(true, &device).err().expect("there is no profiler of it").to_string();
    assert_eq!(
        rejection,
        format!("--nvtx requires a CUDA device (--features cuda, --device cuda), got {device}")
    );
    assert_eq!(NvtxRanges::new(false, &device)?.trace(&model, || 7), 7);
    Ok(())
}

/// The CPU under the name of a CUDA device.
#[derive(Debug)]
struct Renamed {
    inner: Device,
}

impl Backend for Renamed {
    delegate_backend!(inner: alloc, upload, download, plan, run, synchronize, memory);

    fn name(&self) -> &str {
        "cuda:0"
    }
}

#[cfg(feature = "cuda")]
fn is_there_nvtx() -> bool {
    ternion::Nvtx::open().is_available()
}

#[cfg(not(feature = "cuda"))]
fn is_there_nvtx() -> bool {
    false
}

#[test]
fn ranges_that_no_library_passes_on_are_rejected() -> Outcome<()> {
    let device = Device::new(Renamed { inner: ternion_cpu::device() });
    let rejection = NvtxRanges::new(true, &device).err().map(|error| error.to_string());
    assert_eq!(rejection.is_none(), is_there_nvtx(), "{rejection:?}");
    if let Some(rejection) = rejection {
        let why = match cfg!(feature = "cuda") {
            true => "--nvtx: NVTX not found: expected libnvToolsExt.so.1 ",
            false => "--nvtx: this program was built without the `cuda` feature",
        };
        assert!(rejection.starts_with(why), "{rejection}");
    }
    Ok(())
}
