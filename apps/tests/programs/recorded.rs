//! Runs with recorded steps, which are the default, compared with runs op by op.

use super::*;

const SMALL: [&str; 8] = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "8"];

/// Checks that a run with recorded steps and one with `--eager` write the same bytes and print the
/// same results, except times and memory.
fn end_alike(folder: &Folder, name: &str, save: &str, arguments: &[&str]) {
    let run = |file: &str, more: &[&str]| {
        let files = [save, file, "--json", "r.json"];
        success(folder.run(name, &[arguments, &files, more].concat()));
        let saved = ["", ".json"].map(|suffix| fs::read(folder.file(&format!("{file}{suffix}"))));
        let mut results = folder.json("r.json");
        let training = if name == "gpt2" { &mut results["training"] } else { &mut results };
        let training = training.as_object_mut().expect("an object");
        training.retain(|key, _| !key.ends_with("_per_second") && !key.ends_with("_seconds"));
        training.remove("peak_memory_bytes");
        let is_captured = training.remove("captured").expect("it is reported");
        let training = training.clone();
        (saved.map(|bytes| bytes.expect("it was saved")), training, is_captured)
    };
    let (captured, eager) = (run("captured.st", &[]), run("eager.st", &["--eager"]));
    assert_eq!((captured.2, eager.2), (true.into(), false.into()), "{name} {arguments:?}");
    assert_eq!(captured.1, eager.1, "{name} {arguments:?}: other results");
    assert!(captured.0 == eager.0, "{name} {arguments:?}: other bytes were saved");
}

#[test]
fn gpt2_ends_with_the_bytes_of_an_eager_training() {
    let folder = Folder::new("recorded-gpt2");
    let tokens: Vec<u8> = (0..400_u32).flat_map(|at| [(at * at % 11) as u8, 0]).collect();
    fs::write(folder.file("tokens.bin"), tokens).expect("the folder can be written");
    let training = ["--train", "tokens.bin", "--validation", "tokens.bin", "--batch", "3", "--steps", "25"];
    let schedule = ["--lr", "1e-2", "--eval-every", "7", "--dropout", "0.1"];
    for more in [&["--accumulate", "3"][..], &["--precision", "bf16"], &["--precision", "f16"]] {
        let arguments = [&SMALL[..], &training, &schedule, more].concat();
        end_alike(&folder, "gpt2", "--checkpoint", &arguments);
    }
}

/// Step 10 is traced, and text is generated between steps.
#[test]
fn tiny_gpt_ends_with_the_bytes_of_an_eager_training() {
    let folder = Folder::new("recorded-tiny-gpt");
    fs::write(folder.file("text"), "the cat sat. ".repeat(60)).expect("the folder can be written");
    let training =
        ["--text", "text", "--batch", "3", "--steps", "25", "--eval-every", "7", "--dropout", "0.1"];
    for more in [&["--trace", "t.json"][..], &["--precision", "f16"]] {
        end_alike(&folder, "tiny_gpt", "--save", &[&SMALL[..], &training, more].concat());
    }
    let traced = fs::read_to_string(folder.file("t.json")).expect("it was written");
    for name in ["\"step\"", "\"forward\"", "h.0.self_attn (MultiHeadAttention)", "\"backward\"", "\"adamw\""]
    {
        assert!(traced.contains(name), "{name}");
    }
}

#[test]
fn cifar10_ends_with_the_bytes_of_an_eager_training() {
    let folder = Folder::new("recorded-cifar10");
    let training = ["--data", "synthetic", "--limit", "40", "--batch", "8", "--epochs", "2"];
    for more in [&["--label-smoothing", "0.1"][..], &["--stats-every", "4"], &["--precision", "f16"]] {
        end_alike(&folder, "cifar10", "--save", &[&training[..], more].concat());
    }
}

#[test]
fn ranges_for_profilers_are_rejected_where_no_profiler_sees_them() {
    let folder = Folder::new("ranges");
    let programs = ["gpt2", "tiny_gpt", "cifar10", "mnist", "housing", "softmax_regression", "image_encoder"];
    for name in programs {
        let expected = "--nvtx requires a CUDA device (--features cuda, --device cuda), got cpu";
        folder.check_rejections(name, &[(&["--nvtx"], expected)]);
    }
    folder.check_rejections(
        "gpt2",
        &[
            (&["--generate", "x", "--eager"], "--eager without effect: nothing is trained"),
            (
                &["--tokenize", "data", "--out", "o", "--nvtx"],
                "--nvtx without effect: --tokenize does nothing else",
            ),
        ],
    );
    fs::write(folder.file("text"), "the cat sat. ".repeat(60)).expect("the folder can be written");
    let training = ["--text", "text", "--batch", "2", "--steps", "1", "--save", "w.st"];
    success(folder.run("tiny_gpt", &[&SMALL[..], &training].concat()));
    folder.check_rejections(
        "tiny_gpt",
        &[(&["--load", "w.st", "--eager"], "--eager without effect: with --load")],
    );
}
