//! Joins the coverage of one device from several runs, each of one part (shard) of the op table.

use super::Coverage;
use crate::suite::Shard;
use std::collections::BTreeMap;

/// Returns the coverage of each device with its parts joined.
///
/// # Errors
/// Returned if a device has a missing or duplicate part, or parts of different part counts; if
/// parts differ in scope or device description; or if an op is in two parts.
pub fn join_shards(results: Vec<Coverage>) -> Result<Vec<Coverage>, String> {
    let mut by_device: BTreeMap<String, Vec<Coverage>> = BTreeMap::new();
    for coverage in results {
        by_device.entry(coverage.device.clone()).or_default().push(coverage);
    }
    by_device.into_values().map(join_device).collect()
}

/// Joins the parts of one device.
fn join_device(mut parts: Vec<Coverage>) -> Result<Coverage, String> {
    parts.sort_by_key(|part| part.shard);
    let shards: Vec<Shard> = parts.iter().map(|part| part.shard).collect();
    let count = shards.first().map_or(1, |first| first.count());
    let expected: Vec<Shard> = (1..=count).filter_map(|number| Shard::new(number, count)).collect();
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return Err("no results".into()) };
    if shards != expected {
        let got: Vec<String> = shards.iter().map(Shard::to_string).collect();
        return Err(format!("{}: expected each of {count} parts once, got {}", all.device, got.join(", ")));
    }
    for part in parts {
        all.join(part)?;
    }
    all.shard = Shard::default();
    Ok(all)
}

impl Coverage {
    /// Adds the coverage of `other`, another part of the same table. No op is in two parts.
    fn join(&mut self, other: Coverage) -> Result<(), String> {
        let same = [("device", &self.description, &other.description), ("scope", &self.scope, &other.scope)];
        if let Some((what, first, this)) = same.into_iter().find(|(_, first, this)| first != this) {
            let Coverage { device, shard, .. } = &other;
            return Err(format!(
                "{device}: expected the {what} {first:?} in each part, got {this:?} in {shard}"
            ));
        }
        self.compared += other.compared;
        for (op, results) in other.ops {
            if self.ops.contains_key(&op) {
                return Err(format!("{}: expected {op} in one part, got it in two", self.device));
            }
            self.ops.insert(op, results);
        }
        for (why, count) in other.unsupported {
            *self.unsupported.entry(why).or_default() += count;
        }
        self.failures.extend(other.failures);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    /// The example coverage in two parts.
    fn two_shards() -> [Coverage; 2] {
        let part = |op: &str, number, compared| Coverage {
            shard: Shard::new(number, 2).expect("there are two"),
            ops: example().ops.into_iter().filter(|(name, _)| name == op).collect(),
            compared,
            unsupported: [("f16: the device has no f16".into(), number + number)].into(),
            ..example()
        };
        [part("exp", 1, 1000), part("floor", 2, 234)]
    }

    #[test]
    fn shards_of_a_device_are_joined() {
        let [first, second] = two_shards();
        let cpu = Coverage { device: "wgpu:0".into(), ..example() };
        let all = Coverage { unsupported: [("f16: the device has no f16".into(), 6)].into(), ..example() };
        assert_eq!(join_shards(vec![second, cpu.clone(), first]), Ok(vec![all, cpu]));
        assert_eq!(join_shards(Vec::new()), Ok(Vec::new()));
    }

    #[test]
    fn incomplete_shards_are_rejected() {
        let [first, second] = two_shards();
        let rejection = |parts: &[&Coverage]| join_shards(parts.iter().map(|part| (*part).clone()).collect());
        let error = |text: &str| Err(format!("cuda:0: {text}"));
        assert_eq!(rejection(&[&second]), error("expected each of 2 parts once, got 2/2"));
        assert_eq!(rejection(&[&first, &first]), error("expected each of 2 parts once, got 1/2, 1/2"));
        let third = Coverage { shard: Shard::new(3, 3).expect("there are three"), ..second.clone() };
        assert_eq!(rejection(&[&first, &third]), error("expected each of 2 parts once, got 1/2, 3/3"));
        let other = Coverage { scope: "the smallest".into(), ..second.clone() };
        let text =
            "expected the scope \"every case of the op table\" in each part, got \"the smallest\" in 2/2";
        assert_eq!(rejection(&[&first, &other]), error(text));
        let twice = Coverage { ops: first.ops.clone(), ..second };
        assert_eq!(rejection(&[&first, &twice]), error("expected exp in one part, got it in two"));
    }
}
