//! The imports between files and crates: reads the `use` declarations and paths of all crates,
//! prints files, levels and cycles, draws the picture of crates and writes the table in
//! ARCHITECTURE.md.
//!
//! An edge leads from the file that mentions a path to the file that defines the item; re-exports
//! are followed. Code that is compiled only for tests is ignored.

mod graph;
mod picture;
mod resolve;
mod source;
#[cfg(test)]
mod tests;

use graph::Graph;
use picture::{Group, Label};
use resolve::Imports;
use serde_json::Value;
use source::Source;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum number of files in a cycle within a backend. A cycle must be read like one file: no
/// part of it can be understood, tested or replaced without the rest. Ten files of usual length can
/// be read in one session; the cycles that led to this limit had 26 to 37.
const MAX_CYCLE: usize = 10;

const PICTURE: &str = "docs/architecture/crates.svg";
const PAGE: &str = "ARCHITECTURE.md";
const TABLE_START: &str = "<!-- imports:start (cargo xtask imports) -->\n";
const TABLE_END: &str = "<!-- imports:end -->";

/// Whether the files of the repository are written or compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Write,
    Check,
}

/// A member of the workspace.
#[derive(Debug, Clone)]
struct Package {
    name: String,
    /// Its name in code.
    code_name: String,
    /// The path relative to the repository.
    folder: PathBuf,
    /// The root file of its module tree.
    root_file: PathBuf,
}

/// A package with its files and edges.
struct Crate {
    package: Package,
    source: Source,
    imports: Imports,
}

/// Reads the workspace at `root`, prints what it found, and writes or checks the picture and the
/// table.
///
/// # Errors
/// The source cannot be read, or there is a cycle between crates. In check mode also: the picture
/// or the table is outdated, or a cycle in a backend is too large.
pub fn run(root: &Path, mode: Mode) -> Result<(), String> {
    let crates = read_crates(packages(root)?)?;
    crates.iter().for_each(|found| print!("{}", report(found)));
    let graph = between_crates(&crates);
    if let Some(cycle) = graph.cycles().first() {
        let names: Vec<&str> = cycle.iter().map(|&index| crates[index].package.name.as_str()).collect();
        return Err(format!("imports: the crates {} import each other", names.join(", ")));
    }
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let page = with_table(&page, &table(&crates, &graph))?;
    let picture = picture::svg(&graph.reduced(), &labels(&crates));
    let current = [(PICTURE, picture), (PAGE, page)];
    match mode {
        Mode::Write => current.iter().try_for_each(|(file, text)| write_file(&root.join(file), text)),
        Mode::Check => {
            current.iter().try_for_each(|(file, text)| check_file(root, file, text))?;
            reject_large_cycles(&crates)
        }
    }
}

/// Returns Cargo's list of the workspace's members.
fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let text =
        crate::bundle::output(Command::new(cargo).args(arguments).current_dir(root), "cargo metadata")?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let workspace = PathBuf::from(metadata["workspace_root"].as_str().unwrap_or_default());
    let found = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut packages =
        found.iter().map(|package| read_package(&workspace, package)).collect::<Result<Vec<_>, _>>()?;
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(packages)
}

/// Reads a package by its library, or by its program if it has no library.
fn read_package(workspace: &Path, package: &Value) -> Result<Package, String> {
    let name = package["name"].as_str().unwrap_or_default().to_string();
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_kind = |target: &Value, expected_kinds: &[&str]| {
        let kinds = target["kind"].as_array().map(Vec::as_slice).unwrap_or_default();
        kinds.iter().any(|kind| kind.as_str().is_some_and(|kind| expected_kinds.contains(&kind)))
    };
    let library = targets.iter().find(|target| is_kind(target, &["lib", "rlib", "cdylib", "proc-macro"]));
    let target = library.or_else(|| targets.iter().find(|target| is_kind(target, &["bin"])));
    let target = target.ok_or_else(|| format!("{name}: neither a library nor a program"))?;
    let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().unwrap_or(Path::new(""));
    Ok(Package {
        code_name: target["name"].as_str().unwrap_or_default().replace('-', "_"),
        folder: folder.strip_prefix(workspace).unwrap_or(folder).to_path_buf(),
        root_file: PathBuf::from(target["src_path"].as_str().unwrap_or_default()),
        name,
    })
}

fn read_crates(packages: Vec<Package>) -> Result<Vec<Crate>, String> {
    let names: BTreeSet<String> = packages.iter().map(|package| package.code_name.clone()).collect();
    packages
        .into_iter()
        .map(|package| {
            let source = Source::read(&package.root_file)?;
            let mut imports = resolve::imports(&source, &names);
            imports.crates.remove(&package.code_name);
            Ok(Crate { package, source, imports })
        })
        .collect()
}

