//! The walk-throughs in docs/tutorials as their readers follow them: each command runs and prints
//! the documented output, and the quoted code is in the program.
//!
//! Here the commands run with fewer steps, and the numbers in their output are not compared. They
//! are compared further below, where the first commands of the pages run unmodified; those that
//! take minutes only if `TERNION_FIGURES` is set.

#[path = "support/programs.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Folder, program, success};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
}

/// A block of a tutorial: its language, and its lines.
struct Block {
    language: String,
    lines: Vec<String>,
}

fn blocks(name: &str) -> Vec<Block> {
    let file = root().join("docs/tutorials").join(name).with_extension("md");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for line in text.lines() {
        match (open.take(), line.strip_prefix("```")) {
            (None, Some(language)) => open = Some(Block { language: language.into(), lines: Vec::new() }),
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.lines.push(line.into());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{name}: a block is not closed");
    blocks
}

/// Follows the tutorial of a program. The arguments that `quicker` returns for a line are appended
/// to its command.
fn follow(name: &str, quicker: impl Fn(&str) -> &'static [&'static str], prepare: impl Fn(&Folder)) {
    let folder = Folder::new(&format!("tutorial-{name}"));
    prepare(&folder);
    let (sources, python) = (sources(name), python_sources());
    let (mut printed, mut followed, mut has_figures) = (String::new(), 0, false);
    for block in blocks(name) {
        match block.language.as_str() {
            "sh" => {
                for line in block.lines.iter().filter(|line| !line.trim().is_empty()) {
                    // Although other sizes are reduced, the text and the model of this command are
                    // those of the page.
                    has_figures = line.contains("--perplexity");
                    printed = follow_command(name, line, quicker(line), &folder).unwrap_or(printed);
                    followed += 1;
                }
            }
            "text" if has_figures => check_numbers(name, &block.lines, &printed),
            "text" => check_printed(name, &block.lines, &printed),
            "rust" => check_quoted(name, &block.lines, &sources),
            "python" => check_quoted(name, &block.lines, &python),
            other => panic!("{name}: a block of {other:?} is not tested"),
        }
    }
    assert!(followed > 0, "{name}: no command");
}

/// Runs a line `[NAME=VALUE ..] cargo run .. --bin NAME [-- ARGUMENTS]` and returns what it
/// printed. A command that needs a GPU feature is left out: this build does not include it.
fn follow_command(name: &str, line: &str, quicker: &[&str], folder: &Folder) -> Option<String> {
    let mut words = line.split_whitespace().peekable();
    let mut variables = Vec::new();
    while let Some((variable, value)) = words.peek().and_then(|word| word.split_once('=')) {
        variables.push((variable, value));
        words.next();
    }
    let words: Vec<&str> = words.collect();
    if words[0] == "python" {
        return follow_python(&words[1..], folder);
    }
    let end = words.iter().position(|&word| word == "--").unwrap_or(words.len());
    let (cargo, arguments) = (&words[..end], words.get(end + 1..).unwrap_or_default());
    assert!(cargo.starts_with(&["cargo", "run", "--release", "-p", "apps"]), "{name}: what is {line:?}?");
    assert!(cargo.ends_with(&["--bin", name]), "{name}: {line:?} runs another program");
    if cargo.contains(&"--features") {
        return None;
    }
    let mut command = program(name);
    command.current_dir(&folder.0).env("XDG_CACHE_HOME", folder.file("cache"));
    Some(success({
        command.envs(variables).args(arguments).args(quicker);
        command
    }))
}

/// Runs a script of this project if `TERNION_PYTHON` names a Python with what it needs.
fn follow_python(words: &[&str], folder: &Folder) -> Option<String> {
    let python = std::env::var_os("TERNION_PYTHON")?;
    let mut command = Command::new(python);
    command.current_dir(&folder.0).arg(root().join(words[0])).args(&words[1..]);
    Some(success(command))
}

/// Checks that every line was printed, in order; `...` matches any text at the end of a line, or
/// any lines.
fn check_printed(name: &str, lines: &[String], printed: &str) {
    let mut rest = printed.lines().map(without_numbers);
    for line in lines.iter().filter(|line| line.trim() != "...") {
        let found = match line.strip_suffix("...") {
            Some(expected) => rest.any(|printed| printed.starts_with(&without_numbers(expected))),
            None => rest.any(|printed| printed == without_numbers(line)),
        };
        assert!(found, "{name}: not printed, or not in this order: {line:?}, but\n{printed}");
    }
}

/// Returns the line with `#` for each number, and one space for several.
fn without_numbers(line: &str) -> String {
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    let word = |word: &str| if is_number(word) { "#".to_owned() } else { word.to_owned() };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Checks that the first command of a page prints the output below it, with its numbers.
fn check_figures(name: &str) {
    let folder = Folder::new(&format!("figures-{name}"));
    let blocks = blocks(name);
    let first = |language: &str| blocks.iter().find(|block| block.language == language).expect("a block");
    let mut printed = None;
    for line in first("sh").lines.iter().filter(|line| !line.trim().is_empty()) {
        printed = follow_command(name, line, &[], &folder);
    }
    check_numbers(name, &first("text").lines, &printed.expect("a command that can be run here"));
}

/// As [`check_printed`], but compares the numbers, too.
fn check_numbers(name: &str, lines: &[String], printed: &str) {
    let mut rest = printed.lines();
    for line in lines.iter().filter(|line| line.trim() != "...") {
        let expected = line.trim_end_matches("...");
        let is_this = |printed: &str| {
            without_numbers(printed).starts_with(&without_numbers(expected))
                && agree(&numbers(expected), &numbers(printed))
        };
        assert!(rest.any(is_this), "{name}: not printed with these numbers: {line:?}, but\n{printed}");
    }
}

/// Returns the numbers of a line, as they are written.
fn numbers(line: &str) -> Vec<String> {
    let pieces = line.split(|letter: char| !(letter.is_ascii_digit() || ".eE+-".contains(letter)));
    let pieces = pieces.map(|piece| piece.trim_matches(|end: char| !(end.is_ascii_digit() || end == '-')));
    pieces.filter(|piece| piece.parse::<f64>().is_ok()).map(str::to_owned).collect()
}

/// Compares counts exactly, and measured numbers to 2 % and 0.02, because another CPU may compute
/// slightly different ones. Values below 1e-5 are rounding errors, of which only the magnitude is
/// compared, and not at which step they are largest.
fn agree(page: &[String], printed: &[String]) -> bool {
    let value = |number: &String| number.parse::<f64>().unwrap_or(f64::NAN);
    let is_noise = |number: &String| value(number) != 0.0 && value(number).abs() < 1e-5;
    let is_same = |(page, printed): (&String, &String)| {
        let is_count = !page.contains(['.', 'e']);
        match (is_noise(page), is_count) {
            (true, _) => value(printed).abs() < 1e-5,
            (false, true) => page == printed,
            (false, false) => (value(page) - value(printed)).abs() <= 0.02 + 0.02 * value(page).abs(),
        }
    };
    let known = page.iter().position(is_noise).map_or(page.len(), |at| at + 1);
    printed.len() >= page.len() && page.iter().zip(printed).take(known).all(is_same)
}

#[test]
fn what_the_pages_print_has_the_numbers_that_are_printed() {
    let is_requested = std::env::var_os("TERNION_FIGURES").is_some();
    let minutes: &[&str] = if is_requested { &["image_encoder", "cifar10", "gpt2"] } else { &[] };
    ["housing", "compare", "pytorch_weights"].iter().chain(minutes).for_each(|name| check_figures(name));
}

#[test]
fn numbers_that_are_others_are_noticed() {
    let agrees = |page: &str, printed: &str| agree(&numbers(page), &numbers(printed));
    assert!(agrees("842496 parameters, loss 2.5", "842496 parameters, loss 2.5082  1154 tokens/s"));
    assert!(!agrees("842752 parameters", "842496 parameters"));
    assert!(!agrees("test R2 0.97, RMSE 0.169", "test R2 0.97, RMSE 0.269"));
    assert!(agrees("apart 2.3e-7 at step 14", "apart 1.1e-7 at step 20") && !agrees("1.2e-7", "1.2e-3"));
    assert!(!agrees("epoch 1/12  loss 2.3", "epoch 2/12  loss 2.3"));
}

/// Returns the files of a program and those that the programs share, each without whitespace.
fn sources(name: &str) -> Vec<String> {
    let apps = root().join("apps/src");
    let file = apps.join(name).with_extension("rs");
    let own = if file.is_file() { vec![file] } else { files(&apps.join(name)) };
    let texts = own.into_iter().chain(files(&apps.join("support"))).map(fs::read_to_string);
    texts.map(|text| bare(text.expect("a file of the program").lines())).collect()
}

/// Returns the files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Returns the scripts that produced the reference data of the tests.
fn python_sources() -> Vec<String> {
    let scripts = files(&root().join("tests/reference"))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "py"));
    scripts.map(|file| bare(fs::read_to_string(file).expect("a script").lines())).collect()
}

