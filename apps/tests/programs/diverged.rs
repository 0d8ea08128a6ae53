//! Training runs with a non-finite loss: every program reports it, does not save that state, and
//! does not exit with success.

use super::*;

/// A learning rate with which the weights of any model overflow.
const ABSURD: &str = "1e38";

#[test]
fn a_training_that_diverges_is_an_error_that_says_what_to_try() {
    let folder = Folder::new("diverged");
    fs::write(folder.file("text"), "the cat sat. ".repeat(60)).expect("the folder can be written");
    fs::write(folder.file("tokens.bin"), [1_u8, 0, 2, 0, 3, 0].repeat(50)).expect("it can be written");
    let small = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "8", "--batch", "2"];
    let cases: [(&str, Vec<&str>, &str); 7] = [
        (
            "tiny_gpt",
            [&small[..], &["--text", "text", "--steps", "120", "--save-every", "7"]].concat(),
            "--save",
        ),
        (
            "gpt2",
            [&small[..], &["--train", "tokens.bin", "--steps", "40", "--eval-every", "5"]].concat(),
            "--checkpoint",
        ),
        ("housing", vec!["--epochs", "3", "--hidden", "4"], "--save"),
        ("image_encoder", vec!["--steps", "20", "--batch", "32", "--log-every", "10"], "--save"),
        ("softmax_regression", vec!["--data", "data", "--steps", "30", "--check-every", "10"], "--save"),
        ("mnist", vec!["--data", "data", "--epochs", "2", "--batch", "8", "--hidden", "4"], "--save"),
        ("cifar10", vec!["--data", "synthetic", "--limit", "16", "--batch", "8", "--epochs", "6"], "--save"),
    ];
    for (name, arguments, save) in cases {
        let files = [save, "w.st", "--plot", "p.svg", "--json", "r.json"];
        let arguments = [&arguments[..], &["--lr", ABSURD], &files].concat();
        let output = folder.run(name, &arguments).output().expect("it runs");
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {message}");
        assert!(message.contains("error: step ") && message.contains(": the loss is "), "{name}: {message}");
        assert!(
            message.contains("the training has diverged") && message.contains("a smaller --lr"),
            "{message}"
        );
        if folder.file("w.st").exists() {
            // Of earlier steps with a finite loss.
            let checkpoint = ternion::prelude::Checkpoint::read(folder.file("w.st")).expect("it is whole");
            let step = message.split("error: step ").nth(1).and_then(|rest| rest.split(':').next());
            let step: u64 = step.and_then(|step| step.parse().ok()).expect("a step");
            assert!(checkpoint.step() < step, "{name}: step {} is saved, {message}", checkpoint.step());
            fs::remove_file(folder.file("w.st")).expect("it exists");
        }
        for file in ["p.svg", "r.json"] {
            fs::remove_file(folder.file(file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        }
    }
    let output =
        folder.run("compare", &["--devices", "cpu,cpu", "--steps", "5", "--batch", "8", "--lr", ABSURD]);
    let output = { output }.output().expect("it runs");
    assert!(!output.status.success(), "two losses of NaN do not agree");
    assert!(errors(&output).contains("the training has diverged"), "{}", errors(&output));
}
