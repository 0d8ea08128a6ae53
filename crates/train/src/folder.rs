//! A folder of checkpoints: one file for each saved step. Only the last few are kept.

use crate::checkpoint::{Checkpoint, ReadError, json_path};
use crate::state::TrainingState;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use ternion_core::{Error, Result};

/// Which checkpoints are kept when a newer one is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// This many of the newest, at least 1.
    Last(usize),
    /// All of them.
    All,
}

/// A folder with the checkpoints of one training run: `step-00001000.safetensors`, and
/// `step-00001000.safetensors.json` for people.
///
/// ```no_run
/// use ternion_train::{Checkpoints, Keep, TrainingState};
/// # use ternion_nn::optim::Optimizer;
/// # fn train(device: ternion_core::Device, model: ternion_nn::Mlp, mut adam: ternion_nn::optim::AdamW) -> ternion_core::Result<()> {
/// let mut checkpoints = Checkpoints::new("run", Keep::Last(3))?;
/// let mut step = 0;
/// let mut state = TrainingState::new(&device).model("model", &model).optimizer("adam", &mut adam);
/// if let Some(resumed) = checkpoints.resume(&mut state)? {
///     resumed.corrupt.iter().for_each(|error| eprintln!("skipped: {error}"));
///     step = resumed.step;
/// }
/// while step < 10_000 {
///     // one step of training
///     step += 1;
///     if step % 1000 == 0 {
///         let state = TrainingState::new(&device).model("model", &model).optimizer("adam", &mut adam);
///         checkpoints.save(step, &state)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: Keep,
    /// The last step that this training run resumed or saved; `None` before it has done either.
    reached: Option<u64>,
    /// Held after the first save: two training runs that save to one folder would delete each
    /// other's files.
    lock: Option<File>,
}

/// The result of [`Checkpoints::resume`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The number of completed steps.
    pub step: u64,
    /// The file that was loaded.
    pub path: PathBuf,
    /// The errors of newer files, which are corrupt and renamed to end in `.corrupt`.
    pub corrupt: Vec<String>,
}

const OP: &str = "checkpoints";
const SUFFIX: &str = ".safetensors";
const LOCK: &str = ".lock";

