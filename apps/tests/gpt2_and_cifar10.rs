//! The programs gpt2, cifar10 and pytorch_weights: what they learn, what they write, and what they
//! reject.

#[path = "support/programs.rs"]
mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Folder, byte_vocabulary, cifar10_records, errors, success};
use ternion::prelude::*;

impl Folder {
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.file(name), content).expect("the folder can be written");
    }
}

/// Sizes of a model that trains in seconds.
const SMALL: [&str; 8] = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "16"];

#[test]
fn gpt2_learns_tokens_from_a_file_and_goes_on_from_the_folder_that_it_saved() {
    let folder = Folder::new("gpt2-train");
    folder.write("text", "the cat sat. ".repeat(150));
    let printed = success(folder.run("gpt2", &["--tokenize", "text", "--out", "tokens.bin"]));
    assert!(printed.starts_with("BYTES AS TOKENS"), "{printed}");
    assert!(printed.contains("1950 tokens written to tokens.bin"), "{printed}");
    assert_eq!(fs::read(folder.file("tokens.bin")).expect("it was written")[..4], [b't', 0, b'h', 0]);

    let training =
        ["--train", "tokens.bin", "--validation", "tokens.bin", "--batch", "4", "--accumulate", "2"];
    let steps =
        ["--steps", "120", "--lr", "1e-2", "--save", "model", "--json", "r.json", "--plot", "curve.svg"];
    success(folder.run("gpt2", &[&SMALL[..], &training, &steps].concat()));
    let results = folder.json("r.json");
    for name in ["steps", "train_loss", "validation_loss", "tokens_per_second", "train_seconds"] {
        assert!(results["training"][name].is_number(), "{name}: {results}");
    }
    // Of 9 characters: guessing has a loss of 2.2. Only the first ones of a window are uncertain.
    let loss = results["training"]["validation_loss"].as_f64().expect("a number");
    assert!(loss < 0.6, "{loss}");
    assert!(fs::read_to_string(folder.file("curve.svg")).expect("it was written").contains("held out"));
    let writing = [
        "--load",
        "model",
        "--generate",
        "the cat",
        "--tokens",
        "20",
        "--temperature",
        "0",
        "--json",
        "w.json",
    ];
    let printed = success(folder.run("gpt2", &writing));
    assert!(printed.lines().any(|line| line == "the cat sat. the cat sat. t"), "{printed}");
    assert_eq!(folder.json("w.json")["generation"]["text"], " sat. the cat sat. t");
}

/// Runs a program until it prints a line that begins with `line`, and then presses Ctrl-C.
#[cfg(unix)]
fn interrupted_after(mut command: Command, line: &str) {
    use std::io::{BufRead, BufReader};
    let mut running =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|printed| printed.expect("UTF-8").starts_with(line)), "{line:?} was not printed");
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(killed.expect("kill is a program").success());
    // Without a reader the program continues.
    drop(lines);
    let output = running.wait_with_output().expect("it ends");
    assert!(output.status.success() && !errors(&output).contains("panicked"), "{}", errors(&output));
}

/// Weights and, in a checkpoint, the optimizer's state. The recorder is excluded: it has one more
/// reading where a run was stopped.
fn bits(file: &Path) -> Vec<u8> {
    if !Checkpoint::is_at(file).expect("it was saved") {
        return fs::read(file).expect("it was saved");
    }
    let checkpoint = Checkpoint::read(file).expect("it is whole");
    let device = ternion::cpu().expect("it is always there");
    let part = |name| checkpoint.state_dict(name, &device).expect("it exists");
    let tensors: Vec<Tensor> = part("model").into_values().chain(part("adam").into_values()).collect();
    assert!(tensors.len() > 20, "{} tensors", tensors.len());
    tensors.iter().flat_map(|tensor| tensor.to_bytes().expect("it is on the host")).collect()
}

