//! The programs that train something: what they learn, what they write, and what they reject.

#[path = "support/programs.rs"]
mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use support::{Folder, errors, success};

impl Folder {
    /// Returns the results, without values that differ in each run.
    fn results(&self, name: &str) -> Value {
        let mut results = self.json(name);
        let object = results.as_object_mut().expect("an object");
        object.retain(|name, _| !["train_seconds", "peak_memory_bytes"].contains(&name.as_str()));
        results
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("expected a number, got {value}"))
}

#[test]
fn housing_learns_the_generated_table_and_says_that_it_is_synthetic() {
    let folder = Folder::new("housing");
    let arguments = ["--epochs", "4", "--hidden", "16", "--lr", "1e-2", "--json", "r.json"];
    let printed = success(folder.run("housing", &arguments));
    assert!(printed.starts_with("THESE DISTRICTS ARE SYNTHETIC"), "{printed}");
    assert!(printed.contains("layers.2 (Linear)") && printed.contains("bias.grad"), "{printed}");
    let results = folder.json("r.json");
    assert_eq!(results["synthetic"], true);
    // The noise of the table leaves 0.98 of the variance to explain; the mean explains 0.
    assert!((0.9..0.99).contains(&number(&results["test_r2"])), "{results}");
    assert!((0.14..0.4).contains(&number(&results["test_rmse"])), "{results}");
    let predictions = results["predictions"].as_array().expect("a list");
    assert_eq!(predictions.len(), 5);
    for pair in predictions {
        assert!((number(&pair["predicted"]) - number(&pair["actual"])).abs() < 1.5, "{pair}");
    }
    let again = success(folder.run("housing", &arguments));
    assert_eq!(printed, again);
}

#[test]
fn housing_reads_any_table_and_checks_its_gradients() {
    let folder = Folder::new("housing-table");
    let rows: String = (0..50).map(|row| format!("{row},{},{}\n", row % 7, 3 * row + 1)).collect();
    fs::write(folder.file("t.csv"), format!("a,b,y\n{rows}")).expect("the folder can be written");
    let table = ["--data", "t.csv", "--target", "y", "--hidden", "5"];
    let printed = success(folder.run("housing", &[&table[..], &["--epochs", "2", "--gradcheck"]].concat()));
    assert!(printed.contains("data from t.csv"), "{printed}");
    // Two inputs, 5 and 5 hidden units, one output.
    assert!(printed.contains("gradcheck: 51 derivatives agree"), "{printed}");
    fs::write(folder.file("bad.csv"), "a,b,y\n1,2,3\n1,x,3\n").expect("the folder can be written");
    fs::write(folder.file("short.csv"), "a,y\n1,2\n").expect("the folder can be written");
    fs::write(folder.file("lone.csv"), "y\n1\n2\n").expect("the folder can be written");
    // The same number of rows, but different ones.
    fs::write(folder.file("other.csv"), format!("a,b,y\n{}", rows.replace('5', "6")))
        .expect("the folder can be written");
    success(folder.run("housing", &["--data", "t.csv", "--target", "y", "--epochs", "1", "--save", "t.st"]));
    folder.check_rejections(
        "housing",
        &[
            (&["--data", "bad.csv"], "bad.csv: line 3, column 2 (b): expected a number, found \"x\""),
            (&["--data", "t.csv"], "t.csv: line 1: no column MedHouseVal; there are a, b, y"),
            (&["--data", "short.csv", "--target", "y"], "short.csv: 1 rows, expected at least 2"),
            (&["--data", "lone.csv", "--target", "y"], "lone.csv: no column is left besides y"),
            (
                &["--data", "other.csv", "--target", "y", "--epochs", "1", "--resume", "t.st"],
                "t.st: other settings: table was ",
            ),
            (
                &["--data", "t.csv", "--target", "b", "--epochs", "1", "--resume", "t.st"],
                "t.st: other settings: ",
            ),
            (
                &["--data", "t.csv", "--target", "y", "--json", "t.csv"],
                "--data and --json name the same file: t.csv",
            ),
            (&["--data", "nowhere.csv"], "nowhere.csv: No such file"),
            (&["--data", "data"], "data: no complete California housing here"),
            (&["--data="], "the name of the data directory is empty"),
            (&["--lr", "-1"], "lr -1, expected a finite number of at least 0"),
            (&["--batch", "0"], "0 is not in 1.."),
            (&["--json", "x", "--save", "x"], "--save and --json name the same file: x"),
            (&["--save", "x", "--json", "x.json"], "checkpoint and --json name the same file: x.json"),
            (&["--resume", "none.st"], "--resume: none.st: cannot be read: "),
            (&["--plot", "no/x.svg"], "--plot: no/x.svg: there is no folder no"),
        ],
    );
}

