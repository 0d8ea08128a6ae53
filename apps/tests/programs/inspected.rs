//! Options that inspect a run or use its results: predictions, folders of checkpoints, layer
//! summaries, the end of a text.

use super::*;
use serde_json::Value;

#[test]
fn housing_predicts_new_rows_with_the_scales_of_its_model() {
    let folder = Folder::new("predict");
    let rows = |from: u32, to: u32| -> Vec<(u32, u32)> { (from..to).map(|row| (row, row % 7)).collect() };
    let known: String = rows(0, 90).iter().map(|(a, b)| format!("{a},{b},{}\n", 2000 + 30 * a + b)).collect();
    fs::write(folder.file("known.csv"), format!("a,b,y\n{known}")).expect("the folder can be written");
    let table = ["--data", "known.csv", "--target", "y", "--hidden", "16", "--batch", "8"];
    success(folder.run("housing", &[&table[..], &["--epochs", "60", "--save", "w.st"]].concat()));
    // Columns in another order, one that the model does not know, and no target.
    let new: String = rows(20, 60).iter().map(|(a, b)| format!("{b},9,{a}\n")).collect();
    fs::write(folder.file("new.csv"), format!("b,c,a\n{new}")).expect("the folder can be written");
    let printed =
        success(folder.run("housing", &["--predict", "new.csv", "--load", "w.st", "--json", "p.json"]));
    assert!(printed.contains("y of 40 rows of new.csv:") && printed.lines().count() >= 41, "{printed}");
    let found = folder.json("p.json");
    let found: Vec<f64> =
        found["predictions"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert_eq!(found.len(), 40);
    for ((a, b), found) in rows(20, 60).into_iter().zip(found) {
        let expected = f64::from(2000 + 30 * a + b);
        // Values over 2700, which a model without its scalers could not predict.
        assert!((found - expected).abs() < 200.0, "{a}, {b}: {found}, expected about {expected}");
    }
    let scales = folder.json("w.st.json");
    assert_eq!(scales["settings"]["features"]["columns"], serde_json::json!(["a", "b"]), "{scales}");
    fs::write(folder.file("lacks.csv"), "a\n1\n2\n").expect("the folder can be written");
    let message = folder.rejection_of("housing", &["--predict", "lacks.csv", "--load", "w.st"]);
    assert!(message.contains("lacks.csv: ") && message.contains('b'), "{message}");
    // The same values in another unit are standardized alike, but are a different table.
    let scaled: String =
        rows(0, 90).iter().map(|(a, b)| format!("{a},{b},{}\n", 4000 + 60 * a + 2 * b)).collect();
    fs::write(folder.file("known.csv"), format!("a,b,y\n{scaled}")).expect("the folder can be written");
    let message =
        folder.rejection_of("housing", &[&table[..], &["--epochs", "60", "--resume", "w.st"]].concat());
    assert!(message.contains("w.st: other settings: ") && message.contains("targets was "), "{message}");
}

#[test]
fn a_folder_keeps_the_newest_checkpoints_and_goes_on_from_the_newest_whole_one() {
    let folder = Folder::new("keep");
    let small = ["--batch", "16", "--log-every", "10"];
    let run = |more: &[&str]| folder.run("image_encoder", &[&small[..], more].concat());
    success(run(&["--steps", "50", "--save", "kept", "--keep", "2"]));
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.file("kept")).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".safetensors")).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["step-00000040.safetensors", "step-00000050.safetensors"]);
    let message =
        folder.rejection_of("image_encoder", &[&small[..], &["--save", "kept", "--keep", "2"]].concat());
    assert!(
        message.contains("--save: kept: holds checkpoints of another training, up to step 50"),
        "{message}"
    );
    // Truncated as by a full disk.
    let newest = folder.file("kept/step-00000050.safetensors");
    let bytes = fs::read(&newest).expect("it was saved");
    fs::write(&newest, &bytes[..bytes.len() / 2]).expect("it can be written");
    let output = run(&["--steps", "70", "--resume", "kept", "--keep", "2"]).output().expect("it runs");
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("warning: skipped: "), "{}", errors(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("after step 40"), "{output:?}");
    assert_eq!(names(), ["step-00000060.safetensors", "step-00000070.safetensors"]);
    success(run(&["--steps", "70", "--save", "whole"]));
    let read = |file: &str| fs::read(folder.file(file)).expect("it was saved");
    assert!(read("whole") == read("kept/step-00000070.safetensors"), "it ended elsewhere");
    // From a folder, to a file.
    success(run(&["--steps", "70", "--resume", "kept", "--save", "copy"]));
    assert!(read("whole") == read("copy"));
}

