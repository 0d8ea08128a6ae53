//! GPT-2: loads published weights, writes on, tells how well it predicts a text, and trains from scratch.
//!
//! ```sh
//! cargo run --release -p apps --bin gpt2
//! cargo run --release -p apps --bin gpt2 -- --load gpt2 --generate "The meaning of life is" --tokens 100 --top-k 50
//! cargo run --release -p apps --bin gpt2 -- --load gpt2 --perplexity text.txt --stride 512
//! cargo run --release -p apps --bin gpt2 -- --bpe gpt2 --tokenize text.txt --out tokens.bin
//! cargo run --release -p apps --features cuda --bin gpt2 -- --device cuda --bpe gpt2 --train tokens.bin --save my-gpt2
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin gpt2 -- --device cuda --nvtx --eager --steps 20
//! ```
//!
//! `gpt2` is a folder with Hugging Face's files: model.safetensors, config.json, vocab.json, merges.txt. Without any option a small model learns
//! this project's documents and source, which are within the program, with bytes as tokens, and writes on.
//!
//! The whole step of a training is recorded, where the device can, and replayed as one; with `--eager` it runs op by op.

mod presets;
mod training;
mod vocabulary;

use crate::gpt2::presets::{LARGE, SMALL, Usual, at_least_1, help};
use crate::gpt2::training::{Keeping, Pieces, Settings};
use crate::gpt2::vocabulary::{Shown, Vocabulary};
use crate::support::checksum::{checksum, file_checksum};
use crate::support::corpus;
use crate::support::given::Given;
use crate::support::interrupts::Interrupts;
use crate::support::memory;
use crate::support::outputs::{self, Output};
use crate::support::program::{Outcome, end};
use crate::support::ranges::Ranges;
use crate::support::say::{say, warn};
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

/// What the small model that was trained on nothing else is asked to go on with.
const PROMPT: &str = "A tensor ";

