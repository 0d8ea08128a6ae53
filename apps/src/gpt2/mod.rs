//! GPT-2: loads published weights, generates text, measures the perplexity of a text, and trains
//! from scratch.
//!
//! ```sh
//! cargo run --release -p apps --bin gpt2
//! cargo run --release -p apps --bin gpt2 \
//!     -- --load gpt2 --generate "The meaning of life is" --tokens 100 --top-k 50
//! cargo run --release -p apps --bin gpt2 -- --load gpt2 --perplexity text.txt --stride 512
//! cargo run --release -p apps --bin gpt2 -- --bpe gpt2 --tokenize text.txt --out tokens.bin
//! cargo run --release -p apps --features cuda --bin gpt2 \
//!     -- --device cuda --bpe gpt2 --train tokens.bin --save my-gpt2
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin gpt2 -- \
//!     --device cuda --nvtx --eager --steps 20
//! ```
//!
//! `gpt2` is a folder with Hugging Face's files: model.safetensors, config.json, vocab.json,
//! merges.txt. Without options a small model learns this project's documentation and source, which
//! are compiled into the program, with bytes as tokens, and generates text.
//!
//! The whole training step is recorded, if the device supports that, and replayed as one; with
//! `--eager` it runs op by op.

mod defaults;
mod training;
mod vocabulary;

use crate::gpt2::defaults::{Defaults, GPT2_SIZES, SMALL_SIZES, at_least_1, help};
use crate::gpt2::training::{RunFiles, Settings, TokenWindows};
use crate::gpt2::vocabulary::{StreamDecoder, Vocabulary};
use crate::support::checksum::{checksum, file_checksum};
use crate::support::console::{print_line, warn};
use crate::support::corpus;
use crate::support::given_options::GivenOptions;
use crate::support::interrupts::Interrupts;
use crate::support::memory;
use crate::support::nvtx::NvtxRanges;
use crate::support::outputs::{self, FileOption};
use crate::support::program::{Outcome, exit_code};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use ternion::data::{Text, TokenFile, Tokens, tokenize_file};
use ternion::nn::checkpoint;
use ternion::nn::huggingface::{Gpt2Options, gpt2_tensors, load_gpt2, save_gpt2};
use ternion::prelude::*;

/// The prompt of a small model that was trained without other options.
const PROMPT: &str = "A tensor ";

