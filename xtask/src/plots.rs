//! Draws the figures of docs/results.md, or compares them with the committed ones.
//! `benches/peers/plots.py` does the work.

use std::path::Path;
use std::process::Command;

/// What to do with the figures.
#[derive(Clone, Copy)]
pub enum Mode {
    Write,
    Check,
}

/// The script, from the root of the repository.
const SCRIPT: &str = "benches/peers/plots.py";

/// Runs the script, which prints its errors. Fails if a figure could not be drawn or, with
/// [`Mode::Check`], if a file is not up to date.
pub fn run(root: &Path, mode: Mode) -> Result<(), String> {
    let (argument, failure) = match mode {
        Mode::Write => ("write", "not everything could be drawn"),
        Mode::Check => ("check", "the committed figures are not up to date"),
    };
    let status = Command::new("python3")
        .arg(SCRIPT)
        .arg(argument)
        .current_dir(root)
        .status()
        .map_err(|error| format!("python3, which runs {SCRIPT}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{failure}: see above ({SCRIPT} {argument}: {status})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_script_is_an_error() {
        let root = std::env::temp_dir().join(format!("xtask-plots-{}", std::process::id()));
        std::fs::create_dir_all(root.join("benches/peers")).expect("a folder");
        // A script that succeeds with `check` only.
        std::fs::write(root.join(SCRIPT), "import sys\nsys.exit(sys.argv[1:] != ['check'])\n")
            .expect("a file");
        let (check, write) = (run(&root, Mode::Check), run(&root, Mode::Write));
        std::fs::remove_dir_all(&root).expect("the folder");
        assert_eq!(check, Ok(()));
        let error = write.expect_err("exit status 1");
        assert!(
            error.starts_with("not everything could be drawn") && error.contains("plots.py write"),
            "{error}"
        );
    }
}
