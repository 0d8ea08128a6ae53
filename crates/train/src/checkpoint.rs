//! A training run at one moment, in one file.

mod document;

use crate::state::{Part, TrainingState};
use document::{Document, ENTRY, Fault, RandomPosition, VERSION, tensor_checksum};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use ternion_core::error::Text;
use ternion_core::{Device, Error, Result, text};
use ternion_nn::StateDict;
use ternion_nn::checkpoint::{HostTensor, HostTensors, read_host, read_metadata, write_file, write_host};

/// The state of a training run after some step, on the host: created from a [`TrainingState`], or
/// read from a file.
///
/// # The file
///
/// A safetensors file, which other programs can open: the tensors of part `model` have the keys
/// `model.KEY`, and so on. One entry of its metadata, `ternion.checkpoint`, is everything else as
/// JSON: the step, random states, settings, values, and a checksum (CRC-32C) of every tensor,
/// preceded by a checksum of the entry itself. So the file is self-contained, and any changed bit
/// is detected.
///
/// The JSON of FILE is also written to FILE.json, indented, for people and scripts. Ternion does
/// not read that file: a crash between the two writes leaves an older FILE.json with another
/// `checksum`, and a complete FILE.
///
/// The file is deterministic: equal state gives equal bytes, whatever device it was on.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    document: Document,
    tensors: HostTensors,
    /// The file from which it was read, for messages.
    path: Option<PathBuf>,
}

/// Why a training run cannot resume from a file.
pub(crate) enum ReadError {
    /// The file is corrupt: an earlier one may be intact.
    Corrupt(Error),
    /// The file does not exist, is not a checkpoint, or has another version.
    Rejected(Error),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        let (ReadError::Corrupt(error) | ReadError::Rejected(error)) = error;
        error
    }
}

impl Checkpoint {
    /// Copies the current state of the training run, after `step` steps. Later steps do not change
    /// it.
    ///
    /// # Errors
    /// Returns an error if two parts have the same name, a name is empty or has a dot, JSON cannot
    /// represent a value, memory is exhausted, or an earlier op failed on a device.
    pub fn of(step: u64, state: &TrainingState<'_>) -> Result<Checkpoint> {
        state.check_names()?;
        let mut tensors = HostTensors::new();
        let mut document = Document {
            version: VERSION,
            step,
            random: random_position(state.device),
            further_random: BTreeMap::new(),
            parts: BTreeMap::new(),
            settings: BTreeMap::new(),
            values: BTreeMap::new(),
            tensors: BTreeMap::new(),
        };
        for (name, part) in &state.parts {
            for (key, tensor) in part.tensors(state.device)? {
                tensors.insert(format!("{name}.{key}"), HostTensor::of(&tensor)?);
            }
            document.add(name, part)?;
        }
        document.tensors =
            tensors.iter().map(|(key, tensor)| (key.clone(), tensor_checksum(tensor))).collect();
        Ok(Checkpoint { document, tensors, path: None })
    }

