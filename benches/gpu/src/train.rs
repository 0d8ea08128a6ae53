//! Complete training steps.

use crate::Case;
use crate::clock::{Clock, emit, emit_with};
use crate::device::Kind;
use serde_json::json;
use ternion::nn::optim::{Adam, AdamConfig, AdamW, AdamWConfig, Optimizer};
use ternion::nn::{
    Conv2d, Conv2dConfig, Flatten, Forward, GPT, GPTConfig, Linear, MaxPool2d, Mlp, Module, ReLU, Sequential,
};
use ternion::{DType, Device, LinearCrossEntropyOptions, Precision, Result, Tensor, with_precision};

/// One optimizer step on inputs whose memory does not change.
pub type Step = Box<dyn FnMut() -> Result<()>>;

/// A model that is trained, and the amount that a step processes.
pub struct TrainingCase {
    pub name: String,
    amount: usize,
    unit: &'static str,
    make: Box<dyn Fn(&Device) -> Result<Step>>,
}

impl TrainingCase {
    /// Returns the step of a new model.
    pub fn step(&self, device: &Device) -> Result<Step> {
        (self.make)(device)
    }
}

/// Returns the models of the PyTorch script in `benches/peers`.
pub fn training_cases() -> Vec<TrainingCase> {
    let digits = [1, 28, 28];
    vec![
        images("mnist_mlp", digits, 64, Precision::F32, mlp),
        images("mnist_mlp", digits, 512, Precision::F32, mlp),
        images("mnist_cnn", digits, 128, Precision::F32, cnn),
        gpt("tiny_gpt", TINY, 64, Precision::F32, Loss::OfLogits),
        gpt("tiny_gpt", TINY, 64, Precision::Bf16, Loss::OfLogits),
        gpt("char_gpt", CHARACTERS, 64, Precision::Bf16, Loss::OfLogits),
        gpt("gpt2_124m", GPT2, 16, Precision::Bf16, Loss::Chunked { chunks: 1 }),
        gpt("gpt2_124m_logits", GPT2, 16, Precision::Bf16, Loss::OfLogits),
        gpt("gpt2_124m_chunked", GPT2, 16, Precision::Bf16, Loss::Chunked { chunks: 2 }),
        gpt("gpt2_50257", GPT2_TOKENS, 16, Precision::Bf16, Loss::Chunked { chunks: 1 }),
        images("cifar_alexnet", [3, 32, 32], 256, Precision::F32, alexnet),
        images("cifar_alexnet", [3, 32, 32], 256, Precision::Bf16, alexnet),
    ]
}

/// Returns cases for the steps of the models: op by op and recorded.
pub fn cases() -> Vec<Case> {
    let to_case = |case: TrainingCase| {
        Case::new(case.name.clone(), move |clock, name| {
            eager(clock, name, &case)?;
            // wgpu does not record steps.
            if clock.kind == Kind::Wgpu { Ok(()) } else { recorded(clock, name, &case) }
        })
    };
    training_cases().into_iter().map(to_case).collect()
}

fn eager(clock: &Clock, name: &str, case: &TrainingCase) -> Result<()> {
    let kind = format!("{}/eager", clock.implementation());
    let before = begin_memory(clock)?;
    let mut step = case.step(&clock.device)?;
    step()?;
    let launched = clock.timed.launches()?;
    step()?;
    let launches = clock.timed.launches()? - launched;
    report(clock, name, &kind, case, before, step)?;
    emit(&format!("launches/{name}"), &kind, 0.0, launches as f64, "launches");
    Ok(())
}

fn recorded(clock: &Clock, name: &str, case: &TrainingCase) -> Result<()> {
    let before = begin_memory(clock)?;
    let mut recorded = clock.device.capture(case.step(&clock.device)?)?;
    report(clock, name, "ternion/graph", case, before, || recorded.replay().map(drop))
}

/// Resets the peak memory. Returns the memory in use now, which does not belong to the case.
fn begin_memory(clock: &Clock) -> Result<usize> {
    clock.device.synchronize()?;
    clock.device.reset_peak_memory();
    Ok(clock.device.memory().in_use)
}

