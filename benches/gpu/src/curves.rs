//! Loss curves of a GPT that is trained in bf16: fused and unfused, op by op and recorded, on the
//! same batches.
//!
//! Training runs that differ only by rounding show the noise of the losses: a run in f32, and runs
//! in bf16 whose weights are rounded differently in each step, by dithering.
//!
//! Prints a line about the run, then one JSON object for each step:
//! `{"model", "seed", "way", "step", "loss"}`. A loss has all digits of its f32.

use crate::clock::print_lines;
use crate::train::{CHARACTERS, GPT2, Sizes, scoped};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::time::Instant;
use ternion::data::{ByteTokenizer, RandomWindows, TokenBatch, Tokenizer, Tokens, Windows};
use ternion::nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion::nn::{GPT, GPTConfig, Module};
use ternion::{DType, Device, Error, Precision, RecordedStep, Result, Tensor, no_grad, without_fusion};

/// The text: documents and source of this project. A longer text is memorized less.
const PARTS: &[&str] = &[
    include_str!("../../../README.md"),
    include_str!("../../../ARCHITECTURE.md"),
    include_str!("../../../CONTRIBUTING.md"),
    include_str!("../../../docs/gradients.md"),
    include_str!("../../../docs/adding-an-op.md"),
    include_str!("../../../docs/adding-a-backend.md"),
    include_str!("../../../docs/adding-a-kernel.md"),
    include_str!("../../../docs/python.md"),
    include_str!("../../../docs/watching.md"),
    include_str!("../../../docs/kernels/attention.md"),
    include_str!("../../../docs/kernels/matmul.md"),
    include_str!("../../../docs/kernels/memory-and-capture.md"),
    include_str!("../../../docs/kernels/rows.md"),
    include_str!("../../../docs/kernels/wgsl.md"),
    include_str!("../../../docs/kernels/wgsl-attention.md"),
    include_str!("../../../docs/tutorials/checkpoints.md"),
    include_str!("../../../docs/tutorials/gpt2.md"),
    include_str!("../../../docs/tutorials/housing.md"),
    include_str!("../../../docs/tutorials/tiny_gpt.md"),
    include_str!("../../../apps/src/cifar10/mod.rs"),
    include_str!("../../../apps/src/compare/mod.rs"),
    include_str!("../../../apps/src/gpt2/mod.rs"),
    include_str!("../../../apps/src/housing/mod.rs"),
    include_str!("../../../apps/src/image_encoder/mod.rs"),
    include_str!("../../../apps/src/mnist/mod.rs"),
    include_str!("../../../apps/src/softmax_regression.rs"),
    include_str!("../../../apps/src/tiny_gpt/mod.rs"),
];

/// Learning rate of AdamW, as in the training cases.
const RATE: f64 = 3e-4;

/// The parameters of the training runs.
#[derive(Args)]
pub struct Arguments {
    /// The model, with the sizes of the training case of that name; its tokens are bytes
    #[arg(long, value_enum, default_value_t = Model::CharGpt)]
    model: Model,
    /// Windows in a batch; by default as in the training case: 64 for char_gpt, 16 for gpt2_124m
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    batch: Option<u16>,
    /// Steps of each training run
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Each seed trains in every way, with its own initial weights and batches
    #[arg(long, num_args = 1.., default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Model {
    CharGpt,
    #[value(name = "gpt2_124m")]
    Gpt2,
}

impl Model {
    const fn name(self) -> &'static str {
        match self {
            Model::CharGpt => "char_gpt",
            Model::Gpt2 => "gpt2_124m",
        }
    }

    /// Returns the sizes, and the windows in a batch.
    const fn sizes(self) -> (Sizes, usize) {
        match self {
            Model::CharGpt => (CHARACTERS, 64),
            Model::Gpt2 => (GPT2, 16),
        }
    }
}

/// How a model is trained.
struct Way {
    name: &'static str,
    precision: Precision,
    is_fused: bool,
    is_recorded: bool,
    /// The stream of random numbers with which each step's weights are dithered.
    dither: Option<u64>,
}

const UNFUSED: Way = Way {
    name: "bf16/unfused",
    precision: Precision::Bf16,
    is_fused: false,
    is_recorded: false,
    dither: None,
};

