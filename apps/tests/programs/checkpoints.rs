//! Checkpoints in folders, runs that Ctrl-C ends, and what may change when one is resumed.

use super::*;

const SMALL: [&str; 12] =
    ["--layers", "1", "--heads", "2", "--width", "16", "--context", "8", "--batch", "2", "--text", "text"];

fn write(folder: &Folder, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.file(name), content).expect("the folder can be written");
}

fn read(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the names of the checkpoints in a folder, in order.
fn checkpoint_names(folder: &Folder, name: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.file(name)).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".safetensors")).collect();
    names.sort();
    names
}

#[test]
fn every_training_keeps_the_newest_checkpoints_in_a_folder_and_goes_on_from_it() {
    let folder = Folder::new("kept");
    write(&folder, "text", "the cat sat. ".repeat(60));
    let cases: [(&'static str, Vec<&'static str>, [&str; 2]); 3] = [
        (
            "tiny_gpt",
            [&SMALL[..], &["--steps", "12", "--save-every", "4"]].concat(),
            ["step-00000008.safetensors", "step-00000012.safetensors"],
        ),
        (
            "mnist",
            vec!["--data", "data", "--hidden", "4", "--batch", "70", "--epochs", "4"],
            ["step-00000003.safetensors", "step-00000004.safetensors"],
        ),
        (
            "cifar10",
            vec!["--data", "synthetic", "--limit", "8", "--batch", "8", "--epochs", "3"],
            ["step-00000002.safetensors", "step-00000003.safetensors"],
        ),
    ];
    for (name, arguments, expected) in cases {
        let with = |more: &[&'static str]| [&arguments[..], more].concat();
        success(folder.run(name, &with(&["--save", name, "--keep", "2"])));
        assert_eq!(checkpoint_names(&folder, name), expected, "{name}");
        // Truncated as by a full disk: the run resumes from the previous one, and ends with the
        // same result.
        let newest = format!("{name}/{}", expected[1]);
        let whole = read(&folder, &newest);
        write(&folder, &newest, &whole[..whole.len() / 2]);
        let output = folder.run(name, &with(&["--resume", name, "--keep", "2"])).output().expect("it runs");
        assert!(output.status.success(), "{name}: {}", errors(&output));
        assert!(errors(&output).contains("warning: skipped: "), "{name}: {}", errors(&output));
        assert!(whole == read(&folder, &newest), "{name}: it ended elsewhere");
        folder.check_rejections(
            name,
            &[
                (
                    &with(&["--save", name, "--keep", "2"]),
                    "holds checkpoints of another training, up to step ",
                ),
                (&with(&["--keep", "2"]), "--keep: there is no --save, which names the folder"),
                (&with(&["--resume", "data"]), "--resume: data: there is no checkpoint"),
                (&with(&["--resume", name, "--load", "w.st"]), "cannot be used with"),
            ],
        );
    }
}

#[cfg(unix)]
#[test]
fn a_training_that_ctrl_c_ends_is_saved_and_ends_elsewhere_as_if_it_had_not() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new("stopped");
    let rows: String = (0..50).map(|row| format!("{row},{},{}\n", row % 7, 3 * row + 1)).collect();
    write(&folder, "t.csv", format!("a,b,y\n{rows}"));
    let table = ["--data", "t.csv", "--target", "y", "--hidden", "4", "--batch", "2", "--epochs", "200"];
    let cases: [(&str, &[&str], &str); 4] = [
        // Each epoch has 20 steps: Ctrl-C hardly ever comes at the end of one.
        ("housing", &table, "epoch 3/"),
        ("image_encoder", &["--batch", "32", "--log-every", "7", "--steps", "600"], "step 14/"),
        (
            "softmax_regression",
            &["--data", "data", "--batch", "20", "--check-every", "7", "--steps", "1500"],
            "step 8 ",
        ),
        ("compare", &["--devices", "cpu,cpu:composed", "--batch", "8", "--steps", "300"], "step 31 "),
    ];
    for (name, arguments, line) in cases {
        let run = |more: &[&str]| folder.run(name, &[arguments, more].concat());
        success(run(&["--save", "whole", "--save-every", "1000"]));
        // Each record is flushed to disk: fast enough for a few hundred epochs, but not for
        // thousands of steps.
        let record: &[&str] = if name == "housing" { &["--record", "record"] } else { &[] };
        let mut stopped =
            run(&[&["--save", "part", "--json", "r.json", "--save-every", "1000"], record].concat());
        let mut running =
            stopped.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|printed| printed.starts_with(line)), "{name}: {line:?} was not printed");
        let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
        assert!(killed.expect("kill is a program").success());
        let rest: Vec<String> = lines.collect();
        assert!(running.wait().expect("it ends").success(), "{name}: {rest:?}");
        let stopped = rest.iter().find(|line| line.starts_with("stopped after step "));
        assert!(stopped.is_some_and(|line| line.ends_with(", saved to part")), "{name}: {rest:?}");
        assert!(folder.json("r.json").is_object(), "{name}");
        success(run(&[&["--resume", "part", "--save-every", "1000"], record].concat()));
        if !record.is_empty() {
            // Each epoch once, including the one that was cut short.
            let lines = String::from_utf8(read(&folder, "record/metrics.jsonl")).expect("UTF-8");
            assert_eq!(lines.matches("held out").count(), 200);
        }
        assert!(
            read(&folder, "part") == read(&folder, "whole"),
            "{name}: the resumed training ended elsewhere"
        );
    }
}