/// Measures a step. The peak memory is reported relative to the memory in use `before`.
fn report(
    clock: &Clock,
    name: &str,
    kind: &str,
    case: &TrainingCase,
    before: usize,
    step: impl FnMut() -> Result<()>,
) -> Result<()> {
    let seconds = clock.seconds_of_step(step)?;
    let peak = clock.device.memory().peak.saturating_sub(before) >> 20;
    let rate = case.amount as f64 / seconds;
    emit_with(name, kind, seconds * 1e3, rate, case.unit, &[("peak_mib", json!(peak))]);
    Ok(())
}

/// Runs a forward pass in a precision; f32 needs no scope.
pub fn scoped<T>(precision: Precision, f: impl FnOnce() -> T) -> T {
    match precision {
        Precision::F32 => f(),
        precision => with_precision(precision, f),
    }
}

/// Returns a classifier of images of ten classes, trained by Adam.
fn images(
    model: &str,
    image: [usize; 3],
    batch: usize,
    precision: Precision,
    network: fn(&Device) -> Result<Box<dyn Forward>>,
) -> TrainingCase {
    let make = move |device: &Device| -> Result<Step> {
        let model = network(device)?;
        let mut adam = Adam::new(model.parameters(), AdamConfig { lr: 1e-3, ..Default::default() })?;
        let [channels, height, width] = image;
        let images = Tensor::randn([batch, channels, height, width], DType::F32, device)?;
        let labels = Tensor::randint(0, 10, [batch], DType::I64, device)?;
        Ok(Box::new(move || {
            let loss = scoped(precision, || model.forward(&images)?.cross_entropy(&labels))?;
            adam.step(&loss.backward()?)
        }))
    };
    let name = format!("train/{model}/{}/b{batch}", precision.name());
    TrainingCase { name, amount: batch, unit: "images/s", make: Box::new(make) }
}

/// The sizes of a GPT.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub vocabulary: usize,
    pub context: usize,
    pub layers: usize,
    pub heads: usize,
    pub width: usize,
}

const TINY: Sizes = Sizes { vocabulary: 65, context: 256, layers: 4, heads: 4, width: 128 };
pub const CHARACTERS: Sizes = Sizes { vocabulary: 65, context: 256, layers: 6, heads: 6, width: 384 };
/// Padded as in PyTorch programs: rows of logits begin at multiples of 128 bytes.
pub const GPT2: Sizes = Sizes { vocabulary: 50_304, context: 1024, layers: 12, heads: 12, width: 768 };
/// GPT-2's own vocabulary, with which half-precision rows are aligned to only 2 bytes.
const GPT2_TOKENS: Sizes = Sizes { vocabulary: 50_257, ..GPT2 };

/// How the loss of a GPT is computed.
#[derive(Clone, Copy)]
enum Loss {
    /// Cross-entropy of the logits of all tokens.
    OfLogits,
    /// [`GPT::loss`], with the logits of one chunk of tokens at a time. The gradient of the logits
    /// is computed in their memory.
    Chunked { chunks: usize },
}

impl Loss {
    /// Returns the mean loss of `model`; targets `[batch, context]`.
    fn of(self, model: &GPT, inputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let tokens = targets.elements();
        match self {
            Loss::OfLogits => {
                let vocabulary = model.config().vocabulary;
                let logits = model.logits(inputs)?.reshape([tokens, vocabulary])?;
                logits.cross_entropy(&targets.reshape([tokens])?)
            }
            Loss::Chunked { chunks } => {
                let chunk_rows = Some(tokens.div_ceil(chunks));
                model.loss(inputs, targets, LinearCrossEntropyOptions { chunk_rows, ..Default::default() })
            }
        }
    }
}

/// Returns a GPT with a tied head, trained by AdamW on `batch` full contexts.
fn gpt(model: &str, sizes: Sizes, batch: usize, precision: Precision, loss_kind: Loss) -> TrainingCase {
    let Sizes { vocabulary, context, layers, heads, width } = sizes;
    let make = move |device: &Device| -> Result<Step> {
        let config = GPTConfig { vocabulary, context, layers, heads, width, ..Default::default() };
        let model = GPT::new(config, device)?;
        let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 3e-4, ..Default::default() })?;
        let tokens = |shape: &[usize]| Tensor::randint(0, vocabulary as i64, shape, DType::I64, device);
        let (inputs, targets) = (tokens(&[batch, context])?, tokens(&[batch, context])?);
        Ok(Box::new(move || {
            let loss = scoped(precision, || loss_kind.of(&model, &inputs, &targets))?;
            adam.step(&loss.backward()?)
        }))
    };
    let name = format!("train/{model}/{}", precision.name());
    TrainingCase { name, amount: batch * context, unit: "tokens/s", make: Box::new(make) }
}

