//! Where the checkpoints of a run are saved, and from which one it resumes, as command-line
//! options.

use crate::support::console::warn;
use crate::support::outputs::{self, FileOption};
use crate::support::program::Outcome;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use ternion::prelude::*;

/// The checkpoints of a run: one file, or the newest ones in a folder.
#[derive(clap::Args, Debug)]
pub struct Saving {
    /// Saves the complete training state as a checkpoint: at intervals, at the end and at Ctrl-C; a
    /// readable summary is written to FILE.json
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Treats --save as a folder, and keeps the newest N checkpoints in it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Resumes from a checkpoint, or from the newest valid one in a folder, as if the run had never
    /// stopped; continues to save there unless --save names another path
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// The folder of --keep, once it was saved to or resumed from.
    #[arg(skip)]
    folder: RefCell<Option<Checkpoints>>,
}

impl Saving {
    /// Checks that the checkpoint to resume from exists, that no file is named twice, and that all
    /// outputs can be written, including other files that the program reads (`read`) and writes
    /// (`written`).
    pub fn check(&self, read: &[FileOption<'_>], written: &[FileOption<'_>]) -> Outcome<()> {
        let output = |option, file| FileOption { option, file };
        let resume = output("--resume", &self.resume);
        for input in read.iter().chain([&resume]) {
            if let Some(file) = input.file {
                outputs::check_readable(input.option, file)?;
            }
        }
        let json_next_to = |file: &Option<PathBuf>| file.as_deref().map(outputs::checkpoint_json);
        let (save_json, resume_json) = (json_next_to(&self.save), json_next_to(&self.resume));
        let save = [output("--save", &self.save), output(outputs::CHECKPOINT_JSON, &save_json)];
        let resume = [resume, output(outputs::CHECKPOINT_JSON, &resume_json)];
        // A checkpoint may be resumed from and saved to.
        let mut checkpoints: Vec<&[FileOption<'_>]> = Vec::new();
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
            let written = [checkpoint, written].concat();
            outputs::check_distinct(&written)?;
            outputs::check_not_overwritten(read, &written)?;
            outputs::check_writable(&written)?;
        }
        Ok(())
    }

    /// Returns whether checkpoints are saved to files in a folder.
    fn saves_to_folder(&self) -> bool {
        self.keep.is_some() || (self.save.is_none() && self.resumed_folder().is_some())
    }

    /// Returns the folder to resume from, if it is a folder.
    fn resumed_folder(&self) -> Option<&Path> {
        self.resume.as_deref().filter(|path| path.is_dir())
    }

    fn retention(&self) -> Keep {
        self.keep.map_or(Keep::All, |count| Keep::Last(count as usize))
    }

    /// Checks that the folder does not belong to another run, which would otherwise be reported
    /// only after the first steps.
    fn check_folder(&self) -> Outcome<()> {
        let Some(path) = self.path() else {
            return Err("--keep: there is no --save, which names the folder".into());
        };
        if self.resumed_folder() == Some(path) {
            return Ok(());
        }
        match Checkpoints::new(path, self.retention())?.list()?.last() {
            Some((step, _)) => Err(format!(
                "--save: {}: holds checkpoints of another training, up to step {step}: --resume it, or name another folder",
                path.display()
            )
            .into()),
            None => Ok(()),
        }
    }

    /// Returns the file or folder to save to.
    pub fn path(&self) -> Option<&Path> {
        self.save.as_deref().or(self.resume.as_deref())
    }

    /// Returns whether an earlier run is resumed.
    pub fn is_resumed(&self) -> bool {
        self.resume.is_some()
    }

    /// Returns the checkpoint to resume from, for settings that are needed before the model can be
    /// created.
    pub fn checkpoint(&self) -> Outcome<Option<Checkpoint>> {
        let Some(file) = &self.resume else { return Ok(None) };
        let Some(folder) = self.resumed_folder() else { return Ok(Some(Checkpoint::read(file)?)) };
        match Checkpoints::new(folder, self.retention())?.latest()? {
            Some((checkpoint, _)) => Ok(Some(checkpoint)),
            None => Err(no_checkpoint_message(folder).into()),
        }
    }

    /// Restores `state` from the checkpoint, if there is one to resume from; returns the number of
    /// completed steps, and the file.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Outcome<Option<(u64, PathBuf)>> {
        let Some(file) = &self.resume else { return Ok(None) };
        let Some(folder) = self.resumed_folder() else {
            return Ok(Some((state.resume(file)?, file.clone())));
        };
        let mut checkpoints = Checkpoints::new(folder, self.retention())?;
        let resumed = checkpoints.resume(state)?.ok_or_else(|| no_checkpoint_message(folder))?;
        resumed.corrupt.iter().for_each(|error| warn(format_args!("warning: skipped: {error}")));
        if self.path() == Some(folder) {
            self.folder.replace(Some(checkpoints));
        }
        Ok(Some((resumed.step, resumed.path)))
    }

    /// Saves the run after `step` steps, if a path is named, and returns the file; `or_else` is
    /// used if none is named.
    pub fn save(
        &self,
        step: u64,
        state: &TrainingState<'_>,
        or_else: Option<&Path>,
    ) -> Outcome<Option<PathBuf>> {
        let Some(path) = self.path().or(or_else) else { return Ok(None) };
        if !self.saves_to_folder() {
            state.save(step, path)?;
            return Ok(Some(path.to_path_buf()));
        }
        let mut folder = self.folder.borrow_mut();
        let folder = match &mut *folder {
            Some(folder) => folder,
            none => none.insert(Checkpoints::new(path, self.retention())?),
        };
        Ok(Some(folder.save(step, state)?))
    }
}

fn no_checkpoint_message(folder: &Path) -> String {
    format!("--resume: {}: there is no checkpoint", folder.display())
}