/// Loads GPT-2, generates text, measures the perplexity of a text, and trains it.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// A folder with model.safetensors and config.json in Hugging Face's format, or the safetensors
    /// file; else weights are random
    #[arg(long, value_name = "FOLDER")]
    load: Option<PathBuf>,
    /// A folder with vocab.json and merges.txt, or with the same as encoder.json and vocab.bpe;
    /// else those next to the weights, else tokens are bytes
    #[arg(long, value_name = "FOLDER")]
    bpe: Option<PathBuf>,
    /// Vocabulary size of a new model; that of the tokenizer by default
    #[arg(long)]
    vocabulary: Option<usize>,
    #[arg(long, help = help("Blocks of a new model", |of| of.layers), value_parser = at_least_1)]
    layers: Option<usize>,
    #[arg(long, help = help("Heads of attention; with --load only where no config.json states them", |of| of.heads), value_parser = at_least_1)]
    heads: Option<usize>,
    #[arg(long, help = help("Numbers of a token of a new model", |of| of.width), value_parser = at_least_1)]
    width: Option<usize>,
    #[arg(long, help = help("Tokens that a new model sees at once", |of| of.context), value_parser = at_least_1)]
    context: Option<usize>,
    /// Dropout probability
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// Generates a continuation of this text
    #[arg(long, value_name = "TEXT")]
    generate: Option<String>,
    /// Tokens to generate. Those beyond the context take longer: each one recomputes the whole
    /// context
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Sampling temperature: below 1 likely tokens become more likely; at 0 the most likely one is
    /// chosen
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Samples among the K most likely tokens
    #[arg(long)]
    top_k: Option<usize>,
    /// Samples among the most likely tokens whose probabilities sum to this
    #[arg(long)]
    top_p: Option<f64>,
    /// Stops at the end of a text: at <|endoftext|>, token 50256 of GPT-2, which is not printed
    #[arg(long)]
    stop: bool,
    /// Measures the perplexity of this text
    #[arg(long, value_name = "FILE")]
    perplexity: Option<PathBuf>,
    /// Tokens between the windows for --perplexity; half the context by default
    #[arg(long, requires = "perplexity")]
    stride: Option<usize>,
    /// Trains on a file of tokens, each an unsigned little-endian 16-bit integer
    #[arg(long, value_name = "TOKENS")]
    train: Option<PathBuf>,
    /// A file of validation tokens
    #[arg(long, value_name = "TOKENS", requires = "train")]
    validation: Option<PathBuf>,
    #[arg(long, help = help("Steps of training, those before --resume among them, which may be others than those of the checkpoint", |of| of.steps))]
    steps: Option<u64>,
    /// Windows per batch
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Batches per step, whose gradients are accumulated
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    accumulate: u32,
    #[arg(long, help = help("The largest learning rate; it falls to a tenth along a cosine. May change on --resume", |of| of.lr))]
    lr: Option<f64>,
    /// Warmup steps of the learning rate; a tenth of the steps by default, unchanged with --resume
    #[arg(long)]
    warmup: Option<u64>,
    /// Precision of matrix products in training: f32, ieee, tf32, bf16 or f16; weights stay f32
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Weight decay of matrices
    #[arg(long, default_value_t = 0.1)]
    weight_decay: f64,
    /// Steps between two tests on validation tokens
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    eval_every: u64,
    /// Converts a UTF-8 text to a file of tokens, and does nothing else
    #[arg(long, value_name = "FILE", requires = "out")]
    tokenize: Option<PathBuf>,
    /// The file of tokens to write
    #[arg(long, value_name = "TOKENS", requires = "tokenize")]
    out: Option<PathBuf>,
    /// Runs each training step op by op instead of recording it. Both give bit-identical weights
    #[arg(long)]
    eager: bool,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers; the parts
    /// of a step only if it runs op by op, as with --eager
    #[arg(long)]
    nvtx: bool,
    /// Determines the initial weights, the windows and the generated text
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the losses
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Records the losses: metrics.jsonl, and files for TensorBoard
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Saves the complete training state to this file at every test, at the end and at Ctrl-C
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Resumes from such a file, and continues to write to it unless --checkpoint names another
    /// one. Sizes, steps, --lr and --warmup default to those of the file; other options must be the
    /// same
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Saves config.json and model.safetensors in Hugging Face's format, or only the weights to a
    /// file that ends in .safetensors
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

impl Arguments {
    /// Returns whether to train a model: on given tokens, with a checkpoint, or if no other action
    /// is requested.
    fn trains(&self) -> bool {
        let has_other_action = self.load.is_some() || self.generate.is_some() || self.perplexity.is_some();
        self.train.is_some() || self.checkpoint().is_some() || !has_other_action
    }

    /// Returns the text to continue, if any.
    fn prompt(&self) -> Option<&str> {
        self.generate.as_deref().or((self.trains() && self.train.is_none()).then_some(PROMPT))
    }

    fn sampling(&self) -> Sampling {
        let Arguments { temperature, top_k, top_p, .. } = *self;
        Sampling { temperature, top_k, top_p }
    }

    fn checkpoint(&self) -> Option<&Path> {
        self.checkpoint.as_deref().or(self.resume.as_deref())
    }

    /// Returns the defaults: those of the checkpoint to resume from, else GPT-2's sizes for a given
    /// token file, else sizes that a CPU trains in a minute or two.
    fn defaults(&self) -> Outcome<Defaults> {
        match &self.resume {
            Some(file) => Defaults::from_checkpoint(&Checkpoint::read(file)?),
            None => Ok(if self.train.is_some() { GPT2_SIZES } else { SMALL_SIZES }),
        }
    }

