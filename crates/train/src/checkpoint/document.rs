//! What a checkpoint says about itself: JSON in the file's header, under a checksum.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use ternion_nn::checkpoint::HostTensor;

/// The entry of the file's metadata.
pub const ENTRY: &str = "ternion.checkpoint";

/// The form of document and keys that this crate writes and reads.
pub const VERSION: u64 = 1;

/// All of a checkpoint but the tensors themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub version: u64,
    /// Steps that were made.
    pub step: u64,
    /// Of the training's own device.
    pub random: RandomPosition,
    /// Of further devices, by the names of their parts.
    pub further_random: BTreeMap<String, RandomPosition>,
    /// Parts that are made of tensors, with their kind: their keys begin with the name and a dot.
    pub parts: BTreeMap<String, String>,
    pub settings: BTreeMap<String, Json>,
    pub values: BTreeMap<String, Json>,
    /// CRC-32C of each tensor.
    pub tensors: BTreeMap<String, String>,
}

/// Where a device's random numbers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPosition {
    pub seed: u64,
    pub offset: u64,
}

/// Why a document cannot be used.
pub enum Fault {
    /// It is not what was written.
    Damaged(String),
    /// It is whole, but this crate does not read it.
    Foreign(String),
}

/// CRC-32C, in hexadecimal.
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32c::crc32c(bytes))
}

/// CRC-32C over dtype, shape and elements: a header that was changed is noticed as well.
pub fn tensor_checksum(tensor: &HostTensor) -> String {
    let form = format!("{} {:?} ", tensor.dtype(), tensor.dims());
    format!("{:08x}", crc32c::crc32c_append(crc32c::crc32c(form.as_bytes()), tensor.bytes()))
}

impl Document {
    /// The text for the file's header: a checksum, a space, JSON.
    pub fn text(&self) -> Result<String, String> {
        let json = serde_json::to_string(self).map_err(|error| error.to_string())?;
        Ok(format!("{} {json}", checksum(json.as_bytes())))
    }

    /// The document of a file's header.
    pub fn parse(text: &str) -> Result<Document, Fault> {
        let damaged = |detail: &str| Fault::Damaged(format!("damaged: {detail}"));
        let (sum, json) = text.split_once(' ').ok_or_else(|| damaged("its document has no checksum"))?;
        if checksum(json.as_bytes()) != sum {
            return Err(damaged("its document is not as it was written"));
        }
        let json: Json = serde_json::from_str(json).map_err(|error| Fault::Foreign(error.to_string()))?;
        match json["version"].as_u64() {
            Some(VERSION) => {}
            Some(version) => return Err(Fault::Foreign(other_version(version))),
            None => {
                return Err(Fault::Foreign(format!(
                    "a checkpoint without a format version, expected {VERSION}"
                )));
            }
        }
        Document::deserialize(json).map_err(|error| Fault::Foreign(error.to_string()))
    }

    /// What stands beside the file, for people and scripts: without the tensors' checksums, but with the document's, by which the two are known to belong together.
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