/// On the published file, if it is found in `$TERNION_DATA`: the accuracy of the program's
/// defaults.
#[test]
fn housing_explains_what_districts_cost() {
    let folder = Folder::new("districts");
    let Some(data) = std::env::var_os("TERNION_DATA").filter(|data| !data.is_empty()) else { return };
    if !Path::new(&data).join("california-housing").is_dir() {
        eprintln!("skipped: no california-housing in {}", data.display());
        return;
    }
    let mut command = folder.run("housing", &["--json", "r.json"]);
    command.env("TERNION_DATA", data);
    success(command);
    let results = folder.json("r.json");
    assert_eq!(results["synthetic"], false);
    assert!(number(&results["test_r2"]) >= 0.78, "{results}");
}

#[test]
fn image_encoder_learns_an_image_and_draws_its_graph() {
    let folder = Folder::new("encoder");
    let small = ["--batch", "128", "--json", "r.json"];
    let psnr = |arguments: &[&str]| {
        success(folder.run("image_encoder", &[&small[..], arguments].concat()));
        number(&folder.json("r.json")["psnr"])
    };
    let untrained = psnr(&["--steps", "0", "--picture", "p.png"]);
    let trained = psnr(&["--steps", "150", "--lr", "3e-3", "--picture", "q.png", "--dot", "g.dot"]);
    assert!(trained > untrained + 5.0, "{untrained} to {trained} dB");
    let graph = fs::read_to_string(folder.file("g.dot")).expect("it was written");
    assert!(graph.starts_with("digraph") && graph.contains("leaky_relu"), "{graph}");
    assert!(graph.contains("layers.1.weight") || graph.contains("1.weight"), "{graph}");
    // The output is an image again: the picture and its reconstruction side by side.
    psnr(&["--steps", "1", "--image", "q.png", "--picture", "r.png"]);
    let results = folder.json("r.json");
    assert_eq!(number(&results["cols"]), 2.0 * number(&results["rows"]));
    // Two images of the same size.
    psnr(&["--steps", "2", "--image", "q.png", "--picture", "s.png"]);
    psnr(&["--steps", "1", "--image", "r.png", "--save", "p.st"]);
    fs::write(folder.file("text.png"), "no image").expect("the folder can be written");
    folder.check_rejections(
        "image_encoder",
        &[
            (&["--image", "text.png"], "text.png: neither PNG nor JPEG"),
            (&["--image", "none.png"], "--image: none.png: cannot be read: "),
            (&["--image", "p.png", "--picture", "p.png"], "--image and --picture name the same file: p.png"),
            (&["--picture", "data"], "--picture: data is a folder, expected a file"),
            (
                &["--image", "s.png", "--steps", "1", "--batch", "128", "--resume", "p.st"],
                "p.st: other settings: colors was ",
            ),
            (&["--lr", "nan"], "lr NaN, expected a finite number of at least 0"),
        ],
    );
}

