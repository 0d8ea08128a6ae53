//! File headers, including those with dtypes that are newer than this library.

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// A one-byte dtype that no tensor of Ternion has. It replaces unknown dtypes while a header is
/// parsed.
const PLACEHOLDER_DTYPE: &str = "F8_E8M0";

/// A parsed header.
pub(super) struct Header {
    pub metadata: Metadata,
    /// The offset in the file at which the tensors begin.
    pub start: u64,
    /// The dtypes that the safetensors library does not know, by the keys of their tensors.
    pub unknown: BTreeMap<String, String>,
}

impl Header {
    /// Returns key and dtype of each tensor whose dtype Ternion does not support, sorted by key.
    pub fn unsupported(&self, entries: &HashMap<String, &TensorInfo>) -> Vec<String> {
        let unsupported = entries.iter().filter(|(_, info)| super::ternion_dtype(info.dtype).is_none());
        let dtype = |key: &str, info: &TensorInfo| match self.unknown.get(key) {
            Some(name) => name.clone(),
            None => format!("{:?}", info.dtype),
        };
        let mut named: Vec<String> =
            unsupported.map(|(key, info)| format!("{key} {}", dtype(key, info))).collect();
        named.sort();
        named
    }
}

/// Returns the checked header and its unknown dtypes. For tensors of unknown dtypes only the
/// offsets are checked.
pub(super) fn parse_header(header: &[u8]) -> serde_json::Result<(Metadata, BTreeMap<String, String>)> {
    let error = match serde_json::from_slice::<Metadata>(header) {
        Ok(metadata) => return Ok((metadata, BTreeMap::new())),
        Err(error) => error,
    };
    let Ok(mut entries) = serde_json::from_slice::<Map<String, Value>>(header) else { return Err(error) };
    let mut unknown = BTreeMap::new();
    for (key, entry) in &mut entries {
        if let Some(name) = replace_unknown_dtype(entry) {
            unknown.insert(key.clone(), name);
        }
    }
    if unknown.is_empty() {
        return Err(error);
    }
    Ok((serde_json::from_value(Value::Object(entries))?, unknown))
}

/// If the dtype of a tensor is unknown, replaces it by a one-byte dtype and the shape by the number
/// of bytes, and returns the name of the dtype.
fn replace_unknown_dtype(entry: &mut Value) -> Option<String> {
    let name = entry.get("dtype")?.as_str()?.to_owned();
    if serde_json::from_value::<Dtype>(json!(name)).is_ok() {
        return None;
    }
    let offsets = entry.get("data_offsets")?;
    let bytes = offsets.get(1)?.as_u64()?.checked_sub(offsets.get(0)?.as_u64()?)?;
    entry["dtype"] = json!(PLACEHOLDER_DTYPE);
    entry["shape"] = json!([bytes]);
    Some(name)
}
