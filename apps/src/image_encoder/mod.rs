//! Memorizes an image: a multilayer perceptron from the position of a pixel to its color.
//!
//! ```sh
//! cargo run --release -p apps --bin image_encoder
//! cargo run --release -p apps --bin image_encoder \
//!     -- --image photo.png --picture photo-learned.png --dot graph.dot
//! nsys profile --trace=cuda,nvtx cargo run --release -p apps --features cuda \
//!     --bin image_encoder -- --device cuda --nvtx --steps 100
//! ```
//!
//! Without `--image` the program draws a picture. `docs/tutorials/image_encoder.md` walks through
//! it.

mod picture;

use crate::support::checksum::checksum;
use crate::support::console::print_line;
use crate::support::divergence::Divergence;
use crate::support::files::Files;
use crate::support::interrupts::Interrupts;
use crate::support::nvtx::NvtxRanges;
use crate::support::outputs::{self, FileOption};
use crate::support::program::{Outcome, exit_code};
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

/// Features of a position: sine and cosine of two coordinates at this many frequencies.
const FREQUENCIES: usize = 16;
const FEATURES: usize = 4 * FREQUENCIES;

/// Width of the three hidden layers.
const HIDDEN: usize = 64;

/// Factor of the learning rate per step.
const DECAY: f64 = 0.99999;

/// The name of the loss.
const LOSS: &str = "training";

/// Pixels whose colors are computed at once, without saving anything for the backward pass.
const PIXELS_AT_ONCE: usize = 1 << 15;

/// The largest batch: about 4 KB per pixel are saved for the backward pass.
const MAX_PIXELS: i64 = 1 << 18;

/// Memorizes an image: learns the map from the position of a pixel to its color.
#[derive(Parser, Debug)]
#[command(version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// The image, PNG or JPEG; by default the program draws one
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Steps of training; 0 only writes the output of the initial weights
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// Pixels per step
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=MAX_PIXELS))]
    batch: u32,
    /// Learning rate at the start; each step multiplies it by 0.99999
    #[arg(long, default_value_t = 5.33e-4)]
    lr: f64,
    /// Steps whose mean loss is reported as one value: each reading waits for the device
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    log_every: u64,
    /// Prints the layers with their shapes, parameters and arithmetic
    #[arg(long)]
    summary: bool,
    /// Reports steps, layers, backward passes and optimizer steps to NVIDIA's profilers
    #[arg(long)]
    nvtx: bool,
    /// Determines the initial weights and the pixels of each step
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the image and, to its right, the model's reconstruction
    #[arg(long, value_name = "FILE.png", default_value = "image_encoder.png")]
    picture: PathBuf,
    /// Draws the graph of the first step's loss, for Graphviz
    #[arg(long, value_name = "FILE.dot")]
    dot: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// Runs the program.
pub fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    check_files(arguments)?;
    let device = ternion::device(&arguments.device)?;
    let ranges = NvtxRanges::new(arguments.nvtx, &device)?;
    device.seed(arguments.seed);
    let image = match &arguments.image {
        Some(file) => read_image(file, &device)?,
        None => picture::draw(DRAWN_SIDE, &device)?,
    };
    let pixels = Pixels::of(&image)?;
    let model = encoder(&device)?;
    let mut training = Training::new(arguments, &model, &pixels)?;
    let parameters = model.parameter_count();
    print_line!("{parameters} parameters for {} x {} pixels on {device}", pixels.rows, pixels.cols);
    if arguments.summary {
        let shape = [arguments.batch as usize, 2];
        print_line!("{}", summary_of_shape(&model, shape, SummaryPass::ForwardBackward)?);
    }
    let interrupts = Interrupts::install()?;
    ranges.trace(&model, || training.run(&interrupts))?;
    if training.divergence.is_some() {
        arguments.files.write(|| results(&training, f64::NAN), || chart(&training.history, f64::NAN))?;
        return Ok(Divergence::check(training.divergence)?);
    }
    let learned = pixels.predict_image(&model)?;
    let psnr = psnr(&image, &learned)?;
    print_line!("PSNR {psnr:.2} dB after {} steps in {:.1} s", training.step, training.time.as_secs_f64());
    write_png(&Tensor::concat(&[&image, &learned], 2)?, &arguments.picture)?;
    let picture = arguments.picture.display();
    print_line!("{picture} written: the image on the left, what the model makes of it on the right");
    arguments.files.write(|| results(&training, psnr), || chart(&training.history, psnr))
}