#[test]
fn steps_and_learning_rates_may_change_when_a_training_goes_on() {
    let folder = Folder::new("longer");
    write(&folder, "tokens.bin", [1_u8, 0, 2, 0, 3, 0].repeat(50));
    let cases: [(&str, &[&str], &[&str], &str, &str); 3] = [
        ("housing", &["--hidden", "4"], &["--hidden", "4"], "--save", "--epochs"),
        (
            "cifar10",
            &["--data", "synthetic", "--limit", "8", "--batch", "8"],
            &["--data", "synthetic", "--limit", "8", "--batch", "8"],
            "--save",
            "--epochs",
        ),
        // Sizes are those of the checkpoint.
        (
            "gpt2",
            &["--layers", "1", "--heads", "2", "--width", "16", "--context", "8", "--train", "tokens.bin"],
            &["--train", "tokens.bin"],
            "--checkpoint",
            "--steps",
        ),
    ];
    for (name, first, then, save, length) in cases {
        success(folder.run(name, &[first, &[length, "2", "--lr", "0.002", save, "w.st"]].concat()));
        let printed = success(folder.run(name, &[then, &["--resume", "w.st"]].concat()));
        assert!(
            printed.contains(" is left: ") && printed.contains(&format!("{length} 2")),
            "{name}: {printed}"
        );
        let longer = ["--resume", "w.st", length, "3", "--lr", "0.001"];
        let printed = success(folder.run(name, &[then, &longer].concat()));
        assert!(printed.contains(" 3/3"), "{name}: {printed}");
        let values = &folder.json("w.st.json")["values"];
        let key = length.trim_start_matches('-');
        assert_eq!((&values[key], &values["lr"]), (&3.into(), &0.001.into()), "{name}: {values}");
        let message = folder.rejection_of(name, &[then, &["--resume", "w.st", "--seed", "7"]].concat());
        assert!(message.contains("other settings: ") && message.contains("seed was 1, is 7"), "{message}");
    }
}

#[test]
fn tiny_gpt_tests_as_often_as_before_when_it_goes_on() {
    let folder = Folder::new("as-often");
    write(&folder, "text", "the cat sat. ".repeat(60));
    let run = |more: &[&str]| success(folder.run("tiny_gpt", more));
    run(&[&SMALL[..], &["--steps", "4", "--eval-every", "2", "--save", "w.st"]].concat());
    let tested = |record: &str| -> Vec<u64> {
        let lines = fs::read_to_string(folder.file(record).join("metrics.jsonl")).expect("it was written");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let of_test = lines.filter(|line: &serde_json::Value| line["name"] == "validation/loss");
        of_test.filter_map(|line| line["step"].as_u64()).collect()
    };
    let resumed = ["--text", "text", "--resume", "w.st", "--save", "copy.st", "--steps", "8"];
    run(&[&resumed[..], &["--record", "as-before"]].concat());
    assert_eq!(tested("as-before"), [6, 8]);
    run(&[&resumed[..], &["--record", "other", "--eval-every", "5"]].concat());
    assert_eq!(tested("other"), [5, 8]);
}
