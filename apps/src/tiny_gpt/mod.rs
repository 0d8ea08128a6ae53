//! Trains a transformer to continue a text, character by character, and lets it write.
//!
//! ```sh
//! cargo run --release -p apps --bin tiny_gpt
//! cargo run --release -p apps --bin tiny_gpt -- --text shakespeare.txt --context 64 --steps 2000 --save poet.safetensors --plot poet.svg
//! cargo run --release -p apps --bin tiny_gpt -- --text shakespeare.txt --resume poet.safetensors
//! cargo run --release -p apps --bin tiny_gpt -- --load poet.safetensors --generate "ROMEO:" --tokens 300 --temperature 0.8
//! cargo run --release -p apps --features cuda --bin tiny_gpt -- --device cuda --text shakespeare.txt --preset shakespeare-char
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin tiny_gpt -- --device cuda --nvtx --eager --steps 20
//! ```
//!
//! The whole step of a training is recorded, where the device can, and replayed as one; with `--eager` it runs op by op.
//!
//! Without `--text` it learns from this project's own documents and source, which are within the program. The first 90 % are learned from, the rest tells how well.
//!
//! What `--save` wrote is a checkpoint: `--resume` goes on from it as if the training had never stopped, `--load` takes its weights.

mod settings;
mod training;
mod writer;

use crate::support::corpus;
use crate::support::given::Given;
use crate::support::interrupts::Interrupts;
use crate::support::outputs::{self, Output};
use crate::support::program::{Outcome, end};
use crate::support::ranges::Ranges;
use crate::support::saving::Saving;
use crate::support::say::{say, warn};
use crate::tiny_gpt::settings::{Settings, SettingsArguments};
use crate::tiny_gpt::training::Training;
use crate::tiny_gpt::writer::Writer;
use clap::{Args, Parser};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use ternion::data::{CharVocabulary, Text, Tokenizer};
use ternion::prelude::*;

/// The text without `--text`, in messages.
const OWN_TEXT: &str = "this project's documents and source";

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
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    writing: Writing,
    /// Runs each training step op by op, and records none. Both end with the same weights, bit for bit
    #[arg(long)]
    eager: bool,
    /// Tells NVIDIA's profilers where steps, layers, backward passes and the optimizer's steps begin and end; those inside of a step only where it runs op by op, as with --eager
    #[arg(long)]
    nvtx: bool,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the losses
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Notes the losses of every reading: metrics.jsonl, and files for TensorBoard
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Writes where the time of one step goes, for ui.perfetto.dev. The times are the host's; with TERNION_CUDA_SYNC=1 those of a GPU are in them
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    saving: Saving,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Starts from the weights of a checkpoint, whose sizes hold; without --steps it is not trained further
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    load: Option<PathBuf>,
}

/// What is written by the trained model.
#[derive(Args, Debug)]
struct Writing {
    /// Writes what follows this text, after training or with loaded weights
    #[arg(long, value_name = "TEXT")]
    generate: Option<String>,
    /// Characters to write. Those beyond the context (256 by default) take longer: for each, the whole context is computed anew
    #[arg(long, default_value_t = 500, requires = "generate")]
    tokens: usize,
    /// Below 1 likely characters become likelier; at 0 the likeliest is written
    #[arg(long, default_value_t = 1.0, requires = "generate")]
    temperature: f64,
    /// Chooses among so many of the likeliest
    #[arg(long, requires = "generate")]
    top_k: Option<usize>,
    /// Chooses among the likeliest whose probabilities together reach this
    #[arg(long, requires = "generate")]
    top_p: Option<f64>,
}

impl Writing {
    fn sampling(&self) -> Sampling {
        let Writing { temperature, top_k, top_p, .. } = *self;
        Sampling { temperature, top_k, top_p }
    }
}

/// Where a training leaves what it finds, and how often.
struct Files<'a> {
    saving: &'a Saving,
    save_every: u64,
    record: Option<&'a Path>,
    trace: Option<&'a Path>,
    /// What the text is called in messages.
    text_name: String,
}

/// The program.
pub fn main() -> ExitCode {
    let (arguments, given) = Given::parse();
    end(run(&arguments, &given))
}

fn run(arguments: &Arguments, given: &Given) -> Outcome<()> {
    check_files(arguments)?;
    let (resumed, loaded) = (arguments.saving.checkpoint()?, &arguments.load);
    let loaded = loaded.as_ref().map(Checkpoint::read).transpose()?;
    let settings = match (&resumed, &loaded) {
        (Some(checkpoint), _) => Settings::resumed(&arguments.settings, checkpoint)?,
        (None, Some(checkpoint)) => Settings::loaded(&arguments.settings, checkpoint)?,
        (None, None) => Settings::new(&arguments.settings),
    };
    check_heeded(arguments, &settings, given)?;
    let device = ternion::device(&arguments.device)?;
    let ranges = Ranges::new(arguments.nvtx, &device)?;
    device.seed(settings.seed);
    let text = arguments.text.as_ref().map_or_else(corpus::text, Text::read)?;
    let writer = match resumed.as_ref().or(loaded.as_ref()) {
        Some(checkpoint) => Writer::of(checkpoint, &settings, &device)?,
        None => Writer::new(&settings, CharVocabulary::new(&text), &device)?,
    };
    if let Some(prompt) = &arguments.writing.generate {
        // Rather than behind a training.
        writer.check(prompt, arguments.writing.sampling())?;
    }
    let (model, parameters) = (&writer.model, writer.model.parameter_count());
    say!("{parameters} parameters on {device}, {} different characters", model.config().vocabulary);
    let mut results = json!({ "device": device.name(), "parameters": parameters, "seed": settings.seed });
    ranges.of(model, || work(arguments, &settings, &writer, &text, &mut results))?;
    write_results(arguments, &results)
}

