//! The coverage of a device as a file: JSON with a line for each op.

use super::{Cell, Coverage, OpCoverage, Support};
use crate::suite::Shard;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use ternion_core::DType;

impl Cell {
    /// Returns the printed mark: `FB` for kernels, `fb` for compositions, `-` for unsupported; a
    /// single letter if only one direction exists.
    pub fn mark(self) -> String {
        let mark = |support, by_kernels, composed| match support {
            Support::Absent => "",
            Support::No => "-",
            Support::Composed => composed,
            Support::Kernels => by_kernels,
        };
        format!("{}{}", mark(self.forward, "F", "f"), mark(self.backward, "B", "b"))
    }

    fn from_mark(mark: &str) -> Option<Cell> {
        let mut cell = Cell::default();
        for letter in mark.chars() {
            match letter {
                'F' => cell.forward = Support::Kernels,
                'f' => cell.forward = Support::Composed,
                'B' => cell.backward = Support::Kernels,
                'b' => cell.backward = Support::Composed,
                '-' if cell.forward == Support::Absent => cell.forward = Support::No,
                '-' => cell.backward = Support::No,
                _ => return None,
            }
        }
        (!mark.is_empty()).then_some(cell)
    }
}

impl Coverage {
    /// Returns the contents of the file, in which a shard of the table is named `part`.
    pub fn to_json(&self) -> String {
        let head = [
            ("device", json!(self.device)),
            ("description", json!(self.description)),
            ("scope", json!(self.scope)),
            ("compared", json!(self.compared)),
            ("unsupported", json!(self.unsupported)),
        ];
        let part = (!self.shard.is_full()).then(|| ("part", json!(self.shard.to_string())));
        let head: String =
            head.iter().chain(&part).map(|(key, value)| format!("  \"{key}\": {value},\n")).collect();
        let ops: Vec<String> =
            self.ops.iter().map(|(name, op)| format!("    {}", op_line(name, op))).collect();
        format!("{{\n{head}  \"ops\": {{\n{}\n  }}\n}}\n", ops.join(",\n"))
    }

    /// Parses the output of [`to_json`](Coverage::to_json).
    ///
    /// # Errors
    /// Returns how `text` differs from that format.
    pub fn from_json(text: &str) -> Result<Coverage, String> {
        let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let missing = |what: &str| format!("{what} is missing or of another kind");
        let word = |key: &str| all[key].as_str().map(str::to_string).ok_or_else(|| missing(key));
        let object = |key: &str| all[key].as_object().ok_or_else(|| missing(key));
        let count = |what: &str, value: &Value| {
            value.as_u64().and_then(|count| usize::try_from(count).ok()).ok_or_else(|| missing(what))
        };
        let unsupported =
            object("unsupported")?.iter().map(|(why, cases)| Ok((why.clone(), count(why, cases)?)));
        let op = |(name, op): (&String, &Value)| {
            let cells = op["dtypes"].as_object().ok_or_else(|| missing(&format!("dtypes of {name}")))?;
            let cases = count(&format!("cases of {name}"), &op["cases"])?;
            Ok((name.clone(), OpCoverage { cases, cells: cells_of(name, cells)? }))
        };
        Ok(Coverage {
            device: word("device")?,
            description: word("description")?,
            scope: word("scope")?,
            shard: if all["part"].is_null() { Shard::default() } else { word("part")?.parse()? },
            compared: count("compared", &all["compared"])?,
            unsupported: unsupported.collect::<Result<_, String>>()?,
            ops: object("ops")?.iter().map(op).collect::<Result<_, String>>()?,
            failures: Vec::new(),
        })
    }

    /// Returns the name of this device's file: `coverage-cuda.json` for `cuda:0`;
    /// `coverage-cuda-2-of-12.json` for a shard.
    pub fn file_name(&self) -> String {
        let kind = self.device.split(':').next().unwrap_or_default();
        match self.shard {
            shard if shard.is_full() => format!("coverage-{kind}.json"),
            shard => format!("coverage-{kind}-{}-of-{}.json", shard.number(), shard.count()),
        }
    }
}

/// Returns `"exp": {"cases": 12, "dtypes": {"f64": "FB", ..}}` with the dtypes in their usual
/// order.
fn op_line(name: &str, op: &OpCoverage) -> String {
    let cells = DType::ALL.iter().filter_map(|dtype| Some((dtype.name(), op.cells.get(dtype.name())?)));
    let cells: Vec<String> = cells
        .filter(|(_, cell)| **cell != Cell::default())
        .map(|(dtype, cell)| format!("\"{dtype}\": \"{}\"", cell.mark()))
        .collect();
    format!("{}: {{\"cases\": {}, \"dtypes\": {{{}}}}}", json!(name), op.cases, cells.join(", "))
}

