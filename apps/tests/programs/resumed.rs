//! Runs that are stopped and resumed end with the same bytes as uninterrupted ones.

use super::*;

fn same(folder: &Folder, left: &str, right: &str) {
    for suffix in ["", ".json"] {
        let read = |name: &str| fs::read(folder.file(&format!("{name}{suffix}"))).expect("it was written");
        assert!(read(left) == read(right), "{left}{suffix} and {right}{suffix} differ");
    }
}

/// A transformer so small that a step takes no time, with dropout, which needs the state of the
/// random number generator.
fn gpt(folder: &Folder, arguments: &[&str]) -> Command {
    if !folder.file("text").exists() {
        fs::write(folder.file("text"), "the cat sat. ".repeat(60)).expect("the folder can be written");
    }
    let mut gpt = program("tiny_gpt");
    gpt.current_dir(&folder.0).args(["--device", "cpu", "--text", "text"]).args(arguments);
    gpt
}

const SIZES: [&str; 14] = [
    "--layers",
    "1",
    "--heads",
    "2",
    "--width",
    "16",
    "--context",
    "8",
    "--batch",
    "3",
    "--dropout",
    "0.2",
    "--eval-every",
    "7",
];

#[test]
fn tiny_gpt_stopped_and_resumed_ends_with_the_bytes_of_a_run_that_was_not() {
    let folder = Folder::new("gpt-resumed");
    let run = |arguments: &[&str]| success(gpt(&folder, &[&SIZES[..], arguments].concat()));
    run(&["--steps", "20", "--save", "whole.st"]);
    // Saved within a reading of the loss, and after a test that generates a sample.
    run(&["--steps", "10", "--save", "part.st", "--save-every", "4", "--record", "record"]);
    let printed = run(&["--resume", "part.st", "--steps", "20", "--plot", "p.svg", "--record", "record"]);
    assert!(
        printed.contains("resumes after step 10") && printed.contains("step 20 saved to part.st"),
        "{printed}"
    );
    same(&folder, "whole.st", "part.st");
    let other = run(&["--steps", "20", "--save", "other.st", "--seed", "2"]);
    assert!(
        fs::read(folder.file("other.st")).expect("saved")
            != fs::read(folder.file("whole.st")).expect("saved"),
        "{other}"
    );

    let lines = fs::read_to_string(folder.file("record/metrics.jsonl")).expect("it was written");
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |name: &str| -> Vec<u64> {
        lines.iter().filter(|line| line["name"] == name).filter_map(|line| line["step"].as_u64()).collect()
    };
    // Step 10 was tested because the run ended there.
    assert_eq!(of("validation/loss"), [7, 10, 14, 20]);
    let svg = fs::read_to_string(folder.file("p.svg")).expect("it was written");
    assert!(svg.contains("<polyline") && svg.contains(">validation/loss</text>"), "{svg}");
}

#[test]
fn tiny_gpt_rejects_what_it_cannot_go_on_from() {
    let folder = Folder::new("gpt-rejected");
    success(gpt(&folder, &[&SIZES[..], &["--steps", "1", "--save", "w.st"]].concat()));
    fs::write(folder.file("other"), "another text with the letters of cat sat. ".repeat(60))
        .expect("the folder can be written");
    let rejection = |arguments: &[&str]| {
        let output = gpt(&folder, arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?} was accepted");
        errors(&output)
    };
    for (arguments, expected) in [
        (&["--resume", "none.st"][..], "--resume: none.st: cannot be read"),
        (&["--resume", "w.st", "--load", "w.st"], "cannot be used with"),
        (&["--resume", "w.st", "--batch", "4"], "--batch 4, but the checkpoint is of 3"),
        (&["--resume", "w.st", "--width", "8"], "--width 8, but the checkpoint is of 16"),
        (&["--resume", "w.st", "--json", "w.st"], "--resume and --json name the same file"),
        (
            &["--resume", "w.st", "--json", "w.st.json"],
            "the JSON of a checkpoint and --json name the same file",
        ),
    ] {
        let message = rejection(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    fs::write(folder.file("text"), "the cat sat, ".replace(',', ".").repeat(61))
        .expect("the folder can be written");
    let message = rejection(&["--resume", "w.st"]);
    assert!(message.contains("w.st: other settings: text was "), "{message}");
    // A checkpoint of another program.
    success(folder.mnist(&["--epochs", "1", "--save", "digits.st"]));
    let message = rejection(&["--resume", "digits.st"]);
    assert!(message.contains("digits.st: no value \"steps\", expected one of "), "{message}");
}

#[cfg(unix)]
#[test]
fn mnist_interrupted_and_resumed_ends_with_the_bytes_of_a_run_that_was_not() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new("mnist-resumed");
    let arguments = ["--epochs", "120", "--batch", "16", "--lr", "0.01", "--save-every", "50", "--save"];
    success(folder.mnist(&[&arguments[..], &["whole.st"]].concat()));
    let mut running = folder
        .mnist(&[&arguments[..], &["part.st", "--record", "record"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("epoch 3/")), "the training ended");
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(killed.expect("kill is a program").success());
    // Reads to the end, so that a full pipe does not block the program.
    let rest: Vec<String> = lines.collect();
    assert!(running.wait().expect("it ends").success(), "{rest:?}");
    let text = fs::read_to_string(folder.file("part.st.json")).expect("it was saved");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(json["values"]["epoch"].as_u64() < Some(120), "it was not interrupted: {rest:?}");
    let printed = success(folder.mnist(&["--resume", "part.st", "--record", "record", "--plot", "p.svg"]));
    assert!(printed.contains("resumes in epoch "), "{printed}");
    same(&folder, "whole.st", "part.st");
    // Every epoch once, including the interrupted one.
    let lines = fs::read_to_string(folder.file("record/metrics.jsonl")).expect("it was written");
    assert_eq!(lines.matches("test/accuracy").count(), 120);
    let output = folder.mnist(&["--resume", "part.st", "--batch", "17"]).output().expect("it runs");
    assert!(errors(&output).contains("part.st: other settings: batch was 16, is 17"), "{}", errors(&output));
}
