//! The examples as their readers run them: what they print, what they learn, and that they stay
//! short.
//!
//! `cargo test -p examples` builds them first; with `--test examples` they must be built already.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs an example on the CPU in an empty folder, without a data set and without downloads, and
/// returns what it printed.
fn run(name: &str, arguments: &[&str]) -> String {
    let test = std::env::current_exe().expect("a test is a program");
    let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("examples");
    let program = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let empty = EmptyFolder::new(name);
    let mut command = Command::new(&program);
    command.args(arguments).current_dir(&empty.0).env("XDG_CACHE_HOME", &empty.0).env("TERNION_OFFLINE", "1");
    for variable in ["TERNION_DATA", "TERNION_CHECK", "TERNION_NAN", "TERNION_FALLBACK"] {
        command.env_remove(variable);
    }
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A temporary folder that is removed at the end.
struct EmptyFolder(PathBuf);

impl EmptyFolder {
    fn new(name: &str) -> EmptyFolder {
        let folder = std::env::temp_dir().join(format!("ternion-example-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        EmptyFolder(folder)
    }
}

impl Drop for EmptyFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The number after the last `label` that was printed.
fn last(printed: &str, label: &str) -> f64 {
    let (_, rest) = printed.rsplit_once(label).unwrap_or_else(|| panic!("no {label:?} in {printed}"));
    let number = rest.split_whitespace().next().expect("a number");
    number.parse().unwrap_or_else(|error| panic!("{label} {number}: {error}"))
}

#[test]
fn tensors() {
    let printed = run("tensors", &["cpu"]);
    assert!(printed.contains("matmul: [32, 784] x [128, 10]: inner sizes 784 and 128 differ"), "{printed}");
}

#[test]
fn gradients() {
    let printed = run("gradients", &["cpu"]);
    assert!(printed.contains("dy/dx = 3 x^2 = [3.0, 12.0, 27.0]"), "{printed}");
    assert!(printed.contains("d2y/dx2 = 6 x = [6.0, 12.0, 18.0]"), "{printed}");
    assert!((last(&printed, "y = ") - 3.0).abs() < 0.1, "{printed}");
}

#[test]
fn xor() {
    let printed = run("xor", &["cpu"]);
    for (inputs, expected) in [("0 xor 0", 0.0), ("0 xor 1", 1.0), ("1 xor 0", 1.0), ("1 xor 1", 0.0)] {
        let output = last(&printed, &format!("{inputs} = "));
        assert!((output - expected).abs() < 0.01, "{inputs} = {output}");
    }
}

#[test]
fn mnist() {
    let printed = run("mnist", &["cpu"]);
    assert!(printed.contains("THESE ARE SYNTHETIC DIGITS"), "{printed}");
    assert!(last(&printed, "test accuracy ") > 97.0, "{printed}");
}

#[test]
fn cnn() {
    assert!(last(&run("cnn", &["cpu"]), "test accuracy ") > 95.0);
}

#[test]
fn char_gpt() {
    let printed = run("char_gpt", &[&format!("{}/../ARCHITECTURE.md", env!("CARGO_MANIFEST_DIR")), "cpu"]);
    assert!(last(&printed, "validation loss ") < 2.5, "{printed}");
}

#[test]
fn custom_op() {
    let printed = run("custom_op", &[]);
    let numbers = |label: &str| printed.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    assert_eq!(numbers("gradient").expect("printed"), numbers("central difference").expect("printed"));
    assert!(printed.contains("softsign: input is i32, expected a floating dtype"), "{printed}");
}

#[test]
fn own_backend() {
    assert!(last(&run("own_backend", &[]), "loss ") < 0.1);
}

/// A device that does not exist is an error that names it.
#[test]
fn an_unknown_device_is_named() {
    let test = std::env::current_exe().expect("a test is a program");
    let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("examples");
    for name in ["tensors", "gradients", "xor", "mnist", "cnn"] {
        let program = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        let output = Command::new(program).arg("abacus").output().expect("the example runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("abacus"), "{name}: {errors}");
    }
}

/// Lines that are neither empty nor only a comment: at most 60 in `mnist.rs`, 80 in the others.
#[test]
fn examples_are_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = ["tensors", "gradients", "xor", "mnist", "cnn", "char_gpt", "custom_op", "own_backend/main"];
    for name in names {
        let text = std::fs::read_to_string(folder.join(name).with_extension("rs")).expect("the example");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let (lines, limit) = (text.lines().filter(is_code).count(), if name == "mnist" { 60 } else { 80 });
        assert!(lines <= limit, "{name}: {lines} lines of code, expected at most {limit}");
    }
}