/// Loads GPT-2, writes on, tells how well it predicts a text, and trains it.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// A folder with model.safetensors and config.json under Hugging Face's names, or the safetensors file; else weights are random
    #[arg(long, value_name = "FOLDER")]
    load: Option<PathBuf>,
    /// A folder with vocab.json and merges.txt, or with the same as encoder.json and vocab.bpe; else those beside the weights, else tokens are bytes
    #[arg(long, value_name = "FOLDER")]
    bpe: Option<PathBuf>,
    /// Different tokens of a new model; as many as the vocabulary has by default
    #[arg(long)]
    vocabulary: Option<usize>,
    #[arg(long, help = help("Blocks of a new model", |of| of.layers), value_parser = at_least_1)]
    layers: Option<usize>,
    #[arg(long, help = help("Heads of attention; with --load only where no config.json tells them", |of| of.heads), value_parser = at_least_1)]
    heads: Option<usize>,
    #[arg(long, help = help("Numbers of a token of a new model", |of| of.width), value_parser = at_least_1)]
    width: Option<usize>,
    #[arg(long, help = help("Tokens that a new model sees at once", |of| of.context), value_parser = at_least_1)]
    context: Option<usize>,
    /// Share of numbers that become 0 in training
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// Writes what follows this text
    #[arg(long, value_name = "TEXT")]
    generate: Option<String>,
    /// Tokens to write. Those beyond the context take longer: for each, the whole context is computed anew
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Below 1 likely tokens become likelier; at 0 the likeliest is written
    #[arg(long, default_value_t = 1.0)]
    temperature: f64,
    /// Chooses among so many of the likeliest
    #[arg(long)]
    top_k: Option<usize>,
    /// Chooses among the likeliest whose probabilities together reach this
    #[arg(long)]
    top_p: Option<f64>,
    /// Stops where a text ends: at <|endoftext|>, token 50256 of GPT-2, which is not written
    #[arg(long)]
    stop: bool,
    /// Tells how well this text is predicted
    #[arg(long, value_name = "FILE")]
    perplexity: Option<PathBuf>,
    /// Tokens between the windows in which it is predicted; half the context by default
    #[arg(long, requires = "perplexity")]
    stride: Option<usize>,
    /// Learns from a file of tokens, each an unsigned little-endian number of two bytes
    #[arg(long, value_name = "TOKENS")]
    train: Option<PathBuf>,
    /// A file of tokens that are held out
    #[arg(long, value_name = "TOKENS", requires = "train")]
    validation: Option<PathBuf>,
    #[arg(long, help = help("Steps of training, those before --resume among them, which may be others than those of the checkpoint", |of| of.steps))]
    steps: Option<u64>,
    /// Windows at once
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// So many batches make a step
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    accumulate: u32,
    #[arg(long, help = help("The largest learning rate; it falls to a tenth along a cosine. May change on --resume", |of| of.lr))]
    lr: Option<f64>,
    /// Steps in which the learning rate rises; a tenth of them by default, on --resume as many as before
    #[arg(long)]
    warmup: Option<u64>,
    /// In which dtype products are computed in training: f32, ieee, tf32, bf16 or f16; weights stay f32
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Of matrices
    #[arg(long, default_value_t = 0.1)]
    weight_decay: f64,
    /// Steps between two tests on held-out tokens
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    eval_every: u64,
    /// Turns a UTF-8 text into a file of tokens, and does nothing else
    #[arg(long, value_name = "FILE", requires = "out")]
    tokenize: Option<PathBuf>,
    /// The file of tokens
    #[arg(long, value_name = "TOKENS", requires = "tokenize")]
    out: Option<PathBuf>,
    /// Runs each training step op by op, and records none. Both end with the same weights, bit for bit
    #[arg(long)]
    eager: bool,
    /// Tells NVIDIA's profilers where steps, layers, backward passes and the optimizer's steps begin and end; those inside of a step only where it runs op by op, as with --eager
    #[arg(long)]
    nvtx: bool,
    /// Decides first weights, the windows and what is written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the losses of a training
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Notes the losses of a training: metrics.jsonl, and files for TensorBoard
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Keeps all of a training in this file, written at every test, at the end and at Ctrl-C
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Goes on from such a file, and keeps writing to it where --checkpoint names no other. Sizes, steps, --lr and --warmup are those of the file where they are not given, other options must be the same
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Saves config.json and model.safetensors under Hugging Face's names, or the weights alone to a file that ends in .safetensors
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

impl Arguments {
    /// Whether a model is to learn: from tokens that are named, in a training that is kept, or where nothing else is asked for.
    fn learns(&self) -> bool {
        let asks_for_less = self.load.is_some() || self.generate.is_some() || self.perplexity.is_some();
        self.train.is_some() || self.checkpoint().is_some() || !asks_for_less
    }

    /// The text to go on with, if any is to be written.
    fn prompt(&self) -> Option<&str> {
        self.generate.as_deref().or((self.learns() && self.train.is_none()).then_some(PROMPT))
    }

    fn sampling(&self) -> Sampling {
        let Arguments { temperature, top_k, top_p, .. } = *self;
        Sampling { temperature, top_k, top_p }
    }

    fn checkpoint(&self) -> Option<&Path> {
        self.checkpoint.as_deref().or(self.resume.as_deref())
    }

    /// What is taken where nothing else is said: of the checkpoint that is gone on from, else of GPT-2 for tokens that are named, else ones that a CPU trains in a minute or two.
    fn usual(&self) -> Outcome<Usual> {
        match &self.resume {
            Some(file) => Usual::of(&Checkpoint::read(file)?),
            None => Ok(if self.train.is_some() { LARGE } else { SMALL }),
        }
    }

    fn config(&self, vocabulary: &Vocabulary) -> Outcome<GPTConfig> {
        let usual = self.usual()?;
        let own = usual.vocabulary.unwrap_or(vocabulary.tokenizer().vocabulary_size());
        Ok(GPTConfig {
            vocabulary: self.vocabulary.unwrap_or(own),
            context: self.context.unwrap_or(usual.context),
            layers: self.layers.unwrap_or(usual.layers),
            heads: self.heads.unwrap_or(usual.heads),
            width: self.width.unwrap_or(usual.width),
            dropout: self.dropout,
            ..Default::default()
        })
    }