const WAYS: [Way; 7] = [
    Way { name: "bf16/eager", is_fused: true, ..UNFUSED },
    Way { name: "bf16/recorded", is_fused: true, is_recorded: true, ..UNFUSED },
    UNFUSED,
    Way { name: "f32/unfused", precision: Precision::F32, ..UNFUSED },
    Way { name: "bf16/dithered_1", dither: Some(1), ..UNFUSED },
    Way { name: "bf16/dithered_2", dither: Some(2), ..UNFUSED },
    Way { name: "bf16/dithered_3", dither: Some(3), ..UNFUSED },
];

/// The maximum relative change by rounding to bf16: half a unit in the last of 8 bits.
const UNIT_ROUNDOFF: f64 = 1.0 / 512.0;

impl Way {
    /// Runs `f` fused or unfused.
    fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        if self.is_fused { f() } else { without_fusion(f) }
    }
}

/// What the training runs have in common.
struct Setup {
    config: GPTConfig,
    batch: usize,
    steps: usize,
    windows: Windows,
}

impl Setup {
    fn new(
        Sizes { vocabulary, context, layers, heads, width }: Sizes,
        batch: usize,
        steps: usize,
    ) -> Result<Setup> {
        let vocabulary = vocabulary.max(ByteTokenizer.vocabulary_size());
        let config = GPTConfig { vocabulary, context, layers, heads, width, ..Default::default() };
        let windows = Tokens::new(ByteTokenizer.encode(&text())?).windows(context)?;
        Ok(Setup { config, batch, steps, windows })
    }

    /// Trains a new model and returns its losses. Initial weights and batches depend only on the
    /// seed.
    fn curve(&self, way: &Way, seed: u64, device: &Device) -> Result<Vec<f32>> {
        device.seed(seed);
        let model = GPT::new(self.config, device)?;
        let dither = way.dither.map(|stream| Dither::new(&model, stream, device)).transpose()?;
        let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: RATE, ..Default::default() })?;
        let windows = self.windows.random(self.batch, seed, device)?;
        let shape = [self.batch, self.config.context];
        let zeros = || Tensor::zeros(shape, DType::I64, device);
        let batch = TokenBatch { inputs: zeros()?, targets: zeros()?, size: self.batch };
        let last = Tensor::zeros((), DType::F32, device)?;
        let step = || {
            dither.iter().try_for_each(Dither::begin)?;
            let loss = scoped(way.precision, || mean_loss(&model, &batch))?;
            no_grad(|| last.copy_(&loss.detach()))?;
            let gradients = loss.backward()?;
            dither.iter().try_for_each(Dither::end)?;
            adam.step(&gradients)
        };
        way.run(|| self.losses(way, step, windows, &batch, &last))
    }

    /// Runs the steps. Losses stay on the device until the end, so that no step waits for its loss.
    fn losses(
        &self,
        way: &Way,
        mut step: impl FnMut() -> Result<()>,
        mut windows: RandomWindows,
        batch: &TokenBatch,
        last: &Tensor,
    ) -> Result<Vec<f32>> {
        let device = last.device();
        let losses = Tensor::zeros([self.steps], DType::F32, device)?;
        let mut recorded: Option<RecordedStep<()>> = None;
        for at in 0..self.steps {
            let next = windows.batch()?;
            batch.inputs.copy_(&next.inputs)?;
            batch.targets.copy_(&next.targets)?;
            match &mut recorded {
                Some(recorded) => recorded.replay().map(drop)?,
                None if way.is_recorded => {
                    // Recording also runs the step: this is the first step.
                    let first = device.record(&mut step)?;
                    recorded = Some(first.ok_or_else(|| unrecorded(device))?);
                }
                None => step()?,
            }
            losses.select(0, at)?.copy_(last)?;
        }
        losses.to_vec()
    }
}

/// The weights of a model, which are perturbed while a step computes its gradients: in each step,
/// each element is multiplied by a new random factor of 1 - UNIT_ROUNDOFF to 1 + UNIT_ROUNDOFF. The
/// optimizer updates the exact weights. So the runs differ as if their weights were rounded to bf16
/// in different ways: by an error in each step that does not persist.
struct Dither {
    weights: Vec<Tensor>,
    exact: Vec<Tensor>,
}

impl Dither {
    fn new(model: &GPT, stream: u64, device: &Device) -> Result<Dither> {
        device.seed(stream);
        let weights: Vec<Tensor> = model.parameters().iter().map(|parameter| parameter.tensor()).collect();
        let exact = weights.iter().map(|weight| Tensor::zeros(weight.shape(), weight.dtype(), device));
        Ok(Dither { exact: exact.collect::<Result<_>>()?, weights })
    }

