//! The command line, and which of its options were given: those that would come to nothing are refused, and not passed over.

use crate::support::program::Outcome;
use clap::parser::ValueSource;
use clap::{ArgMatches, Parser};

/// The options that were given.
pub struct Given(ArgMatches);

impl Given {
    /// The command line, and what was given there. Ends the program where it is wrong.
    pub fn parse<A: Parser>() -> (A, Given) {
        let matches = A::command().get_matches();
        let arguments = A::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        (arguments, Given(matches))
    }

    /// That none of these options was given, by the names of their fields; `why` says what makes them useless.
    pub fn refuse(&self, names: &[&str], why: &str) -> Outcome<()> {
        let is_given = |name: &&str| self.0.value_source(name) == Some(ValueSource::CommandLine);
        let given: Vec<String> = names
            .iter()
            .filter(|name| is_given(name))
            .map(|name| format!("--{}", name.replace('_', "-")))
            .collect();
        match given.is_empty() {
            true => Ok(()),
            false => Err(format!("{} without effect: {why}", given.join(", ")).into()),
        }
    }
}