fn cells_of(op: &str, dtypes: &Map<String, Value>) -> Result<BTreeMap<String, Cell>, String> {
    let cell = |(dtype, mark): (&String, &Value)| match mark.as_str().and_then(Cell::from_mark) {
        Some(cell) => Ok((dtype.clone(), cell)),
        None => Err(format!("{op} {dtype}: expected letters such as FB, got {mark}")),
    };
    dtypes.iter().map(cell).collect()
}

/// Reads the devices of all files `coverage-*.json` in `folder`, by name.
///
/// # Errors
/// A folder or file that cannot be read, or a file with other contents.
pub fn read_folder(folder: &Path) -> Result<Vec<Coverage>, String> {
    let with_path = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| with_path(folder, &error))? {
        let path = entry.map_err(|error| with_path(folder, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("coverage-") && name.ends_with(".json") {
            files.push(path);
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| with_path(path, &error))?;
        Coverage::from_json(&text).map_err(|error| with_path(path, &error))
    };
    files.iter().map(read).collect()
}

/// Writes the device's file to `folder` and returns its path.
///
/// # Errors
/// Wrong cases: such a file would claim support that does not exist. A folder that cannot be
/// written.
pub fn write_file(folder: &Path, coverage: &Coverage) -> Result<PathBuf, String> {
    if !coverage.failures.is_empty() {
        let (count, device) = (coverage.failures.len(), &coverage.device);
        return Err(format!("{count} cases are wrong on {device}:\n{}", coverage.failures.join("\n")));
    }
    let path = folder.join(coverage.file_name());
    write_text(&path, &coverage.to_json())?;
    Ok(path)
}

/// Writes a file atomically: it is replaced completely or not at all.
///
/// # Errors
/// A folder that cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), String> {
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        // Removes the temporary file if it exists. The first error is returned whether or not this
        // succeeds.
        let _ = std::fs::remove_file(&temporary);
        format!("{}: {error}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_file_lists_the_measured_coverage() {
        let coverage = example();
        let text = coverage.to_json();
        assert_eq!(Coverage::from_json(&text), Ok(coverage));
        let line = r#"    "exp": {"cases": 12, "dtypes": {"f64": "FB", "f32": "Fb", "f16": "--"}},"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    #[test]
    fn a_shard_has_a_separate_file() {
        let shard = Coverage { shard: Shard::new(2, 12).expect("there are twelve"), ..example() };
        assert_eq!(shard.file_name(), "coverage-cuda-2-of-12.json");
        assert_eq!(example().file_name(), "coverage-cuda.json");
        let text = shard.to_json();
        assert_eq!(Coverage::from_json(&text), Ok(shard));
        let error = Coverage::from_json(&text.replace("2/12", "13/12")).expect_err("there are twelve");
        assert_eq!(error, "expected a part and how many there are, as in 2/12; got \"13/12\"");
    }

    #[test]
    fn errors_name_what_a_file_lacks() {
        let text = example().to_json();
        let error_of = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Coverage::from_json(&text.replace(from, to)).expect_err("it is broken")
        };
        assert_eq!(error_of("\"scope\"", "\"range\""), "scope is missing or of another kind");
        assert_eq!(
            error_of("\"cases\": 12", "\"cases\": \"many\""),
            "cases of exp is missing or of another kind"
        );
        assert_eq!(error_of("\"Fb\"", "\"X\""), "exp f32: expected letters such as FB, got \"X\"");
        assert!(error_of("{\n", "[").contains("line 1"), "no JSON");
    }

    #[test]
    fn files_are_read_back_by_device_and_failures_are_not_written() {
        let folder = std::env::temp_dir().join(format!("ternion-coverage-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let mut cpu = Coverage { device: "cpu".into(), ..example() };
        for coverage in [example(), cpu.clone()] {
            let path = write_file(&folder, &coverage).expect("the folder can be written");
            assert!(path.ends_with(if coverage.device == "cpu" {
                "coverage-cpu.json"
            } else {
                "coverage-cuda.json"
            }));
        }
        cpu.failures.push("exp [2] f32 dense".into());
        let rejection = write_file(&folder, &cpu);
        let found = read_folder(&folder);
        std::fs::remove_dir_all(&folder).expect("it exists");
        assert_eq!(rejection, Err("1 cases are wrong on cpu:\nexp [2] f32 dense".into()));
        let names: Vec<String> = found.expect("two files").into_iter().map(|one| one.device).collect();
        assert_eq!(names, ["cpu", "cuda:0"]);
        assert!(
            read_folder(&folder).is_err_and(|error| error.contains("ternion-coverage-")),
            "no such folder"
        );
    }
}