    /// Perturbs the weights, before the step's forward pass.
    fn begin(&self) -> Result<()> {
        no_grad(|| {
            for (weight, exact) in self.weights.iter().zip(&self.exact) {
                exact.copy_(&weight.detach())?;
                weight.copy_(&dithered(exact)?)?;
            }
            Ok(())
        })
    }

    /// Restores the weights, after the step's backward pass.
    fn end(&self) -> Result<()> {
        no_grad(|| self.weights.iter().zip(&self.exact).try_for_each(|(weight, exact)| weight.copy_(exact)))
    }
}

/// Returns each element multiplied by a random factor of 1 - UNIT_ROUNDOFF to 1 + UNIT_ROUNDOFF.
fn dithered(weights: &Tensor) -> Result<Tensor> {
    let uniform = Tensor::rand(weights.shape(), weights.dtype(), weights.device())?;
    weights.mul(&uniform.mul_scalar(2.0 * UNIT_ROUNDOFF)?.add_scalar(1.0 - UNIT_ROUNDOFF)?)
}

fn unrecorded(device: &Device) -> Error {
    Error::Device { device: device.name().to_string(), detail: "records no steps".into() }
}

/// Returns all parts, concatenated.
fn text() -> String {
    PARTS.join("\n")
}

fn mean_loss(model: &GPT, batch: &TokenBatch) -> Result<Tensor> {
    let count = batch.targets.elements();
    let logits = model.logits(&batch.inputs)?.reshape([count, model.config().vocabulary])?;
    logits.cross_entropy(&batch.targets.reshape([count])?)
}

