//! Output that cannot end the program: `println!` panics if a pipe is closed or a disk is full, and
//! everything that is not saved yet would be lost.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::Once;

/// Like `println!`, but does not panic. It is a macro, because only a macro takes a format string.
macro_rules! print_line {
    ($($message:tt)*) => { $crate::support::console::write_line(format_args!($($message)*)) };
}
pub(crate) use print_line;

/// Prints a line. A closed pipe is ignored; any other failure is reported once on standard error.
pub fn write_line(message: Arguments<'_>) {
    static REPORTED: Once = Once::new();
    let written = writeln!(std::io::stdout(), "{message}");
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        REPORTED.call_once(|| warn(format_args!("standard output cannot be written: {error}")));
    }
}

/// Prints a line to standard error. Failures are ignored, because there is nowhere left to report
/// them.
pub fn warn(message: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{message}");
}
