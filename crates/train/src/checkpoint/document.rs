//! The metadata of a checkpoint: JSON in the file's header, with a checksum.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use ternion_nn::checkpoint::HostTensor;

/// The key of the entry in the file's metadata.
pub const ENTRY: &str = "ternion.checkpoint";

/// The format version of document and keys that this crate writes and reads.
pub const VERSION: u64 = 1;

/// Everything in a checkpoint except the tensors themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub version: u64,
    /// The number of completed steps.
    pub step: u64,
    /// The random state of the training run's device.
    pub random: RandomPosition,
    /// The random states of further devices, by the names of their parts.
    pub further_random: BTreeMap<String, RandomPosition>,
    /// Parts that consist of tensors, with their kind: their keys begin with the name and a dot.
    pub parts: BTreeMap<String, String>,
    pub settings: BTreeMap<String, Json>,
    pub values: BTreeMap<String, Json>,
    /// CRC-32C of each tensor.
    pub tensors: BTreeMap<String, String>,
}

/// The seed of a device's random numbers and the position in their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPosition {
    pub seed: u64,
    pub offset: u64,
}

/// Why a document cannot be used.
pub enum Fault {
    /// It differs from what was written.
    Corrupt(String),
    /// It is intact, but this crate cannot read it.
    Unsupported(String),
}

/// Returns the CRC-32C in hexadecimal.
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}

/// Returns the CRC-32C of dtype, shape and elements, so that a changed header is detected as well.
pub fn tensor_checksum(tensor: &HostTensor) -> String {
    let header = format!("{} {:?} ", tensor.dtype(), tensor.dims());
    format!("{:08x}", crc32c::crc32c_append(crc32c::crc32c(header.as_bytes()), tensor.bytes()))
}

impl Document {
    /// Returns the text for the file's header: a checksum, a space, JSON.
    pub fn text(&self) -> Result<String, String> {
        let json = serde_json::to_string(self).map_err(|error| error.to_string())?;
        Ok(format!("{} {json}", checksum(json.as_bytes())))
    }

    /// Parses the document of a file's header.
    pub fn parse(text: &str) -> Result<Document, Fault> {
        let corrupt = |detail: &str| Fault::Corrupt(format!("corrupt: {detail}"));
        let (sum, json) = text.split_once(' ').ok_or_else(|| corrupt("its document has no checksum"))?;
        if checksum(json.as_bytes()) != sum {
            return Err(corrupt("its document is not as it was written"));
        }
        let json: Json = serde_json::from_str(json).map_err(|error| Fault::Unsupported(error.to_string()))?;
        match json["version"].as_u64() {
            Some(VERSION) => {}
            Some(version) => return Err(Fault::Unsupported(other_version(version))),
            None => {
                return Err(Fault::Unsupported(format!(
                    "a checkpoint without a format version, expected {VERSION}"
                )));
            }
        }
        Document::deserialize(json).map_err(|error| Fault::Unsupported(error.to_string()))
    }

    /// Returns the contents of the JSON file next to the checkpoint, for people and scripts:
    /// without the tensors' checksums, but with the document's checksum, which shows that the two
    /// files belong together.
    pub fn readable(&self) -> Result<String, String> {
        let text = self.text()?;
        let (sum, _) = text.split_once(' ').unwrap_or_default();
        let random = |position: &RandomPosition| json!({ "seed": position.seed, "offset": position.offset });
        let further: BTreeMap<&String, Json> =
            self.further_random.iter().map(|(name, position)| (name, random(position))).collect();
        let readable = json!({
            "checksum": sum,
            "version": self.version,
            "step": self.step,
            "random": random(&self.random),
            "further_random": further,
            "parts": self.parts,
            "settings": self.settings,
            "values": self.values,
            "tensor_count": self.tensors.len(),
        });
        Ok(format!("{readable:#}\n"))
    }
}

fn other_version(version: u64) -> String {
    let advice = match version > VERSION {
        true => "a newer version of Ternion wrote it: resume it with that",
        false => "an older version of Ternion wrote it: resume it with that",
    };
    format!("a checkpoint of format version {version}, expected {VERSION}: {advice}")
}