/// Trains in every way and prints the losses.
pub fn run(arguments: &Arguments) -> std::result::Result<(), String> {
    let text = |error: Error| error.to_string();
    let device = ternion::device("cuda").map_err(text)?;
    let (sizes, batch) = arguments.model.sizes();
    let batch = arguments.batch.map_or(batch, usize::from);
    let setup = Setup::new(sizes, batch, arguments.steps as usize).map_err(text)?;
    print_lines(about(arguments.model, &setup, &device)?);
    for &seed in &arguments.seeds {
        for way in &WAYS {
            let start = Instant::now();
            let losses = setup.curve(way, seed, &device).map_err(text)?;
            print_lines(lines(arguments.model, seed, way, &losses).trim_end());
            check(way, &losses)?;
            eprintln!("seed {seed}, {}: {:.1} s", way.name, start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Returns the line about the run.
fn about(model: Model, setup: &Setup, device: &Device) -> std::result::Result<Value, String> {
    let mut run = crate::provenance::of(device)?;
    for (key, value) in [
        ("model", json!(model.name())),
        ("batch", json!(setup.batch)),
        ("context", json!(setup.config.context)),
        ("layers", json!(setup.config.layers)),
        ("width", json!(setup.config.width)),
        ("vocabulary", json!(setup.config.vocabulary)),
        ("lr", json!(RATE)),
        ("text_bytes", json!(text().len())),
    ] {
        run[key] = value;
    }
    Ok(json!({ "run": run }))
}

/// Returns a line for each step. A conversion from f32 to f64 is exact, and JSON has all digits of
/// the f64.
fn lines(model: Model, seed: u64, way: &Way, losses: &[f32]) -> String {
    let line = |(at, &loss): (usize, &f32)| {
        let step = json!({"model": model.name(), "seed": seed, "way": way.name, "step": at + 1, "loss": f64::from(loss)});
        format!("{step}\n")
    };
    losses.iter().enumerate().map(line).collect()
}

/// Checks that all losses are finite: a training run with other losses shows nothing.
fn check(way: &Way, losses: &[f32]) -> std::result::Result<(), String> {
    match losses.iter().position(|loss| !loss.is_finite()) {
        Some(at) => Err(format!("{}: the loss of step {} is {}", way.name, at + 1, losses[at])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion::decorators::NanCheck;

    const SMALL: Sizes = Sizes { vocabulary: 7, context: 8, layers: 2, heads: 2, width: 16 };

    fn losses(setup: &Setup, way: &Way, seed: u64) -> Vec<f32> {
        let device = ternion_cpu::device();
        setup.curve(way, seed, &device).unwrap_or_else(|error| panic!("{}: {error}", way.name))
    }

    #[test]
    fn all_ways_train_the_same_model_on_the_same_batches() {
        let setup = Setup::new(SMALL, 2, 3).expect("a text");
        assert_eq!(setup.config.vocabulary, 256);
        let curves: Vec<Vec<f32>> = WAYS.iter().map(|way| losses(&setup, way, 5)).collect();
        let [eager, recorded, unfused, exact, dithered @ ..] = &curves[..] else {
            panic!("{} ways", curves.len())
        };
        assert_eq!(eager.len(), 3);
        assert_eq!(eager, recorded);
        assert_ne!(eager, unfused, "what fusing leaves out is rounded");
        assert_ne!(unfused, exact);
        for (at, one) in dithered.iter().enumerate() {
            assert!(!curves[..4 + at].contains(one), "each is dithered by its own numbers");
        }
        for curve in &curves {
            for (one, other) in curve.iter().zip(exact) {
                assert!((one - other).abs() < 0.02, "{curves:?}");
            }
        }
        assert_eq!(losses(&setup, &WAYS[0], 5), *eager, "again");
        assert_ne!(losses(&setup, &WAYS[0], 6)[0], eager[0], "another seed");
    }

    #[test]
    fn weights_are_dithered_by_no_more_than_rounding_to_bf16() {
        let device = ternion_cpu::device();
        let weights = Tensor::randn([1000], DType::F32, &device).expect("on the CPU");
        let before = weights.to_vec::<f32>().expect("on the CPU");
        let after = dithered(&weights).and_then(|weights| weights.to_vec::<f32>()).expect("of f32");
        let moved: Vec<f64> =
            before.iter().zip(&after).map(|(&one, &other)| f64::from(other) / f64::from(one) - 1.0).collect();
        let most = moved.iter().fold(0.0f64, |most, by| most.max(by.abs()));
        // A product and a factor of f32 are rounded, too.
        assert!(most > 0.9 * UNIT_ROUNDOFF && most < UNIT_ROUNDOFF + 1e-6, "{most}");
        let mean = moved.iter().sum::<f64>() / moved.len() as f64;
        assert!(mean.abs() < 0.1 * UNIT_ROUNDOFF, "{mean}");
    }

    /// The weights keep no error of a step, and each step has different errors.
    #[test]
    fn dither_ends_with_the_step() {
        let device = ternion_cpu::device();
        let setup = Setup::new(SMALL, 2, 1).expect("a text");
        let model = GPT::new(setup.config, &device).expect("small");
        let values = || -> Vec<Vec<f32>> {
            let of = |weight: &Tensor| weight.to_vec().expect("on the CPU");
            model.parameters().iter().map(|parameter| of(&parameter.tensor())).collect()
        };
        let before = values();
        let dither = Dither::new(&model, 1, &device).expect("small");
        let mut steps = Vec::new();
        for _ in 0..2 {
            dither.begin().expect("of f32");
            steps.push(values());
            dither.end().expect("of f32");
            assert_eq!(values(), before);
        }
        assert!(steps[0] != before && steps[0] != steps[1]);
    }

    #[test]
    fn losses_fall() {
        let setup = Setup::new(SMALL, 4, 40).expect("a text");
        let losses = losses(&setup, &WAYS[2], 1);
        assert!(losses[39] < losses[0] - 0.1, "{losses:?}");
    }

    #[test]
    fn lines_have_every_digit() {
        let (way, losses) = (&WAYS[2], [1.0f32 / 3.0, 0.1]);
        let lines = lines(Model::Gpt2, 7, way, &losses);
        let read: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        for (at, loss) in losses.iter().enumerate() {
            assert_eq!(read[at]["loss"].as_f64().map(|loss| loss as f32), Some(*loss));
            assert_eq!(read[at]["step"], at + 1);
        }
        assert_eq!((&read[0]["model"], &read[0]["way"]), (&json!("gpt2_124m"), &json!("bf16/unfused")));
    }

    #[test]
    fn training_runs_that_show_nothing_are_errors() {
        assert_eq!(check(&WAYS[0], &[1.0, 2.0]), Ok(()));
        let message = check(&WAYS[0], &[1.0, f32::NAN]).expect_err("rejected");
        assert_eq!(message, "bf16/eager: the loss of step 2 is NaN");
        let setup = Setup::new(SMALL, 2, 3).expect("a text");
        let device = NanCheck::new(ternion_cpu::device());
        let message = setup.curve(&WAYS[1], 1, &device).expect_err("rejected").to_string();
        assert!(message.ends_with("records no steps"), "{message}");
    }
}