#[test]
#[cfg(unix)]
fn a_training_that_was_stopped_ends_with_the_bits_of_one_that_was_not() {
    let folder = Folder::new("resumed");
    folder.write("text", "the cat sat. ".repeat(150));
    success(folder.run("gpt2", &["--tokenize", "text", "--out", "tokens.bin"]));
    let gpt2 = ["--train", "tokens.bin", "--steps", "60", "--eval-every", "7", "--dropout", "0.1"];
    let cifar10 = ["--limit", "16", "--epochs", "3", "--batch", "8", "--data", "synthetic"];
    // The option with which each program saves its state; gpt2 also exports weights under other
    // names.
    for (name, arguments, line, checkpoint) in [
        ("gpt2", [&SMALL[..], &gpt2].concat(), "step 7/60", "--checkpoint"),
        ("cifar10", cifar10.to_vec(), "epoch 1/3", "--save"),
    ] {
        let saved = "w.safetensors";
        let run = |more: &[&str]| folder.run(name, &[&arguments[..], more].concat());
        success(run(&["--save", saved]));
        let straight = bits(&folder.file(saved));
        interrupted_after(run(&[checkpoint, "run.ckpt"]), line);
        let printed = success(run(&["--resume", "run.ckpt", "--save", saved, "--json", "r.json"]));
        assert!(printed.contains("resuming from step "), "{printed}");
        assert!(straight == bits(&folder.file(saved)), "{name}: other weights");
        let other = [&arguments[..], &["--resume", "run.ckpt", "--weight-decay", "0.5"]].concat();
        folder.check_rejections(name, &[(&other, "other settings: weight_decay was ")]);
        folder.write("no.ckpt", "{}");
        let none = [&arguments[..], &["--resume", "no.ckpt"]].concat();
        folder.check_rejections(name, &[(&none, "no.ckpt: ")]);
    }
}

#[test]
fn gpt2_predicts_a_text_with_tokens_of_its_own_vocabulary() {
    let folder = Folder::new("gpt2-text");
    fs::create_dir_all(folder.file("bpe")).expect("the folder can be written");
    folder.write("bpe/vocab.json", byte_vocabulary(&["th", "the"]));
    folder.write("bpe/merges.txt", "#version: 0.2\nt h\nth e\n");
    folder.write("text", "the then ".repeat(30));
    let of = |arguments: &[&str]| success(folder.run("gpt2", &[&["--bpe", "bpe"], arguments].concat()));
    let printed = of(&["--tokenize", "text", "--out", "tokens.bin"]);
    // "the", " ", "the", "n", " ": the merge of space and word is not among the two.
    assert!(printed.contains("258 tokens") && printed.contains("150 tokens written"), "{printed}");
    let printed = of(&[&SMALL[..], &["--perplexity", "text", "--stride", "4", "--json", "r.json"]].concat());
    assert!(printed.contains("RANDOM WEIGHTS"), "{printed}");
    assert!(printed.contains("of 149 tokens") && printed.contains("windows of 16 every 4"), "{printed}");
    let found = &folder.json("r.json")["text"];
    let [loss, perplexity, bits] =
        ["loss", "perplexity", "bits_per_byte"].map(|name| found[name].as_f64().expect("a number"));
    // Random weights predict all 258 tokens alike.
    assert!((loss - 258f64.ln()).abs() < 0.3, "{loss}");
    assert!((perplexity.ln() - loss).abs() < 1e-9);
    assert!((bits - loss * 149.0 / 270.0 / 2f64.ln()).abs() < 1e-9);
    // The vocabulary is also found next to the weights.
    of(&[&SMALL[..], &["--steps", "0", "--tokens", "0", "--save", "bpe"]].concat());
    let printed = success(folder.run("gpt2", &["--load", "bpe", "--generate", "the", "--tokens", "3"]));
    assert!(printed.contains("258 tokens of words"), "{printed}");
    fs::create_dir_all(folder.file("bare")).expect("the folder can be written");
    fs::copy(folder.file("bpe/model.safetensors"), folder.file("bare/model.safetensors")).expect("copied");
    folder.check_rejections(
        "gpt2",
        &[
            (&["--load", "bare", "--generate", "x"], "width 32 is not a multiple of 64: expected a number of heads"),
            (
                &["--load", "bare", "--heads", "2", "--generate", "x"],
                "the model has 258 tokens, and without vocab.json and merges.txt text is bytes, which are 256",
            ),
            (&["--load", "bpe", "--perplexity", "text", "--stride", "17"], "stride 17, expected 1 to the context, 16"),
            (&["--load", "bpe", "--generate", ""], "generate: an empty prompt"),
            (&["--load", "bpe", "--generate", "x", "--top-p", "0"], "top_p 0, expected above 0"),
        ],
    );
}

