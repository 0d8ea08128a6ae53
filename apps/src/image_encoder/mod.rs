//! Learns an image by heart: a multilayer perceptron from the position of a pixel to its colour.
//!
//! ```sh
//! cargo run --release -p apps --bin image_encoder
//! cargo run --release -p apps --bin image_encoder -- --image photo.png --picture photo-learned.png --dot graph.dot
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda --bin image_encoder -- --device cuda --nvtx --steps 100
//! ```
//!
//! Without `--image` the program draws a picture of its own. `docs/tutorials/image_encoder.md` walks through it.

// Not all of it is needed here.

mod picture;

use crate::support::checksum::checksum;
use crate::support::divergence::Divergence;
use crate::support::files::Files;
use crate::support::interrupts::Interrupts;
use crate::support::outputs::{self, Output};
use crate::support::program::{Outcome, end};
use crate::support::ranges::Ranges;
use crate::support::say::say;
use clap::Parser;
use std::f64::consts::PI;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use ternion::autograd::DotOptions;
use ternion::data::{read_image, write_png};
use ternion::nn::schedule::ExponentialLR;
use ternion::nn::{SummaryPass, summary_of_shape};
use ternion::prelude::*;
use ternion::trace::{SpanKind, in_span};
use ternion::train::{Chart, Panel, Recorder, Scale, Series};

/// Rows and columns of the drawn picture.
const DRAWN_SIDE: usize = 192;

/// Features of a position: sine and cosine of two coordinates at so many frequencies.
const FREQUENCIES: usize = 16;
const FEATURES: usize = 4 * FREQUENCIES;

/// Width of the three hidden layers.
const HIDDEN: usize = 64;

/// Each step multiplies the learning rate by this.
const DECAY: f64 = 0.99999;

/// The name of the loss.
const LOSS: &str = "training";

/// Pixels whose colours are computed at once, where nothing is kept for backward.
const PIXELS_AT_ONCE: usize = 1 << 15;

/// The largest batch: some 4 KB are kept of each pixel for backward.
const MOST_PIXELS: i64 = 1 << 18;

/// Learns an image by heart: from the position of a pixel to its colour.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// The image, PNG or JPEG; by default one that the program draws
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Steps of training; 0 only writes what the first weights make of the image
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// Pixels in a step
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=MOST_PIXELS))]
    batch: u32,
    /// Learning rate at the start; each step multiplies it by 0.99999
    #[arg(long, default_value_t = 5.33e-4)]
    lr: f64,
    /// Steps whose mean loss is told as one: each reading waits for the device
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    log_every: u64,
    /// Prints the layers with their shapes, parameters and arithmetic
    #[arg(long)]
    summary: bool,
    /// Reports to NVIDIA's profilers where steps, layers, backward passes and the optimizer's steps begin and end
    #[arg(long)]
    nvtx: bool,
    /// Decides first weights and the pixels of each step
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the image, and beside it what the model makes of it
    #[arg(long, value_name = "FILE.png", default_value = "image_encoder.png")]
    picture: PathBuf,
    /// Draws the graph of the first step's loss, for Graphviz
    #[arg(long, value_name = "FILE.dot")]
    dot: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// The program.
