//! Architectures of devices, and which of them a variant supports.

use std::fmt;
use std::str::FromStr;

/// A device's compute capability: major and minor.
pub(crate) type Capability = (i32, i32);

/// The target of machine code: `sm_80`, or `sm_90a` with the instructions that only 9.0 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Architecture {
    capability: Capability,
    /// Whether the machine code may contain instructions that only this capability has.
    is_specific: bool,
}

impl Architecture {
    /// Returns the architecture whose machine code runs on a device. From 9.0 on it includes the
    /// instructions that only this capability has. A compiler that supports `sm_100` also supports
    /// `sm_100a`, and so on.
    pub(crate) fn of_device(capability: Capability) -> Architecture {
        Architecture { capability, is_specific: capability >= (9, 0) }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((major, minor), suffix) = (self.capability, if self.is_specific { "a" } else { "" });
        write!(f, "sm_{major}{minor}{suffix}")
    }
}

impl FromStr for Architecture {
    type Err = String;

    /// Parses NVRTC's name of an architecture.
    fn from_str(name: &str) -> Result<Architecture, String> {
        let parse = || {
            let digits = name.strip_prefix("sm_")?;
            let (number, is_specific) = match digits.strip_suffix('a') {
                Some(number) => (number, true),
                None => (digits, false),
            };
            let number = Some(number).filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()))?;
            let number: i32 = number.parse().ok().filter(|&number| number >= 10)?;
            Some(Architecture { capability: (number / 10, number % 10), is_specific })
        };
        parse().ok_or_else(|| format!("architecture {name:?}, expected such as sm_80 or sm_90a"))
    }
}

/// The architectures that a variant supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architectures {
    /// This capability and every later one.
    Minimum(Capability),
    /// Only this capability, with the instructions that only it has.
    Exact(Capability),
}

impl Architectures {
    /// All architectures that the backend supports.
    pub(crate) const ALL: Architectures = Architectures::Minimum((8, 0));

    /// Returns whether `architecture` is one of them.
    #[inline]
    pub(crate) fn contain(self, architecture: Architecture) -> bool {
        match self {
            Architectures::Minimum(capability) => architecture.capability >= capability,
            Architectures::Exact(capability) => {
                architecture == Architecture { capability, is_specific: true }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn architecture(name: &str) -> Architecture {
        name.parse().expect("an architecture")
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120"] {
            assert_eq!(architecture(name).to_string(), name);
        }
        assert_eq!(architecture("sm_103a"), Architecture { capability: (10, 3), is_specific: true });
        for name in ["", "sm_", "sm_9", "sm_a", "sm_+80", "sm_90b", "compute_90", "90a"] {
            let error = name.parse::<Architecture>().expect_err(name);
            assert!(error.contains("expected such as sm_80 or sm_90a"), "{error}");
        }
    }

    #[test]
    fn devices_have_the_instructions_of_their_own_architecture() {
        assert_eq!(Architecture::of_device((8, 6)), architecture("sm_86"));
        assert_eq!(Architecture::of_device((9, 0)), architecture("sm_90a"));
        assert_eq!(Architecture::of_device((10, 0)), architecture("sm_100a"));
        assert_eq!(Architecture::of_device((12, 1)), architecture("sm_121a"));
    }

    #[test]
    fn a_minimum_admits_later_ones_and_an_exact_one_itself() {
        let admitted = |architectures: Architectures| {
            ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a"]
                .into_iter()
                .filter(|name| architectures.contain(architecture(name)))
                .collect::<Vec<_>>()
        };
        assert_eq!(admitted(Architectures::ALL).len(), 5);
        assert_eq!(admitted(Architectures::Minimum((9, 0))), ["sm_90", "sm_90a", "sm_100", "sm_100a"]);
        assert_eq!(admitted(Architectures::Exact((9, 0))), ["sm_90a"]);
        assert_eq!(admitted(Architectures::Exact((10, 0))), ["sm_100a"]);
    }
}
