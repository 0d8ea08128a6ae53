//! Trains a transformer to continue a text, character by character, and lets it write.
//!
//!     cargo run --release --example tiny_gpt
//!     cargo run --release --example tiny_gpt -- --text shakespeare.txt --context 64 --steps 2000 --save poet.safetensors
//!     cargo run --release --example tiny_gpt -- --load poet.safetensors --generate "ROMEO:" --tokens 300 --temperature 0.8
//!     cargo run --release --features cuda --example tiny_gpt -- --device cuda --text shakespeare.txt --preset shakespeare-char
//!
//! Without `--text` it learns from this project's own documents and source, which are within the program. The first 90 % are learned from, the rest tells how well.

#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/outputs.rs"]
mod outputs;
#[path = "support/say.rs"]
mod say;
#[path = "support/writer.rs"]
mod writer;

use clap::{Parser, ValueEnum};
use outputs::Output;
use say::{say, warn};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ternion::data::{CharVocabulary, RandomWindows, Text, Tokenizer, Tokens, Windows};
use ternion::nn::schedule::{CosineAnnealingLR, Warmup};
use ternion::prelude::*;
use writer::Writer;

/// Steps in which the learning rate rises.
const WARMUP_STEPS: u64 = 100;

/// Steps whose mean loss is told as one: each reading waits for the device.
const STEPS_PER_READING: u64 = 50;

/// Characters of a sample between steps.
const SAMPLE_TOKENS: usize = 120;

/// Trains a transformer to continue a text, character by character.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// The text to learn from, UTF-8; by default this project's documents and source
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Sizes of a known setting; other options change them
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Blocks
    #[arg(long)]
    layers: Option<usize>,
    /// Heads of attention
    #[arg(long)]
    heads: Option<usize>,
    /// Numbers of a character
    #[arg(long)]
    width: Option<usize>,
    /// Characters that are seen at once
    #[arg(long)]
    context: Option<usize>,
    /// Pieces of text in a step
    #[arg(long)]
    batch: Option<usize>,
    /// Steps of training; 0 only tests
    #[arg(long)]
    steps: Option<u64>,
    /// The largest learning rate: it rises for 100 steps and falls to a tenth along a cosine
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Share of numbers that become 0 in training
    #[arg(long)]
    dropout: Option<f64>,
    /// Steps between two tests on the held-out text
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    eval_every: u64,
    /// Decides first weights, the pieces of text and what is written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes what follows this text, after training or with loaded weights
    #[arg(long, value_name = "TEXT")]
    generate: Option<String>,
    /// Characters to write
    #[arg(long, default_value_t = 500)]
    tokens: usize,
    /// Below 1 likely characters become likelier; at 0 the likeliest is written
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Chooses among so many of the likeliest
    #[arg(long)]
    top_k: Option<usize>,
    /// Chooses among the likeliest whose probabilities together reach this
    #[arg(long)]
    top_p: Option<f64>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Saves the model: weights as safetensors, sizes and characters beside them as FILE.json
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Starts from a saved model, whose sizes hold; without --steps it is not trained further
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
}

/// A known setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// nanoGPT's for a GPU: 6 layers, 6 heads, 384 wide, context 256, batch 64, 5000 steps, dropout 0.2
    ShakespeareChar,
}

/// The sizes of a model and of its training.
struct Settings {
    layers: usize,
    heads: usize,
    width: usize,
    context: usize,
    batch: usize,
    steps: u64,
    dropout: f64,
}

impl Settings {
    fn of(arguments: &Arguments) -> Settings {
        let usual = match arguments.preset {
            Some(Preset::ShakespeareChar) => Settings {
                layers: 6,
                heads: 6,
                width: 384,
                context: 256,
                batch: 64,
                steps: 5000,
                dropout: 0.2,
            },
            None => Settings {
                layers: 4,
                heads: 4,
                width: 128,
                context: 256,
                batch: 12,
                steps: 1000,
                dropout: 0.0,
            },
        };
        let usual_steps = if arguments.load.is_some() { 0 } else { usual.steps };
        Settings {
            layers: arguments.layers.unwrap_or(usual.layers),
            heads: arguments.heads.unwrap_or(usual.heads),
            width: arguments.width.unwrap_or(usual.width),
            context: arguments.context.unwrap_or(usual.context),
            batch: arguments.batch.unwrap_or(usual.batch),
            steps: arguments.steps.unwrap_or(usual_steps),
            dropout: arguments.dropout.unwrap_or(usual.dropout),
        }
    }

    fn config(&self, vocabulary: usize) -> GPTConfig {
        GPTConfig {
            vocabulary,
            context: self.context,
            layers: self.layers,
            heads: self.heads,
            width: self.width,
            dropout: self.dropout,
            bias: false,
            ..Default::default()
        }
    }
}

