//! What programs reject: other data, options without effect, sizes that fit into no memory; and the
//! words of the errors.

use super::*;

const SMALL: [&str; 8] = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "8"];

fn write(folder: &Folder, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.file(name), content).expect("the folder can be written");
}

/// Changes one byte in the middle of a file.
fn change(folder: &Folder, name: &str) {
    let mut bytes = fs::read(folder.file(name)).expect("it exists");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    write(folder, name, bytes);
}

#[test]
fn a_training_goes_on_with_its_own_data_alone() {
    let folder = Folder::new("own-data");
    write(&folder, "tokens.bin", [1_u8, 0, 2, 0, 3, 0].repeat(50));
    fs::create_dir_all(folder.file("cifar10")).expect("the folder can be written");
    for part in ["train", "test"] {
        write(&folder, &format!("cifar10/cifar10-subset-{part}.bin"), support::cifar10_records(16));
    }
    let gpt2 = [&SMALL[..], &["--train", "tokens.bin", "--batch", "2", "--steps", "2"]].concat();
    let digits = ["--data", "data", "--batch", "16"];
    let cases: [(&str, Vec<&str>, &str, &str); 4] = [
        ("gpt2", gpt2, "--checkpoint", "tokens.bin"),
        (
            "softmax_regression",
            [&digits[..], &["--steps", "3"]].concat(),
            "--save",
            "data/train-images-idx3-ubyte",
        ),
        (
            "mnist",
            [&digits[..], &["--epochs", "1", "--hidden", "4"]].concat(),
            "--save",
            "data/train-labels-idx1-ubyte",
        ),
        (
            "cifar10",
            vec!["--data", "cifar10", "--epochs", "1", "--batch", "8"],
            "--save",
            "cifar10/cifar10-subset-train.bin",
        ),
    ];
    for (name, arguments, save, data) in cases {
        let saved = format!("{name}.st");
        success(folder.run(name, &[&arguments[..], &[save, &saved]].concat()));
        let again = [&arguments[..], &["--resume", &saved]].concat();
        success(folder.run(name, &again));
        let before = fs::read(folder.file(data)).expect("it exists");
        if data.ends_with("labels-idx1-ubyte") {
            // Swaps two labels: the count is the same, and each is still valid.
            let mut labels = before.clone();
            labels.swap(8, 9);
            write(&folder, data, labels);
        } else {
            change(&folder, data);
        }
        let message = folder.rejection_of(name, &again);
        assert!(
            message.contains(&saved) && message.contains("other settings: data was "),
            "{name}: {message}"
        );
        write(&folder, data, before);
    }
}

#[test]
fn options_that_come_to_nothing_are_rejected() {
    let folder = Folder::new("unheeded");
    write(&folder, "text", "the cat sat. ".repeat(60));
    write(&folder, "tokens.bin", [1_u8, 0, 2, 0].repeat(50));
    let tiny = [&SMALL[..], &["--text", "text", "--batch", "2", "--steps", "2", "--save", "w.st"]].concat();
    success(folder.run("tiny_gpt", &tiny));
    success(
        folder.run("gpt2", &[&SMALL[..], &["--steps", "0", "--tokens", "0", "--save", "model"]].concat()),
    );
    let cases: [(&str, &[&str], &str); 14] = [
        (
            "tiny_gpt",
            &["--load", "w.st", "--generate", "the", "--lr", "1"],
            "--lr without effect: with --load and",
        ),
        ("tiny_gpt", &["--load", "w.st", "--trace", "t.json"], "--trace without effect"),
        (
            "tiny_gpt",
            &["--load", "w.st", "--generate", "the", "--batch", "3", "--save", "x"],
            "--batch, --save without effect: with --load and without --steps nothing is trained",
        ),
        ("tiny_gpt", &["--resume", "w.st", "--preset", "shakespeare-char"], "cannot be used with"),
        ("tiny_gpt", &["--load", "w.st", "--preset", "shakespeare-char"], "cannot be used with"),
        ("tiny_gpt", &["--text", "text", "--tokens", "5"], "--generate <TEXT>"),
        ("gpt2", &["--generate", "x", "--lr", "1"], "--lr without effect: nothing is trained"),
        ("gpt2", &["--load", "model", "--generate", "x", "--plot", "p.svg"], "--plot without effect"),
        (
            "gpt2",
            &["--load", "model", "--generate", "x", "--layers", "3"],
            "--layers without effect: the sizes",
        ),
        ("gpt2", &["--train", "tokens.bin", "--top-k", "5"], "--top-k without effect: nothing is written"),
        (
            "gpt2",
            &["--tokenize", "text", "--out", "o", "--json", "r.json"],
            "--json without effect: --tokenize does nothing else",
        ),
        (
            "gpt2",
            &["--load", "model", "--generate", "x", "--stop"],
            "--stop: this vocabulary has no <|endoftext|>",
        ),
        (
            "housing",
            &["--predict", "text", "--load", "w.st", "--lr", "1"],
            "--lr without effect: --predict trains",
        ),
        ("housing", &["--keep", "3"], "--keep: there is no --save"),
    ];
    for (name, arguments, expected) in cases {
        let message = folder.rejection_of(name, arguments);
        assert!(message.contains(expected), "{name} {arguments:?}: {message}");
    }
    assert!(!folder.file("x").exists() && !folder.file("r.json").exists());
}