fn check_files(arguments: &Arguments) -> Outcome<()> {
    let picture = Some(arguments.picture.clone());
    let output = |option, file| FileOption { option, file };
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

/// Sine and cosine of each coordinate at increasing frequencies, without which a perceptron of this
/// size learns only a blurred image (Tancik et al. 2020).
#[derive(Module)]
struct FrequencyEncoding {
    /// `[FREQUENCIES]`, f32, in half periods over the image: from 1 on, two per octave.
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

/// Returns the encoding, three hidden layers and the color output.
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
    /// `[pixels, 2]`, f32: column and row of each pixel's center, as fractions of the image.
    positions: Tensor,
    /// `[pixels, 3]`, f32.
    colors: Tensor,
    rows: usize,
    cols: usize,
    /// Checksum of the colors.
    checksum: String,
}

impl Pixels {
    /// Returns the pixels of `[3, rows, cols]` in row-major order.
    fn of(image: &Tensor) -> Result<Pixels> {
        let [channels, rows, cols] = image.sizes()?;
        let share = |at: usize, of: usize| (at as f32 + 0.5) / of as f32;
        let positions: Vec<f32> = (0..rows * cols)
            .flat_map(|pixel| [share(pixel % cols, cols), share(pixel / cols, rows)])
            .collect();
        let colors = image.reshape([channels, rows * cols])?.t()?.contiguous()?;
        Ok(Pixels {
            positions: Tensor::from_vec(positions, [rows * cols, 2], image.device())?,
            checksum: checksum(colors.to_bytes()?),
            colors,
            rows,
            cols,
        })
    }

    fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Returns positions and colors of random pixels.
    fn draw(&self, batch: usize) -> Result<(Tensor, Tensor)> {
        let device = self.positions.device();
        let drawn = Tensor::randint(0, self.len() as i64, [batch], DType::I64, device)?;
        Ok((self.positions.index_select(0, &drawn)?, self.colors.index_select(0, &drawn)?))
    }

    /// Returns the output of `model` for every position: `[3, rows, cols]`, from 0 to 1.
    fn predict_image(&self, model: &Sequential) -> Result<Tensor> {
        no_grad(|| {
            let colors: Vec<Tensor> = (self.positions.split(0, PIXELS_AT_ONCE)?.iter())
                .map(|positions| model.forward(positions))
                .collect::<Result<_>>()?;
            let colors = Tensor::concat(&colors.iter().collect::<Vec<_>>(), 0)?;
            colors.t()?.reshape([3, self.rows, self.cols])?.clamp(0.0, 1.0)
        })
    }
}

/// Returns the peak signal-to-noise ratio in dB of images from 0 to 1: `-10 log10(mean squared
/// error)`.
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
    /// Mean squared error per color channel since the previous reading.
    history: Recorder,
    /// The sum of the losses since that reading, and the number of steps, as a checkpoint stores
    /// them.
    partial_reading: Vec<f64>,
    /// Completed steps.
    step: u64,
    divergence: Option<Divergence>,
    /// Time of all steps of this run except the first, which compiles kernels.
    time: Duration,
}

impl<'a> Training<'a> {
    fn new(arguments: &'a Arguments, model: &'a Sequential, pixels: &'a Pixels) -> Outcome<Training<'a>> {
        let config =
            AdamWConfig { lr: arguments.lr, betas: [0.92, 0.95], weight_decay: 0.01, ..Default::default() };
        let adam = AdamW::new(model.parameters(), config)?;
        let (history, step, time) = (arguments.files.recorder(|step| step)?, 0, Duration::ZERO);
        let (partial_reading, divergence) = (vec![0.0, 0.0], None);
        Ok(Training { arguments, pixels, model, adam, history, partial_reading, step, divergence, time })
    }

    /// The complete state that is needed to resume as if the run had never stopped. The pixels of
    /// each step are drawn from the device's random number generator, which is part of it.
    fn state(&mut self) -> TrainingState<'_> {
        let Arguments { batch, lr, seed, .. } = self.arguments;
        TrainingState::new(self.pixels.positions.device())
            .model("model", self.model)
            .optimizer("adamw", &mut self.adam)
            .part("history", &mut self.history)
            .part("reading", &mut self.partial_reading)
            .setting("batch", batch)
            .setting("lr", lr)
            .setting("seed", seed)
            .setting("image", [self.pixels.rows, self.pixels.cols])
            .setting("colors", &self.pixels.checksum)
    }