#[test]
fn gpt2_tells_what_is_wrong_before_it_begins() {
    let folder = Folder::new("gpt2-rejected");
    folder.write("odd", [1, 2, 3]);
    folder.write("large", [0, 0, 0, 1].repeat(20));
    folder.write("text", b"caf\xe9");
    folder.check_rejections(
        "gpt2",
        &[
            (&["--load", "nowhere"], "nowhere: cannot be read: "),
            (&["--bpe", "data"], "no complete GPT-2's vocabulary here: missing encoder.json, vocab.bpe"),
            (&["--train", "nowhere"], "--train: nowhere: cannot be read: "),
            (&["--train", "odd"], "odd: 3 bytes are not an integer number of records of 2 bytes"),
            (&[&["--train", "large", "--steps", "1"], &SMALL[..]].concat(), "large: token 256 at position "),
            (&["--tokenize", "text", "--out", "out"], "text: line 1, column 4: not UTF-8 text"),
            (&["--tokenize", "text"], "--out <TOKENS>"),
            (&["--save", "odd"], "--save: odd: cannot be made: "),
            (&["--json", "no/r.json"], "--json: no/r.json: there is no folder no"),
            (&["--tokenize", "large", "--out", "large"], "--tokenize and --out name the same file: large"),
            (&["--train", "odd", "--json", "odd"], "--train and --json name the same file: odd"),
            (&["--save", "w.safetensors", "--json", "w.safetensors"], "--save and --json name the same file"),
            (&["--generate", "x", "--heads", "3"], "width 128 does not divide into 3 heads"),
        ],
    );
    assert!(!folder.file("out").exists());
    assert!(!folder.file("w.safetensors").exists());
}

