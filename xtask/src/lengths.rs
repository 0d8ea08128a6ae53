//! Checks that no function has more than 80 lines and no file more than 600, in Rust, CUDA, WGSL
//! and Python. Tables, which may be longer, are listed. Stub files (`.pyi`) are generated and not
//! measured.

use std::path::Path;
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The maximum lines of a function, from its signature to its closing brace.
const MAX_FUNCTION_LINES: usize = 80;
/// The maximum lines of a file.
const MAX_FILE_LINES: usize = 600;

/// A function or a whole file that may be longer: a list of similar entries, whose length is the
/// number of its entries.
struct Allowed {
    file: &'static str,
    function: Option<&'static str>,
}

const fn table(file: &'static str, function: &'static str) -> Allowed {
    Allowed { file, function: Some(function) }
}

const fn table_file(file: &'static str) -> Allowed {
    Allowed { file, function: None }
}

const ALLOWED: &[Allowed] = &[
    // Rows of the op table.
    table_file("crates/testing/src/cases/binary.rs"),
    table_file("crates/testing/src/cases/reduce.rs"),
    table_file("crates/testing/src/cases/unary.rs"),
    table("crates/testing/src/cases/indexing.rs", "tensors"),
    table("crates/testing/src/cases/indexing.rs", "masks"),
    table("crates/testing/src/cases/loss.rs", "cross_entropies"),
    table("crates/testing/src/cases/loss.rs", "elementwise"),
    table("crates/testing/src/cases/matmul.rs", "epilogues"),
    table("crates/testing/src/cases/matmul.rs", "derived"),
    table("crates/testing/src/cases/norm.rs", "gradients"),
    table("crates/testing/src/cases/random.rs", "floats"),
    table("crates/testing/src/cases/softmax.rs", "rows"),
    table("crates/testing/src/cases/step.rs", "sgd"),
    table("crates/testing/src/cases/unary.rs", "functions"),
    // The possible values of each placeholder of a shader.
    table_file("crates/backend-wgpu/src/names.rs"),
];

/// A function or file with its length.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Measured {
    file: String,
    function: Option<String>,
    line: usize,
    lines: usize,
}

impl Measured {
    fn is_too_long(&self) -> bool {
        let limit = if self.function.is_some() { MAX_FUNCTION_LINES } else { MAX_FILE_LINES };
        self.lines > limit
    }

    fn is(&self, allowed: &Allowed) -> bool {
        self.file == allowed.file && self.function.as_deref() == allowed.function
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.function {
            Some(function) => write!(
                out,
                "{}:{}: `{function}` has {} lines, expected at most {MAX_FUNCTION_LINES}",
                self.file, self.line, self.lines
            ),
            None => write!(out, "{}: {} lines, expected at most {MAX_FILE_LINES}", self.file, self.lines),
        }
    }
}

/// Measures every source file of the repository.
///
/// # Errors
/// Something is too long and not allowed to be, or is allowed to be too long and is not.
pub fn run(root: &Path) -> Result<(), String> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let files = crate::bundle::output(&mut list, "git ls-files")?;
    let mut measured = Vec::new();
    // A removed file is listed until the removal is committed.
    for file in files.lines().filter(|file| root.join(file).is_file()) {
        let Some(language) = Language::of(file) else { continue };
        let text = std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
        measured.extend(measure(file, &text, language)?);
    }
    let faults = faults(&measured, ALLOWED);
    println!("{} files and functions, {} of them tables that are longer", measured.len(), ALLOWED.len());
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn faults(measured: &[Measured], allowed: &[Allowed]) -> Vec<String> {
    let is_allowed = |long: &Measured| allowed.iter().any(|allowed| long.is(allowed));
    let long: Vec<&Measured> = measured.iter().filter(|measured| measured.is_too_long()).collect();
    let too_long = long.iter().filter(|long| !is_allowed(long)).map(ToString::to_string);
    let unused = allowed.iter().filter(|allowed| !long.iter().any(|long| long.is(allowed)));
    let stale = unused.map(|allowed| {
        let function = allowed.function.map(|name| format!(" `{name}`")).unwrap_or_default();
        format!("{}{function} is not too long: take it off the list in xtask/src/lengths.rs", allowed.file)
    });
    too_long.chain(stale).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    /// CUDA and WGSL: functions with bodies in braces, and `//` comments.
    Braces,
    /// Functions are `def` lines and the lines indented below them.
    Python,
}

impl Language {
    fn of(file: &str) -> Option<Language> {
        match Path::new(file).extension()?.to_str()? {
            "rs" => Some(Language::Rust),
            "cu" | "cuh" | "wgsl" => Some(Language::Braces),
            "py" => Some(Language::Python),
            _ => None,
        }
    }
}

