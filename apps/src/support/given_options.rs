//! The command line, and which of its options were given: options without effect are rejected
//! instead of ignored.

use crate::support::program::Outcome;
use clap::parser::ValueSource;
use clap::{ArgMatches, Parser};

/// The options that were given.
pub struct GivenOptions(ArgMatches);

impl GivenOptions {
    /// Parses the command line, and returns it with the options that were given. Exits if it is
    /// invalid.
    pub fn parse<A: Parser>() -> (A, GivenOptions) {
        let matches = A::command().get_matches();
        let arguments = A::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        (arguments, GivenOptions(matches))
    }

    /// Rejects these options, which are named by their fields, if they were given; `why` explains
    /// why they have no effect.
    pub fn reject(&self, names: &[&str], why: &str) -> Outcome<()> {
        let is_given = |name: &&str| self.0.value_source(name) == Some(ValueSource::CommandLine);
        let used: Vec<String> = names
            .iter()
            .filter(|name| is_given(name))
            .map(|name| format!("--{}", name.replace('_', "-")))
            .collect();
        match used.is_empty() {
            true => Ok(()),
            false => Err(format!("{} without effect: {why}", used.join(", ")).into()),
        }
    }
}