    /// Writes the file, and everything except the tensors to a file of the same name with `.json`
    /// appended.
    ///
    /// Each is written under a temporary name and renamed when it is on disk: a crash at any moment
    /// leaves the old file or the new one.
    ///
    /// # Errors
    /// Returns an error if one of the files cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let file_error = |detail: String| Error::file(path, detail);
        let metadata = BTreeMap::from([(ENTRY.to_owned(), self.document.text().map_err(file_error)?)]);
        write_host(&self.tensors, &metadata, path)?;
        write_file(json_path(path), self.document.readable().map_err(file_error)?.as_bytes())
    }

    /// Reads a file that [`write`](Checkpoint::write) wrote. It needs no device.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is corrupt, has another format version, or is
    /// not a checkpoint, such as weights of [`nn::save`](ternion_nn::save).
    pub fn read(path: impl AsRef<Path>) -> Result<Checkpoint> {
        Ok(Checkpoint::try_read(path.as_ref())?)
    }

    /// Returns whether a safetensors file is a checkpoint; other files contain only tensors. Reads
    /// only its header.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a safetensors file, or is truncated.
    pub fn is_at(path: impl AsRef<Path>) -> Result<bool> {
        Ok(read_metadata(path)?.contains_key(ENTRY))
    }

    pub(crate) fn try_read(path: &Path) -> Result<Checkpoint, ReadError> {
        let rejected =
            |error: std::io::Error| ReadError::Rejected(Error::file_system(path, "cannot be read", &error));
        File::open(path).map_err(rejected)?;
        let (tensors, metadata) = read_host(path).map_err(ReadError::Corrupt)?;
        let Some(text) = metadata.get(ENTRY) else {
            let detail = format!(
                "not a checkpoint but only {} tensors, such as weights that nn::save wrote: load them with nn::load, without optimizer and step",
                tensors.len()
            );
            return Err(ReadError::Rejected(Error::file(path, detail)));
        };
        let document = Document::parse(text).map_err(|fault| match fault {
            Fault::Corrupt(detail) => ReadError::Corrupt(Error::file(path, detail)),
            Fault::Unsupported(detail) => ReadError::Rejected(Error::file(path, detail)),
        })?;
        let checkpoint = Checkpoint { document, tensors, path: Some(path.to_path_buf()) };
        match checkpoint.corruption() {
            None => Ok(checkpoint),
            Some(detail) => Err(ReadError::Corrupt(Error::file(path, format!("corrupt: {detail}")))),
        }
    }

    /// Returns the first difference between the tensors and the tensors that were written.
    fn corruption(&self) -> Option<String> {
        let changed = |(key, tensor): (&String, &HostTensor)| {
            (self.document.tensors.get(key) != Some(&tensor_checksum(tensor)))
                .then(|| format!("tensor {key} is not as it was written"))
        };
        let missing = |key: &&String| !self.tensors.contains_key(*key);
        let missing =
            self.document.tensors.keys().find(missing).map(|key| format!("tensor {key} is missing"));
        missing.or_else(|| self.tensors.iter().find_map(changed))
    }

    /// Returns the number of completed steps.
    pub fn step(&self) -> u64 {
        self.document.step
    }

    /// Returns a value or a setting by its name: for what must be known before the model can be
    /// created, such as its sizes.
    ///
    /// # Errors
    /// Returns an error if there is no value of this name, or it is not a `T`.
    pub fn value<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let Document { values, settings, .. } = &self.document;
        let json = values.get(name).or_else(|| settings.get(name));
        let json = json.ok_or_else(|| {
            let names: Vec<&str> = values.keys().chain(settings.keys()).map(String::as_str).collect();
            self.mismatch(format!("no value {name:?}, expected one of {}", names.join(", ")))
        })?;
        T::deserialize(json).map_err(|error| self.mismatch(format!("value {name}: {error}")))
    }

    /// Returns the tensors of one part on `device`: to load weights without the rest of the
    /// training state.
    ///
    /// # Errors
    /// Returns an error if there is no such part, or if memory is exhausted.
    pub fn state_dict(&self, part: &str, device: &Device) -> Result<StateDict> {
        if !self.document.parts.contains_key(part) {
            let names: Vec<&str> = self.document.parts.keys().map(String::as_str).collect();
            return Err(self.mismatch(format!("no part {part:?}, expected one of {}", names.join(", "))));
        }
        let prefix = format!("{part}.");
        let of_part =
            self.tensors.iter().filter_map(|(key, tensor)| Some((key.strip_prefix(&prefix)?, tensor)));
        of_part.map(|(key, tensor)| Ok((key.to_owned(), tensor.to_device(device)?))).collect()
    }

    /// Restores everything in `state` from this checkpoint, and returns the number of steps. The
    /// device may differ from the one that was used when saving.
    ///
    /// Nothing is changed unless everything matches. Steps that were captured before this call
    /// ([`Device::capture`]) must be captured again.
    ///
    /// # Errors
    /// Returns an error if the checkpoint and `state` do not have the same parts, a setting has
    /// changed, or a tensor does not match. The message describes all of them.
    pub fn resume(&self, state: &mut TrainingState<'_>) -> Result<u64> {
        state.check_names()?;
        self.check_parts(state)?;
        self.check_settings(state)?;
        self.check_values(state)?;
        self.restore_tensors(state)?;
        for (name, part) in &mut state.parts {
            match part {
                Part::Value(value) => value
                    .set(&self.document.values[name.as_str()])
                    .map_err(|error| self.mismatch(format!("value {name}: {error}")))?,
                Part::Random(device) => {
                    set_random_position(device, self.document.further_random[name.as_str()])
                }
                _ => {}
            }
        }
        set_random_position(state.device, self.document.random);
        Ok(self.document.step)
    }

    /// Checks that the checkpoint and `state` have the same parts.
    fn check_parts(&self, state: &TrainingState<'_>) -> Result<()> {
        let expected: BTreeSet<(&str, &str)> =
            state.parts.iter().map(|(name, part)| (name.as_str(), kind(part))).collect();
        let found: BTreeSet<(&str, &str)> = self.document.kinds().collect();
        let list = |parts: Vec<&(&str, &str)>| {
            parts.iter().map(|(name, kind)| format!("{name} ({kind})")).collect::<Vec<_>>().join(", ")
        };
        let missing = list(expected.difference(&found).collect());
        let extra = list(found.difference(&expected).collect());
        let mut detail = "it is of a training run with other parts".to_owned();
        for (what, names) in [("not in the checkpoint", &missing), ("only in the checkpoint", &extra)] {
            if !names.is_empty() {
                detail += &format!("; {what}: {names}");
            }
        }
        if missing.is_empty() && extra.is_empty() { Ok(()) } else { Err(self.mismatch(detail)) }
    }

    fn check_settings(&self, state: &TrainingState<'_>) -> Result<()> {
        let mut changed = Vec::new();
        for (name, part) in &state.parts {
            if let Part::Setting(current) = part {
                let current =
                    current.as_ref().map_err(|error| self.mismatch(format!("setting {name}: {error}")))?;
                let saved = &self.document.settings[name.as_str()];
                if current != saved {
                    changed.push(format!("{name} was {saved}, is {current}"));
                }
            }
        }
        if changed.is_empty() {
            Ok(())
        } else {
            Err(self.mismatch(format!("other settings: {}", changed.join("; "))))
        }
    }

    fn check_values(&self, state: &TrainingState<'_>) -> Result<()> {
        for (name, part) in &state.parts {
            if let Part::Value(value) = part {
                let json = &self.document.values[name.as_str()];
                value.check(json).map_err(|error| self.mismatch(format!("value {name}: {error}")))?;
            }
        }
        Ok(())
    }

    /// Loads the tensors into their parts. If one does not match, that part and all earlier ones
    /// are rolled back.
    fn restore_tensors(&self, state: &mut TrainingState<'_>) -> Result<()> {
        let mut saved: Vec<(usize, StateDict)> = Vec::new();
        for at in 0..state.parts.len() {
            let (name, part) = &mut state.parts[at];
            if part.tensor_kind().is_none() {
                continue;
            }
            let previous = part.tensors(state.device)?;
            let restored = self.state_dict(name, state.device).and_then(|tensors| part.restore(&tensors));
            saved.push((at, previous));
            if let Err(error) = restored {
                let error = self.mismatch(text![&*name, ": ", error]);
                for (at, previous) in saved.into_iter().rev() {
                    state.parts[at].1.restore(&previous)?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn mismatch(&self, detail: impl Into<Text>) -> Error {
        match &self.path {
            Some(path) => Error::file(path, detail.into().to_string()),
            None => Error::invalid("checkpoint", detail),
        }
    }
}

impl Document {
    /// Records the metadata of a part, everything except its tensors.
    fn add(&mut self, name: &str, part: &Part<'_>) -> Result<()> {
        let rejected = |detail: &String| Error::invalid("checkpoint", format!("{name}: {detail}"));
        let name = name.to_owned();
        match part {
            Part::Random(device) => drop(self.further_random.insert(name, random_position(device))),
            Part::Value(value) => {
                let json: Json = value.to_json().map_err(|detail| rejected(&detail))?;
                self.values.insert(name, json);
            }
            Part::Setting(json) => {
                let json = json.as_ref().map_err(rejected)?;
                self.settings.insert(name, json.clone());
            }
            Part::Model(_) | Part::Optimizer(_) | Part::Stateful(_) => {
                self.parts.insert(name, kind(part).to_owned());
            }
        }
        Ok(())
    }

    /// Returns every part with its kind.
    fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        let tensors = self.parts.iter().map(|(name, kind)| (name.as_str(), kind.as_str()));
        let random = self.further_random.keys().map(|name| (name.as_str(), RANDOM));
        let values = self.values.keys().map(|name| (name.as_str(), VALUE));
        let settings = self.settings.keys().map(|name| (name.as_str(), SETTING));
        tensors.chain(random).chain(values).chain(settings)
    }
}

const RANDOM: &str = "random";
const VALUE: &str = "value";
const SETTING: &str = "setting";

fn kind(part: &Part<'_>) -> &'static str {
    match part {
        Part::Random(_) => RANDOM,
        Part::Value(_) => VALUE,
        Part::Setting(_) => SETTING,
        Part::Model(_) | Part::Optimizer(_) | Part::Stateful(_) => part.tensor_kind().unwrap_or_default(),
    }
}

fn random_position(device: &Device) -> RandomPosition {
    let (seed, offset) = device.random_position();
    RandomPosition { seed, offset }
}

fn set_random_position(device: &Device, RandomPosition { seed, offset }: RandomPosition) {
    device.set_random_position((seed, offset));
}

/// Returns the path of the readable JSON file of a checkpoint.
pub(crate) fn json_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}
