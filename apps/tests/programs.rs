//! The programs as their users run them: what they write, what they reject, and that no closed pipe
//! or full disk loses the weights.

#[path = "programs/checkpoints.rs"]
mod checkpoints;
#[path = "programs/diverged.rs"]
mod diverged;
#[path = "programs/inspected.rs"]
mod inspected;
#[path = "programs/recorded.rs"]
mod recorded;
#[path = "programs/rejected.rs"]
mod rejected;
#[path = "programs/reported.rs"]
mod reported;
#[path = "programs/resumed.rs"]
mod resumed;
#[path = "support/programs.rs"]
mod support;
#[path = "programs/tutorials.rs"]
mod tutorials;

use std::fs;
use std::process::{Command, Stdio};
use support::{Folder, errors, program, success};

impl Folder {
    /// The digit classifier on the small data set, with this folder as its working directory.
    fn mnist(&self, arguments: &[&str]) -> Command {
        let mut mnist = program("mnist");
        mnist.current_dir(&self.0).args(["--data", "data", "--hidden", "8"]).args(arguments);
        mnist
    }

    /// Returns what the classifier prints to standard error when it rejects `arguments`.
    fn rejection(&self, arguments: &[&str]) -> String {
        // The data does not exist: an error that is reported first cannot be about it.
        let output = program("mnist")
            .current_dir(&self.0)
            .args(if arguments == ["--data="] { &[][..] } else { &["--data", "nowhere"][..] })
            .args(arguments)
            .output()
            .expect("the program runs");
        assert!(!output.status.success(), "{arguments:?} was accepted");
        errors(&output)
    }
}

#[cfg(unix)]
mod streams {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::io::{BufRead, BufReader, Write};
    use std::process::Child;

    /// Ctrl-C in a shell's pipeline ends the reader as well: `mnist --save FILE | tee log`.
    #[test]
    fn ctrl_c_saves_though_the_reader_of_the_output_is_gone() {
        let folder = Folder::new("pipe");
        let arguments = ["--epochs", "1000000", "--save", "w.st", "--json", "r.json"];
        let mut running = folder
            .mnist(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.expect("UTF-8").starts_with("epoch 3/")), "the training ended");
        drop(lines);
        interrupt(&running);
        let output = running.wait_with_output().expect("it ends");
        assert!(output.status.success() && !errors(&output).contains("panicked"), "{}", errors(&output));
        assert!(folder.file("r.json").is_file());
        success(folder.mnist(&["--epochs", "0", "--load", "w.st"]));
    }

    #[test]
    fn a_program_survives_a_reader_that_leaves() {
        let folder = Folder::new("readers");
        let mut command = folder.mnist(&["--epochs", "1"]);
        let mut running =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        drop(running.stdout.take());
        let output = running.wait_with_output().expect("it ends");
        assert!(output.status.success() && errors(&output).is_empty(), "{}", errors(&output));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_under_the_output_is_reported_and_costs_no_weights() {
        let folder = Folder::new("full");
        let full: File = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = folder
            .mnist(&["--epochs", "1", "--save", "w.st"])
            .stdout(full)
            .output()
            .expect("the program runs");
        let message = "standard output cannot be written: ";
        assert!(output.status.success(), "{}", errors(&output));
        assert_eq!(errors(&output).matches(message).count(), 1, "{}", errors(&output));
        success(folder.mnist(&["--epochs", "0", "--load", "w.st"]));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn ctrl_c_before_anything_was_learned_leaves_an_earlier_file_alone() {
        let folder = Folder::new("untrained");
        let earlier = folder.file("mnist-interrupted.safetensors");
        fs::write(&earlier, "earlier weights").expect("the folder can be written");
        // A full pipe: the program blocks at its first line, which it prints once its handler is
        // installed.
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(&[b' '; 1 << 16]).expect("as much as a pipe holds");
        let mut running = folder.mnist(&[]).stdout(writer).stderr(Stdio::piped()).spawn().expect("it runs");
        while !heeds_interrupts(running.id()) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        interrupt(&running);
        let mut lines = BufReader::new(running.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("stopping")), "the signal came to nothing");
        drop(reader);
        assert!(running.wait().expect("it ends").success(), "{:?}", lines.collect::<Vec<_>>());
        assert_eq!(fs::read_to_string(&earlier).expect("it still exists"), "earlier weights");
    }

    /// Returns whether the program has a handler for SIGINT, signal 2.
    fn heeds_interrupts(process: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the program runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        u64::from_str_radix(caught.trim(), 16).expect("hexadecimal") & 0b10 != 0
    }

    fn interrupt(running: &Child) {
        let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
        assert!(killed.expect("kill is a program").success());
    }
}

