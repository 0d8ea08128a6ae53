//! The files that a training reads and writes, as options of the command line: checked before the work.

use super::Outcome;
use super::outputs::{self, Output};
use super::say::{say, warn};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
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
    /// Takes --save for a folder, and keeps the newest N checkpoints in it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Goes on from a checkpoint, or from the newest whole one in a folder, and goes on saving there if --save names no other place
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// The folder of --keep, once it was saved to or gone on from.
    #[arg(skip)]
    folder: RefCell<Option<Checkpoints>>,
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
        let mut checkpoints: Vec<&[Output<'_>]> = Vec::new();
        if self.saves_to_folder() {
            self.check_folder()?;
            checkpoints.push(&[]);
        } else {
            checkpoints.push(&save);
        }
        if self.resumed_folder().is_none() {
            checkpoints.push(&resume);
        }
        for checkpoint in checkpoints {
            let written = [checkpoint, &written[..]].concat();
            outputs::check_distinct(&written)?;
            outputs::check_kept(read, &written)?;
            outputs::check_writable(&written)?;
        }
        Ok(())
    }

    /// Whether checkpoints are saved to files of a folder.
    fn saves_to_folder(&self) -> bool {
        self.keep.is_some() || (self.save.is_none() && self.resumed_folder().is_some())
    }

    /// The folder that is gone on from.
    fn resumed_folder(&self) -> Option<&Path> {
        self.resume.as_deref().filter(|place| place.is_dir())
    }

    fn kept(&self) -> Keep {
        self.keep.map_or(Keep::All, |count| Keep::Last(count as usize))
    }

    /// That the folder is none of another training, which is told behind the first steps otherwise.
    fn check_folder(&self) -> Outcome<()> {
        let Some(place) = self.checkpoint_place() else {
            return Err("--keep: there is no --save, which names the folder".into());
        };
        if self.resumed_folder() == Some(place) {
            return Ok(());
        }
        match Checkpoints::new(place, self.kept())?.list()?.last() {
            Some((step, _)) => Err(format!(
                "--save: {}: holds checkpoints of another training, up to step {step}: --resume it, or name another folder",
                place.display()
            )
            .into()),
            None => Ok(()),
        }
    }

    /// What remembers the numbers of the training; `--record` has it write them down, too.
    pub fn recorder(&self) -> Outcome<Recorder> {
        let Some(folder) = &self.record else { return Ok(Recorder::new()) };
        let start = match (&self.resume, self.resumed_folder()) {
            (_, Some(folder)) => {
                let newest = Checkpoints::new(folder, self.kept())?.latest()?;
                Start::After(newest.map_or(0, |(checkpoint, _)| checkpoint.step()))
            }
            (Some(file), None) => Start::After(Checkpoint::read(file)?.step()),
            (None, None) => Start::New,
        };
        Ok(Recorder::new().folder(folder, start)?)
    }

    /// Makes `state` what it was when it was saved, if the user wants that: the number of steps that were made, else 0.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Outcome<u64> {
        let Some(file) = &self.resume else { return Ok(0) };
        let (step, file) = match self.resumed_folder() {
            Some(folder) => self.resume_folder(folder, state)?,
            None => (state.resume(file)?, file.clone()),
        };
        say!("going on from {} behind step {step}", file.display());
        Ok(step)
    }

    /// Goes on from the newest checkpoint that is whole: its step and its file.
    fn resume_folder(&self, folder: &Path, state: &mut TrainingState<'_>) -> Outcome<(u64, PathBuf)> {
        let mut checkpoints = Checkpoints::new(folder, self.kept())?;
        let Some(resumed) = checkpoints.resume(state)? else {
            return Err(format!("--resume: {}: no checkpoint is there", folder.display()).into());
        };
        resumed.passed_over.iter().for_each(|damage| warn(format_args!("warning: passed over: {damage}")));
        if self.checkpoint_place() == Some(folder) {
            self.folder.replace(Some(checkpoints));
        }
        Ok((resumed.step, resumed.path))
    }

    /// Whether a checkpoint is due when losses are told for the time `number`, from 1.
    pub fn is_due(&self, number: u64, is_last: bool) -> bool {
        self.checkpoint_place().is_some() && (is_last || number.is_multiple_of(self.save_every))
    }

    /// Saves the training after `step` steps, if the user wants that.
    pub fn checkpoint(&self, step: u64, state: &TrainingState<'_>) -> Outcome<()> {
        let Some(place) = self.checkpoint_place() else { return Ok(()) };
        if !self.saves_to_folder() {
            return Ok(state.save(step, place)?);
        }
        let mut folder = self.folder.borrow_mut();
        let folder = match &mut *folder {
            Some(folder) => folder,
            none => none.insert(Checkpoints::new(place, self.kept())?),
        };
        folder.save(step, state)?;
        Ok(())
    }

    fn checkpoint_place(&self) -> Option<&Path> {
        self.save.as_deref().or(self.resume.as_deref())
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