/// Measures the file itself and every function in it.
fn measure(file: &str, text: &str, language: Language) -> Result<Vec<Measured>, String> {
    let mut found = match language {
        Language::Rust => {
            let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
            let mut functions = Functions::default();
            functions.visit_file(&parsed);
            functions.found
        }
        Language::Braces => functions_in_braces(text).map_err(|error| format!("{file}: {error}"))?,
        Language::Python => functions_of_python(text),
    };
    found.push(Measured { file: String::new(), function: None, line: 1, lines: text.lines().count() });
    found.iter_mut().for_each(|measured| measured.file = file.to_string());
    Ok(found)
}

#[derive(Default)]
struct Functions {
    found: Vec<Measured>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        let function = Some(signature.ident.to_string());
        self.found.push(Measured { file: String::new(), function, line: first, lines: last + 1 - first });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

/// Returns the functions of CUDA C++ or WGSL: blocks after a parenthesis, outside of any function.
/// Macros are ignored, except for the blocks that WGSL inlines into functions.
///
/// # Errors
/// Braces do not match. With conditional lines, where each alternative opens a brace, the end of a
/// function would not be found.
fn functions_in_braces(text: &str) -> Result<Vec<Measured>, String> {
    let (mut found, text) = inlined_blocks(text);
    // The text before a brace; and for each open block, the function that it is the body of.
    let (mut header, mut header_line) = (String::new(), 1);
    let mut open: Vec<Option<(String, usize)>> = Vec::new();
    for (number, line) in without_comments_and_macros(&text).iter().enumerate() {
        for letter in line.chars().chain(['\n']) {
            match letter {
                '{' => {
                    let outside = open.iter().all(Option::is_none);
                    let name = outside.then(|| function_name(&header)).flatten();
                    open.push(name.map(|name| (name, header_line)));
                    header.clear();
                }
                '}' => {
                    let closed =
                        open.pop().ok_or_else(|| format!("line {}: no brace is open", number + 1))?;
                    if let Some((name, first)) = closed {
                        let lines = number + 2 - first;
                        found.push(Measured {
                            file: String::new(),
                            function: Some(name),
                            line: first,
                            lines,
                        });
                    }
                    header.clear();
                }
                ';' => header.clear(),
                _ if header.is_empty() && letter.is_whitespace() => {}
                _ => {
                    if header.is_empty() {
                        header_line = number + 1;
                    }
                    header.push(letter);
                }
            }
        }
    }
    match open.len() {
        0 => Ok(found),
        missing => Err(format!("{missing} braces are not closed")),
    }
}

/// Returns each block from `#block name` to its `#end` in WGSL as a function, and the text with
/// empty lines instead of these blocks.
fn inlined_blocks(text: &str) -> (Vec<Measured>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    // Name and first line of the block, and how many `#end` are missing.
    let mut open: Option<(&str, usize, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let code = line.trim();
        open = match open {
            None => {
                let name = code.strip_prefix("#block ");
                rest.push_str(if name.is_some() { "" } else { line });
                name.map(|name| (name, number + 1, 1))
            }
            Some((name, first, 1)) if code == "#end" => {
                found.push(Measured {
                    file: String::new(),
                    function: Some(name.to_string()),
                    line: first,
                    lines: number + 2 - first,
                });
                None
            }
            Some((name, first, missing)) => {
                let opened = usize::from(code.starts_with("#repeat ") || code.starts_with("#block "));
                Some((name, first, missing + opened - usize::from(code == "#end")))
            }
        };
        rest.push('\n');
    }
    (found, rest)
}

/// Returns the functions of Python, including nested ones: from `def` to the last line that is
/// indented deeper.
fn functions_of_python(text: &str) -> Vec<Measured> {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let code = code.strip_prefix("async ").unwrap_or(code);
        let Some((name, _)) = code.strip_prefix("def ").and_then(|rest| rest.split_once('(')) else {
            continue;
        };
        // A signature of several lines ends with a `)` that is indented like its `def`.
        let belongs = |below: &&&str| {
            let deeper = indentation(below) > indentation(line);
            below.is_empty() || deeper || below.trim_start().starts_with(')')
        };
        let body = lines[number + 1..].iter().take_while(belongs).collect::<Vec<_>>();
        let length = body.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        found.push(Measured {
            file: String::new(),
            function: Some(name.to_string()),
            line: number + 1,
            lines: length + 1,
        });
    }
    found
}

/// Returns the name before the first parenthesis, ignoring template arguments and attributes.
fn function_name(header: &str) -> Option<String> {
    // `__launch_bounds__(256)` and WGSL's `@workgroup_size(64)` come before the name.
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = header;
    while let Some((before, after)) = rest.split_once('(') {
        let name = before.trim_end().rsplit(|letter| !is_name(letter)).next().unwrap_or_default();
        let attribute = name.starts_with("__") || before.trim_end().ends_with(&format!("@{name}"));
        if !attribute && !name.is_empty() {
            return Some(name.to_string());
        }
        rest = after;
    }
    None
}