    fn config(&self, vocabulary: &Vocabulary) -> Outcome<GPTConfig> {
        let defaults = self.defaults()?;
        let default_vocabulary = defaults.vocabulary.unwrap_or(vocabulary.tokenizer().vocabulary_size());
        Ok(GPTConfig {
            vocabulary: self.vocabulary.unwrap_or(default_vocabulary),
            context: self.context.unwrap_or(defaults.context),
            layers: self.layers.unwrap_or(defaults.layers),
            heads: self.heads.unwrap_or(defaults.heads),
            width: self.width.unwrap_or(defaults.width),
            dropout: self.dropout,
            ..Default::default()
        })
    }

    fn settings(&self) -> Outcome<Settings> {
        let defaults = self.defaults()?;
        let steps = self.steps.unwrap_or(defaults.steps);
        Ok(Settings {
            steps,
            batch: self.batch as usize,
            accumulate: self.accumulate as usize,
            lr: self.lr.unwrap_or(defaults.lr),
            warmup: self.warmup.or(defaults.warmup).unwrap_or(steps / 10),
            weight_decay: self.weight_decay,
            precision: self.precision,
            eval_every: self.eval_every,
            seed: self.seed,
            eager: self.eager,
        })
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let (arguments, given) = GivenOptions::parse();
    exit_code(run(&arguments, &given))
}

fn run(arguments: &Arguments, given: &GivenOptions) -> Outcome<()> {
    check_options_used(arguments, given)?;
    check_files(arguments)?;
    let vocabulary = Vocabulary::find(arguments.bpe.as_deref(), arguments.load.as_deref())?;
    if let (Some(text), Some(out)) = (&arguments.tokenize, &arguments.out) {
        return tokenize(&vocabulary, text, out);
    }
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    let model = model(arguments, &vocabulary, &device)?;
    ranges.trace(&model, || run_actions(arguments, &model, &vocabulary, &device))
}

/// Runs the requested actions: training, perplexity, generation.
fn run_actions(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, device: &Device) -> Outcome<()> {
    if let Some(prompt) = arguments.prompt() {
        check_prompt(arguments, model, vocabulary, prompt)?;
    }
    let mut results = Map::new();
    results.insert("device".into(), device.name().into());
    results.insert("parameters".into(), model.parameter_count().into());
    results.insert("seed".into(), arguments.seed.into());
    if arguments.trains() {
        let token_windows = token_windows(arguments, model, vocabulary)?;
        let run_files = RunFiles {
            checkpoint: arguments.checkpoint(),
            resume: arguments.resume.as_deref(),
            record: arguments.record.as_deref(),
            interrupts: &Interrupts::install()?,
        };
        let outcome = training::train(model, arguments.settings()?, &token_windows, &run_files)?;
        if let Some(file) = &arguments.plot {
            outcome.chart(&format!("{} parameters on {device}", model.parameter_count())).write(file)?;
            print_line!("{} written", file.display());
        }
        results.insert("training".into(), outcome.json());
        if let Err(divergence) = outcome.check_divergence() {
            write_results(arguments, results)?;
            return Err(divergence.into());
        }
    }
    if let Some(path) = &arguments.save {
        save(model, path)?;
    }
    if let Some(file) = &arguments.perplexity {
        results.insert("text".into(), perplexity(arguments, model, vocabulary, file)?);
    }
    if let Some(prompt) = arguments.prompt() {
        results.insert("generation".into(), generate(arguments, model, vocabulary, prompt)?);
    }
    results.insert("peak_memory_bytes".into(), device.memory().peak.into());
    write_results(arguments, results)
}

fn write_results(arguments: &Arguments, results: Map<String, Value>) -> Outcome<()> {
    let text = format!("{:#}\n", Value::from(results));
    arguments.json.as_ref().map_or(Ok(()), |file| outputs::write(file, &text))
}

/// Options of training.
const TRAINING_OPTIONS: [&str; 12] = [
    "steps",
    "batch",
    "accumulate",
    "lr",
    "warmup",
    "precision",
    "weight_decay",
    "eval_every",
    "dropout",
    "eager",
    "plot",
    "record",
];

/// Options of text generation.
const GENERATION_OPTIONS: [&str; 5] = ["tokens", "temperature", "top_k", "top_p", "stop"];

/// Sizes of a new model; --heads may also describe a model of --load without config.json.
const SIZES: [&str; 4] = ["vocabulary", "layers", "width", "context"];

/// Rejects options that would have no effect.
fn check_options_used(arguments: &Arguments, given: &GivenOptions) -> Outcome<()> {
    if arguments.tokenize.is_some() {
        let others = [
            "train",
            "generate",
            "perplexity",
            "checkpoint",
            "resume",
            "save",
            "json",
            "heads",
            "nvtx",
            "seed",
        ];
        let all = [&others[..], &TRAINING_OPTIONS, &GENERATION_OPTIONS, &SIZES].concat();
        return given.reject(&all, "--tokenize does nothing else");
    }
    if arguments.load.is_some() {
        given.reject(&SIZES, "the sizes are those of --load")?;
    }
    if !arguments.trains() {
        given.reject(
            &TRAINING_OPTIONS,
            "nothing is trained: give --train, or leave out --load, --generate and --perplexity",
        )?;
    }
    match arguments.prompt() {
        Some(_) => Ok(()),
        None => given.reject(&GENERATION_OPTIONS, "nothing is written: give --generate"),
    }
}

/// Checks the files before weights are read and models are trained.
fn check_files(arguments: &Arguments) -> Outcome<()> {
    let read = [
        ("--perplexity", &arguments.perplexity),
        ("--train", &arguments.train),
        ("--validation", &arguments.validation),
        ("--tokenize", &arguments.tokenize),
        ("--resume", &arguments.resume),
    ];
    for (option, file) in read {
        file.as_ref().map_or(Ok(()), |file| outputs::check_readable(option, file))?;
    }
    let save = arguments.save.as_deref().map(weights_file);
    if let (Some(folder), false) = (&arguments.save, is_file_of_weights(arguments.save.as_deref())) {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("--save: {}: cannot be made: {error}", folder.display()))?;
    }
    let checkpoint = arguments.checkpoint().map(Path::to_path_buf);
    let checkpoint_json = checkpoint.as_deref().map(outputs::checkpoint_json);
    let written = || {
        let Arguments { json, out, plot, .. } = arguments;
        [
            ("--save", &save),
            ("--json", json),
            ("--out", out),
            ("--plot", plot),
            ("--checkpoint", &checkpoint),
            (outputs::CHECKPOINT_JSON, &checkpoint_json),
        ]
        .map(|(option, file)| FileOption { option, file })
    };
    outputs::check_distinct(&written())?;
    // A checkpoint may be resumed from and saved to.
    let inputs = read.map(|(option, file)| FileOption { option, file });
    outputs::check_not_overwritten(&inputs[..inputs.len() - 1], &written())?;
    outputs::check_writable(&written())
}

