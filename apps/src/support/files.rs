//! The files that a training reads and writes, as options of the command line: checked before the work.

use crate::support::outputs::{self, Output};
use crate::support::program::Outcome;
use crate::support::saving::Saving;
use crate::support::say::say;
use std::path::PathBuf;
use ternion::prelude::*;
use ternion::train::{Chart, Recorder, Start};

/// The files of a training.
#[derive(clap::Args, Debug)]
pub struct Files {
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws what was measured
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Writes what is measured while it is measured, for TensorBoard and as JSON lines
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    #[command(flatten)]
    pub saving: Saving,
    /// Saves each N-th time that losses are told, and not each time
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
}

impl Files {
    /// That what is read is there, that no file is named twice, and that all can be written: with what the program reads and writes besides.
    pub fn check(&self, read: &[Output<'_>], written: &[Output<'_>]) -> Outcome<()> {
        let output = |option, file| Output { option, file };
        let usual = [output("--json", &self.json), output("--plot", &self.plot)];
        self.saving.check(read, &[&usual, written].concat())
    }

    /// What remembers the numbers of the training; `--record` has it write them down, too. They are noted under what `counted` makes of a number of steps.
    pub fn recorder(&self, counted: impl Fn(u64) -> u64) -> Outcome<Recorder> {
        let Some(folder) = &self.record else { return Ok(Recorder::new()) };
        let resumed = self.saving.checkpoint()?;
        let start = resumed.map_or(Start::New, |checkpoint| Start::After(counted(checkpoint.step())));
        Ok(Recorder::new().folder(folder, start)?)
    }

    /// Makes `state` what it was when it was saved, if the user wants that: the number of steps that were made, else 0.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Outcome<u64> {
        let Some((step, file)) = self.saving.resume(state)? else { return Ok(0) };
        say!("going on from {} behind step {step}", file.display());
        Ok(step)
    }

    /// Whether a checkpoint is due when losses are told for the time `number`, from 1.
    pub fn is_due(&self, number: u64, is_last: bool) -> bool {
        self.saving.place().is_some() && (is_last || number.is_multiple_of(self.save_every))
    }

    /// Saves the training after `step` steps, if the user wants that.
    pub fn checkpoint(&self, step: u64, state: &TrainingState<'_>) -> Outcome<()> {
        self.saving.save(step, state, None).map(drop)
    }

    /// Says that Ctrl-C has ended the training after `step` steps, and where it is saved.
    pub fn tell_stopped(&self, step: u64) {
        match self.saving.place() {
            Some(place) => say!("stopped after step {step}, saved to {}", place.display()),
            None => say!("stopped after step {step}; nothing is saved without --save"),
        }
    }

    /// Writes what the user wants to have of the results.
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