#[test]
fn softmax_regression_derives_the_gradients_that_autograd_finds() {
    let folder = Folder::new("softmax");
    // A batch size of 20: dividing by a power of two would be exact.
    let small = ["--data", "data", "--batch", "20", "--lr", "0.005"];
    let run = ["--steps", "200", "--check-every", "40", "--json", "r.json"];
    let printed = success(folder.run("softmax_regression", &[&small[..], &run].concat()));
    let results = folder.json("r.json");
    assert_eq!((results["checked_steps"].as_u64(), results["synthetic"].as_bool()), (Some(6), Some(false)));
    let difference = number(&results["largest_difference"]);
    assert!(difference > 0.0 && difference < 1e-5, "{results}");
    // Guessing ten classes has a loss of 2.3.
    assert!(number(&results["final_loss"]) < 1.8, "{printed}");
    folder.check_rejections(
        "softmax_regression",
        &[
            (&[&small[..], &["--steps", "2", "--tolerance", "0"]].concat(), "the gradients differ by "),
            (&["--data", "nowhere"], "nowhere: no complete MNIST here"),
            (&["--check-every", "0"], "0 is not in 1.."),
            (&["--data", "data", "--lr", "-1"], "lr -1, expected a finite number of at least 0"),
        ],
    );
    // Overflowed weights have no gradients to compare, which must not pass as agreement.
    let message = folder.rejection_of(
        "softmax_regression",
        &[&small[..], &["--steps", "9", "--check-every", "1", "--lr", "1e38"]].concat(),
    );
    assert!(message.contains("the training has diverged"), "{message}");
}

#[test]
fn compare_finds_two_ways_to_compute_alike_and_tells_where_they_are_not() {
    let folder = Folder::new("compare");
    for model in ["mlp", "cnn", "gpt", "tiny_gpt"] {
        let arguments =
            ["--model", model, "--steps", "40", "--lr", "3e-3", "--batch", "16", "--json", "r.json"];
        let printed =
            success(folder.run("compare", &[&arguments[..], &["--devices", "cpu,cpu:composed"]].concat()));
        assert!(printed.contains("the largest difference: "), "{printed}");
        let results = folder.json("r.json");
        let losses = [0, 1].map(|device| results["losses"][device].as_array().expect("a list").clone());
        assert_eq!((losses[0].len(), losses[1].len()), (40, 40));
        let mean = |part: &[Value]| part.iter().map(number).sum::<f64>() / part.len() as f64;
        assert!(mean(&losses[0][35..]) < 0.95 * mean(&losses[0][..5]), "{model} learns nothing: {results}");
        let difference = number(&results["largest_difference"]);
        assert!(difference > 0.0 && difference < 1e-4, "{model}: {results}");
    }
    let quick = ["--steps", "3", "--batch", "8"];
    let same = success(folder.run("compare", &[&quick[..], &["--devices", "cpu,cpu"]].concat()));
    assert!(same.contains("the largest difference: 0.000e0 of the loss"), "{same}");
    folder.check_rejections(
        "compare",
        &[
            (
                &[&quick[..], &["--devices", "cpu,cpu:composed", "--tolerance", "1e-15", "--steps", "12"]]
                    .concat(),
                "the losses differ by ",
            ),
            (
                &[&quick[..], &["--devices", "cpu,cpu:composed", "--lr", "1e30"]].concat(),
                "step 2: the loss is NaN: the training has diverged",
            ),
            (&["--devices", "cpu,abacus"], "device abacus: no such device"),
            (&["--devices", "cpu"], "expected two names with a comma between"),
            (&["--device", "cpu", "--devices", "cpu,cpu"], "cannot be used with"),
        ],
    );
}

