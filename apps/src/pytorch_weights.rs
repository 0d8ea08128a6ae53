//! Loads weights that PyTorch wrote, compares the logits with PyTorch's, and writes weights for
//! PyTorch.
//!
//! ```sh
//! cargo run --release -p apps --bin pytorch_weights
//! cargo run --release -p apps --bin pytorch_weights \
//!     -- --save back.safetensors --save-case case.safetensors
//! ```
//!
//! Without `--load` and `--case` the files are those of tests/reference/weights, which
//! tests/reference/weights.py wrote. docs/tutorials/pytorch_weights.md walks through the program.

use crate::support::console::print_line;
use crate::support::outputs::{self, FileOption};
use crate::support::program::{Outcome, exit_code};
use clap::Parser;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use ternion::Conv2dOptions;
use ternion::nn::{self, StateDict, checkpoint};
use ternion::prelude::*;

/// The largest allowed difference of a logit from PyTorch's, in f32.
const TOLERANCE: f64 = 1e-5;

/// Loads weights that PyTorch wrote, compares logits, and writes weights for PyTorch.
#[derive(Parser, Debug)]
#[command(version, args_override_self = true)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
    /// Weights, as safetensors
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// An input and PyTorch's logits for it, as safetensors
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    /// Determines the initial weights, which are overwritten, and the images of --save-case
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Saves the weights, as safetensors
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Saves another input and its logits, for a comparison in PyTorch
    #[arg(long, value_name = "FILE")]
    save_case: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The model of tests/reference/weights.py: the fields have the names of its modules, so that the
/// keys are the same.
#[derive(Module)]
struct Classifier {
    conv: Conv2d,
    norm: BatchNorm2d,
    hidden: Linear,
    hidden_norm: BatchNorm1d,
    output: Linear,
}

impl Classifier {
    fn new(device: &Device) -> Result<Classifier> {
        let options = Conv2dOptions { padding: [1, 1], ..Default::default() };
        Ok(Classifier {
            conv: Conv2d::with_config(
                [1, 4],
                [3, 3],
                Conv2dConfig { options, ..Default::default() },
                device,
            )?,
            norm: nn::BatchNorm2d::new(4, device)?,
            hidden: Linear::new(4 * 4 * 4, 16, device)?,
            hidden_norm: BatchNorm1d::new(16, device)?,
            output: Linear::new(16, 3, device)?,
        })
    }
}

impl Forward for Classifier {
    /// # Shapes
    /// `[batch, 1, 8, 8] -> [batch, 3]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = self.norm.forward(&self.conv.forward(input)?)?.relu()?;
        let x = MaxPool2d::new(2).forward(&x)?.flatten(1, -1)?;
        let x = self.hidden_norm.forward(&self.hidden.forward(&x)?)?.relu()?;
        self.output.forward(&x)
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    exit_code(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let stored = |file: &Option<PathBuf>, name: &str| {
        let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/reference/weights").join(name);
        file.clone().unwrap_or_else(default)
    };
    let (weights, case) =
        (stored(&arguments.load, "model.safetensors"), stored(&arguments.case, "case.safetensors"));
    check_files(arguments, &weights, &case)?;
    let device = ternion::device(&arguments.device)?;
    device.seed(arguments.seed);
    let model = Classifier::new(&device)?;
    // The keys must match exactly; `load_with` loads a subset.
    nn::load(&model, &weights)?;
    // Running statistics instead of batch statistics, and no dropout.
    model.eval();
    print_line!("{} parameters from {} on {device}", model.parameter_count(), weights.display());
    let largest_difference = compare(&model, &case, &device)?;
    print_line!("largest difference of a logit from PyTorch's: {largest_difference:.2e}");
    if let Some(file) = &arguments.save {
        nn::save(&model, file)?;
        print_line!("weights saved to {}", file.display());
    }
    if let Some(file) = &arguments.save_case {
        save_case(&model, file, &device)?;
        print_line!("an input and its logits saved to {}", file.display());
    }
    if let Some(file) = &arguments.json {
        let results = json!({
            "device": device.name(),
            "parameters": model.parameter_count(),
            "largest_difference": largest_difference,
        });
        outputs::write(file, &format!("{results:#}\n"))?;
    }
    if largest_difference <= TOLERANCE {
        Ok(())
    } else {
        Err(format!("logits differ by {largest_difference}, expected at most {TOLERANCE}").into())
    }
}

fn check_files(arguments: &Arguments, weights: &Path, case: &Path) -> Outcome<()> {
    outputs::check_readable("--load", weights)?;
    outputs::check_readable("--case", case)?;
    let written = || {
        [("--save", &arguments.save), ("--save-case", &arguments.save_case), ("--json", &arguments.json)]
            .map(|(option, file)| FileOption { option, file })
    };
    outputs::check_distinct(&written())?;
    let [load, case] = [weights, case].map(|file| Some(file.to_path_buf()));
    let read = [("--load", &load), ("--case", &case)].map(|(option, file)| FileOption { option, file });
    outputs::check_not_overwritten(&read, &written())?;
    outputs::check_writable(&written())
}

/// Returns the largest difference between the logits for the input of a case and the logits stored
/// in it.
fn compare(model: &Classifier, case: &Path, device: &Device) -> Outcome<f64> {
    let case_tensors = checkpoint::read(case, device)?;
    let tensor = |name: &str| {
        case_tensors
            .get(name)
            .ok_or_else(|| format!("{}: expected tensors input and logits, no {name}", case.display()))
    };
    let logits = no_grad(|| model.forward(tensor("input")?).map_err(|error| error.to_string()))?;
    Ok(logits.sub(tensor("logits")?)?.abs()?.max(..)?.item_f64()?)
}

/// Saves random images and their logits.
fn save_case(model: &Classifier, file: &Path, device: &Device) -> Outcome<()> {
    let input = Tensor::randn([7, 1, 8, 8], DType::F32, device)?;
    let logits = no_grad(|| model.forward(&input))?;
    let case = StateDict::from([("input".into(), input), ("logits".into(), logits)]);
    Ok(checkpoint::write(&case, file)?)
}
