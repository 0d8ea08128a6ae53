//! Backends select and recognize kernels, variants and tiles by types. Their sources do not compare
//! or parse text, except external text (files, the environment, names of libraries).

use std::path::{Path, PathBuf};

/// The crates whose sources are checked.
const CRATES: [&str; 3] = ["crates/backend-cpu", "crates/backend-cuda", "crates/backend-wgpu"];

/// Files whose purpose is text processing, and the text that they process.
const TEXT_FILES: [(&str, &str); 3] = [
    ("linker.rs", "takes WGSL apart into items and links them"),
    ("repeat.rs", "writes out the `#repeat` and `#inline` lines of WGSL"),
    (
        "names.rs",
        "the table of placeholders and of the WGSL functions that fill them: its arrows are a macro's",
    ),
];

/// Code that compares or parses text, anywhere in a line.
const MARKS: [&str; 21] = [
    ".starts_with(",
    ".ends_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".split(",
    ".splitn(",
    ".rsplit(",
    ".split_once(",
    ".rsplit_once(",
    ".split_whitespace(",
    ".eq_ignore_ascii_case(",
    ".contains(\"",
    ".contains(&",
    ".find(\"",
    ".eq(\"",
    ".trim_start_matches(",
    ".trim_end_matches(",
    "== \"",
    "!= \"",
    "\" ==",
    "\" !=",
];

/// File, a part of the line, and why it is allowed.
const ALLOWED: [(&str, &str, &str); 27] = [
    ("variant/architecture.rs", "name.strip_prefix(\"sm_\")", "the one parser of NVRTC's names"),
    ("variant/architecture.rs", "digits.strip_suffix('a')", "the one parser of NVRTC's names"),
    ("nvrtc.rs", "log.contains(\"--gpu-architecture\")", "a message of the compiler"),
    ("nvrtc.rs", "name.starts_with(prefix)", "names of libraries"),
    ("nvrtc.rs", ".strip_prefix(\"cuda-\")", "folders of toolkits"),
    ("nvrtc.rs", "name.split('.')", "versions of toolkits"),
    ("nvrtc.rs", "trim_end_matches('\\0')", "the end of the compiler's message"),
    ("env_config.rs", "=> DependentLaunches::", "values of an environment variable"),
    ("gpu/launches.rs", "launch.grid.contains(&0)", "numbers of blocks"),
    ("modules.rs", "LISTED.contains(&variant)", "a set of variants, by their derived equality"),
    ("variant/gemm.rs", "modes.contains(&", "load modes, an enum"),
    ("variant/gemm.rs", "tiles().contains(&tile)", "tiles, by their addresses"),
    ("variant/gemm.rs", "outputs(operands).contains(&output)", "dtypes, an enum"),
    ("variant/gemm.rs", "loads().contains(&[a, b])", "load modes, an enum"),
    ("submit/history.rs", "names.contains(&name)", "an error names each op once"),
    ("gpu.rs", "written.contains(&binding.memory.id())", "numbers of buffers"),
    ("ops/rows/registers.rs", "names.contains(&bound.name)", "slots, an enum"),
    ("cache.rs", "end == \"cubin\"", "files of the cache"),
    ("cache.rs", "extension == \"tmp\"", "files of the cache"),
    ("files.rs", ".strip_prefix('#')", "includes of kernel sources"),
    ("files.rs", "directive.strip_prefix(\"include\")", "includes of kernel sources"),
    ("submit/errors.rs", "op == \"index\"", "the op that an error names counts from the end"),
    ("submit/queue.rs", "value != \"0\"", "an environment variable"),
    ("env_config.rs", "value != \"0\"", "environment variables"),
    ("options.rs", "value != \"0\"", "an environment variable"),
    ("adapters.rs", "\"high-performance\" =>", "an environment variable"),
    ("adapters.rs", "\"low-power\" =>", "an environment variable"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        match entry.is_dir() {
            true => sources(&entry, found),
            false if entry.extension().is_some_and(|extension| extension == "rs") => found.push(entry),
            false => {}
        }
    }
}

/// Returns the lines of a file that are compiled into the library, without comments.
fn library_lines(text: &str) -> impl Iterator<Item = &str> {
    let library = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    library.lines().map(|line| line.split("//").next().unwrap_or_default())
}

/// Returns whether a line of code compares or parses text.
fn recognizes_text(line: &str) -> bool {
    let trimmed = line.trim_start();
    // An arm of a match: `"name" =>`, `"one" | "other" =>`, `("name", 64) if`, `Some("name") =>`.
    let before_arrow = trimmed.split_once("=>").map_or("", |(pattern, _)| pattern);
    let pattern = before_arrow.split(" if ").next().unwrap_or_default();
    let is_arm = pattern.contains('"') && !pattern.contains("!(");
    let in_matches = trimmed.split_once("matches!(").is_some_and(|(_, rest)| rest.contains('"'));
    let alternatives = trimmed.starts_with('"') && trimmed.contains("\" |");
    // A range contains numbers: `(1..=8).contains(&rank)`.
    let is_range = line.contains("..") && line.contains(").contains(&");
    let marked = |mark: &&str| line.contains(*mark) && !(is_range && *mark == ".contains(&");
    is_arm || in_matches || alternatives || MARKS.iter().any(marked)
}

#[test]
fn backends_choose_by_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut found, mut used, mut text_files) = (Vec::new(), [false; ALLOWED.len()], 0);
    for package in CRATES {
        let folder = root.join(package).join("src");
        let mut files = Vec::new();
        sources(&folder, &mut files);
        files.retain(|file| !file.ends_with("tests.rs"));
        for file in files {
            let text = std::fs::read_to_string(&file).expect("UTF-8 source");
            let name = file.strip_prefix(&folder).expect("in the folder").to_string_lossy().into_owned();
            if TEXT_FILES.iter().any(|(file, _)| name == *file) {
                text_files += 1;
                continue;
            }
            for line in library_lines(&text).filter(|line| recognizes_text(line)) {
                let allowed = ALLOWED.iter().position(|(file, part, _)| name == *file && line.contains(part));
                match allowed {
                    Some(at) => used[at] = true,
                    None => found.push(format!("{package}/src/{name}: {}", line.trim())),
                }
            }
        }
    }
    assert!(found.is_empty(), "text is compared or taken apart: {found:#?}");
    assert_eq!(text_files, TEXT_FILES.len(), "a file of TEXT_FILES is no longer there");
    for (is_used, allowed) in used.iter().zip(ALLOWED) {
        assert!(is_used, "{allowed:?} is allowed, and no longer there");
    }
}