    fn settings(&self) -> Outcome<Settings> {
        let usual = self.usual()?;
        let steps = self.steps.unwrap_or(usual.steps);
        Ok(Settings {
            steps,
            batch: self.batch as usize,
            accumulate: self.accumulate as usize,
            lr: self.lr.unwrap_or(usual.lr),
            warmup: self.warmup.or(usual.warmup).unwrap_or(steps / 10),
            weight_decay: self.weight_decay,
            precision: self.precision,
            eval_every: self.eval_every,
            seed: self.seed,
            eager: self.eager,
        })
    }
}

/// The program.
pub fn main() -> ExitCode {
    let (arguments, given) = Given::parse();
    end(run(&arguments, &given))
}

fn run(arguments: &Arguments, given: &Given) -> Outcome<()> {
    check_heeded(arguments, given)?;
    check_files(arguments)?;
    let vocabulary = Vocabulary::find(arguments.bpe.as_deref(), arguments.load.as_deref())?;
    if let (Some(text), Some(out)) = (&arguments.tokenize, &arguments.out) {
        return tokenize(&vocabulary, text, out);
    }
    let device = ternion::device(&arguments.device)?;
    let ranges = Ranges::new(arguments.nvtx, &device)?;
    let model = model(arguments, &vocabulary, &device)?;
    ranges.of(&model, || work(arguments, &model, &vocabulary, &device))
}