/// Errors of tensors, data and files, all of which say in words what is wrong.
type Outcome<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The program.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    check_files(arguments)?;
    let settings = Settings::of(arguments);
    let device = ternion::device(&arguments.device)?;
    device.seed(arguments.seed);
    let text = arguments.text.as_ref().map_or_else(corpus::text, Text::read)?;
    let writer = match &arguments.load {
        Some(file) => Writer::load(file, settings.dropout, &device)?,
        None => {
            let vocabulary = CharVocabulary::new(&text);
            Writer { model: GPT::new(settings.config(vocabulary.vocabulary_size()), &device)?, vocabulary }
        }
    };
    let (model, parameters) = (&writer.model, writer.model.parameter_count());
    say!("{parameters} parameters on {device}, {} different characters", model.config().vocabulary);
    let wants_text = settings.steps > 0 || arguments.generate.is_none();
    let results = if wants_text { Some(learn(arguments, &settings, &writer, &text)?) } else { None };
    if let Some(prompt) = &arguments.generate {
        write(arguments, &writer, prompt)?;
    }
    if let (Some(file), Some(results)) = (&arguments.json, results) {
        outputs::write(file, &format!("{:#}\n", results.json(&device, parameters)))?;
    }
    Ok(())
}

fn check_files(arguments: &Arguments) -> Outcome<()> {
    if let Some(file) = &arguments.load {
        outputs::check_readable("--load", file)?;
    }
    let written = || {
        [("--save", &arguments.save), ("--json", &arguments.json)]
            .map(|(option, file)| Output { option, file })
    };
    outputs::check_distinct(&written())?;
    outputs::check_writable(&written())
}

/// Writes what follows `prompt`, each character as soon as it is chosen.
fn write(arguments: &Arguments, writer: &Writer, prompt: &str) -> Outcome<()> {
    let Arguments { temperature, top_k, top_p, tokens, .. } = *arguments;
    let mut out = std::io::stdout();
    // A reader that has gone away needs no more text.
    let mut print = |text: &str| out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    print(prompt);
    let begun = Instant::now();
    writer.model.eval();
    writer.continued(prompt, tokens, Sampling { temperature, top_k, top_p }, |text| {
        print(text);
    })?;
    print("\n");
    let speed = tokens as f64 / begun.elapsed().as_secs_f64();
    warn(format_args!("{tokens} characters, {speed:.0} in a second"));
    Ok(())
}

// ---- Training

/// What a training found.
struct Results {
    steps: u64,
    /// Mean of the last readings; none without a step.
    train_loss: Option<f64>,
    validation_loss: f64,
    /// Time of all steps but the first, which compiles kernels, and their tokens.
    train_time: Duration,
    tokens: usize,
    peak_memory: usize,
}

impl Results {
    fn json(&self, device: &Device, parameters: usize) -> serde_json::Value {
        let seconds = self.train_time.as_secs_f64();
        serde_json::json!({
            "device": device.name(),
            "parameters": parameters,
            "steps": self.steps,
            "train_loss": self.train_loss,
            "validation_loss": self.validation_loss,
            "tokens_per_second": (self.tokens > 0).then(|| self.tokens as f64 / seconds),
            "train_seconds": seconds,
            "peak_memory_bytes": self.peak_memory,
        })
    }
}

/// The text as pieces to learn from and to be tested on.
struct Pieces {
    train: RandomWindows,
    validation: Windows,
}

impl Pieces {
    fn new(
        arguments: &Arguments,
        settings: &Settings,
        writer: &Writer,
        text: &Text,
        device: &Device,
    ) -> Outcome<Pieces> {
        let (train, validation) = text.train_validation()?;
        let windows = |text: &Text| -> Outcome<Windows> {
            Ok(Tokens::new(writer.vocabulary.encode(text.as_str())?)
                .windows(writer.model.config().context)?)
        };
        Ok(Pieces {
            train: windows(&train)?.random(settings.batch, arguments.seed, device)?,
            validation: windows(&validation)?,
        })
    }
}

/// AdamW as of nanoGPT: matrices decay, vectors do not.
fn optimizer(model: &GPT, lr: f64) -> Result<AdamW> {
    let (matrices, vectors) = model.parameters().into_iter().partition(|param| param.shape().rank() > 1);
    let groups =
        vec![ParamGroup::new(matrices), ParamGroup { weight_decay: Some(0.0), ..ParamGroup::new(vectors) }];
    let config = AdamWConfig {
        lr,
        betas: [0.9, 0.99],
        weight_decay: 0.1,
        max_grad_norm: Some(1.0),
        ..Default::default()
    };
    AdamW::with_groups(groups, config)
}

