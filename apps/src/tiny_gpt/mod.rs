//! Trains a transformer to continue a text character by character, and generates text with it.
//!
//! ```sh
//! cargo run --release -p apps --bin tiny_gpt
//! cargo run --release -p apps --bin tiny_gpt \
//!     -- --text shakespeare.txt --context 64 --steps 2000 --save poet.safetensors --plot poet.svg
//! cargo run --release -p apps --bin tiny_gpt -- --text shakespeare.txt --resume poet.safetensors
//! cargo run --release -p apps --bin tiny_gpt \
//!     -- --load poet.safetensors --generate "ROMEO:" --tokens 300 --temperature 0.8
//! cargo run --release -p apps --features cuda --bin tiny_gpt \
//!     -- --device cuda --text shakespeare.txt --preset shakespeare-char
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin tiny_gpt -- \
//!     --device cuda --nvtx --eager --steps 20
//! ```
//!
//! The whole training step is recorded, if the device supports that, and replayed as one; with
//! `--eager` it runs op by op.
//!
//! Without `--text` it is trained on this project's documentation and source, which are compiled
//! into the program. The first 90 % are the training text, the rest the validation text.
//!
//! `--save` writes a checkpoint: `--resume` continues from it as if the training had never stopped,
//! `--load` uses only its weights.

mod generator;
mod settings;
mod training;

use crate::support::console::{print_line, warn};
use crate::support::corpus;
use crate::support::given_options::GivenOptions;
use crate::support::interrupts::Interrupts;
use crate::support::nvtx::NvtxRanges;
use crate::support::outputs::{self, FileOption};
use crate::support::program::{Outcome, exit_code};
use crate::support::saving::Saving;
use crate::tiny_gpt::generator::TextGenerator;
use crate::tiny_gpt::settings::{Settings, SettingsArguments};
use crate::tiny_gpt::training::Training;
use clap::{Args, Parser};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use ternion::data::{CharVocabulary, Text, Tokenizer};
use ternion::prelude::*;

/// What messages call the text without `--text`.
const BUILTIN_TEXT: &str = "this project's documents and source";

/// Trains a transformer to continue a text, character by character.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// The text to train on, UTF-8; by default this project's documentation and source
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    writing: GenerationArguments,
    /// Runs each training step op by op instead of recording it. Both give bit-identical weights
    #[arg(long)]
    eager: bool,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers; the parts
    /// of a step only if it runs op by op, as with --eager
    #[arg(long)]
    nvtx: bool,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the losses
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Records the losses of every reading: metrics.jsonl, and files for TensorBoard
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Writes a timeline of one step for ui.perfetto.dev. The times are the host's; with
    /// TERNION_CUDA_SYNC=1 they include those of a GPU
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    saving: Saving,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Starts from the weights of a checkpoint, with the sizes of its model; without --steps it is
    /// not trained further
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    load: Option<PathBuf>,
}

/// What the trained model generates.
#[derive(Args, Debug)]
struct GenerationArguments {
    /// Generates a continuation of this text, after training or with loaded weights
    #[arg(long, value_name = "TEXT")]
    generate: Option<String>,
    /// Characters to generate. Those beyond the context (256 by default) take longer: each one
    /// recomputes the whole context
    #[arg(long, default_value_t = 500, requires = "generate")]
    tokens: usize,
    /// Sampling temperature: below 1 likely characters become more likely; at 0 the most likely one
    /// is chosen
    #[arg(long, default_value_t = 1.0, requires = "generate")]
    temperature: f64,
    /// Samples among the K most likely characters
    #[arg(long, requires = "generate")]
    top_k: Option<usize>,
    /// Samples among the most likely characters whose probabilities sum to this
    #[arg(long, requires = "generate")]
    top_p: Option<f64>,
}

impl GenerationArguments {
    fn sampling(&self) -> Sampling {
        let GenerationArguments { temperature, top_k, top_p, .. } = *self;
        Sampling { temperature, top_k, top_p }
    }
}

/// The files of a training run, and how often they are written.
struct RunFiles<'a> {
    saving: &'a Saving,
    save_every: u64,
    record: Option<&'a Path>,
    trace: Option<&'a Path>,
    /// What messages call the text.
    text_name: String,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let (arguments, given) = GivenOptions::parse();
    exit_code(run(&arguments, &given))
}

fn run(arguments: &Arguments, given: &GivenOptions) -> Outcome<()> {
    check_files(arguments)?;
    let (resumed, loaded) = (arguments.saving.checkpoint()?, &arguments.load);
    let loaded = loaded.as_ref().map(Checkpoint::read).transpose()?;
    let settings = match (&resumed, &loaded) {
        (Some(checkpoint), _) => Settings::resumed(&arguments.settings, checkpoint)?,
        (None, Some(checkpoint)) => Settings::loaded(&arguments.settings, checkpoint)?,
        (None, None) => Settings::new(&arguments.settings),
    };
    check_options_used(arguments, &settings, given)?;
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    device.seed(settings.seed);
    let text = arguments.text.as_ref().map_or_else(corpus::text, Text::read)?;
    let generator = match resumed.as_ref().or(loaded.as_ref()) {
        Some(checkpoint) => TextGenerator::load(checkpoint, &settings, &device)?,
        None => TextGenerator::new(&settings, CharVocabulary::new(&text), &device)?,
    };
    if let Some(prompt) = &arguments.writing.generate {
        // Checked before training rather than after it.
        generator.check(prompt, arguments.writing.sampling())?;
    }
    let (model, parameters) = (&generator.model, generator.model.parameter_count());
    print_line!("{parameters} parameters on {device}, {} different characters", model.config().vocabulary);
    let mut results = json!({ "device": device.name(), "parameters": parameters, "seed": settings.seed });
    ranges.trace(model, || run_actions(arguments, &settings, &generator, &text, &mut results))?;
    write_results(arguments, &results)
}

