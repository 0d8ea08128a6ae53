//! A shard: a part of the tests, selected by number.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The environment variable that selects a part of the tests. `TERNION_PART=2/12` divides the ops
/// that the filter matches into twelve parts, and runs the tests of every twelfth op, starting with
/// the second. All tests of an op are in one part, because they share kernels. Parts are for
/// several processes at a time, and for devices and tools whose memory use grows as long as a
/// process runs.
pub const SHARD: &str = "TERNION_PART";

/// A part of the tests: `2/12` is the second of twelve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// Starts at 1.
    number: usize,
    count: usize,
}

/// All tests: part 1 of 1.
impl Default for Shard {
    fn default() -> Shard {
        Shard { number: 1, count: 1 }
    }
}

impl Shard {
    /// Creates part `number` of `count`, where the first is 1; `None` if the number is out of
    /// range.
    pub fn new(number: usize, count: usize) -> Option<Shard> {
        (1..=count).contains(&number).then_some(Shard { number, count })
    }

    /// Returns the number of the part, starting at 1.
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the number of parts.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns whether this part contains all tests.
    pub fn is_full(self) -> bool {
        self.count == 1
    }

    /// Parses `value`, that of [`SHARD`]. The result contains all tests if it is not set.
    pub(super) fn from_env(value: Option<&str>) -> Result<Shard, String> {
        value.map_or(Ok(Shard::default()), |text| {
            text.parse().map_err(|error: String| format!("{SHARD}: {error}"))
        })
    }

    /// Returns a selection of the tests of this part.
    pub(super) fn selection(self) -> Selection {
        Selection { shard: self, ops: BTreeMap::new() }
    }
}

/// Selects every `count`-th op, in the order in which their tests are first requested.
pub(super) struct Selection {
    shard: Shard,
    /// The part of each op, starting at 0.
    ops: BTreeMap<String, usize>,
}

impl Selection {
    /// Returns whether the test belongs to this part.
    pub(super) fn selects(&mut self, test: &str) -> bool {
        let next = self.ops.len() % self.shard.count;
        let op = test.split("::").next().unwrap_or(test);
        *self.ops.entry(op.to_string()).or_insert(next) == self.shard.number - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        let shard = numbers.and_then(|(number, count)| Shard::new(number, count));
        shard.ok_or_else(|| format!("expected a part and how many there are, as in 2/12; got {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected<'a>(shard: &str, names: &[&'a str]) -> Vec<&'a str> {
        let mut selection = shard.parse::<Shard>().expect("it is a part").selection();
        names.iter().copied().filter(|name| selection.selects(name)).collect()
    }

    #[test]
    fn shards_partition_the_tests() {
        let all = ["sum::cpu", "mul::cpu", "sub::cpu", "neg::cpu", "exp::cpu", "log::cpu"];
        assert_eq!(selected("1/2", &all), ["sum::cpu", "sub::cpu", "exp::cpu"]);
        assert_eq!(selected("2/2", &all), ["mul::cpu", "neg::cpu", "log::cpu"]);
        assert_eq!(selected("7/9", &all), [""; 0]);
        assert_eq!(selected("1/1", &all), all);
        let checks = ["sum::forward::cpu", "mul::forward::cpu", "sum::backward::cpu"];
        let same_shard = ["sum::forward::cpu", "sum::backward::cpu"];
        assert_eq!(selected("1/2", &checks), same_shard, "one op's kernels in one process");
    }

    #[test]
    fn a_shard_is_parsed_as_it_is_printed() {
        assert_eq!(Shard::from_env(None), Ok(Shard::default()));
        assert!(Shard::default().is_full());
        let last = Shard::from_env(Some("3/3")).expect("there are three");
        assert_eq!((last.number(), last.count(), last.to_string()), (3, 3, "3/3".into()));
        for wrong in ["", "0/3", "4/3", "1", "1/", "a/b", "1/2/3", "-1/2", "0/0"] {
            let error = Shard::from_env(Some(wrong)).expect_err(wrong);
            assert_eq!(
                error,
                format!("TERNION_PART: expected a part and how many there are, as in 2/12; got {wrong:?}")
            );
        }
    }
}
