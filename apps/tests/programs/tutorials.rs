//! The commands of the tutorials as a reader runs them, with smaller sizes.

use super::*;
use std::path::Path;

/// A command of a page: the name of a program and its arguments.
struct PageCommand {
    program: String,
    arguments: Vec<String>,
}

/// Returns the commands in the page's `sh` blocks. Each must run a program of this package.
fn page_commands(page: &str) -> Vec<PageCommand> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorials").join(page);
    let text = fs::read_to_string(path).expect("the page exists");
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(""));
    let commands: Vec<PageCommand> = blocks.flat_map(str::lines).map(parse).collect();
    assert!(!commands.is_empty(), "{page} shows no command");
    commands
}

fn parse(line: &str) -> PageCommand {
    let rest = line.strip_prefix("cargo run --release -p apps --bin ");
    let (name, arguments) = rest.and_then(|rest| rest.split_once(" -- ")).expect("a run of a program");
    // No argument of a page has a space in it.
    let arguments = arguments.split(' ').map(|argument| argument.trim_matches('"').to_owned()).collect();
    PageCommand { program: name.to_owned(), arguments }
}

impl PageCommand {
    /// Replaces the value of an option, if it is given.
    fn with(mut self, option: &str, value: &str) -> PageCommand {
        if let Some(at) = self.arguments.iter().position(|argument| argument == option) {
            self.arguments[at + 1] = value.to_owned();
        }
        self
    }

    /// Adds options to the first training command of a page; resumed runs take them from the
    /// checkpoint.
    fn with_sizes(mut self, sizes: &[&str]) -> PageCommand {
        if !self.arguments.iter().any(|argument| ["--resume", "--load"].contains(&argument.as_str())) {
            self.arguments.extend(sizes.iter().map(|argument| argument.to_string()));
        }
        self
    }

    fn run(&self, folder: &Folder) -> String {
        let mut command = program(&self.program);
        command.current_dir(&folder.0).args(["--device", "cpu"]).args(&self.arguments);
        success(command)
    }
}

#[test]
fn the_walk_through_of_tiny_gpt_runs() {
    let folder = Folder::new("tutorial-gpt");
    fs::write(folder.file("shakespeare.txt"), "ROMEO: but soft, what light. ".repeat(60))
        .expect("the folder can be written");
    let sizes = ["--layers", "1", "--heads", "2", "--width", "16", "--batch", "2"];
    let mut printed = Vec::new();
    for command in page_commands("tiny_gpt.md") {
        let longer = command.arguments.iter().any(|argument| argument == "4000");
        let command = command.with("--context", "8").with("--steps", if longer { "9" } else { "6" });
        printed.push(command.with("--tokens", "20").with_sizes(&sizes).run(&folder));
    }
    assert_eq!(printed.len(), 6);
    assert!(printed[0].contains("step 6 saved to poet.safetensors"), "{}", printed[0]);
    assert!(printed[1].contains("resumes after step 6"), "{}", printed[1]);
    assert!(printed[2].contains("step 9 saved to poet.safetensors"), "{}", printed[2]);
    assert!(printed[3].contains("step 6 saved to poet-run/step-00000006.safetensors"), "{}", printed[3]);
    assert!(printed[4].contains("resumes after step 6"), "{}", printed[4]);
    assert!(printed[4].contains("step 9 saved to poet-run/step-00000009.safetensors"), "{}", printed[4]);
    assert!(printed[5].lines().last().is_some_and(|line| line.starts_with("ROMEO:")), "{}", printed[5]);
    for file in ["poet.safetensors", "poet.safetensors.json", "poet.svg", "poet-record/metrics.jsonl"] {
        assert!(folder.file(file).is_file(), "{file}");
    }
}

#[test]
fn the_commands_of_the_page_on_checkpoints_run() {
    let folder = Folder::new("tutorial-checkpoints");
    let mut printed = Vec::new();
    for (mut command, epochs) in page_commands("checkpoints.md").into_iter().zip(["2", "3", "0"]) {
        command.arguments.extend(["--data".to_owned(), "data".to_owned()]);
        printed.push(command.with("--epochs", epochs).run(&folder));
    }
    assert_eq!(printed.len(), 3);
    assert!(
        printed[1].contains("resumes in epoch 3") && folder.file("digits-record").is_dir(),
        "{}",
        printed[1]
    );
}
