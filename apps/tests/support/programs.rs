//! Runs the programs as their users do. Each test file uses a part of this module.
#![allow(dead_code)]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the folder of the built programs.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mnist")).parent().expect("a program is in a folder")
}

/// Returns a program of this package, as its users run it.
pub fn program(name: &str) -> Command {
    let mut program = Command::new(folder().join(name).with_extension(std::env::consts::EXE_EXTENSION));
    for variable in ["TERNION_DATA", "TERNION_CHECK", "TERNION_NAN", "TERNION_FALLBACK"] {
        program.env_remove(variable);
    }
    // No test may download anything.
    program.env("TERNION_OFFLINE", "1").stdin(Stdio::null());
    program
}

/// A folder that is removed at the end of a test, with a small data set in its subfolder `data`.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ternion-programs-{test}-{}", std::process::id()));
        fs::create_dir_all(path.join("data")).expect("the temporary folder can be written");
        let header = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        for (split, count) in [("train", 70), ("t10k", 10)] {
            let mut images: Vec<u8> = header(&[2051, count, 28, 28]);
            images.extend((0..count * 28 * 28).map(|index| (index % 251) as u8));
            let mut labels: Vec<u8> = header(&[2049, count]);
            labels.extend((0..count).map(|index| (index % 10) as u8));
            let file = |kind: &str| path.join("data").join(format!("{split}-{kind}-ubyte"));
            fs::write(file("images-idx3"), images).expect("the folder can be written");
            fs::write(file("labels-idx1"), labels).expect("the folder can be written");
        }
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns a program on the CPU, with this folder as its working directory.
    pub fn run(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = program(name);
        // An empty cache: no data set of this machine's user is found.
        command.env("XDG_CACHE_HOME", self.file("cache")).current_dir(&self.0);
        if name != "compare" {
            command.args(["--device", "cpu"]);
        }
        command.args(arguments);
        command
    }

    /// Returns what a program prints to standard error when it rejects `arguments`.
    pub fn rejection_of(&self, name: &str, arguments: &[&str]) -> String {
        let output = self.run(name, arguments).output().expect("the program runs");
        assert!(output.status.code().is_some_and(|code| code != 0), "{name} {arguments:?}: {output:?}");
        errors(&output)
    }

    /// Checks that a program rejects arguments with these messages.
    pub fn check_rejections(&self, name: &str, cases: &[(&[&str], &str)]) {
        for (arguments, expected) in cases {
            let message = self.rejection_of(name, arguments);
            assert!(message.contains(expected), "{name} {arguments:?}: {message}");
            assert!(!message.contains("panicked"), "{name} {arguments:?}: {message}");
        }
    }

    /// Reads a JSON file that a program wrote.
    pub fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.file(name)).expect("it was written");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns what was printed to standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the command, checks that it succeeds, and returns what it printed.
pub fn success(mut command: Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a vocabulary in GPT-2's format with a token for each byte, then `merged`.
pub fn byte_vocabulary(merged: &[&str]) -> String {
    // Printable bytes represent themselves, the others are mapped to characters from 256 on.
    let is_printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let unprintable = (0..256).filter(|&byte| !is_printable(byte)).count() as u32;
    let characters = (0..256).filter(|&byte| is_printable(byte)).chain(256..256 + unprintable);
    let bytes = characters.map(|code| char::from_u32(code).expect("a character").to_string());
    let tokens = bytes.chain(merged.iter().map(|token| (*token).to_owned()));
    let entries = tokens.zip(0..).map(|(token, index): (String, usize)| (token, index.into()));
    Value::Object(entries.collect()).to_string()
}

/// Returns records in CIFAR-10's binary format: the labels cycle, and each image has its own shade.
pub fn cifar10_records(count: usize) -> Vec<u8> {
    let record = |index: usize| {
        let label = (index % 10) as u8;
        let pixels = (0..3072).map(move |pixel| label * 20 + (pixel % 11) as u8);
        std::iter::once(label).chain(pixels)
    };
    (0..count).flat_map(record).collect()
}