#[test]
#[cfg(unix)]
fn a_reader_that_leaves_costs_no_weights() {
    let folder = Folder::new("gpt2-pipe");
    let arguments = [&SMALL[..], &["--steps", "2", "--tokens", "3", "--save", "model"]].concat();
    let mut running = folder
        .run("gpt2", &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(running.stdout.take());
    let output = running.wait_with_output().expect("it ends");
    assert!(output.status.success() && !errors(&output).contains("panicked"), "{}", errors(&output));
    assert!(folder.file("model/model.safetensors").is_file());
}

#[test]
fn cifar10_tests_what_it_saved_and_says_that_shapes_are_drawn() {
    let folder = Folder::new("cifar10");
    let arguments = [
        "--limit", "30", "--epochs", "2", "--batch", "10", "--save", "w.st", "--json", "r.json", "--plot",
        "c.svg",
    ];
    let printed = success(folder.run("cifar10", &arguments));
    assert!(printed.contains("THESE ARE DRAWN SHAPES, NOT CIFAR-10"), "{printed}");
    assert!(printed.contains("CIFAR-10 is nowhere to be found"), "{printed}");
    assert!(printed.contains("30 images to train on, 30 to test on"), "{printed}");
    let results = folder.json("r.json");
    assert_eq!((&results["drawn"], &results["epochs"]), (&true.into(), &2.into()));
    assert_eq!(results["test_accuracies"].as_array().map(Vec::len), Some(2));
    assert!(fs::read_to_string(folder.file("c.svg")).expect("it was written").contains("test accuracy"));
    success(
        folder.run("cifar10", &["--limit", "30", "--epochs", "0", "--load", "w.st", "--json", "again.json"]),
    );
    assert_eq!(folder.json("again.json")["test_accuracy"], results["test_accuracy"]);
}

#[test]
fn cifar10_reads_the_binary_files_and_rejects_what_is_none() {
    let folder = Folder::new("cifar10-files");
    fs::create_dir_all(folder.file("cifar10")).expect("the folder can be written");
    let [train, test] = ["train", "test"].map(|part| format!("cifar10/cifar10-subset-{part}.bin"));
    folder.write(&train, cifar10_records(20));
    folder.write(&test, cifar10_records(10));
    let run = |more: &[&str]| {
        let arguments = ["--data", ".", "--epochs", "1", "--batch", "8"];
        success(folder.run("cifar10", &[&arguments, more].concat()))
    };
    let printed =
        run(&["--schedule", "cosine", "--label-smoothing", "0.1", "--cutout", "4", "--precision", "bf16"]);
    assert!(
        printed.contains("data from ") && printed.contains("20 images to train on, 10 to test on"),
        "{printed}"
    );
    assert!(!printed.contains("DRAWN"), "{printed}");
    // Without augmentation, the same seed gives a different network.
    let loss = |printed: &str| {
        let line = printed.lines().find(|line| line.starts_with("epoch 1/1")).expect("an epoch");
        line.split_whitespace().nth(3).expect("a loss").to_owned()
    };
    let plain = run(&["--no-augmentation"]);
    assert_eq!(loss(&plain), loss(&run(&["--no-augmentation"])));
    assert_ne!(loss(&plain), loss(&run(&[])));
    folder.write(&train, &cifar10_records(20)[1..]);
    fs::create_dir_all(folder.file("cache")).expect("the folder can be written");
    folder.check_rejections(
        "cifar10",
        &[
            (
                &["--data", "."],
                "cifar10-subset-train.bin: 61459 bytes are not an integer number of records of 3073 bytes",
            ),
            (&["--data", "cache"], "no complete CIFAR-10 here"),
            (
                &["--data", "synthetic", "--limit", "4", "--cutout", "0", "--lr", "nan"],
                "lr NaN, expected a finite number",
            ),
            (
                &["--data", "synthetic", "--limit", "4", "--label-smoothing", "2"],
                "label smoothing 2, expected 0 to 1",
            ),
            (&["--dropout", "1.5"], "dropout: probability 1.5, expected 0 to 1"),
            (&["--plot", "no/c.svg"], "--plot: no/c.svg: there is no folder no"),
            (&["--load", "nowhere"], "--load: nowhere: cannot be read"),
        ],
    );
}

/// Names, dtypes and shapes in the header of a safetensors file.
fn header(bytes: &[u8]) -> serde_json::Map<String, Value> {
    let size = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let Value::Object(mut header) = serde_json::from_slice(&bytes[8..8 + size]).expect("JSON") else {
        panic!("a header is an object")
    };
    for (_, entry) in &mut header {
        entry.as_object_mut().expect("an entry").remove("data_offsets");
    }
    header
}

#[test]
fn weights_go_to_pytorch_as_they_came_from_there() {
    let folder = Folder::new("weights");
    let arguments = ["--save", "back.safetensors", "--save-case", "case.safetensors", "--json", "r.json"];
    success(folder.run("pytorch_weights", &arguments));
    let farthest = folder.json("r.json")["largest_difference"].as_f64().expect("a number");
    assert!(farthest <= 1e-5, "{farthest}");
    let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/weights/model.safetensors");
    let expected = header(&fs::read(stored).expect("it is stored"));
    let mut written = header(&fs::read(folder.file("back.safetensors")).expect("it was written"));
    assert_eq!(written.remove("__metadata__"), Some(serde_json::json!({"format": "pt"})));
    assert_eq!(written, expected);
    assert_eq!(expected.len(), 16, "{expected:?}");
    // If TERNION_PYTHON names a Python with safetensors and PyTorch, it reads what was written
    // here.
    if let Some(python) = std::env::var_os("TERNION_PYTHON") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference/weights.py");
        let mut check = Command::new(python);
        check.current_dir(&folder.0).args([script, "back.safetensors", "case.safetensors"]);
        success(check);
    }
    folder.check_rejections(
        "pytorch_weights",
        &[
            (&["--load", "case.safetensors"], "the state does not fit; missing: conv.bias"),
            (&["--case", "back.safetensors"], "expected tensors input and logits, no input"),
            (&["--load", "nowhere"], "--load: nowhere: cannot be read"),
            (&["--save", "no/w"], "--save: no/w: there is no folder no"),
        ],
    );
}
