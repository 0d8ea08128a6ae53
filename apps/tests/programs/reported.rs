//! What programs report: results with the keys that scripts read, defaults in the help, and errors
//! in the words of their options.

use super::*;
use serde_json::Value;

const SMALL: [&str; 10] =
    ["--layers", "1", "--heads", "2", "--width", "16", "--context", "8", "--batch", "2"];

fn write(folder: &Folder, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.file(name), content).expect("the folder can be written");
}

#[test]
fn results_contain_the_seed_and_the_memory_that_was_needed() {
    let folder = Folder::new("results");
    write(&folder, "text", "the cat sat. ".repeat(60));
    let tiny = [&SMALL[..], &["--text", "text", "--steps", "1"]].concat();
    let gpt2 = [&SMALL[..], &["--steps", "1", "--tokens", "1"]].concat();
    let cases: [(&str, Vec<&str>); 5] = [
        ("mnist", vec!["--data", "data", "--epochs", "1", "--hidden", "4"]),
        ("housing", vec!["--epochs", "1", "--hidden", "4"]),
        ("softmax_regression", vec!["--data", "data", "--steps", "2"]),
        ("tiny_gpt", tiny),
        ("gpt2", gpt2),
    ];
    for (name, arguments) in cases {
        success(folder.run(name, &[&arguments[..], &["--seed", "3", "--json", "r.json"]].concat()));
        let results = folder.json("r.json");
        assert_eq!(results["seed"], 3, "{name}: {results}");
        assert!(results["peak_memory_bytes"].as_u64() > Some(0), "{name}: {results}");
        if ["tiny_gpt", "gpt2"].contains(&name) {
            // Of the only step.
            let of_training = results.get("training").unwrap_or(&results);
            assert!(of_training["tokens_per_second"].as_f64() > Some(0.0), "{results}");
        }
    }
    let compare = ["--devices", "cpu,cpu:composed", "--steps", "2", "--batch", "4", "--json", "r.json"];
    success(folder.run("compare", &compare));
    let peaks = folder.json("r.json")["peak_memory_bytes"].clone();
    let peaks: Vec<u64> = peaks.as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(peaks.len() == 2 && peaks.iter().all(|&peak| peak > 0), "{peaks:?}");
}

#[test]
fn tiny_gpt_writes_what_it_generates_as_json() {
    let folder = Folder::new("generation");
    write(&folder, "text", "the cat sat. ".repeat(60));
    let generate = ["--generate", "the c", "--tokens", "6", "--temperature", "0", "--json", "r.json"];
    let train = [&SMALL[..], &["--text", "text", "--steps", "2", "--save", "w.st"]].concat();
    success(folder.run("tiny_gpt", &[&train[..], &generate].concat()));
    let trained = folder.json("r.json");
    assert!(trained["train_loss"].is_number() && trained["generation"]["text"].is_string(), "{trained}");
    let printed = success(folder.run("tiny_gpt", &[&["--load", "w.st"][..], &generate].concat()));
    let loaded = folder.json("r.json");
    assert!(loaded["device"] == "cpu" && loaded["parameters"].is_number(), "{loaded}");
    let keys = |results: &Value| -> Vec<String> {
        results["generation"].as_object().expect("an object").keys().cloned().collect()
    };
    let text = loaded["generation"]["text"].as_str().expect("a text");
    assert_eq!(text.chars().count(), 6);
    assert!(printed.contains(&format!("the c{text}")), "{printed}");
    assert_eq!(loaded["generation"]["tokens"].as_array().map(Vec::len), Some(6));
    success(
        folder.run("gpt2", &[&SMALL[..], &["--steps", "0", "--tokens", "2", "--json", "g.json"]].concat()),
    );
    assert_eq!(keys(&loaded), keys(&folder.json("g.json")));
}

#[test]
fn the_last_steps_of_tiny_gpt_are_in_its_curve() {
    let folder = Folder::new("last-steps");
    write(&folder, "text", "the cat sat. ".repeat(60));
    let run =
        ["--text", "text", "--steps", "60", "--eval-every", "20", "--record", "record", "--json", "r.json"];
    success(folder.run("tiny_gpt", &[&SMALL[..], &run].concat()));
    let lines = fs::read_to_string(folder.file("record/metrics.jsonl")).expect("it was written");
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let train: Vec<(u64, f64)> = lines
        .filter(|line| line["name"] == "train/loss")
        .filter_map(|line| Some((line["step"].as_u64()?, line["value"].as_f64()?)))
        .collect();
    assert_eq!(train.iter().map(|point| point.0).collect::<Vec<_>>(), [50, 60]);
    assert_eq!(folder.json("r.json")["train_loss"], train[1].1);
}

