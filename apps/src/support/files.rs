//! The files that a training run reads and writes, as command-line options that are checked first.

use crate::support::console::print_line;
use crate::support::outputs::{self, FileOption};
use crate::support::program::Outcome;
use crate::support::saving::Saving;
use std::path::PathBuf;
use ternion::prelude::*;
use ternion::train::{Chart, Recorder, Start};

/// The files of a training run.
#[derive(clap::Args, Debug)]
pub struct Files {
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the recorded values
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Records values during training, for TensorBoard and as JSON lines
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    #[command(flatten)]
    pub saving: Saving,
    /// Saves a checkpoint at each N-th report of the losses instead of each one
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
}

impl Files {
    /// Checks that the files to read exist, that no file is named twice, and that all outputs can
    /// be written, including other files that the program reads (`read`) and writes (`written`).
    pub fn check(&self, read: &[FileOption<'_>], written: &[FileOption<'_>]) -> Outcome<()> {
        let output = |option, file| FileOption { option, file };
        let result_files = [output("--json", &self.json), output("--plot", &self.plot)];
        self.saving.check(read, &[&result_files, written].concat())
    }

    /// Returns the recorder of the run, which also writes to disk with `--record`. Values are
    /// recorded under `to_step(number of steps)`.
    pub fn recorder(&self, to_step: impl Fn(u64) -> u64) -> Outcome<Recorder> {
        let Some(folder) = &self.record else { return Ok(Recorder::new()) };
        let resumed = self.saving.checkpoint()?;
        let start = resumed.map_or(Start::New, |checkpoint| Start::After(to_step(checkpoint.step())));
        Ok(Recorder::new().folder(folder, start)?)
    }

    /// Restores `state` from the checkpoint, if there is one to resume from; returns the number of
    /// completed steps, else 0.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Outcome<u64> {
        let Some((step, file)) = self.saving.resume(state)? else { return Ok(0) };
        print_line!("resuming from {} after step {step}", file.display());
        Ok(step)
    }

    /// Returns whether a checkpoint is due at report `number` of the losses, counted from 1.
    pub fn is_due(&self, number: u64, is_last: bool) -> bool {
        self.saving.path().is_some() && (is_last || number.is_multiple_of(self.save_every))
    }

    /// Saves a checkpoint after `step` steps, if a file is named.
    pub fn checkpoint(&self, step: u64, state: &TrainingState<'_>) -> Outcome<()> {
        self.saving.save(step, state, None).map(drop)
    }

    /// Prints that Ctrl-C ended the run after `step` steps, and where it is saved.
    pub fn print_stopped(&self, step: u64) {
        match self.saving.path() {
            Some(path) => print_line!("stopped after step {step}, saved to {}", path.display()),
            None => print_line!("stopped after step {step}; nothing is saved without --save"),
        }
    }

    /// Writes the requested result files.
    pub fn write(
        &self,
        results: impl FnOnce() -> serde_json::Value,
        chart: impl FnOnce() -> Chart,
    ) -> Outcome<()> {
        if let Some(file) = &self.json {
            outputs::write(file, &format!("{:#}\n", results()))?;
        }
        if let Some(file) = &self.plot {
            outputs::write(file, &chart().to_svg())?;
        }
        Ok(())
    }
}