/// Trains and writes what is asked for, and adds to the results what was found.
fn work(
    arguments: &Arguments,
    settings: &Settings,
    writer: &Writer,
    text: &Text,
    results: &mut Value,
) -> Outcome<()> {
    if settings.steps > 0 || arguments.writing.generate.is_none() {
        learn(arguments, settings, writer, text, results)?;
    }
    if let Some(prompt) = &arguments.writing.generate {
        results["generation"] = write(&arguments.writing, writer, prompt)?;
    }
    Ok(())
}

fn write_results(arguments: &Arguments, results: &Value) -> Outcome<()> {
    let write = |file: &PathBuf| outputs::write(file, &format!("{results:#}\n"));
    arguments.json.as_ref().map_or(Ok(()), write)
}

/// Trains and tests, and adds to the results what was found.
fn learn(
    arguments: &Arguments,
    settings: &Settings,
    writer: &Writer,
    text: &Text,
    results: &mut Value,
) -> Outcome<()> {
    let Arguments { saving, save_every, record, trace, .. } = arguments;
    let text_name = arguments.text.as_ref().map_or(OWN_TEXT.to_owned(), |file| file.display().to_string());
    let (record, trace) = (record.as_deref(), trace.as_deref());
    let files = Files { saving, save_every: *save_every, record, trace, text_name };
    let interrupts = Interrupts::watch()?;
    let learner = training::learner(&writer.model, settings)?;
    let mut training = Training::new(settings, &files, (writer, &learner), text, arguments.eager)?;
    if let Some(step) = training.resume()? {
        say!("goes on after step {step}");
    }
    let validation = training.run(&interrupts)?;
    if let Some(file) = &arguments.plot {
        outputs::write(file, &training.chart().to_svg())?;
    }
    training.add_results(validation, results)?;
    training.has_not_diverged().or_else(|divergence| {
        write_results(arguments, results)?;
        Err(divergence.into())
    })
}

/// Options of a training where none takes place.
fn check_heeded(arguments: &Arguments, settings: &Settings, given: &Given) -> Outcome<()> {
    if settings.steps > 0 || arguments.load.is_none() {
        return Ok(());
    }
    let why = "with --load and without --steps nothing is trained";
    given.refuse(&["lr", "dropout", "eager", "trace", "eval_every", "save_every"], why)?;
    if arguments.writing.generate.is_none() {
        return Ok(());
    }
    let tested = ["text", "batch", "precision", "plot", "record", "save", "keep"];
    given.refuse(&tested, &format!("{why}, and with --generate nothing is tested"))
}

fn check_files(arguments: &Arguments) -> Outcome<()> {
    let Arguments { text, load, saving, json, plot, trace, .. } = arguments;
    load.as_ref().map_or(Ok(()), |file| outputs::check_readable("--load", file))?;
    let output = |(option, file): (&'static str, _)| Output { option, file };
    let results = [("--json", json), ("--plot", plot), ("--trace", trace)].map(output);
    outputs::check_kept(&[output(("--load", load))], &results)?;
    saving.check(&[output(("--text", text))], &results)
}

/// Writes what follows `prompt`, each character as soon as it is chosen; what was written, as JSON.
fn write(writing: &Writing, writer: &Writer, prompt: &str) -> Outcome<Value> {
    let (tokens, mut first) = (writing.tokens, None);
    let mut out = std::io::stdout();
    // A reader that has gone away needs no more text.
    let mut print = |text: &str| out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    print(prompt);
    let begun = Instant::now();
    writer.model.eval();
    let written = writer.continued(prompt, tokens, writing.sampling(), |text| {
        first.get_or_insert_with(|| begun.elapsed().as_secs_f64());
        print(text);
    })?;
    print("\n");
    let seconds = begun.elapsed().as_secs_f64();
    warn(format_args!("{tokens} characters, {:.0} in a second", tokens as f64 / seconds));
    let text = written.strip_prefix(prompt).unwrap_or(&written);
    Ok(json!({
        "prompt": prompt,
        "text": text,
        "tokens": writer.vocabulary.encode(text)?,
        // Characters know of no end: here for scripts that read what gpt2 writes, too.
        "at_end_of_text": false,
        "first_token_seconds": first,
        "seconds": seconds,
    }))
}
