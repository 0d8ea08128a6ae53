//! Joins the coverage of one device from several runs, each of a part of the op table.

use super::Coverage;
use crate::suite::Part;
use std::collections::BTreeMap;

/// Returns the coverage of each device with its parts joined.
///
/// # Errors
/// A device with a missing or duplicate part, or with parts of different divisions; parts that ran
/// another scope or another device.
pub fn joined(found: Vec<Coverage>) -> Result<Vec<Coverage>, String> {
    let mut by_device: BTreeMap<String, Vec<Coverage>> = BTreeMap::new();
    for coverage in found {
        by_device.entry(coverage.device.clone()).or_default().push(coverage);
    }
    by_device.into_values().map(of_device).collect()
}

/// Joins the parts of one device.
fn of_device(mut parts: Vec<Coverage>) -> Result<Coverage, String> {
    parts.sort_by_key(|part| part.part);
    let numbers: Vec<Part> = parts.iter().map(|part| part.part).collect();
    let count = numbers.first().map_or(1, |first| first.count());
    let expected: Vec<Part> = (1..=count).filter_map(|number| Part::new(number, count)).collect();
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return Err("no results".into()) };
    if numbers != expected {
        let got: Vec<String> = numbers.iter().map(Part::to_string).collect();
        return Err(format!("{}: expected each of {count} parts once, got {}", all.device, got.join(", ")));
    }
    for part in parts {
        all.join(part)?;
    }
    all.part = Part::default();
    Ok(all)
}

impl Coverage {
    /// Adds the coverage of `other`, another part of the same table. Parts have no op in common.
    fn join(&mut self, other: Coverage) -> Result<(), String> {
        let same = [("device", &self.description, &other.description), ("scope", &self.scope, &other.scope)];
        if let Some((what, first, this)) = same.into_iter().find(|(_, first, this)| first != this) {
            let Coverage { device, part, .. } = &other;
            return Err(format!(
                "{device}: expected the {what} {first:?} in each part, got {this:?} in {part}"
            ));
        }
        self.compared += other.compared;
        for (op, found) in other.ops {
            if self.ops.contains_key(&op) {
                return Err(format!("{}: expected {op} in one part, got it in two", self.device));
            }
            self.ops.insert(op, found);
        }
        for (why, count) in other.refused {
            *self.refused.entry(why).or_default() += count;
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
    fn two_parts() -> [Coverage; 2] {
        let part = |op: &str, number, compared| Coverage {
            part: Part::new(number, 2).expect("there are two"),
            ops: example().ops.into_iter().filter(|(name, _)| name == op).collect(),
            compared,
            refused: [("f16: the device has no f16".into(), number + number)].into(),
            ..example()
        };
        [part("exp", 1, 1000), part("floor", 2, 234)]
    }

    #[test]
    fn parts_of_a_device_are_joined() {
        let [first, second] = two_parts();
        let cpu = Coverage { device: "wgpu:0".into(), ..example() };
        let all = Coverage { refused: [("f16: the device has no f16".into(), 6)].into(), ..example() };
        assert_eq!(joined(vec![second, cpu.clone(), first]), Ok(vec![all, cpu]));
        assert_eq!(joined(Vec::new()), Ok(Vec::new()));
    }

    #[test]
    fn parts_that_do_not_make_a_whole_are_refused() {
        let [first, second] = two_parts();
        let refused = |parts: &[&Coverage]| joined(parts.iter().map(|part| (*part).clone()).collect());
        let error = |text: &str| Err(format!("cuda:0: {text}"));
        assert_eq!(refused(&[&second]), error("expected each of 2 parts once, got 2/2"));
        assert_eq!(refused(&[&first, &first]), error("expected each of 2 parts once, got 1/2, 1/2"));
        let third = Coverage { part: Part::new(3, 3).expect("there are three"), ..second.clone() };
        assert_eq!(refused(&[&first, &third]), error("expected each of 2 parts once, got 1/2, 3/3"));
        let other = Coverage { scope: "the smallest".into(), ..second.clone() };
        let text =
            "expected the scope \"every case of the op table\" in each part, got \"the smallest\" in 2/2";
        assert_eq!(refused(&[&first, &other]), error(text));
        let twice = Coverage { ops: first.ops.clone(), ..second };
        assert_eq!(refused(&[&first, &twice]), error("expected exp in one part, got it in two"));
    }
}
