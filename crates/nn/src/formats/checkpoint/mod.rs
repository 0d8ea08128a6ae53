//! Weights on disk as safetensors, the format in which PyTorch users share them. Files are written
//! atomically, and reading a corrupt file is an error.

mod distinct_keys;
mod header;
mod host;

pub use host::{HostTensor, HostTensors};

use crate::formats::atomic_write::write_atomic;
use crate::module::state::LoadError;
use crate::module::{Matching, Module, StateDict, Unmatched, state};
use distinct_keys::DistinctKeys;
use header::{Header, parse_header};
use host::ternion_dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use ternion_core::{Device, Error, Result};

/// The key in the header that does not belong to a tensor.
const METADATA_KEY: &str = "__metadata__";
/// The file begins with the size of its header, in this number of bytes.
const SIZE_BYTES: u64 = 8;

/// Larger headers are assumed to be corrupt, as in the safetensors library.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Writes parameters and state of `model` to a safetensors file, by their keys in the state dict.
///
/// The file is written under a temporary name next to `path`, and renamed when it is complete and
/// on disk: a crash leaves the old file.
///
/// If `path` is a symbolic link, its target is replaced, and the link is kept.
///
/// # Errors
/// Returns an error if two tensors of the model have the same key, the file cannot be written, or
/// an earlier op failed on the device.
pub fn save<M: Module + ?Sized>(model: &M, path: impl AsRef<Path>) -> Result<()> {
    write(&state::named_tensors("save", model)?, path)
}

/// Overwrites parameters and state of `model` with those of a safetensors file, whose keys must be
/// exactly the model's.
///
/// Floating tensors are cast to the model's floating dtype, as in PyTorch: if an f16 file is loaded
/// into an f32 model, the model stays f32.
///
/// # Errors
/// Returns an error if the file cannot be read or is corrupt, or if two tensors of the model have
/// the same key. A single error lists every key that is missing, unexpected or has another shape or
/// dtype (different floating dtypes are not an error). Nothing is changed unless all entries fit.
pub fn load<M: Module + ?Sized>(model: &M, path: impl AsRef<Path>) -> Result<()> {
    load_with(model, path, Matching::Exact).map(|_| ())
}

/// Like [`load`]. With [`Matching::Partial`], keys may be missing or unexpected, and are returned.
///
/// # Errors
/// Same as [`load`].
pub fn load_with<M: Module + ?Sized>(
    model: &M,
    path: impl AsRef<Path>,
    matching: Matching,
) -> Result<Unmatched> {
    let path = path.as_ref();
    let targets = state::named_tensors("load", model)?;
    let outcome = match targets.values().next() {
        Some(tensor) => state::overwrite(&targets, &read(path, tensor.device())?, matching),
        None => {
            let Header { metadata, .. } = read_header(&mut open(path)?, path)?;
            state::match_without_tensors(
                metadata.tensors().keys().collect::<BTreeSet<_>>().into_iter(),
                matching,
            )
        }
    };
    outcome.map_err(|error| match error {
        LoadError::Mismatch(detail) => Error::file(path, detail.to_string()),
        LoadError::Failed(error) => error,
    })
}

/// Writes tensors to a safetensors file, as [`save`] does.
///
/// # Errors
/// Same as [`save`].
pub fn write(tensors: &StateDict, path: impl AsRef<Path>) -> Result<()> {
    let tensors = tensors
        .iter()
        .map(|(key, tensor)| Ok((key.clone(), HostTensor::of(tensor)?)))
        .collect::<Result<HostTensors>>()?;
    // Some readers require this entry, which says that the tensors have PyTorch's layout.
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    write_host(&tensors, &metadata, path)
}

/// Writes tensors in host memory to a safetensors file, as [`save`] does, with `metadata` in its
/// header. Metadata are strings by name; readers ignore names that they do not know.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write_host(
    tensors: &HostTensors,
    metadata: &BTreeMap<String, String>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let path = path.as_ref();
    if tensors.contains_key(METADATA_KEY) {
        return Err(Error::invalid(
            "save",
            format!("the key {METADATA_KEY}, expected another: the format keeps its texts there"),
        ));
    }
    let strings: HashMap<String, String> = metadata.clone().into_iter().collect();
    let bytes = safetensors::serialize(tensors, (!strings.is_empty()).then_some(strings))
        .map_err(|error| Error::file(path, error.to_string()))?;
    write_file(path, &bytes)
}

/// Writes a file atomically: under a temporary name next to `path`, which is renamed when
/// everything is on disk.
///
/// If `path` is a symbolic link, its target is replaced, and the link is kept.
///
/// # Errors
/// Returns an error if the file cannot be written. An existing file is then unchanged.
pub fn write_file(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let path = path.as_ref();
    write_atomic(path, bytes).map_err(|error| Error::file_system(path, "cannot be written", &error))
}

/// Reads the metadata in the header of a safetensors file, without its tensors.
///
/// # Errors
/// Returns an error if the file cannot be read or is corrupt.
pub fn read_metadata(path: impl AsRef<Path>) -> Result<BTreeMap<String, String>> {
    let path = path.as_ref();
    let Header { metadata, .. } = read_header(&mut open(path)?, path)?;
    Ok(metadata.metadata().clone().unwrap_or_default().into_iter().collect())
}