impl Checkpoints {
    /// Opens the checkpoints in `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created, or `keep` is 0.
    pub fn new(folder: impl AsRef<Path>, keep: Keep) -> Result<Checkpoints> {
        let folder = folder.as_ref().to_path_buf();
        if keep == Keep::Last(0) {
            return Err(Error::invalid(OP, "Keep::Last(0), expected at least 1"));
        }
        fs::create_dir_all(&folder).map_err(|error| Error::file_system(&folder, "cannot be made", &error))?;
        Ok(Checkpoints { folder, keep, reached: None, lock: None })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns steps and files, in ascending order of steps. The files are not opened.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn list(&self) -> Result<Vec<(u64, PathBuf)>> {
        let mut checkpoints: Vec<(u64, PathBuf)> =
            self.files()?.into_iter().filter_map(|(name, path)| Some((step_of(&name)?, path))).collect();
        checkpoints.sort();
        Ok(checkpoints)
    }

    /// Returns the names that are valid Unicode, with their paths.
    fn files(&self) -> Result<Vec<(String, PathBuf)>> {
        let read_error = |error: std::io::Error| Error::file_system(&self.folder, "cannot be read", &error);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(read_error)? {
            let entry = entry.map_err(read_error)?;
            files.extend(entry.file_name().into_string().ok().map(|name| (name, entry.path())));
        }
        Ok(files)
    }

    /// Returns the newest intact checkpoint, or `None` in an empty folder, and what is wrong with
    /// newer ones.
    ///
    /// # Errors
    /// Returns an error if there are checkpoints, but every one is corrupt; if the newest that is
    /// not corrupt cannot be opened, is not a checkpoint, or has another format version.
    pub fn latest(&self) -> Result<Option<(Checkpoint, Vec<String>)>> {
        Ok(self.newest_intact()?.map(|(checkpoint, _, corrupt)| {
            (checkpoint, corrupt.into_iter().map(|(_, detail)| detail).collect())
        }))
    }

    fn newest_intact(&self) -> Result<Option<(Checkpoint, PathBuf, Vec<(PathBuf, String)>)>> {
        let mut corrupt = Vec::new();
        for (_, path) in self.list()?.into_iter().rev() {
            match Checkpoint::try_read(&path) {
                Ok(checkpoint) => return Ok(Some((checkpoint, path, corrupt))),
                Err(ReadError::Corrupt(error)) => corrupt.push((path, error.to_string())),
                Err(ReadError::Rejected(error)) => return Err(error),
            }
        }
        if corrupt.is_empty() {
            return Ok(None);
        }
        let details: Vec<String> = corrupt.into_iter().map(|(_, detail)| detail).collect();
        Err(Error::file(&self.folder, format!("no checkpoint is whole: {}", details.join("; "))))
    }

    /// Resumes from the newest intact checkpoint, if there is any: see [`Checkpoint::resume`].
    /// Newer ones that are corrupt are renamed to end in `.corrupt`.
    ///
    /// # Errors
    /// The errors of [`latest`](Checkpoints::latest) and of [`Checkpoint::resume`]. Returns an
    /// error if a file cannot be renamed.
    pub fn resume(&mut self, state: &mut TrainingState<'_>) -> Result<Option<Resumed>> {
        let Some((checkpoint, path, newer)) = self.newest_intact()? else { return Ok(None) };
        let step = checkpoint.resume(state)?;
        let mut corrupt = Vec::with_capacity(newer.len());
        for (file, detail) in newer {
            let mut renamed = file.clone().into_os_string();
            renamed.push(".corrupt");
            fs::rename(&file, &renamed)
                .map_err(|error| Error::file_system(&file, "cannot be renamed", &error))?;
            corrupt.push(detail);
        }
        self.reached = Some(step);
        Ok(Some(Resumed { step, path, corrupt }))
    }

    /// Writes a checkpoint and returns its path. When it is on disk, deletes the checkpoints that
    /// are not kept.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written; if another training run, perhaps in another
    /// process, saves to this folder; if the folder has checkpoints from which this training run
    /// did not resume: resume them first, or use another folder; if `step` is below the step of an
    /// earlier call.
    pub fn save(&mut self, step: u64, state: &TrainingState<'_>) -> Result<PathBuf> {
        self.claim(step)?;
        let path = self.folder.join(format!("step-{step:08}{SUFFIX}"));
        Checkpoint::of(step, state)?.write(&path)?;
        self.reached = Some(step);
        self.delete_old(&path)?;
        Ok(path)
    }

    /// Checks that this training run may write here.
    fn claim(&mut self, step: u64) -> Result<()> {
        if let Some(reached) = self.reached.filter(|&reached| step < reached) {
            let detail = format!("save at step {step}, but step {reached} was saved or resumed before");
            return Err(Error::invalid(OP, detail));
        }
        if self.lock.is_none() {
            self.lock = Some(self.acquire_lock()?);
            self.delete_temporary()?;
        }
        match self.list()?.last() {
            Some((last, _)) if self.reached.is_none() => {
                let detail = format!(
                    "holds checkpoints of an earlier training, up to step {last}: resume from them, or use another folder"
                );
                Err(Error::file(&self.folder, detail))
            }
            _ => Ok(()),
        }
    }

    /// Locks the folder. The operating system releases the lock when the process ends for any
    /// reason.
    fn acquire_lock(&self) -> Result<File> {
        let path = self.folder.join(LOCK);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let file = opened.map_err(|error| Error::file_system(&path, "cannot be written", &error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                Err(Error::file(&self.folder, "another training saves its checkpoints here"))
            }
            // Some file systems have no locks; saving must still work there.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        }
    }

    /// Removes the temporary files of a training run that was killed while writing.
    fn delete_temporary(&self) -> Result<()> {
        for (name, path) in self.files()? {
            if name.starts_with(".step-") && name.ends_with(".tmp") {
                delete(&path)?;
            }
        }
        Ok(())
    }

    /// Deletes the JSON file before the checkpoint: after a crash in between, the checkpoint is
    /// still intact, and the next call deletes it.
    fn delete_old(&self, newest: &Path) -> Result<()> {
        let Keep::Last(count) = self.keep else { return Ok(()) };
        let files = self.list()?;
        for (_, path) in &files[..files.len().saturating_sub(count)] {
            if path != newest {
                delete(&json_path(path))?;
                delete(path)?;
            }
        }
        Ok(())
    }
}

/// Returns the step in a checkpoint's file name.
fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("step-")?.strip_suffix(SUFFIX)?;
    let is_number = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Deletes a file that may already be gone.
fn delete(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file_system(path, "cannot be deleted", &error))
        }
        _ => Ok(()),
    }
}