pub fn main() -> ExitCode {
    end(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    check_files(arguments)?;
    let device = ternion::device(&arguments.device)?;
    let ranges = Ranges::new(arguments.nvtx, &device)?;
    device.seed(arguments.seed);
    let image = match &arguments.image {
        Some(file) => read_image(file, &device)?,
        None => picture::draw(DRAWN_SIDE, &device)?,
    };
    let pixels = Pixels::of(&image)?;
    let model = encoder(&device)?;
    let mut training = Training::new(arguments, &model, &pixels)?;
    let parameters = model.parameter_count();
    say!("{parameters} parameters for {} x {} pixels on {device}", pixels.rows, pixels.cols);
    if arguments.summary {
        let shape = [arguments.batch as usize, 2];
        say!("{}", summary_of_shape(&model, shape, SummaryPass::ForwardBackward)?);
    }
    let interrupts = Interrupts::watch()?;
    ranges.of(&model, || training.run(&interrupts))?;
    if training.divergence.is_some() {
        arguments.files.write(|| results(&training, f64::NAN), || chart(&training.history, f64::NAN))?;
        return Ok(Divergence::none(training.divergence)?);
    }
    let learned = pixels.image_of(&model)?;
    let psnr = psnr(&image, &learned)?;
    say!("PSNR {psnr:.2} dB after {} steps in {:.1} s", training.step, training.time.as_secs_f64());
    write_png(&Tensor::concat(&[&image, &learned], 2)?, &arguments.picture)?;
    let picture = arguments.picture.display();
    say!("{picture} written: the image on the left, what the model makes of it on the right");
    arguments.files.write(|| results(&training, psnr), || chart(&training.history, psnr))
}

fn check_files(arguments: &Arguments) -> Outcome<()> {
    let picture = Some(arguments.picture.clone());
    let output = |option, file| Output { option, file };
    arguments.files.check(
        &[output("--image", &arguments.image)],
        &[output("--picture", &picture), output("--dot", &arguments.dot)],
    )?;
    let is_png = arguments.picture.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    if !is_png {
        let picture = arguments.picture.display();
        return Err(format!("--picture: {picture}: written as PNG, expected a name that ends in .png").into());
    }
    Ok(())
}

// ---- The model

/// Sine and cosine of each coordinate at rising frequencies, without which a perceptron of such a size learns no more than a blur (Tancik et al. 2020).
#[derive(Module)]
struct FrequencyEncoding {
    /// `[FREQUENCIES]`, f32, in half turns over the image: from 1 on, two to the octave.
    #[module(skip)]
    frequencies: Tensor,
}

impl FrequencyEncoding {
    fn new(device: &Device) -> Result<FrequencyEncoding> {
        let frequencies: Vec<f32> =
            (0..FREQUENCIES).map(|index| (PI * 2f64.powf(index as f64 / 2.0)) as f32).collect();
        Ok(FrequencyEncoding { frequencies: Tensor::from_vec(frequencies, FREQUENCIES, device)? })
    }
}

impl Forward for FrequencyEncoding {
    /// # Shapes
    /// `[batch, 2] -> [batch, FEATURES]`
    fn forward(&self, positions: &Tensor) -> Result<Tensor> {
        let [batch, coordinates] = positions.sizes()?;
        let angles = positions.reshape([batch, coordinates, 1])?.mul(&self.frequencies)?;
        let angles = angles.reshape([batch, coordinates * FREQUENCIES])?;
        Tensor::concat(&[&angles.sin()?, &angles.cos()?], 1)
    }
}

/// The encoding, three hidden layers and a colour.
fn encoder(device: &Device) -> Result<Sequential> {
    let linear = |inputs: usize, outputs: usize| {
        let config = LinearConfig {
            weight_init: Init::Normal { mean: 0.0, std: 1.0 / (inputs as f64).sqrt() },
            bias_init: Some(Init::Constant(0.0)),
            ..Default::default()
        };
        Linear::with_config(inputs, outputs, config, device)
    };
    let leaky = LeakyReLU { slope: 0.1 };
    Ok(Sequential::new()
        .with(FrequencyEncoding::new(device)?)
        .with(linear(FEATURES, HIDDEN)?)
        .with(leaky)
        .with(linear(HIDDEN, HIDDEN)?)
        .with(leaky)
        .with(linear(HIDDEN, HIDDEN)?)
        .with(leaky)
        .with(linear(HIDDEN, 3)?))
}

// ---- The image

/// The pixels of an image, on a device.
struct Pixels {
    /// `[pixels, 2]`, f32: column and row of each pixel's middle, as shares of the image.
    positions: Tensor,
    /// `[pixels, 3]`, f32.
    colours: Tensor,
    rows: usize,
    cols: usize,
    /// Of the colours.
    checksum: String,
}

impl Pixels {
    /// The pixels of `[3, rows, cols]`, row by row.
    fn of(image: &Tensor) -> Result<Pixels> {
        let [channels, rows, cols] = image.sizes()?;
        let share = |at: usize, of: usize| (at as f32 + 0.5) / of as f32;
        let positions: Vec<f32> = (0..rows * cols)
            .flat_map(|pixel| [share(pixel % cols, cols), share(pixel / cols, rows)])
            .collect();
        let colours = image.reshape([channels, rows * cols])?.t()?.contiguous()?;
        Ok(Pixels {
            positions: Tensor::from_vec(positions, [rows * cols, 2], image.device())?,
            checksum: checksum(colours.to_bytes()?),
            colours,
            rows,
            cols,
        })
    }

    fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Positions and colours of pixels drawn at random.
    fn draw(&self, batch: usize) -> Result<(Tensor, Tensor)> {
        let device = self.positions.device();
        let drawn = Tensor::randint(0, self.len() as i64, [batch], DType::I64, device)?;
        Ok((self.positions.index_select(0, &drawn)?, self.colours.index_select(0, &drawn)?))
    }

    /// What `model` makes of every position: `[3, rows, cols]`, from 0 to 1.
    fn image_of(&self, model: &Sequential) -> Result<Tensor> {
        no_grad(|| {
            let colours: Vec<Tensor> = (self.positions.split(0, PIXELS_AT_ONCE)?.iter())
                .map(|positions| model.forward(positions))
                .collect::<Result<_>>()?;
            let colours = Tensor::concat(&colours.iter().collect::<Vec<_>>(), 0)?;
            colours.t()?.reshape([3, self.rows, self.cols])?.clamp(0.0, 1.0)
        })
    }
}

/// Peak signal-to-noise ratio in dB, of images from 0 to 1: `-10 log10(mean squared error)`.
fn psnr(image: &Tensor, learned: &Tensor) -> Result<f64> {
    Ok(-10.0 * learned.mse_loss(image, Reduction::Mean)?.item_f64()?.log10())
}

// ---- Training

/// A model being trained.
struct Training<'a> {
    arguments: &'a Arguments,
    pixels: &'a Pixels,
    model: &'a Sequential,
    adam: AdamW,
    /// Mean squared error of a colour's channel since the reading before.
    history: Recorder,
    /// Sum of the losses since that reading, and their steps, as a checkpoint keeps them.
    open_reading: Vec<f64>,
    /// Steps that were made.
    step: u64,
    divergence: Option<Divergence>,
    /// Of all steps of this run but the first, which compiles kernels.
    time: Duration,
}