fn is_file_of_weights(path: Option<&Path>) -> bool {
    path.and_then(Path::extension).is_some_and(|extension| extension == "safetensors")
}

fn weights_file(path: &Path) -> PathBuf {
    if is_file_of_weights(Some(path)) { path.to_path_buf() } else { path.join("model.safetensors") }
}

fn tokenize(vocabulary: &Vocabulary, text: &Path, out: &Path) -> Outcome<()> {
    print_line!("{vocabulary}");
    let count = tokenize_file(text, vocabulary.tokenizer(), out)?;
    print_line!("{count} tokens written to {}", out.display());
    Ok(())
}

/// Returns the model of `--load`, or one with random weights.
fn model(arguments: &Arguments, vocabulary: &Vocabulary, device: &Device) -> Outcome<GPT> {
    device.seed(arguments.seed);
    let model = match &arguments.load {
        Some(path) => {
            let options =
                Gpt2Options { heads: arguments.heads, dropout: arguments.dropout, ..Default::default() };
            load_gpt2(path, options, device)?
        }
        None => GPT::new(checked_config(arguments, vocabulary, device)?, device)?,
    };
    model.eval();
    let GPTConfig { layers, heads, width, context, .. } = *model.config();
    print_line!(
        "{} parameters on {device}: {layers} blocks, {heads} heads, width {width}, context {context}",
        model.parameter_count()
    );
    // Training on a file of tokens needs no tokenizer for text.
    let needs_text =
        arguments.generate.is_some() || arguments.perplexity.is_some() || arguments.train.is_none();
    if needs_text {
        vocabulary.check(model.config().vocabulary)?;
        print_line!("{vocabulary}");
    }
    if arguments.load.is_none() && !arguments.trains() {
        print_line!("RANDOM WEIGHTS: no --load and no --train, so that what comes out is noise");
    }
    Ok(model)
}