    fn run(&mut self, interrupts: &Interrupts) -> Outcome<()> {
        let Training { arguments, pixels, .. } = *self;
        let Arguments { steps, lr, log_every, ref files, .. } = *arguments;
        let device = pixels.positions.device();
        let schedule = ExponentialLR::new(lr, DECAY)?;
        self.step = files.resume(&mut self.state())?;
        let first = self.step;
        if first >= steps {
            print_line!("no step is left: {first} were made, --steps {steps}");
            return files.checkpoint(first, &self.state());
        }
        // Summed on the device: reading each loss would wait for each step.
        let mut sum = Tensor::full((), self.partial_reading[0], DType::F32, device)?;
        let (mut start, mut stops) = (Instant::now(), false);
        while self.step < steps && self.divergence.is_none() && !stops {
            self.adam.set_lr(schedule.lr(self.step))?;
            let dot = arguments.dot.as_deref().filter(|_| self.step == first);
            let loss = in_span(SpanKind::Other, "step", "", || self.advance(dot))?;
            sum = no_grad(|| sum.add(&loss))?;
            self.partial_reading[1] += 1.0;
            stops = interrupts.should_stop();
            let is_last = self.step == steps || stops;
            if self.step.is_multiple_of(log_every) || is_last {
                self.record_reading(sum.item_f64()?, is_last)?;
                sum = Tensor::full((), self.partial_reading[0], DType::F32, device)?;
            }
            if self.step == first + 1 {
                device.synchronize()?;
                start = Instant::now();
            }
        }
        device.synchronize()?;
        self.time = start.elapsed();
        if stops {
            files.print_stopped(self.step);
        }
        Ok(())
    }

    /// Records the mean loss since the last reading, whose sum is `sum`, and saves.
    ///
    /// A reading that is cut short by the last step is saved before it is recorded: a run that
    /// resumes from there must not contain a reading that an uninterrupted run would not have.
    fn record_reading(&mut self, sum: f64, is_last: bool) -> Outcome<()> {
        let Arguments { steps, batch, log_every, ref files, .. } = *self.arguments;
        let is_complete = self.step.is_multiple_of(log_every);
        let mean = sum / (3.0 * self.partial_reading[1] * f64::from(batch));
        self.divergence = Divergence::detect(self.step, mean);
        let is_saved = self.divergence.is_none() && files.is_due(self.step.div_ceil(log_every), is_last);
        self.partial_reading[0] = sum;
        if is_saved && !is_complete {
            files.checkpoint(self.step, &self.state())?;
        }
        self.history.scalar(LOSS, self.step, mean)?;
        self.partial_reading = vec![0.0, 0.0];
        if is_saved && is_complete {
            files.checkpoint(self.step, &self.state())?;
        }
        print_line!("step {}/{steps}  mean squared error {mean:.6}", self.step);
        Ok(())
    }

    /// Runs one step, whose graph is drawn to `dot`; returns its loss, which stays on the device.
    fn advance(&mut self, dot: Option<&Path>) -> Outcome<Tensor> {
        let loss = in_span(SpanKind::Other, "forward", "", || self.loss())?;
        if let Some(file) = dot {
            outputs::write(file, &graph(self.model, &loss)?)?;
        }
        self.adam.step(&loss.backward()?)?;
        self.step += 1;
        Ok(loss.detach())
    }

    /// Returns the sum of squared errors of random pixels.
    fn loss(&self) -> Result<Tensor> {
        let (positions, colors) = self.pixels.draw(self.arguments.batch as usize)?;
        let loss = self.model.forward(&positions)?.mse_loss(&colors, Reduction::Sum)?;
        Ok(loss)
    }
}

/// Returns the graph that computed `loss`, with the names of the parameters and the statistics of
/// every saved tensor.
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