/// Returns the text without whitespace: line breaks do not count.
fn bare<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.flat_map(str::chars).filter(|character| !character.is_whitespace()).collect()
}

/// Checks that the lines are in the program; a line `// ...` stands for omitted code.
fn check_quoted(name: &str, lines: &[String], sources: &[String]) {
    for part in lines.split(|line| line.trim() == "// ...") {
        let part = bare(part.iter().map(String::as_str));
        assert!(sources.iter().any(|source| source.contains(&part)), "{name}: the program has no\n{part}");
    }
}

#[test]
fn housing() {
    let quicker = |line: &str| match line.contains("--predict") {
        true => &[][..],
        false => &["--epochs", "1", "--hidden", "4"],
    };
    follow("housing", quicker, |folder| {
        let header = "MedInc,HouseAge,AveRooms,AveBedrms,Population,AveOccup,Latitude,Longitude,MedHouseVal";
        let row = |row: usize| format!("{},{},5,1,{},3,37,-122,{}\n", row % 9, row % 40, 90 + row, row % 5);
        let rows: String = (0..60).map(row).collect();
        fs::write(folder.file("california_housing.csv"), format!("{header}\n{rows}"))
            .expect("it can be written");
    });
}

#[test]
fn image_encoder() {
    follow(
        "image_encoder",
        |_| &["--steps", "20", "--batch", "64"],
        |folder| {
            let mut drawn = program("image_encoder");
            drawn.args(["--steps", "0", "--picture"]).arg(folder.file("photo.png"));
            success(drawn);
        },
    );
}