/// Returns the sizes of a new model, after checking that it fits into memory.
fn checked_config(arguments: &Arguments, vocabulary: &Vocabulary, device: &Device) -> Outcome<GPTConfig> {
    let config = arguments.config(vocabulary)?;
    let batch = if arguments.trains() { arguments.batch as usize } else { 0 };
    let GPTConfig { vocabulary, layers, width, context, .. } = config;
    let sizes = format!(
        "--vocabulary {vocabulary}, --layers {layers}, --width {width}, --context {context}, --batch {batch}"
    );
    memory::check(device, memory::gpt_bytes(&config, batch), &sizes)?;
    Ok(config)
}

/// Returns the training and validation tokens.
fn token_windows(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary) -> Outcome<TokenWindows> {
    let GPTConfig { vocabulary: tokens, context, .. } = *model.config();
    if let Some(file) = &arguments.train {
        let open = |path: &PathBuf| -> Outcome<_> {
            let file = TokenFile::open(path, tokens)?;
            let windows = file.windows(context).map_err(|error| in_file(path, error))?;
            Ok((windows, file.len()))
        };
        let validation = arguments.validation.as_ref().map(open).transpose()?.map(|(windows, _)| windows);
        let (train, train_tokens) = open(file)?;
        // The checksum takes about a second per gigabyte. It is only computed if a resumed run
        // could have other tokens.
        let checksum = arguments.checkpoint().map(|_| file_checksum(file));
        let checksum = checksum.transpose().map_err(|error| in_file(file, error))?;
        return Ok(TokenWindows { train, train_tokens, checksum, validation });
    }
    print_line!("learning from this project's documents and source");
    let (train, validation) = corpus::text()?.train_validation()?;
    let tokens = |text: &Text| vocabulary.tokenizer().encode(text.as_str()).map(Tokens::new);
    let (train, validation) = (tokens(&train)?, tokens(&validation)?);
    Ok(TokenWindows {
        train: train.windows(context)?,
        train_tokens: train.len(),
        checksum: Some(checksum(train.as_slice().iter().flat_map(|token| token.to_le_bytes()))),
        validation: Some(validation.windows(context)?),
    })
}

