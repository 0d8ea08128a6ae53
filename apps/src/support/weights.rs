//! Initial weights of a new training run.

use crate::support::console::print_line;
use crate::support::program::Outcome;
use std::path::Path;
use ternion::nn;
use ternion::prelude::*;

/// Checks that a file is a checkpoint or a safetensors file, without reading its tensors.
pub fn check(file: &Path) -> Outcome<()> {
    if !Checkpoint::is_at(file)? {
        nn::checkpoint::read_metadata(file)?;
    }
    Ok(())
}

/// Loads the weights of a checkpoint, or of a file with only weights, such as one from PyTorch,
/// into `model`.
pub fn load(model: &dyn Module, file: &Path, device: &Device) -> Outcome<()> {
    match Checkpoint::is_at(file)? {
        true => model
            .load_state_dict(&Checkpoint::read(file)?.state_dict("model", device)?)
            .map_err(|error| format!("{}: {error}", file.display()))?,
        false => nn::load(model, file)?,
    }
    print_line!("weights loaded from {}", file.display());
    Ok(())
}