#[test]
fn the_help_shows_the_defaults() {
    let help = |name: &str| {
        let printed = success({
            let mut command = program(name);
            command.arg("--help");
            command
        });
        printed.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (tiny_gpt, gpt2) = (help("tiny_gpt"), help("gpt2"));
    for (option, default) in [
        ("layers", "4, of shakespeare-char 6"),
        ("heads", "4, of shakespeare-char 6"),
        ("width", "128, of shakespeare-char 384"),
        ("context", "256"),
        ("batch", "12, of shakespeare-char 64"),
        ("steps", "1000, of shakespeare-char 2000"),
        ("lr", "0.003, of shakespeare-char 0.002"),
        ("dropout", "0, of shakespeare-char 0.2"),
    ] {
        check_default(&tiny_gpt, option, default);
    }
    for (option, default) in [
        ("layers", "4, with --train 12"),
        ("heads", "4, with --train 12"),
        ("width", "128, with --train 768"),
        ("context", "128, with --train 1024"),
        ("steps", "300, with --train 1000"),
        ("lr", "0.001, with --train 0.0006"),
    ] {
        check_default(&gpt2, option, default);
    }
    for (name, option, default) in
        [("housing", "epochs", "60"), ("housing", "lr", "0.006"), ("cifar10", "lr", "0.003")]
    {
        check_default(&help(name), option, default);
    }
}

fn check_default(help: &str, option: &str, default: &str) {
    let default_value =
        help.split(&format!(" --{option} <")).nth(1).and_then(|rest| rest.split("[default: ").nth(1));
    assert!(
        default_value.is_some_and(|shown| shown.starts_with(&format!("{default}]"))),
        "--{option}: {help}"
    );
}

#[test]
fn files_with_invalid_data_are_reported_once_and_in_words() {
    let folder = Folder::new("reported");
    for (name, content) in [("empty", ""), ("t.csv", "a;b;y\n1;2;3\n"), ("lacks.csv", "a\n1\n2\n")] {
        write(&folder, name, content);
    }
    let rows: String = (0..9).map(|row| format!("{row},{},{row}\n", row % 7)).collect();
    write(&folder, "known.csv", format!("a,b,y\n{rows}"));
    let known = ["--data", "known.csv", "--target", "y", "--hidden", "2", "--epochs", "1", "--save", "h.st"];
    success(folder.run("housing", &known));
    let message = folder.rejection_of("housing", &["--predict", "lacks.csv", "--load", "h.st"]);
    assert_eq!(message, "error: lacks.csv: line 1: no column b; there are a\n");
    folder.check_rejections(
        "housing",
        &[(
            &["--data", "t.csv", "--target", "y"],
            "t.csv: line 2, column 1 (a;b;y): the cells seem to be separated by ';', expected ','",
        )],
    );
    folder.check_rejections(
        "gpt2",
        &[
            (&["--bpe", "data"], "missing encoder.json, vocab.bpe, or instead vocab.json, merges.txt"),
            (&["--tokenize", "empty", "--out", "out"], "empty: no text: 0 characters, expected at least 1"),
            (&[&SMALL[..], &["--train", "empty"]].concat(), "empty: no tokens: 0 bytes, expected at least 2"),
        ],
    );
    folder.check_rejections(
        "tiny_gpt",
        &[(&["--text", "empty"], "empty: a text of 0 characters, expected at least 1")],
    );
}

#[test]
fn options_that_cannot_be_meant_are_rejected() {
    let folder = Folder::new("meant");
    folder.check_rejections(
        "image_encoder",
        &[(&["--picture", "o.jpg"], "--picture: o.jpg: written as PNG, expected a name that ends in .png")],
    );
    folder.check_rejections("cifar10", &[(&["--cutout", "33"], "33 is not in 0..=32")]);
    for name in ["tiny_gpt", "gpt2"] {
        for option in ["--layers", "--heads", "--width", "--context"] {
            folder.check_rejections(name, &[(&[option, "0"], "expected an integer of at least 1")]);
        }
    }
    let compare = |device: &str| {
        let arguments = ["--devices", device, "--steps", "1", "--batch", "4"];
        success(folder.run("compare", &arguments))
    };
    assert!(compare("cpu,cpu").contains("BOTH ARE ONE DEVICE"));
    assert!(!compare("cpu,cpu:composed").contains("BOTH ARE ONE DEVICE"));
    let one = success(folder.run("compare", &["--device", "cpu", "--steps", "1", "--batch", "4"]));
    assert!(one.contains("BOTH ARE ONE DEVICE"), "{one}");
}