/// Trains and generates as requested, and adds the outcome to the results.
fn run_actions(
    arguments: &Arguments,
    settings: &Settings,
    generator: &TextGenerator,
    text: &Text,
    results: &mut Value,
) -> Outcome<()> {
    if settings.steps > 0 || arguments.writing.generate.is_none() {
        train(arguments, settings, generator, text, results)?;
    }
    if let Some(prompt) = &arguments.writing.generate {
        results["generation"] = generate(&arguments.writing, generator, prompt)?;
    }
    Ok(())
}

fn write_results(arguments: &Arguments, results: &Value) -> Outcome<()> {
    let write = |file: &PathBuf| outputs::write(file, &format!("{results:#}\n"));
    arguments.json.as_ref().map_or(Ok(()), write)
}

/// Trains and tests, and adds the outcome to the results.
fn train(
    arguments: &Arguments,
    settings: &Settings,
    generator: &TextGenerator,
    text: &Text,
    results: &mut Value,
) -> Outcome<()> {
    let Arguments { saving, save_every, record, trace, .. } = arguments;
    let text_name =
        arguments.text.as_ref().map_or(BUILTIN_TEXT.to_owned(), |file| file.display().to_string());
    let (record, trace) = (record.as_deref(), trace.as_deref());
    let files = RunFiles { saving, save_every: *save_every, record, trace, text_name };
    let interrupts = Interrupts::install()?;
    let learner = training::learner(&generator.model, settings)?;
    let mut training = Training::new(settings, &files, (generator, &learner), text, arguments.eager)?;
    if let Some(step) = training.resume()? {
        print_line!("resumes after step {step}");
    }
    let validation = training.run(&interrupts)?;
    if let Some(file) = &arguments.plot {
        outputs::write(file, &training.chart().to_svg())?;
    }
    training.add_results(validation, results)?;
    training.check_divergence().or_else(|divergence| {
        write_results(arguments, results)?;
        Err(divergence.into())
    })
}

/// Rejects options of training if there is no training.
fn check_options_used(arguments: &Arguments, settings: &Settings, given: &GivenOptions) -> Outcome<()> {
    if settings.steps > 0 || arguments.load.is_none() {
        return Ok(());
    }
    let why = "with --load and without --steps nothing is trained";
    given.reject(&["lr", "dropout", "eager", "trace", "eval_every", "save_every"], why)?;
    if arguments.writing.generate.is_none() {
        return Ok(());
    }
    let tested = ["text", "batch", "precision", "plot", "record", "save", "keep"];
    given.reject(&tested, &format!("{why}, and with --generate nothing is tested"))
}

fn check_files(arguments: &Arguments) -> Outcome<()> {
    let Arguments { text, load, saving, json, plot, trace, .. } = arguments;
    load.as_ref().map_or(Ok(()), |file| outputs::check_readable("--load", file))?;
    let output = |(option, file): (&'static str, _)| FileOption { option, file };
    let results = [("--json", json), ("--plot", plot), ("--trace", trace)].map(output);
    outputs::check_not_overwritten(&[output(("--load", load))], &results)?;
    saving.check(&[output(("--text", text))], &results)
}

/// Generates a continuation of `prompt`, and prints each character as soon as it is chosen; returns
/// the text as JSON.
fn generate(writing: &GenerationArguments, generator: &TextGenerator, prompt: &str) -> Outcome<Value> {
    let (tokens, mut first) = (writing.tokens, None);
    let mut out = std::io::stdout();
    // If the reader has closed the pipe, the text is not needed.
    let mut print = |text: &str| out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    print(prompt);
    let start = Instant::now();
    generator.model.eval();
    let written = generator.generate(prompt, tokens, writing.sampling(), |text| {
        first.get_or_insert_with(|| start.elapsed().as_secs_f64());
        print(text);
    })?;
    print("\n");
    let seconds = start.elapsed().as_secs_f64();
    warn(format_args!("{tokens} characters, {:.0} in a second", tokens as f64 / seconds));
    let text = written.strip_prefix(prompt).unwrap_or(&written);
    Ok(json!({
        "prompt": prompt,
        "text": text,
        "tokens": generator.vocabulary.encode(text)?,
        // Characters have no end-of-text token: the key exists for scripts that also read gpt2's
        // results.
        "at_end_of_text": false,
        "first_token_seconds": first,
        "seconds": seconds,
    }))
}