/// The files that define variants. Derived equality and hashes would compare text in their fields.
const VARIANTS: [&str; 4] = [
    "crates/backend-cuda/src/variant",
    "crates/backend-wgpu/src/names.rs",
    "crates/backend-wgpu/src/pipelines.rs",
    "crates/backend-wgpu/src/slots.rs",
];

/// Returns whether the line is a field of a struct, or an enum variant, that contains text.
fn holds_text(line: &str) -> bool {
    let line = line.trim_end();
    let Some(line) = line.strip_suffix(',') else { return false };
    let field = line.rsplit_once(": ").map(|(_, kind)| kind);
    let payload = line.strip_suffix(')').and_then(|line| line.split_once('(')).map(|(_, kind)| kind);
    // Text itself, lists of texts, and optional texts.
    let is_text = |mut kind: &str| {
        while let Some(inner) = ["Option<", "Vec<", "Cow<'static, ", "&'static ", "["]
            .iter()
            .find_map(|outer| kind.strip_prefix(outer))
        {
            kind = inner;
        }
        let end = kind.find(|c: char| !c.is_alphanumeric()).unwrap_or(kind.len());
        matches!(&kind[..end], "str" | "String") && !kind[end..].starts_with("::")
    };
    field.or(payload).is_some_and(is_text)
}

#[test]
fn variants_hold_no_text() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for path in VARIANTS.map(|path| root.join(path)) {
        if path.is_dir() { sources(&path, &mut files) } else { files.push(path) }
    }
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("UTF-8 source");
        found
            .extend(library_lines(&text).filter(|line| holds_text(line)).map(|line| line.trim().to_string()));
    }
    // The name of a tile, for messages: tiles are compared by address.
    assert_eq!(found, ["pub(crate) name: &'static str,"]);
    for line in [
        "    Unary(&'static str),",
        "    pub(crate) hole: &'static str,",
        "    name: String,",
        "    holes: [&'static str; 2],",
        "    holes: &'static [&'static str],",
        "    hole: Option<&'static str>,",
        "    hole: Cow<'static, str>,",
    ] {
        assert!(holds_text(line), "{line}");
    }
    for line in ["    Unary(UnaryFunction),", "    fn wgsl(self) -> &'static str {"] {
        assert!(!holds_text(line), "{line}");
    }
}

#[test]
fn what_recognizes_text_is_found() {
    for line in [
        "matches!(self.name, \"E12\" | \"G12\")",
        "if name == \"softmax\" {",
        "let tile = name.split(' ').next();",
        "self.name.starts_with(\"wgmma\")",
        "    \"V8\" => sizes.m <= 8,",
        "    (\"wgmma\", 64) if dropping => 3,",
        "    Some(\"rows\") => {}",
        "    \"gelu_tanh\" | \"tanh\" | \"silu\"",
    ] {
        assert!(recognizes_text(line), "{line}");
    }
    for line in [
        "UpdateRule::Sgd => \"Sgd\",",
        "Engine::Mma if is_wide => \"gemm/mma.cu\",",
        "let name = format!(\"{file} ({description})\");",
        "Source::new(\"ops/copy.cu\", &[\"tiles\", \"tiles_packed\"])",
        "matches!(self.engine, Engine::Mma | Engine::Tf32)",
    ] {
        assert!(!recognizes_text(line), "{line}");
    }
}