/// Returns the lines of a text, where comments and preprocessor lines are empty.
fn without_comments_and_macros(text: &str) -> Vec<String> {
    let (mut in_comment, mut in_macro) = (false, false);
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_macro = in_macro || (!in_comment && line.trim_start().starts_with('#'));
        in_macro = is_macro && line.ends_with('\\');
        let mut code = String::new();
        let mut rest = if is_macro { "" } else { line };
        while !rest.is_empty() {
            if in_comment {
                let Some((_, after)) = rest.split_once("*/") else { break };
                (in_comment, rest) = (false, after);
            } else {
                let end = [rest.find("//"), rest.find("/*")].into_iter().flatten().min();
                code.push_str(&rest[..end.unwrap_or(rest.len())]);
                let comment = &rest[end.unwrap_or(rest.len())..];
                in_comment = comment.starts_with("/*");
                rest = if in_comment { &comment[2..] } else { "" };
            }
        }
        lines.push(code);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str, language: Language) -> Vec<(Option<String>, usize)> {
        let found = measure("a", text, language).expect("parses");
        found.into_iter().map(|measured| (measured.function, measured.lines)).collect()
    }

    fn named(name: &str, lines: usize) -> (Option<String>, usize) {
        (Some(name.to_string()), lines)
    }

    #[test]
    fn functions_of_rust_are_measured() {
        let text = "/// A comment.\n#[inline]\npub fn one() {\n}\nimpl A {\n    fn two(\n        &self,\n    ) {}\n}\n\
                    trait B {\n    fn none();\n    fn three() {\n        fn four() {}\n    }\n}\n";
        let expected = [
            named("one", 2),
            named("two", 3),
            named("three", 3),
            named("four", 1),
            (None, text.lines().count()),
        ];
        assert_eq!(lengths(text, Language::Rust), expected);
    }

    #[test]
    fn functions_of_cuda_and_wgsl_are_measured() {
        let cuda = "#define BODY(x) { \\\n    x; }\n// void not_this() {\nstruct A {\n    int a;\n    __device__ int get() {\n\
                    if (a) { /* { */\n        }\n    }\n};\ntemplate <int N>\n__global__ void __launch_bounds__(64)\n\
                    kernel(const A a) {\n}\nint array[2] = {1, 2};\n";
        assert_eq!(lengths(cuda, Language::Braces), [named("get", 4), named("kernel", 4), (None, 15)]);
        let wgsl = "struct P { a: u32 }\n@compute @workgroup_size(64)\nfn main(@builtin(x) id: u32) {\n  if (a) {\n  }\n}\n";
        assert_eq!(lengths(wgsl, Language::Braces), [named("main", 5), (None, 6)]);
    }

    #[test]
    fn blocks_of_wgsl_are_measured_as_functions_are() {
        let wgsl = "// Some.\n#block sums\n#repeat i 4\n    for (var j = 0u; j < 4u; j += 1u) {\n    }\n#end\n#end\n\n\
                    fn main() {\n#inline sums\n}\n";
        assert_eq!(lengths(wgsl, Language::Braces), [named("sums", 6), named("main", 3), (None, 11)]);
    }

    #[test]
    fn braces_that_do_not_match_are_an_error() {
        let error = |text: &str| measure("a", text, Language::Braces).expect_err("braces do not match");
        // After preprocessing, only one of the two is left.
        let alternatives = "fn main() {\n#repeat one ONE\n  if (a) {\n#end\n#repeat other 1-ONE\n  while (a) {\n#end\n  }\n}\n";
        assert_eq!(error(alternatives), "a: 1 braces are not closed");
        assert_eq!(error("fn main() {\n}\n}\n"), "a: line 3: no brace is open");
    }

    #[test]
    fn functions_of_python_are_measured() {
        let text = "class A:\n    def one(\n        self,\n    ) -> int:\n        return 1\n\n    x = 2\n\n\n\
                    async def two(a):\n    def three():\n        pass\n\n    return three\n\n\nfour = 4\n";
        let expected = [named("one", 4), named("two", 5), named("three", 2), (None, 17)];
        assert_eq!(lengths(text, Language::Python), expected);
    }

    #[test]
    fn what_is_too_long_must_be_listed_and_nothing_else() {
        let measured = |function: Option<&str>, lines| Measured {
            file: "a.rs".into(),
            function: function.map(str::to_string),
            line: 7,
            lines,
        };
        let found = [measured(Some("long"), 81), measured(Some("short"), 80), measured(None, 601)];
        assert_eq!(
            faults(&found, &[]),
            ["a.rs:7: `long` has 81 lines, expected at most 80", "a.rs: 601 lines, expected at most 600"]
        );
        assert_eq!(faults(&found, &[table("a.rs", "long"), table_file("a.rs")]), Vec::<String>::new());
        let stale = faults(&found[1..2], &[table("a.rs", "short")]);
        assert!(stale.len() == 1 && stale[0].starts_with("a.rs `short` is not too long"), "{stale:?}");
    }
}