/// Formats an error with the file that it concerns.
fn in_file(file: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn save(model: &GPT, path: &Path) -> Outcome<()> {
    if is_file_of_weights(Some(path)) {
        checkpoint::write(&gpt2_tensors(model)?, path)?;
    } else {
        save_gpt2(model, path)?;
    }
    print_line!("model saved to {}", path.display());
    Ok(())
}

/// Measures how well the text is predicted; prints it and returns it as JSON.
fn perplexity(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, file: &Path) -> Outcome<Value> {
    let text = Text::read(file)?;
    let tokens = vocabulary.tokenizer().encode(text.as_str()).map_err(|error| in_file(file, error))?;
    let stride = arguments.stride.unwrap_or((model.config().context / 2).max(1));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} tokens")?.progress_chars("=> ");
    let bar = ProgressBar::new(tokens.len().saturating_sub(1) as u64).with_style(style);
    let start = Instant::now();
    let evaluation = model.text_loss(&tokens, stride, |predicted| {
        bar.set_position(predicted as u64);
        Ok(())
    });
    let evaluation = evaluation.map_err(|error| in_file(file, error))?;
    bar.finish_and_clear();
    let bytes = text.as_str().len();
    let bits_per_byte = evaluation.loss * evaluation.tokens as f64 / bytes as f64 / std::f64::consts::LN_2;
    print_line!(
        "perplexity {:.3} of {} tokens (loss {:.4}, {bits_per_byte:.4} bits a byte), windows of {} every {stride}",
        evaluation.perplexity(),
        evaluation.tokens,
        evaluation.loss,
        model.config().context
    );
    Ok(json!({
        "tokens": evaluation.tokens,
        "bytes": bytes,
        "stride": stride,
        "loss": evaluation.loss,
        "perplexity": evaluation.perplexity(),
        "bits_per_byte": bits_per_byte,
        "seconds": start.elapsed().as_secs_f64(),
    }))
}

/// Checks that `prompt` can be continued, before anything is trained or printed.
fn check_prompt(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, prompt: &str) -> Outcome<()> {
    if arguments.stop && vocabulary.end_of_text().is_none() {
        return Err("--stop: this vocabulary has no <|endoftext|>".into());
    }
    let prompt_tokens = vocabulary.tokenizer().encode(prompt)?;
    let checked = model.generate(&prompt_tokens, 0, arguments.sampling(), |_| Ok(()));
    checked.map(drop).map_err(|error| format!("--generate {prompt:?}: {error}").into())
}

/// Generates a continuation of `prompt`, and prints each token as soon as it is chosen.
fn generate(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, prompt: &str) -> Outcome<Value> {
    let Arguments { tokens, stop, seed, .. } = *arguments;
    let prompt_tokens = vocabulary.tokenizer().encode(prompt)?;
    // The generated text depends only on the seed, not on what ran before.
    model.wte.weight.device().seed(seed);
    let mut out = std::io::stdout();
    // If the reader has closed the pipe, the text is not needed.
    let mut print = |text: &str| out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    print(prompt);
    let start = Instant::now();
    let mut decoder = StreamDecoder::new(vocabulary);
    let end = vocabulary.end_of_text().filter(|_| stop);
    let (mut first, mut written, mut is_at_end) = (None, Vec::new(), false);
    let generated = model.generate(&prompt_tokens, tokens, arguments.sampling(), |token| {
        first.get_or_insert_with(|| start.elapsed());
        is_at_end = end == Some(token);
        if is_at_end {
            // Generation is stopped by returning an error.
            return Err(Error::invalid("generate", "the text has ended"));
        }
        written.push(token);
        let text = decoder.push(token).map_err(|error| Error::invalid("decode", error.to_string()))?;
        print(&text);
        Ok(())
    });
    generated.map(drop).or_else(|error| if is_at_end { Ok(()) } else { Err(error) })?;
    print(&decoder.finish()?);
    print("\n");
    let (seconds, count) = (start.elapsed().as_secs_f64(), written.len());
    warn(format_args!("{count} tokens, {:.1} in a second", count as f64 / seconds));
    Ok(json!({
        "prompt": prompt,
        "text": vocabulary.tokenizer().decode(&written)?,
        "tokens": written,
        "at_end_of_text": is_at_end,
        "first_token_seconds": first.map(|time| time.as_secs_f64()),
        "seconds": seconds,
    }))
}
