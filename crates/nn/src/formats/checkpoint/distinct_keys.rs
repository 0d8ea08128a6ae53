//! A check that the keys of a JSON object are distinct.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// Deserializes from any object without duplicate keys, and keeps none of its content.
pub(super) struct DistinctKeys;

impl<'de> Deserialize<'de> for DistinctKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DistinctKeys)
    }
}

impl<'de> Visitor<'de> for DistinctKeys {
    type Value = DistinctKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a tensor under each key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some((key, _)) = entries.next_entry::<String, IgnoredAny>()? {
            if let Some(duplicate) = seen.replace(key) {
                return Err(Error::custom(format_args!("the key {duplicate} occurs twice")));
            }
        }
        Ok(self)
    }
}