/// An interrupted and resumed run writes the same bytes as an uninterrupted one.
#[test]
fn a_training_that_goes_on_ends_where_one_that_ran_through_does() {
    let cases: [(&str, &[&str], [&str; 2]); 4] = [
        // Both stop within a reading.
        ("image_encoder", &["--batch", "32", "--log-every", "10"], ["25", "47"]),
        ("softmax_regression", &["--data", "data", "--batch", "20", "--check-every", "10"], ["15", "44"]),
        ("compare", &["--devices", "cpu,cpu:composed", "--batch", "8", "--model", "gpt"], ["4", "9"]),
        // Its learning rate rises meanwhile.
        ("compare", &["--devices", "cpu,cpu", "--batch", "4", "--model", "tiny_gpt"], ["3", "7"]),
    ];
    for (name, arguments, [half, whole]) in cases {
        let folder = Folder::new(&format!("resume-{name}"));
        let run = |more: &[&str]| success(folder.run(name, &[arguments, more].concat()));
        run(&["--steps", half, "--save", "half"]);
        let resumed = ["--steps", whole, "--resume", "half", "--save", "resumed", "--json", "r-resumed.json"];
        let printed = run(&resumed);
        assert!(printed.contains(&format!("resuming from half after step {half}")), "{printed}");
        run(&["--steps", whole, "--save", "whole", "--json", "r-whole.json"]);
        let read = |file: &str| fs::read(folder.file(file)).expect("it was saved");
        assert!(read("resumed") == read("whole"), "{name}: the resumed training ended elsewhere");
        assert!(read("half") != read("whole"), "{name}: nothing was trained");
        let [resumed, whole_results] = ["r-resumed.json", "r-whole.json"].map(|file| folder.results(file));
        assert_eq!(resumed, whole_results, "{name}");
        let other = [arguments, &["--steps", whole, "--resume", "half", "--seed", "7"]].concat();
        let message = folder.rejection_of(name, &other);
        assert!(message.contains("half") && message.contains("seed was 1, is 7"), "{name}: {message}");
    }
}

#[test]
fn housing_goes_on_where_it_was_killed() {
    let folder = Folder::new("killed");
    let rows: String = (0..50).map(|row| format!("{row},{},{}\n", row % 7, 3 * row + 1)).collect();
    fs::write(folder.file("t.csv"), format!("a,b,y\n{rows}")).expect("the folder can be written");
    let table = ["--data", "t.csv", "--target", "y", "--hidden", "5", "--batch", "50", "--epochs", "3000"];
    let command = |more: &[&str]| folder.run("housing", &[&table[..], more].concat());
    let mut running = command(&["--save", "w.st", "--save-every", "10"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // Its output exceeds the capacity of a pipe, so the program cannot finish while it is not read.
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.expect("UTF-8").starts_with("epoch 25/")), "the training ended");
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    let printed = success(command(&["--resume", "w.st", "--save-every", "1000", "--json", "resumed.json"]));
    assert!(printed.contains("resuming from w.st after step "), "{printed}");
    success(command(&["--json", "whole.json"]));
    let [resumed, whole] = ["resumed.json", "whole.json"].map(|file| folder.json(file));
    for name in ["train_loss", "test_loss", "test_r2", "predictions"] {
        assert_eq!(resumed[name], whole[name], "{name}");
    }
    let message = folder
        .rejection_of("housing", &["--data", "t.csv", "--target", "y", "--hidden", "6", "--resume", "w.st"]);
    assert!(message.contains("w.st"), "{message}");
    folder.check_rejections(
        "housing",
        &[(&["--resume", "t.csv", "--data", "t.csv", "--target", "y"], "t.csv")],
    );
}

#[test]
fn a_reader_that_leaves_costs_nothing() {
    let folder = Folder::new("leaves");
    let cases: [(&str, &[&str]); 4] = [
        ("housing", &["--epochs", "1", "--hidden", "4"]),
        ("image_encoder", &["--steps", "3"]),
        ("softmax_regression", &["--data", "data", "--steps", "3"]),
        ("compare", &["--devices", "cpu,cpu", "--steps", "3"]),
    ];
    for (name, arguments) in cases {
        let mut command = folder.run(name, &[arguments, &["--json", "r.json", "--plot", "p.svg"]].concat());
        let mut running =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        drop(running.stdout.take());
        let output = running.wait_with_output().expect("it ends");
        assert!(output.status.success() && errors(&output).is_empty(), "{name}: {}", errors(&output));
        let plot = fs::read_to_string(folder.file("p.svg")).expect("it was written");
        assert!(plot.starts_with("<svg") && plot.contains("<polyline") || plot.contains("<circle"), "{plot}");
        assert!(folder.json("r.json").is_object());
        fs::remove_file(folder.file("r.json")).expect("it exists");
        fs::remove_file(folder.file("p.svg")).expect("it exists");
    }
}