#[test]
fn a_training_without_a_step_left_says_so_and_saves() {
    let folder = Folder::new("done");
    write(&folder, "text", "the cat sat. ".repeat(60));
    let cases: [(&str, &[&str]); 5] = [
        ("image_encoder", &["--batch", "32", "--steps", "5"]),
        ("softmax_regression", &["--data", "data", "--steps", "5"]),
        ("compare", &["--devices", "cpu,cpu", "--batch", "8", "--steps", "5"]),
        ("housing", &["--epochs", "1", "--hidden", "4"]),
        ("mnist", &["--data", "data", "--epochs", "1", "--hidden", "4"]),
    ];
    for (name, arguments) in cases {
        success(folder.run(name, &[arguments, &["--save", "done"]].concat()));
        let again = [arguments, &["--resume", "done", "--save", "copy"]].concat();
        let printed = success(folder.run(name, &again));
        assert!(printed.contains(" is left: "), "{name}: {printed}");
        let read = |file: &str| fs::read(folder.file(file)).expect("it was saved");
        assert!(read("done") == read("copy"), "{name}");
        fs::remove_file(folder.file("copy")).expect("it exists");
    }
    let tiny = [&SMALL[..], &["--text", "text", "--batch", "2", "--steps", "2", "--save", "w.st"]].concat();
    success(folder.run("tiny_gpt", &tiny));
    let printed = success(folder.run("tiny_gpt", &["--text", "text", "--resume", "w.st", "--save", "copy"]));
    assert!(printed.contains("no step is left: 2 were made, --steps 2"), "{printed}");
    assert!(folder.file("copy").is_file());
}

#[test]
#[cfg(target_os = "linux")]
fn sizes_that_no_memory_holds_are_errors() {
    let folder = Folder::new("absurd");
    let cases: [(&str, &[&str], &str); 8] = [
        ("image_encoder", &["--batch", "4000000000"], "4000000000 is not in 1..="),
        ("housing", &["--hidden", "4000000000"], "--hidden 4000000000: takes at least "),
        ("mnist", &["--data", "data", "--hidden", "4000000000"], "--hidden 4000000000: takes at least "),
        ("tiny_gpt", &["--width", "4000000"], "--width 4000000, --context 256, --batch 12: takes at least "),
        ("tiny_gpt", &["--batch", "4000000000"], "--batch 4000000000: takes at least "),
        ("gpt2", &["--context", "40000000000"], "--context 40000000000, --batch 12: takes at least "),
        ("gpt2", &["--width", "4000000", "--generate", "x"], "--width 4000000, "),
        ("compare", &["--model", "gpt", "--batch", "4000000000"], "--batch 4000000000: takes at least "),
    ];
    for (name, arguments, expected) in cases {
        let message = folder.rejection_of(name, arguments);
        assert!(message.contains(expected), "{name} {arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{name} {arguments:?}: {message}");
    }
}

#[test]
fn messages_name_the_file_and_the_prompt() {
    let folder = Folder::new("named");
    write(&folder, "text", "the cat sat. ".repeat(60));
    write(&folder, "few.bin", [1_u8, 0, 2, 0]);
    let tiny = [&SMALL[..], &["--text", "text", "--batch", "2", "--steps", "1", "--save", "w.st"]].concat();
    success(folder.run("tiny_gpt", &tiny));
    write(&folder, "other", "the dog lay. ".repeat(60));
    write(&folder, "lone", "t");
    let small = |more: &[&'static str]| [&SMALL[..], more].concat();
    for (name, arguments, expected) in [
        (
            "tiny_gpt",
            vec!["--text", "text", "--context", "500"],
            "text, the last 10 % of it: windows: context 500 of 78",
        ),
        (
            "tiny_gpt",
            vec!["--text", "other", "--resume", "w.st"],
            "other: encode: character 'd' at position 4",
        ),
        ("tiny_gpt", vec!["--text", "lone"], "lone: train and validation: a text of 1 characters"),
        ("gpt2", small(&["--train", "few.bin"]), "few.bin: windows: context 8 of 2 tokens"),
    ] {
        let message = folder.rejection_of(name, &arguments);
        assert!(message.contains(expected), "{name} {arguments:?}: {message}");
    }
    // A prompt that cannot be continued is rejected before it is printed and before any training.
    let with_prompt = |arguments: &[&str], expected: &str| {
        let output = folder.run("tiny_gpt", arguments).output().expect("it runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && errors(&output).contains(expected), "{}", errors(&output));
        assert!(!printed.contains("the d") && !printed.contains("step "), "{printed}");
    };
    with_prompt(
        &["--load", "w.st", "--generate", "the dog"],
        "the prompt \"the dog\": encode: character 'd'",
    );
    with_prompt(&["--load", "w.st", "--generate", "the d", "--top-p", "0"], "the prompt \"the d\": ");
    with_prompt(&["--text", "text", "--generate", "the dog"], "the prompt \"the dog\": ");
}