#[test]
fn layers_are_shown_and_what_is_wrong_with_them_is_said() {
    let folder = Folder::new("layers");
    let table = ["--epochs", "1", "--hidden", "4", "--summary"];
    let printed = success(folder.run("housing", &table));
    for expected in ["Linear", "layers.2", "output.grad", "weight.grad"] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    // Weights that do not change.
    let still = success(
        folder.run("housing", &["--epochs", "1", "--hidden", "4", "--lr", "0", "--stats-every", "1"]),
    );
    assert!(still.contains("step 4: "), "{still}");
    let cifar10 = ["--data", "synthetic", "--limit", "16", "--batch", "8", "--epochs", "2", "--summary"];
    let with = |more: &[&str]| success(folder.run("cifar10", &[&cifar10[..], more].concat()));
    let looked = with(&["--stats-every", "1", "--save", "looked.st", "--record", "record"]);
    let lines = fs::read_to_string(folder.file("record/metrics.jsonl")).expect("it was written");
    assert_eq!(
        (lines.matches("test/accuracy").count(), lines.matches("train/loss").count()),
        (2, 2),
        "{lines}"
    );
    assert!(looked.contains("Conv2d") && looked.contains("the numbers of every layer:"), "{looked}");
    // Inspection changes nothing.
    with(&["--save", "plain.st"]);
    let read = |file: &str| fs::read(folder.file(file)).expect("it was saved");
    assert!(read("looked.st") == read("plain.st"), "an observed run learns something else");
    with(&["--stats-every", "1", "--precision", "f16"]);
    let encoder = success(folder.run("image_encoder", &["--steps", "1", "--batch", "16", "--summary"]));
    assert!(encoder.contains("FrequencyEncoding") || encoder.contains("LeakyReLU"), "{encoder}");
}

#[test]
fn gpt2_stops_at_the_end_of_a_text_and_trains_in_f16() {
    let folder = Folder::new("gpt2-end");
    fs::create_dir_all(folder.file("bpe")).expect("the folder can be written");
    fs::write(folder.file("bpe/vocab.json"), support::byte_vocabulary(&["th", "the", "<|endoftext|>"]))
        .expect("it can be written");
    fs::write(folder.file("bpe/merges.txt"), "#version: 0.2\nt h\nth e\n").expect("it can be written");
    // "!", "\"" and "#", and the end-of-text token, 258.
    fs::write(folder.file("tokens.bin"), [0_u8, 0, 1, 0, 2, 0, 2, 1].repeat(60)).expect("it can be written");
    let sizes = ["--layers", "1", "--heads", "2", "--width", "32", "--context", "16", "--bpe", "bpe"];
    let training =
        ["--train", "tokens.bin", "--batch", "4", "--accumulate", "2", "--steps", "60", "--lr", "1e-2"];
    let files = ["--precision", "f16", "--save", "bpe", "--record", "record", "--checkpoint", "run.ckpt"];
    let printed = success(folder.run("gpt2", &[&sizes[..], &training, &files].concat()));
    assert!(printed.contains("steps skipped"), "{printed}");
    let lines = fs::read_to_string(folder.file("record/metrics.jsonl")).expect("it was written");
    assert_eq!(lines.matches("train/loss").count(), 6, "{lines}");
    let writing = ["--load", "bpe", "--generate", "!", "--temperature", "0", "--tokens", "12"];
    let printed = success(folder.run("gpt2", &[&writing[..], &["--stop", "--json", "r.json"]].concat()));
    assert!(printed.lines().any(|line| line == "!\"#"), "{printed}");
    let written = &folder.json("r.json")["generation"];
    assert_eq!((&written["at_end_of_text"], &written["tokens"]), (&true.into(), &serde_json::json!([1, 2])));
    let on = success(folder.run("gpt2", &writing));
    assert!(on.contains("!\"#<|endoftext|>!\"#"), "{on}");
}