#[test]
fn softmax_regression() {
    follow("softmax_regression", |_| &["--steps", "20", "--data", "data"], |_| ());
}

#[test]
fn compare() {
    follow("compare", |_| &["--steps", "10", "--batch", "8"], |_| ());
}

/// Creates a folder `gpt2` with a small model of random weights in Hugging Face's format, and a
/// vocabulary of the bytes and two merges.
fn small_gpt2(folder: &Folder) {
    let model = folder.file("gpt2");
    fs::create_dir_all(&model).expect("the folder can be written");
    fs::write(model.join("vocab.json"), support::byte_vocabulary(&["th", "the"])).expect("it can be written");
    fs::write(model.join("merges.txt"), "#version: 0.2\nt h\nth e\n").expect("it can be written");
    let sizes = ["--layers", "1", "--heads", "2", "--width", "16", "--context", "1024", "--steps", "0"];
    let mut made = program("gpt2");
    made.current_dir(&folder.0).args(sizes).args(["--bpe", "gpt2", "--save", "gpt2", "--tokens", "0"]);
    success(made);
}

#[test]
fn gpt2() {
    // Only options that the command uses.
    let quicker = |line: &str| -> &'static [&'static str] {
        if line.contains("--generate") {
            &["--tokens", "5"]
        } else if line.contains("--tokenize") || line.contains("--load") {
            &[]
        } else {
            &["--layers", "1", "--width", "16", "--context", "16", "--steps", "2"]
        }
    };
    follow("gpt2", quicker, |folder| {
        small_gpt2(folder);
        fs::write(folder.file("text.txt"), "the cat and the hat\n".repeat(90)).expect("it can be written");
    });
}

#[test]
fn cifar10() {
    follow(
        "cifar10",
        |_| &["--epochs", "1", "--batch", "8", "--limit", "16"],
        |folder| {
            let data = folder.file("cifar-10-batches-bin");
            fs::create_dir_all(&data).expect("the folder can be written");
            for file in
                ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
            {
                fs::write(data.join(file).with_extension("bin"), support::cifar10_records(8))
                    .expect("it can be written");
            }
        },
    );
}

#[test]
fn pytorch_weights() {
    follow("pytorch_weights", |_| &[], |_| ());
}