impl<'a> Training<'a> {
    fn new(arguments: &'a Arguments, model: &'a Sequential, pixels: &'a Pixels) -> Outcome<Training<'a>> {
        let config =
            AdamWConfig { lr: arguments.lr, betas: [0.92, 0.95], weight_decay: 0.01, ..Default::default() };
        let adam = AdamW::new(model.parameters(), config)?;
        let (history, step, time) = (arguments.files.recorder(|step| step)?, 0, Duration::ZERO);
        let (open_reading, divergence) = (vec![0.0, 0.0], None);
        Ok(Training { arguments, pixels, model, adam, history, open_reading, step, divergence, time })
    }

    /// All that it takes to go on as if the training had never stopped. The pixels of each step are drawn from the device's random numbers, which are part of it.
    fn state(&mut self) -> TrainingState<'_> {
        let Arguments { batch, lr, seed, .. } = self.arguments;
        TrainingState::new(self.pixels.positions.device())
            .model("model", self.model)
            .optimizer("adamw", &mut self.adam)
            .part("history", &mut self.history)
            .part("reading", &mut self.open_reading)
            .setting("batch", batch)
            .setting("lr", lr)
            .setting("seed", seed)
            .setting("image", [self.pixels.rows, self.pixels.cols])
            .setting("colours", &self.pixels.checksum)
    }