/// Reads every tensor of a safetensors file to host memory, and the metadata in its header.
///
/// # Errors
/// Same as [`read`].
pub fn read_host(path: impl AsRef<Path>) -> Result<(HostTensors, BTreeMap<String, String>)> {
    let mut tensors = HostTensors::new();
    let metadata = read_each(path.as_ref(), |key, tensor| {
        tensors.insert(key, tensor);
        Ok(())
    })?;
    let strings = metadata.metadata().clone().unwrap_or_default();
    Ok((tensors, strings.into_iter().collect()))
}

/// Like [`read_host`], but skips tensors of unsupported dtypes and returns their names instead:
/// `(tensors, metadata, names and dtypes)`.
///
/// # Errors
/// Returns an error if the file cannot be read or is corrupt.
pub fn read_host_known(
    path: impl AsRef<Path>,
) -> Result<(HostTensors, BTreeMap<String, String>, Vec<String>)> {
    let path = path.as_ref();
    let mut file = open(path)?;
    let header = read_header(&mut file, path)?;
    let (entries, mut tensors) = (header.metadata.tensors(), HostTensors::new());
    let unsupported = header.unsupported(&entries);
    for (key, info) in entries {
        if ternion_dtype(info.dtype).is_some() {
            let tensor = read_tensor(&mut file, header.start, info)
                .map_err(|detail| tensor_error(path, &key, &detail))?;
            tensors.insert(key, tensor);
        }
    }
    let strings = header.metadata.metadata().clone().unwrap_or_default();
    Ok((tensors, strings.into_iter().collect(), unsupported))
}

/// Reads every tensor of a safetensors file to `device`.
///
/// # Errors
/// Returns an error if the file cannot be read, is corrupt, or contains unsupported dtypes (their
/// keys are listed).
pub fn read(path: impl AsRef<Path>, device: &Device) -> Result<StateDict> {
    let path = path.as_ref();
    let mut tensors = StateDict::new();
    read_each(path, |key, tensor| {
        let tensor =
            tensor.to_device(device).map_err(|error| tensor_error(path, &key, &error.to_string()))?;
        tensors.insert(key, tensor);
        Ok(())
    })?;
    Ok(tensors)
}

/// Calls `each` with the tensors of a file, one after another.
fn read_each(path: &Path, mut each: impl FnMut(String, HostTensor) -> Result<()>) -> Result<Metadata> {
    let mut file = open(path)?;
    let header = read_header(&mut file, path)?;
    let (start, entries) = (header.start, header.metadata.tensors());
    let unsupported = header.unsupported(&entries);
    if !unsupported.is_empty() {
        return Err(Error::file(
            path,
            format!("dtypes that tensors do not have: {}", unsupported.join(", ")),
        ));
    }
    for (key, info) in entries {
        let tensor =
            read_tensor(&mut file, start, info).map_err(|detail| tensor_error(path, &key, &detail))?;
        each(key, tensor)?;
    }
    Ok(header.metadata)
}

fn tensor_error(path: &Path, key: &str, detail: &str) -> Error {
    Error::file(path, format!("tensor {key}: {detail}"))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| cannot_read(path, &error))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    Error::file_system(path, "cannot be read", error)
}

/// Reads and checks the header.
fn read_header(file: &mut File, path: &Path) -> Result<Header> {
    let file_bytes = file.metadata().map_err(|error| cannot_read(path, &error))?.len();
    let mut size = [0; SIZE_BYTES as usize];
    if file_bytes < SIZE_BYTES {
        return Err(Error::file(path, format!("no safetensors file: only {file_bytes} bytes long")));
    }
    file.read_exact(&mut size).map_err(|error| cannot_read(path, &error))?;
    let header_bytes = u64::from_le_bytes(size);
    if header_bytes > MAX_HEADER_BYTES || header_bytes > file_bytes - SIZE_BYTES {
        return Err(Error::file(
            path,
            format!(
                "no safetensors file, or truncated: a header of {header_bytes} bytes in a file of {file_bytes}"
            ),
        ));
    }
    let mut header = vec![0; header_bytes as usize];
    file.read_exact(&mut header).map_err(|error| cannot_read(path, &error))?;
    let corrupt_header =
        |error: serde_json::Error| Error::file(path, format!("corrupt safetensors header: {error}"));
    // The safetensors library silently keeps the last of two tensors with the same name.
    serde_json::from_slice::<DistinctKeys>(&header).map_err(corrupt_header)?;
    let (metadata, unknown) = parse_header(&header).map_err(corrupt_header)?;
    let start = SIZE_BYTES + header_bytes;
    let expected_bytes =
        metadata.tensors().values().map(|info| info.data_offsets.1).max().unwrap_or(0) as u64;
    if expected_bytes != file_bytes - start {
        return Err(Error::file(
            path,
            format!(
                "truncated or corrupt: the header promises {expected_bytes} bytes of tensors, the file holds {}",
                file_bytes - start
            ),
        ));
    }
    Ok(Header { metadata, start, unknown })
}

/// Reads one tensor, or returns an error message. `read_header` has checked the offsets against the
/// file's length.
fn read_tensor(file: &mut File, start: u64, info: &TensorInfo) -> Result<HostTensor, String> {
    let dtype = ternion_dtype(info.dtype).ok_or("a foreign dtype")?;
    let (from, to) = info.data_offsets;
    let mut bytes = vec![0; to - from];
    file.seek(SeekFrom::Start(start + from as u64)).map_err(|error| error.to_string())?;
    file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(HostTensor::from_file(dtype, &info.shape, bytes))
}
