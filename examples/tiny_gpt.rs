//! Trains a transformer to continue a text, character by character, and lets it write.
//!
//!     cargo run --release --example tiny_gpt
//!     cargo run --release --example tiny_gpt -- --text shakespeare.txt --context 64 --steps 2000 --save poet.safetensors --plot poet.svg
//!     cargo run --release --example tiny_gpt -- --text shakespeare.txt --resume poet.safetensors
//!     cargo run --release --example tiny_gpt -- --load poet.safetensors --generate "ROMEO:" --tokens 300 --temperature 0.8
//!     cargo run --release --features cuda --example tiny_gpt -- --device cuda --text shakespeare.txt --preset shakespeare-char
//!
//! Without `--text` it learns from this project's own documents and source, which are within the program. The first 90 % are learned from, the rest tells how well.
//!
//! What `--save` wrote is a checkpoint: `--resume` goes on from it as if the training had never stopped, `--load` takes its weights.

#[path = "support/checksum.rs"]
mod checksum;
#[path = "support/corpus.rs"]
mod corpus;
#[path = "support/divergence.rs"]
mod divergence;
#[path = "support/given.rs"]
mod given;
#[path = "support/gpt_settings.rs"]
mod gpt_settings;
#[path = "support/gpt_training.rs"]
mod gpt_training;
#[path = "support/interrupts.rs"]
mod interrupts;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/outputs.rs"]
mod outputs;
#[path = "support/precise.rs"]
mod precise;
#[path = "support/program.rs"]
mod program;
#[path = "support/say.rs"]
mod say;
#[path = "support/writer.rs"]
mod writer;

use clap::{Args, Parser};
use given::Given;
use gpt_settings::{Settings, SettingsArguments};
use gpt_training::Training;
use interrupts::Interrupts;
use outputs::Output;
use program::{Outcome, end};
use say::{say, warn};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use ternion::data::{CharVocabulary, Text};
use ternion::prelude::*;
use writer::Writer;

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
    /// Steps between two tests on the held-out text
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    eval_every: u64,
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
    /// Saves the training as a checkpoint: at the end, at Ctrl-C, and in between
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Steps between two checkpoints
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Goes on from a checkpoint as if the training had never stopped, and saves to the same file unless --save names another
    #[arg(long, value_name = "FILE", conflicts_with = "load")]
    resume: Option<PathBuf>,
    /// Starts from the weights of a checkpoint, whose sizes hold; without --steps it is not trained further
    #[arg(long, value_name = "FILE")]
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
struct Files {
    save: Option<PathBuf>,
    save_every: u64,
    eval_every: u64,
    record: Option<PathBuf>,
    trace: Option<PathBuf>,
    is_resumed: bool,
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
    let checkpoint = match arguments.resume.as_ref().or(arguments.load.as_ref()) {
        Some(file) => Some(Checkpoint::read(file)?),
        None => None,
    };
    let settings = match &checkpoint {
        Some(checkpoint) if arguments.resume.is_some() => Settings::resumed(&arguments.settings, checkpoint)?,
        Some(checkpoint) => Settings::loaded(&arguments.settings, checkpoint)?,
        None => Settings::new(&arguments.settings),
    };
    check_heeded(arguments, &settings, given)?;
    let device = ternion::device(&arguments.device)?;
    device.seed(settings.seed);
    let text = arguments.text.as_ref().map_or_else(corpus::text, Text::read)?;
    let writer = match &checkpoint {
        Some(checkpoint) => Writer::of(checkpoint, &settings, &device)?,
        None => Writer::new(&settings, CharVocabulary::new(&text), &device)?,
    };
    if let Some(prompt) = &arguments.writing.generate {
        // Rather than behind a training.
        writer.check(prompt, arguments.writing.sampling())?;
    }
    let (model, parameters) = (&writer.model, writer.model.parameter_count());
    say!("{parameters} parameters on {device}, {} different characters", model.config().vocabulary);
    if settings.steps > 0 || arguments.writing.generate.is_none() {
        let resumed = checkpoint.as_ref().filter(|_| arguments.resume.is_some());
        learn(arguments, &settings, &writer, &text, resumed)?;
    }
    match &arguments.writing.generate {
        Some(prompt) => write(&arguments.writing, &writer, prompt),
        None => Ok(()),
    }
}

/// Trains and tests, and writes what was found.
fn learn(
    arguments: &Arguments,
    settings: &Settings,
    writer: &Writer,
    text: &Text,
    resumed: Option<&Checkpoint>,
) -> Outcome<()> {
    let Arguments { save, resume, record, trace, plot, json, save_every, eval_every, .. } = arguments;
    let files = Files {
        save: save.clone().or_else(|| resume.clone()),
        save_every: *save_every,
        eval_every: *eval_every,
        record: record.clone(),
        trace: trace.clone(),
        is_resumed: resume.is_some(),
        text_name: arguments.text.as_ref().map_or(OWN_TEXT.to_owned(), |file| file.display().to_string()),
    };
    let interrupts = Interrupts::watch()?;
    let mut training = Training::new(settings, &files, writer, text)?;
    if let Some(checkpoint) = resumed {
        training.resume(checkpoint)?;
        say!("goes on after step {}", checkpoint.step());
    }
    let validation = training.run(&interrupts)?;
    if let Some(file) = plot {
        outputs::write(file, &training.chart().to_svg())?;
    }
    if let Some(file) = json {
        outputs::write(file, &format!("{:#}\n", training.json(validation)?))?;
    }
    Ok(training.has_not_diverged()?)
}

/// Options of a training where none takes place.
fn check_heeded(arguments: &Arguments, settings: &Settings, given: &Given) -> Outcome<()> {
    if settings.steps > 0 || arguments.load.is_none() {
        return Ok(());
    }
    let why = "with --load and without --steps nothing is trained";
    given.refuse(&["lr", "dropout", "trace", "eval_every", "save_every"], why)?;
    if arguments.writing.generate.is_none() {
        return Ok(());
    }
    let tested = ["text", "batch", "precision", "json", "plot", "record", "save"];
    given.refuse(&tested, &format!("{why}, and with --generate nothing is tested"))
}

fn check_files(arguments: &Arguments) -> Outcome<()> {
    let Arguments { text, load, resume, save, json, plot, trace, .. } = arguments;
    for (option, file) in [("--load", load), ("--resume", resume)] {
        if let Some(file) = file {
            outputs::check_readable(option, file)?;
        }
    }
    let saved = if save.is_some() { ("--save", save) } else { ("--resume", resume) };
    let beside = saved.1.as_deref().map(outputs::beside);
    let written = || {
        [saved, (outputs::BESIDE, &beside), ("--json", json), ("--plot", plot), ("--trace", trace)]
            .map(|(option, file)| Output { option, file })
    };
    outputs::check_distinct(&written())?;
    outputs::check_kept(&[Output { option: "--text", file: text }], &written())?;
    outputs::check_writable(&written())
}

/// Writes what follows `prompt`, each character as soon as it is chosen.
fn write(writing: &Writing, writer: &Writer, prompt: &str) -> Outcome<()> {
    let tokens = writing.tokens;
    let mut out = std::io::stdout();
    // A reader that has gone away needs no more text.
    let mut print = |text: &str| out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    print(prompt);
    let begun = Instant::now();
    writer.model.eval();
    writer.continued(prompt, tokens, writing.sampling(), |text| {
        print(text);
    })?;
    print("\n");
    let speed = tokens as f64 / begun.elapsed().as_secs_f64();
    warn(format_args!("{tokens} characters, {speed:.0} in a second"));
    Ok(())
}