/// Trains, tells and writes what is asked for.
fn work(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, device: &Device) -> Outcome<()> {
    if let Some(prompt) = arguments.prompt() {
        check_prompt(arguments, model, vocabulary, prompt)?;
    }
    let mut results = Map::new();
    results.insert("device".into(), device.name().into());
    results.insert("parameters".into(), model.parameter_count().into());
    results.insert("seed".into(), arguments.seed.into());
    if arguments.learns() {
        let pieces = pieces(arguments, model, vocabulary)?;
        let keeping = Keeping {
            checkpoint: arguments.checkpoint(),
            resume: arguments.resume.as_deref(),
            record: arguments.record.as_deref(),
            interrupts: &Interrupts::watch()?,
        };
        let found = training::learn(model, arguments.settings()?, &pieces, &keeping)?;
        if let Some(file) = &arguments.plot {
            found.chart(&format!("{} parameters on {device}", model.parameter_count())).write(file)?;
            say!("{} written", file.display());
        }
        results.insert("training".into(), found.json());
        if let Err(divergence) = found.has_not_diverged() {
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

/// Options that decide how a model learns.
const OF_TRAINING: [&str; 12] = [
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

/// Options that decide what is written.
const OF_WRITING: [&str; 5] = ["tokens", "temperature", "top_k", "top_p", "stop"];

/// The sizes of a new model; heads are told by --load, too, where no file tells them.
const SIZES: [&str; 4] = ["vocabulary", "layers", "width", "context"];

/// That no option comes to nothing.
fn check_heeded(arguments: &Arguments, given: &Given) -> Outcome<()> {
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
        let all = [&others[..], &OF_TRAINING, &OF_WRITING, &SIZES].concat();
        return given.refuse(&all, "--tokenize does nothing else");
    }
    if arguments.load.is_some() {
        given.refuse(&SIZES, "the sizes are those of --load")?;
    }
    if !arguments.learns() {
        given.refuse(
            &OF_TRAINING,
            "nothing is trained: give --train, or leave out --load, --generate and --perplexity",
        )?;
    }
    match arguments.prompt() {
        Some(_) => Ok(()),
        None => given.refuse(&OF_WRITING, "nothing is written: give --generate"),
    }
}

/// What can be wrong with the files is told before weights are read and models are trained.
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
    let beside = checkpoint.as_deref().map(outputs::beside);
    let written = || {
        let Arguments { json, out, plot, .. } = arguments;
        [
            ("--save", &save),
            ("--json", json),
            ("--out", out),
            ("--plot", plot),
            ("--checkpoint", &checkpoint),
            (outputs::BESIDE, &beside),
        ]
        .map(|(option, file)| Output { option, file })
    };
    outputs::check_distinct(&written())?;
    // Going on from a checkpoint and saving there is fine.
    let kept = read.map(|(option, file)| Output { option, file });
    outputs::check_kept(&kept[..kept.len() - 1], &written())?;
    outputs::check_writable(&written())
}

fn is_file_of_weights(path: Option<&Path>) -> bool {
    path.and_then(Path::extension).is_some_and(|extension| extension == "safetensors")
}

fn weights_file(path: &Path) -> PathBuf {
    if is_file_of_weights(Some(path)) { path.to_path_buf() } else { path.join("model.safetensors") }
}

fn tokenize(vocabulary: &Vocabulary, text: &Path, out: &Path) -> Outcome<()> {
    say!("{vocabulary}");
    let count = tokenize_file(text, vocabulary.tokenizer(), out)?;
    say!("{count} tokens written to {}", out.display());
    Ok(())
}

/// The model in `--load`, or one of random weights.
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
    say!(
        "{} parameters on {device}: {layers} blocks, {heads} heads, width {width}, context {context}",
        model.parameter_count()
    );
    // Whoever only trains on a file of tokens needs no text.
    let needs_text =
        arguments.generate.is_some() || arguments.perplexity.is_some() || arguments.train.is_none();
    if needs_text {
        vocabulary.check(model.config().vocabulary)?;
        say!("{vocabulary}");
    }
    if arguments.load.is_none() && !arguments.learns() {
        say!("RANDOM WEIGHTS: no --load and no --train, so that what comes out is noise");
    }
    Ok(model)
}

/// The sizes of a new model, for which there is memory.
fn checked_config(arguments: &Arguments, vocabulary: &Vocabulary, device: &Device) -> Outcome<GPTConfig> {
    let config = arguments.config(vocabulary)?;
    let batch = if arguments.learns() { arguments.batch as usize } else { 0 };
    let GPTConfig { vocabulary, layers, width, context, .. } = config;
    let sizes = format!(
        "--vocabulary {vocabulary}, --layers {layers}, --width {width}, --context {context}, --batch {batch}"
    );
    memory::check(device, memory::of_gpt(&config, batch), &sizes)?;
    Ok(config)
}

/// The tokens that are learned from, and those that are held out.
fn pieces(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary) -> Outcome<Pieces> {
    let GPTConfig { vocabulary: tokens, context, .. } = *model.config();
    if let Some(file) = &arguments.train {
        let open = |path: &PathBuf| -> Outcome<_> {
            let file = TokenFile::open(path, tokens)?;
            let windows = file.windows(context).map_err(|error| in_file(path, error))?;
            Ok((windows, file.len()))
        };
        let validation = arguments.validation.as_ref().map(open).transpose()?.map(|(windows, _)| windows);
        let (train, train_tokens) = open(file)?;
        // Takes a second for each gigabyte or so: only where a training could go on with other tokens.
        let kept = arguments.checkpoint().map(|_| file_checksum(file));
        let checksum = kept.transpose().map_err(|error| in_file(file, error))?;
        return Ok(Pieces { train, train_tokens, checksum, validation });
    }
    say!("learning from this project's documents and source");
    let (train, validation) = corpus::text()?.train_validation()?;
    let tokens = |text: &Text| vocabulary.tokenizer().encode(text.as_str()).map(Tokens::new);
    let (train, validation) = (tokens(&train)?, tokens(&validation)?);
    Ok(Pieces {
        train: train.windows(context)?,
        train_tokens: train.len(),
        checksum: Some(checksum(train.as_slice().iter().flat_map(|token| token.to_le_bytes()))),
        validation: Some(validation.windows(context)?),
    })
}

/// An error with the file that it is about.
fn in_file(file: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn save(model: &GPT, path: &Path) -> Outcome<()> {
    if is_file_of_weights(Some(path)) {
        checkpoint::write(&gpt2_tensors(model)?, path)?;
    } else {
        save_gpt2(model, path)?;
    }
    say!("model saved to {}", path.display());
    Ok(())
}

/// How well the text is predicted, told and as JSON.
fn perplexity(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, file: &Path) -> Outcome<Value> {
    let text = Text::read(file)?;
    let tokens = vocabulary.tokenizer().encode(text.as_str()).map_err(|error| in_file(file, error))?;
    let stride = arguments.stride.unwrap_or((model.config().context / 2).max(1));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} tokens")?.progress_chars("=> ");
    let bar = ProgressBar::new(tokens.len().saturating_sub(1) as u64).with_style(style);
    let begun = Instant::now();
    let found = model.text_loss(&tokens, stride, |predicted| {
        bar.set_position(predicted as u64);
        Ok(())
    });
    let found = found.map_err(|error| in_file(file, error))?;
    bar.finish_and_clear();
    let bytes = text.as_str().len();
    let bits_per_byte = found.loss * found.tokens as f64 / bytes as f64 / std::f64::consts::LN_2;
    say!(
        "perplexity {:.3} of {} tokens (loss {:.4}, {bits_per_byte:.4} bits a byte), windows of {} every {stride}",
        found.perplexity(),
        found.tokens,
        found.loss,
        model.config().context
    );
    Ok(json!({
        "tokens": found.tokens,
        "bytes": bytes,
        "stride": stride,
        "loss": found.loss,
        "perplexity": found.perplexity(),
        "bits_per_byte": bits_per_byte,
        "seconds": begun.elapsed().as_secs_f64(),
    }))
}

/// That something can be written behind `prompt`: told before anything is trained or printed.
fn check_prompt(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, prompt: &str) -> Outcome<()> {
    if arguments.stop && vocabulary.end_of_text().is_none() {
        return Err("--stop: this vocabulary has no <|endoftext|>".into());
    }
    let start = vocabulary.tokenizer().encode(prompt)?;
    let checked = model.generate(&start, 0, arguments.sampling(), |_| Ok(()));
    checked.map(drop).map_err(|error| format!("--generate {prompt:?}: {error}").into())
}

/// Writes what follows `prompt`, each token as soon as it is chosen.
fn generate(arguments: &Arguments, model: &GPT, vocabulary: &Vocabulary, prompt: &str) -> Outcome<Value> {
    let Arguments { tokens, stop, seed, .. } = *arguments;
    let start = vocabulary.tokenizer().encode(prompt)?;
    // What is written is a matter of the seed, whatever came before.
    model.wte.weight.device().seed(seed);
    let mut out = std::io::stdout();
    // A reader that has gone away needs no more text.
    let mut print = |text: &str| out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok();
    print(prompt);
    let begun = Instant::now();
    let mut shown = Shown::new(vocabulary);
    let end = vocabulary.end_of_text().filter(|_| stop);
    let (mut first, mut written, mut is_at_end) = (None, Vec::new(), false);
    let made = model.generate(&start, tokens, arguments.sampling(), |token| {
        first.get_or_insert_with(|| begun.elapsed());
        is_at_end = end == Some(token);
        if is_at_end {
            // An error is the way to end a generation.
            return Err(Error::invalid("generate", "the text has ended"));
        }
        written.push(token);
        let text = shown.push(token).map_err(|error| Error::invalid("decode", error.to_string()))?;
        print(&text);
        Ok(())
    });
    made.map(drop).or_else(|error| if is_at_end { Ok(()) } else { Err(error) })?;
    print(&shown.rest()?);
    print("\n");
    let (seconds, count) = (begun.elapsed().as_secs_f64(), written.len());
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
