//! Where the checkpoints of a training go, and from which it goes on, as options of the command line.

use crate::support::outputs::{self, Output};
use crate::support::program::Outcome;
use crate::support::say::warn;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use ternion::prelude::*;

/// The checkpoints of a training: one file, or the newest ones in a folder.
#[derive(clap::Args, Debug)]
pub struct Saving {
    /// Saves the training as a checkpoint, weights and all that it takes to go on: in between, at the end and at Ctrl-C; what people may read of it in FILE.json
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Takes --save for a folder, and keeps the newest N checkpoints in it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Goes on from a checkpoint, or from the newest whole one in a folder, as if the training had never stopped; goes on saving there if --save names no other place
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// The folder of --keep, once it was saved to or gone on from.
    #[arg(skip)]
    folder: RefCell<Option<Checkpoints>>,
}

impl Saving {
    /// That the checkpoint to go on from is there, that no file is named twice, and that all can be written: with what the program reads and writes besides.
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
        // Going on from a checkpoint and saving there is fine.
        let mut checkpoints: Vec<&[Output<'_>]> = Vec::new();
        if self.is_to_folder() {
            self.check_folder()?;
            checkpoints.push(&[]);
        } else {
            checkpoints.push(&save);
        }
        if self.resumed_folder().is_none() {
            checkpoints.push(&resume);
        }
        for checkpoint in checkpoints {
            let written = [checkpoint, written].concat();
            outputs::check_distinct(&written)?;
            outputs::check_kept(read, &written)?;
            outputs::check_writable(&written)?;
        }
        Ok(())
    }

    /// Whether checkpoints are saved to files of a folder.
    fn is_to_folder(&self) -> bool {
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
        let Some(place) = self.place() else {
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

    /// The file or the folder that is saved to.
    pub fn place(&self) -> Option<&Path> {
        self.save.as_deref().or(self.resume.as_deref())
    }

    /// Whether the training goes on from an earlier one.
    pub fn is_resumed(&self) -> bool {
        self.resume.is_some()
    }

    /// The checkpoint to go on from, for what must be known before the model can be made.
    pub fn checkpoint(&self) -> Outcome<Option<Checkpoint>> {
        let Some(file) = &self.resume else { return Ok(None) };
        let Some(folder) = self.resumed_folder() else { return Ok(Some(Checkpoint::read(file)?)) };
        match Checkpoints::new(folder, self.kept())?.latest()? {
            Some((checkpoint, _)) => Ok(Some(checkpoint)),
            None => Err(nothing_in(folder).into()),
        }
    }

    /// Makes `state` what it was when it was saved, if the user wants that: the number of steps that were made, and the file.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Outcome<Option<(u64, PathBuf)>> {
        let Some(file) = &self.resume else { return Ok(None) };
        let Some(folder) = self.resumed_folder() else {
            return Ok(Some((state.resume(file)?, file.clone())));
        };
        let mut checkpoints = Checkpoints::new(folder, self.kept())?;
        let resumed = checkpoints.resume(state)?.ok_or_else(|| nothing_in(folder))?;
        resumed.skipped.iter().for_each(|damage| warn(format_args!("warning: passed over: {damage}")));
        if self.place() == Some(folder) {
            self.folder.replace(Some(checkpoints));
        }
        Ok(Some((resumed.step, resumed.path)))
    }

    /// Saves the training after `step` steps, if the user wants that, and gives the file; to `or_else` where no place was named.
    pub fn save(
        &self,
        step: u64,
        state: &TrainingState<'_>,
        or_else: Option<&Path>,
    ) -> Outcome<Option<PathBuf>> {
        let Some(place) = self.place().or(or_else) else { return Ok(None) };
        if !self.is_to_folder() {
            state.save(step, place)?;
            return Ok(Some(place.to_path_buf()));
        }
        let mut folder = self.folder.borrow_mut();
        let folder = match &mut *folder {
            Some(folder) => folder,
            none => none.insert(Checkpoints::new(place, self.kept())?),
        };
        Ok(Some(folder.save(step, state)?))
    }
}

fn nothing_in(folder: &Path) -> String {
    format!("--resume: {}: no checkpoint is there", folder.display())
}
