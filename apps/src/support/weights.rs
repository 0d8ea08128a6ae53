//! Weights that a new training begins with.

use crate::support::program::Outcome;
use crate::support::say::say;
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

/// Puts the weights of a checkpoint into `model`, or those of a file with nothing else, such as one from PyTorch.
pub fn load(model: &dyn Module, file: &Path, device: &Device) -> Outcome<()> {
    match Checkpoint::is_at(file)? {
        true => model
            .load_state_dict(&Checkpoint::read(file)?.state_dict("model", device)?)
            .map_err(|error| format!("{}: {error}", file.display()))?,
        false => nn::load(model, file)?,
    }
    say!("weights loaded from {}", file.display());
    Ok(())
}