    fn run(&mut self, interrupts: &Interrupts) -> Outcome<()> {
        let Training { arguments, pixels, .. } = *self;
        let Arguments { steps, lr, log_every, ref files, .. } = *arguments;
        let device = pixels.positions.device();
        let schedule = ExponentialLR::new(lr, DECAY)?;
        self.step = files.resume(&mut self.state())?;
        let first = self.step;
        if first >= steps {
            say!("no step is left: {first} were made, --steps {steps}");
            return files.checkpoint(first, &self.state());
        }
        // Added up on the device: reading each loss would wait for each step.
        let mut sum = Tensor::full((), self.open_reading[0], DType::F32, device)?;
        let (mut begun, mut stops) = (Instant::now(), false);
        while self.step < steps && self.divergence.is_none() && !stops {
            self.adam.set_lr(schedule.lr(self.step))?;
            let dot = arguments.dot.as_deref().filter(|_| self.step == first);
            let loss = in_span(SpanKind::Other, "step", "", || self.advance(dot))?;
            sum = no_grad(|| sum.add(&loss))?;
            self.open_reading[1] += 1.0;
            stops = interrupts.stop();
            let is_last = self.step == steps || stops;
            if self.step.is_multiple_of(log_every) || is_last {
                self.read(sum.item_f64()?, is_last)?;
                sum = Tensor::full((), self.open_reading[0], DType::F32, device)?;
            }
            if self.step == first + 1 {
                device.synchronize()?;
                begun = Instant::now();
            }
        }
        device.synchronize()?;
        self.time = begun.elapsed();
        if stops {
            files.tell_stopped(self.step);
        }
        Ok(())
    }

    /// Notes the mean loss since the last reading, whose sum is `sum`, and saves.
    ///
    /// A reading that is cut short by the last step is saved before it is noted: a training that goes on from there has none that one without this end would not have.
    fn read(&mut self, sum: f64, is_last: bool) -> Outcome<()> {
        let Arguments { steps, batch, log_every, ref files, .. } = *self.arguments;
        let is_whole = self.step.is_multiple_of(log_every);
        let mean = sum / (3.0 * self.open_reading[1] * f64::from(batch));
        self.divergence = Divergence::of(self.step, mean);
        let is_saved = self.divergence.is_none() && files.is_due(self.step.div_ceil(log_every), is_last);
        self.open_reading[0] = sum;
        if is_saved && !is_whole {
            files.checkpoint(self.step, &self.state())?;
        }
        self.history.scalar(LOSS, self.step, mean)?;
        self.open_reading = vec![0.0, 0.0];
        if is_saved && is_whole {
            files.checkpoint(self.step, &self.state())?;
        }
        say!("step {}/{steps}  mean squared error {mean:.6}", self.step);
        Ok(())
    }

    /// One step, whose graph is drawn to `dot`: its loss, which stays on the device.
    fn advance(&mut self, dot: Option<&Path>) -> Outcome<Tensor> {
        let loss = in_span(SpanKind::Other, "forward", "", || self.loss())?;
        if let Some(file) = dot {
            outputs::write(file, &graph(self.model, &loss)?)?;
        }
        self.adam.step(&loss.backward()?)?;
        self.step += 1;
        Ok(loss.detach())
    }

    /// The sum of squared errors of pixels drawn at random.
    fn loss(&self) -> Result<Tensor> {
        let (positions, colours) = self.pixels.draw(self.arguments.batch as usize)?;
        let loss = self.model.forward(&positions)?.mse_loss(&colours, Reduction::Sum)?;
        Ok(loss)
    }
}

/// The graph that computed `loss`, with the names of the parameters and the numbers of every tensor that is kept for backward.
fn graph(model: &Sequential, loss: &Tensor) -> Result<String> {
    let named = model.named_parameters().into_iter().map(|(name, param)| (name, param.tensor()));
    loss.to_dot_with(DotOptions { statistics: true, names: &named.collect::<Vec<_>>() })
}

// ---- Results

fn results(training: &Training<'_>, psnr: f64) -> serde_json::Value {
    let Training { arguments, pixels, history, step, time, .. } = training;
    let device = pixels.positions.device();
    serde_json::json!({
        "device": device.name(),
        "seed": arguments.seed,
        "rows": pixels.rows,
        "cols": pixels.cols,
        "steps": step,
        "batch": arguments.batch,
        "psnr": psnr,
        "final_loss": history.series(LOSS).last().map(|point| point.1),
        "train_seconds": time.as_secs_f64(),
        "peak_memory_bytes": device.memory().peak,
    })
}

fn chart(history: &Recorder, psnr: f64) -> Chart {
    let panel =
        Panel::new("mean squared error").scale(Scale::Logarithmic).series(Series::recorded(history, LOSS));
    Chart::new(&format!("PSNR {psnr:.2} dB"), "steps").panel(panel)
}