/// The mean loss of the tokens that follow those of a batch.
fn loss(model: &GPT, inputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let count = targets.elements();
    let logits = model.forward(inputs)?.reshape([count, model.config().vocabulary])?;
    logits.cross_entropy(&targets.reshape([count])?)
}

fn learn(arguments: &Arguments, settings: &Settings, writer: &Writer, text: &Text) -> Outcome<Results> {
    let model = &writer.model;
    let device = model.wte.weight.device();
    let mut pieces = Pieces::new(arguments, settings, writer, text, &device)?;
    let mut adam = optimizer(model, arguments.lr)?;
    let falling = settings.steps.saturating_sub(WARMUP_STEPS).max(1);
    let schedule =
        Warmup::new(WARMUP_STEPS, 0.01, CosineAnnealingLR::new(arguments.lr, falling, arguments.lr / 10.0)?)?;
    let mut results = Results {
        steps: settings.steps,
        train_loss: None,
        validation_loss: f64::NAN,
        train_time: Duration::ZERO,
        tokens: 0,
        peak_memory: 0,
    };
    let mut reading = Reading::new(&device)?;
    let mut begun = Instant::now();
    for step in 0..settings.steps {
        model.train();
        adam.set_lr(schedule.lr(step))?;
        let batch = pieces.train.batch()?;
        let loss = loss(model, &batch.inputs, &batch.targets)?;
        adam.step(&loss.backward()?)?;
        reading.add(&loss)?;
        results.tokens += if step > 0 { batch.targets.elements() } else { 0 };
        let is_last = step + 1 == settings.steps;
        if (step + 1).is_multiple_of(STEPS_PER_READING) || is_last {
            results.train_loss = Some(reading.take()?);
        }
        if step == 0 {
            device.synchronize()?;
            begun = Instant::now();
        }
        if (step + 1).is_multiple_of(arguments.eval_every) || is_last {
            device.synchronize()?;
            results.train_time += begun.elapsed();
            test(writer, &pieces, settings, step + 1, &mut results)?;
            begun = Instant::now();
        }
    }
    if settings.steps == 0 {
        test(writer, &pieces, settings, 0, &mut results)?;
    }
    if let Some(file) = &arguments.save {
        writer.save(file)?;
        say!("model saved to {}", file.display());
    }
    results.peak_memory = device.memory().peak;
    Ok(results)
}

/// The loss on the held-out text, and a sample.
fn test(
    writer: &Writer,
    pieces: &Pieces,
    settings: &Settings,
    step: u64,
    results: &mut Results,
) -> Outcome<()> {
    let model = &writer.model;
    let device = model.wte.weight.device();
    model.eval();
    results.validation_loss = no_grad(|| -> Outcome<f64> {
        let (mut sum, mut count) = (Tensor::zeros((), DType::F32, &device)?, 0);
        for batch in pieces.validation.sequential(settings.batch.max(1), &device)? {
            let batch = batch?;
            sum = sum.add(&loss(model, &batch.inputs, &batch.targets)?.mul_scalar(batch.size as f64)?)?;
            count += batch.size;
        }
        Ok(sum.item_f64()? / count as f64)
    })?;
    let speed = results.tokens as f64 / results.train_time.as_secs_f64().max(f64::MIN_POSITIVE);
    let train = results.train_loss.map_or("-".to_owned(), |loss| format!("{loss:.4}"));
    say!("step {step}  loss {train}  validation {:.4}  {speed:.0} tokens/s", results.validation_loss);
    if step > 0 {
        // The first character in order is one that every vocabulary has; in most texts it ends a line.
        let prompt: String = writer.vocabulary.characters().iter().take(1).collect();
        let sample = writer.continued(&prompt, SAMPLE_TOKENS, Sampling::default(), |_| ());
        // Weights that have grown beyond all numbers write nothing; the training goes on, and says so by its losses.
        say!(
            "{}",
            sample.map_or_else(|error| format!("(no sample: {error})"), |text| text.trim().to_owned())
        );
    }
    Ok(())
}

/// The mean loss of some steps, added up on the device.
struct Reading {
    sum: Tensor,
    steps: u64,
}

impl Reading {
    fn new(device: &Device) -> Result<Reading> {
        Ok(Reading { sum: Tensor::zeros((), DType::F32, device)?, steps: 0 })
    }

    fn add(&mut self, loss: &Tensor) -> Result<()> {
        self.steps += 1;
        no_grad(|| self.sum.add_(&loss.detach()))
    }

    fn take(&mut self) -> Result<f64> {
        let mean = self.sum.item_f64()? / self.steps.max(1) as f64;
        self.steps = 0;
        no_grad(|| self.sum.fill_(0.0))?;
        Ok(mean)
    }
}