fn mlp(device: &Device) -> Result<Box<dyn Forward>> {
    Ok(Box::new(Mlp::new([784, 128, 10], device)?))
}

/// Returns a convolution that keeps the size of its images.
fn same(channels: [usize; 2], window: usize, device: &Device) -> Result<Conv2d> {
    Conv2d::with_config(channels, [window; 2], Conv2dConfig::padded(window / 2), device)
}

fn cnn(device: &Device) -> Result<Box<dyn Forward>> {
    Ok(Box::new(
        Sequential::new()
            .with(same([1, 32], 3, device)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [32, 14, 14]
            .with(same([32, 64], 3, device)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [64, 7, 7]
            .with(Flatten::default())
            .with(Linear::new(64 * 7 * 7, 128, device)?)
            .with(ReLU)
            .with(Linear::new(128, 10, device)?),
    ))
}

fn alexnet(device: &Device) -> Result<Box<dyn Forward>> {
    Ok(Box::new(
        Sequential::new()
            .with(same([3, 64], 5, device)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [64, 16, 16]
            .with(same([64, 192], 5, device)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [192, 8, 8]
            .with(same([192, 384], 3, device)?)
            .with(ReLU)
            .with(same([384, 256], 3, device)?)
            .with(ReLU)
            .with(same([256, 256], 3, device)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)) // [256, 4, 4]
            .with(Flatten::default())
            .with(Linear::new(256 * 4 * 4, 1024, device)?)
            .with(ReLU)
            .with(Linear::new(1024, 512, device)?)
            .with(ReLU)
            .with(Linear::new(512, 10, device)?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_the_names_of_the_pytorch_script() {
        let names: Vec<String> = training_cases().into_iter().map(|case| case.name).collect();
        let script = include_str!("../../peers/torch_training.py");
        // Variants of a step of which PyTorch has only one.
        let own = ["gpt2_124m_logits", "gpt2_124m_chunked", "gpt2_50257"];
        for name in names.iter().filter(|name| !own.iter().any(|own| name.contains(own))) {
            let parts: Vec<&str> = name.split('/').collect();
            let is_there = [format!("\"{}/{}\"", parts[1], parts[2]), format!("\"{}/{{dtype}}\"", parts[1])];
            assert!(is_there.iter().any(|part| script.contains(part)), "{name}");
        }
        assert!(names.contains(&"train/gpt2_124m/bf16".to_owned()));
        for own in own {
            assert!(names.contains(&format!("train/{own}/bf16")));
        }
        assert!(names.contains(&"train/cifar_alexnet/bf16/b256".to_owned()));
    }

    #[test]
    fn a_step_of_a_gpt_and_of_a_network_trains() {
        let device = ternion_cpu::device();
        let sizes = Sizes { vocabulary: 7, context: 4, layers: 1, heads: 1, width: 8 };
        for case in [
            gpt("small", sizes, 2, Precision::Bf16, Loss::OfLogits),
            gpt("small", sizes, 2, Precision::Bf16, Loss::Chunked { chunks: 4 }),
            images("small", [1, 28, 28], 2, Precision::F32, cnn),
            images("small", [3, 32, 32], 1, Precision::F32, alexnet),
        ] {
            let mut step = case.step(&device).expect("a model");
            step().and_then(|()| step()).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
        let case = gpt("small", sizes, 2, Precision::Bf16, Loss::OfLogits);
        assert_eq!((case.name.as_str(), case.amount), ("train/small/bf16", 8));
    }

    #[test]
    fn a_gpt_has_the_same_loss_in_chunks() {
        let device = ternion_cpu::device();
        let config =
            GPTConfig { vocabulary: 7, context: 4, layers: 1, heads: 1, width: 8, ..Default::default() };
        let loss = |form: Loss| -> Result<f32> {
            device.seed(3);
            let model = GPT::new(config, &device)?;
            let tokens = || Tensor::randint(0, 7, [2, 4], DType::I64, &device);
            form.of(&model, &tokens()?, &tokens()?)?.item()
        };
        let whole = loss(Loss::OfLogits).expect("a loss");
        for chunks in [1, 3, 4] {
            let chunked = loss(Loss::Chunked { chunks }).expect("a loss");
            assert!((chunked - whole).abs() < 1e-5, "{chunks} chunks: {chunked} and {whole}");
        }
    }
}
