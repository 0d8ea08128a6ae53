//! Lines for the user that cannot end the program: `println!` panics when a pipe is closed or a disk is full, and takes with it what is not saved yet.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::Once;

/// As `println!`, but without its panic. A macro because only a macro takes a format string.
macro_rules! say {
    ($($words:tt)*) => { $crate::support::say::line(format_args!($($words)*)) };
}
pub(crate) use say;

/// Prints a line. A reader that has gone away is no news to the user; any other failure is told once, on standard error.
pub fn line(words: Arguments<'_>) {
    static TOLD: Once = Once::new();
    let written = writeln!(std::io::stdout(), "{words}");
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        TOLD.call_once(|| warn(format_args!("standard output cannot be written: {error}")));
    }
}

/// Prints a line to standard error. There is nowhere left to tell that it failed.
pub fn warn(words: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{words}");
}
