//! The files that a training reads and writes, as options of the command line: checked before the work.

use super::outputs::{self, Output};
use super::{Outcome, say::say};
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
    /// Saves the training as a checkpoint, weights and all that it takes to go on, when losses are told and at the end; what people may read of it in FILE.json
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Saves it each N-th time only
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    save_every: u64,
    /// Goes on from a checkpoint, and goes on saving there if --save names no other file
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
}

impl Files {
    /// That what is read is there, that no file is named twice, and that all can be written: with what the program reads and writes besides.
    pub fn check(&self, read: &[Output<'_>], written: &[Output<'_>]) -> Outcome<()> {
        let output = |option, file| Output { option, file };
        let resume = output("--resume", &self.resume);
        for input in read.iter().chain([&resume]) {
            if let Some(file) = input.file {
                outputs::check_readable(input.option, file)?;
            }
        }
        let beside = |file: &Option<PathBuf>| file.as_deref().map(outputs::beside);
        let (save_json, resume_json) = (beside(&self.save), beside(&self.resume));
        let save = [output("--save", &self.save), output(outputs::BESIDE, &save_json)];
        let resume = [resume, output(outputs::BESIDE, &resume_json)];
        let usual = [output("--json", &self.json), output("--plot", &self.plot)];
        let written: Vec<Output<'_>> = usual.iter().chain(written).copied().collect();
        // Going on from a checkpoint and saving there is fine.
        for checkpoint in [&save, &resume] {
            let written = [checkpoint, &written[..]].concat();
            outputs::check_distinct(&written)?;
            outputs::check_kept(read, &written)?;
            outputs::check_writable(&written)?;
        }
        Ok(())
    }

    /// What remembers the numbers of the training; `--record` has it write them down, too.
    pub fn recorder(&self) -> Outcome<Recorder> {
        let Some(folder) = &self.record else { return Ok(Recorder::new()) };
        let start = match &self.resume {
            Some(file) => Start::After(Checkpoint::read(file)?.step()),
            None => Start::New,
        };
        Ok(Recorder::new().folder(folder, start)?)
    }

    /// Makes `state` what it was when it was saved, if the user wants that: the number of steps that were made, else 0.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Outcome<u64> {
        let Some(file) = &self.resume else { return Ok(0) };
        let step = state.resume(file)?;
        say!("going on from {} behind step {step}", file.display());
        Ok(step)
    }

    /// Whether a checkpoint is due when losses are told for the time `number`, from 1.
    pub fn is_due(&self, number: u64, is_last: bool) -> bool {
        self.checkpoint_file().is_some() && (is_last || number.is_multiple_of(self.save_every))
    }

    /// Saves the training after `step` steps, if the user wants that.
    pub fn checkpoint(&self, step: u64, state: &TrainingState<'_>) -> Outcome<()> {
        self.checkpoint_file().map_or(Ok(()), |file| Ok(state.save(step, file)?))
    }

    fn checkpoint_file(&self) -> Option<&PathBuf> {
        self.save.as_ref().or(self.resume.as_ref())
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