#[test]
fn no_two_files_of_a_run_are_the_same() {
    let folder = Folder::new("same");
    fs::write(folder.file("w.st"), "weights").expect("the folder can be written");
    fs::create_dir(folder.file("sub")).expect("the folder can be written");
    let cases: [(&[&str], &str); 4] = [
        (&["--save", "x", "--json", "x"], "--save and --json name the same file: x"),
        (&["--save", "x", "--plot", "./sub/../x"], "--save and --plot name the same file: ./sub/../x"),
        (&["--plot", "x", "--mistakes", "x"], "--plot and --mistakes name the same file: x"),
        (&["--load", "w.st", "--json", "w.st"], "--load and --json name the same file: w.st"),
    ];
    for (arguments, expected) in cases {
        let message = folder.rejection(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("yet-to-come", folder.file("link")).expect("the folder can be written");
        let message = folder.rejection(&["--save", "yet-to-come", "--json", "link"]);
        assert!(message.contains("--save and --json name the same file: link"), "{message}");
    }
    assert_eq!(fs::read_to_string(folder.file("w.st")).expect("it was not touched"), "weights");
    success(folder.mnist(&["--epochs", "1", "--save", "w.st"]));
    success(folder.mnist(&["--epochs", "1", "--load", "w.st", "--save", "w.st"]));
}

#[test]
fn invalid_arguments_are_reported_before_the_data_is_searched() {
    let folder = Folder::new("early");
    fs::write(folder.file("file"), "").expect("the folder can be written");
    let cases: [(&[&str], &str); 9] = [
        (&["--plot", "no/curve.svg"], "--plot: no/curve.svg: there is no folder no"),
        (&["--json", "data"], "--json: data is a folder, expected a file"),
        (&["--plot", "file/curve.svg"], "--plot: file/curve.svg: there is no folder file"),
        (&["--load", "absent.st"], "--load: absent.st: cannot be read: "),
        (&["--load", "file"], "file: no safetensors file"),
        (&["--lr", "nan"], "adamw: lr NaN, expected a finite number of at least 0"),
        (&["--lr", "-1"], "adamw: lr -1, expected a finite number of at least 0"),
        (&["--epochs", "-1"], "expected an integer from 0 to"),
        (&["--seed", "-1"], "expected an integer from 0 to"),
    ];
    for (arguments, expected) in cases {
        let message = folder.rejection(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.contains("MNIST"), "{arguments:?}: {message}");
    }
    if cfg!(target_os = "linux") {
        let message = folder.rejection(&["--plot", "/proc/curve.svg"]);
        assert!(message.contains("--plot: /proc/curve.svg: cannot be written: "), "{message}");
    }
    let left: Vec<_> = fs::read_dir(&folder.0)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left.len(), 2, "the checks left something behind: {left:?}");
}