fn between_crates(crates: &[Crate]) -> Graph {
    let mut graph = Graph::new(crates.len());
    for (from, importer) in crates.iter().enumerate() {
        for name in &importer.imports.crates {
            if let Some(to) = crates.iter().position(|imported| imported.package.code_name == *name) {
                graph.add(from, to);
            }
        }
    }
    graph
}

/// Returns the text that is printed for a crate.
fn report(found: &Crate) -> String {
    let files = &found.imports.files;
    let name = |&index: &usize| found.source.files[index].display().to_string();
    let edges: usize = files.edges.iter().map(BTreeSet::len).sum();
    let mut out = format!(
        "{}: {} files, {} levels, {edges} edges\n",
        found.package.name,
        found.source.files.len(),
        level_count(files),
    );
    for (from, to) in files.upward() {
        let _ = writeln!(out, "  up: {} -> {}", name(&from), name(&to));
    }
    for cycle in files.cycles() {
        let _ = writeln!(out, "  cycle of {}: {}", cycle.len(), names(found, &cycle));
    }
    out
}

/// Returns files of a crate, as text.
fn names(found: &Crate, files: &[usize]) -> String {
    let names: Vec<String> =
        files.iter().map(|&index| found.source.files[index].display().to_string()).collect();
    names.join(" ")
}

fn level_count(files: &Graph) -> usize {
    files.levels().iter().max().map_or(0, |top| top + 1)
}

/// Returns the table of ARCHITECTURE.md.
fn table(crates: &[Crate], graph: &Graph) -> String {
    let mut out = String::from(
        "| crate | folder | imports | files | levels | upward edges | cycles |\n|---|---|---|---|---|---|---|\n",
    );
    for (index, found) in crates.iter().enumerate() {
        let short = |&to: &usize| crates[to].package.name.trim_start_matches("ternion-").to_string();
        let imported: Vec<String> = graph.edges[index].iter().map(short).collect();
        let files = &found.imports.files;
        let cycles: Vec<String> = files.cycles().iter().map(|cycle| cycle.len().to_string()).collect();
        let or_none = |list: Vec<String>| if list.is_empty() { "none".to_string() } else { list.join(", ") };
        let _ = writeln!(
            out,
            "| `{}` | `{}` | {} | {} | {} | {} | {} |",
            found.package.name,
            display_folder(&found.package),
            or_none(imported),
            found.source.files.len(),
            level_count(files),
            files.upward().len(),
            or_none(cycles),
        );
    }
    out
}

/// Returns the folder to show. The folder of the facade is the repository itself.
fn display_folder(package: &Package) -> String {
    match package.folder.as_os_str().is_empty() {
        true => "src".into(),
        false => package.folder.display().to_string(),
    }
}

fn labels(crates: &[Crate]) -> Vec<Label> {
    let label = |found: &Crate| Label {
        title: found.package.name.clone(),
        subtitle: display_folder(&found.package),
        group: group(&found.package.folder),
    };
    crates.iter().map(label).collect()
}

fn group(folder: &Path) -> Group {
    match folder.to_str().unwrap_or_default() {
        backend if backend.starts_with("crates/backend-") => Group::Backend,
        "crates/python" => Group::Binding,
        "crates/testing" | "xtask" => Group::Tool,
        benchmark if benchmark.starts_with("benches") => Group::Tool,
        _ => Group::Library,
    }
}

/// Returns `page` with `table` between the markers.
fn with_table(page: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{PAGE}: expected a line {TABLE_START:?} and, behind it, one {TABLE_END:?}");
    let (before, rest) = page.split_once(TABLE_START).ok_or_else(missing)?;
    let (_, after) = rest.split_once(TABLE_END).ok_or_else(missing)?;
    Ok(format!("{before}{TABLE_START}{table}{TABLE_END}{after}"))
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

fn check_file(root: &Path, file: &str, current: &str) -> Result<(), String> {
    match std::fs::read_to_string(root.join(file)) {
        Ok(text) if text == current => Ok(()),
        Ok(_) => Err(format!("{file} is not what the imports are now: cargo xtask imports writes it")),
        Err(error) => Err(format!("{file}: {error}: cargo xtask imports writes it")),
    }
}

fn reject_large_cycles(crates: &[Crate]) -> Result<(), String> {
    let mut faults = Vec::new();
    for found in crates.iter().filter(|found| group(&found.package.folder) == Group::Backend) {
        for cycle in found.imports.files.cycles().iter().filter(|cycle| cycle.len() > MAX_CYCLE) {
            faults.push(format!(
                "{}: a cycle of {} files that import each other, expected at most {MAX_CYCLE}: {}",
                found.package.name,
                cycle.len(),
                names(found, cycle)
            ));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}