/// 70 digits in batches of 16: the last one is padded.
#[test]
fn a_captured_run_ends_where_an_eager_one_does() {
    let folder = Folder::new("capture");
    let run = |weights: &str, eager: &[&str]| {
        let arguments =
            ["--device", "cpu", "--epochs", "3", "--batch", "16", "--lr", "0.01", "--save", weights];
        let printed = success(folder.mnist(&[&arguments, eager].concat()));
        let last = printed.lines().find(|line| line.starts_with("test accuracy ")).expect("it is reported");
        (last.to_string(), fs::read(folder.file(weights)).expect("they were saved"))
    };
    let (eager, captured) = (run("eager.st", &["--eager"]), run("captured.st", &[]));
    assert_eq!(eager.0, captured.0);
    assert!(eager.1 == captured.1, "the weights differ");
    success(folder.mnist(&["--epochs", "0", "--save", "untrained.st"]));
    assert!(fs::read(folder.file("untrained.st")).expect("saved") != eager.1, "nothing was trained");
}

#[test]
fn a_plot_shows_one_reading_and_says_what_it_cannot_show() {
    let folder = Folder::new("plot");
    success(folder.mnist(&["--epochs", "1", "--batch", "70", "--plot", "one.svg"]));
    let one = fs::read_to_string(folder.file("one.svg")).expect("it was written");
    assert!(one.contains(r##"fill="#1f6feb"/>"##), "no dot for the only reading: {one}");
    let diverged = folder.mnist(&["--epochs", "1", "--lr", "1e30", "--plot", "nan.svg"]).output();
    assert!(!diverged.expect("the program runs").status.success());
    let lost = fs::read_to_string(folder.file("nan.svg")).expect("it was written");
    assert!(lost.contains("1 of 1 values of training loss are not numbers"), "{lost}");
    assert!(lost.contains(">0.2</text>") && lost.matches(">0</text>").count() <= 3, "{lost}");
}

#[test]
fn a_variable_that_does_not_lead_to_the_data_is_reported_though_the_cache_has_it() {
    let folder = Folder::new("variable");
    let cached = folder.file("cache").join("ternion").join("mnist");
    fs::create_dir_all(&cached).expect("the folder can be written");
    for entry in fs::read_dir(folder.file("data")).expect("the data") {
        let file = entry.expect("an entry").path();
        fs::copy(&file, cached.join(file.file_name().expect("a name"))).expect("the folder can be written");
    }
    fs::remove_file(folder.file("data").join("t10k-labels-idx1-ubyte")).expect("it exists");
    let output = program("mnist")
        .args(["--epochs", "0", "--hidden", "8"])
        .env("TERNION_DATA", folder.file("data"))
        .env("XDG_CACHE_HOME", folder.file("cache"))
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", errors(&output));
    let expected = format!(
        "warning: skipped, though named by TERNION_DATA: {}: no complete MNIST here: missing t10k-labels-idx1-ubyte\n",
        folder.file("data").display()
    );
    assert_eq!(errors(&output), expected);
    let message = folder.rejection(&["--data="]);
    assert!(message.contains("the name of the data directory is empty"), "{message}");
}

/// A repetitive text is learned and continued with the saved weights.
#[test]
fn tiny_gpt_learns_a_text_and_goes_on_from_saved_weights() {
    let folder = Folder::new("tiny-gpt");
    fs::write(folder.file("text"), "the cat sat. ".repeat(150)).expect("the folder can be written");
    let gpt = |arguments: &[&str]| {
        let mut gpt = program("tiny_gpt");
        gpt.current_dir(&folder.0).args(["--device", "cpu", "--text", "text"]).args(arguments);
        gpt
    };
    let sizes = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "16", "--batch", "8"];
    let training =
        ["--steps", "160", "--lr", "1e-2", "--save", "w.st", "--json", "r.json", "--trace", "t.json"];
    success(gpt(&[&sizes[..], &training].concat()));
    let results = fs::read_to_string(folder.file("r.json")).expect("it was written");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    for name in ["train_loss", "validation_loss", "tokens_per_second", "train_seconds", "peak_memory_bytes"] {
        assert!(results[name].is_number(), "{name}: {results}");
    }
    let traced = fs::read_to_string(folder.file("t.json")).expect("it was written");
    for name in ["h.0.self_attn (MultiHeadAttention)", "matmul backward", "adam_step"] {
        assert!(traced.contains(name), "{name}");
    }
    // Of 9 characters: guessing has a loss of 2.2. Only the first ones of a window are uncertain.
    let loss = results["validation_loss"].as_f64().expect("a number");
    assert!(loss < 0.5, "{loss}");
    let writing = ["--load", "w.st", "--generate", "the cat", "--tokens", "30", "--temperature", "0"];
    let written = success(folder.run("tiny_gpt", &writing));
    assert_eq!(written.lines().last(), Some("the cat sat. the cat sat. the cat sat"));
    let rejection = |arguments: &[&str]| {
        let output = gpt(arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let message = folder.rejection_of("tiny_gpt", &["--load", "w.st", "--generate", "the dog"]);
    assert!(message.contains("character 'd' at position 4"), "{message}");
    let message = rejection(&["--json", "text"]);
    assert!(message.contains("--text and --json name the same file: text"), "{message}");
    let message = rejection(&["--load", "none.st"]);
    assert!(message.contains("--load: none.st: cannot be read"), "{message}");
    let message = rejection(&["--load", "w.st", "--layers", "3"]);
    assert!(message.contains("--layers 3, but the checkpoint is of 1"), "{message}");
    // The JSON file next to it is only for people.
    fs::write(folder.file("w.st.json"), "{}").expect("the folder can be written");
    success(gpt(&["--load", "w.st"]));
    fs::write(folder.file("w.st"), "{}").expect("the folder can be written");
    let message = rejection(&["--load", "w.st"]);
    assert!(message.contains("w.st: no safetensors file: only 2 bytes long"), "{message}");
}

/// Four IDX files of any names, sizes and classes; and Fashion-MNIST, whose files MNIST's check
/// rejects.
#[test]
fn mnist_trains_on_other_data_sets_in_its_format() {
    let folder = Folder::new("datasets");
    let header =
        |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let write = |name: &str, bytes: Vec<u8>| fs::write(folder.file(name), bytes).expect("it can be written");
    let labels: Vec<u8> = [9, 2, 1, 1, 6, 1, 4, 6, 5, 7, 11, 0].into();
    write(
        "images",
        [header(&[2051, 12, 16, 12]), (0..12 * 16 * 12).map(|at| (at % 250) as u8).collect()].concat(),
    );
    write("labels", [header(&[2049, 12]), labels.clone()].concat());
    for model in ["mlp", "cnn"] {
        let files = ["--idx", "images", "labels", "images", "labels"];
        let arguments =
            [&files[..], &["--model", model, "--epochs", "1", "--json", "r.json", "--mistakes", "m.svg"]];
        let printed = success(folder.run("mnist", &arguments.concat()));
        assert!(printed.contains("12 digits to train on, 12 to test on"), "{model}: {printed}");
        assert_eq!(folder.json("r.json")["model"], model);
    }
    assert!(
        fs::read_to_string(folder.file("m.svg"))
            .expect("it was drawn")
            .contains("width=\"12\" height=\"16\"")
    );
    let rejection = folder.rejection_of("mnist", &["--idx", "images", "labels"]);
    assert!(rejection.contains("4 values required"), "{rejection}");

    fs::create_dir_all(folder.file("fashion")).expect("the folder can be written");
    for split in ["train", "t10k"] {
        let pixels = (0..12 * 784).map(|at| (at % 250) as u8).collect();
        write(&format!("fashion/{split}-images-idx3-ubyte"), [header(&[2051, 12, 28, 28]), pixels].concat());
        write(&format!("fashion/{split}-labels-idx1-ubyte"), [header(&[2049, 12]), labels.clone()].concat());
    }
    let arguments = ["--data", "fashion", "--epochs", "1"];
    let rejection = folder.rejection_of("mnist", &arguments);
    assert!(rejection.contains("these are the files of Fashion-MNIST, not of MNIST"), "{rejection}");
    success(folder.run("mnist", &[&arguments[..], &["--dataset", "fashion-mnist"]].concat()));
}
