//! The coverage page: which op runs in which dtype on which device, forward and backward, and why not where it does not.
//!
//! Each cell is what a run found, not what a backend claims: the op's rows on their smallest shapes, in every memory layout. A page holds one section for each
//! device, so that those of devices that are not at hand stay as they were.

use crate::case::arrangements;
use crate::check::{Filter, Target, check_row};
use crate::report::{Check, Outcome};
use crate::suite::rows_by_op;
use crate::table::{OpCase, table};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use ternion_core::DType;

/// What was found in one direction of an op in one dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Nothing to run: no row in this dtype, or no gradient by nature.
    Absent,
    /// The device runs none of it.
    No,
    /// It runs, composed from primitives at least in part.
    Composed,
    /// It runs, every op by a kernel of the device.
    Kernels,
}

impl Support {
    fn mark(self, forward: bool) -> &'static str {
        match (self, forward) {
            (Support::Absent, _) => "",
            (Support::No, _) => "-",
            (Support::Composed, true) => "f",
            (Support::Composed, false) => "b",
            (Support::Kernels, true) => "F",
            (Support::Kernels, false) => "B",
        }
    }
}

/// A cell of the page: forward and backward.
pub type Cell = (Support, Support);

/// What was found on one device.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The device's name.
    pub device: String,
    /// Op and dtype to what was found.
    pub cells: BTreeMap<(String, &'static str), Cell>,
    /// Ops in the table's order.
    pub ops: Vec<&'static str>,
    /// Elements compared.
    pub compared: usize,
    /// Why something did not run: reason and cases.
    pub skipped: BTreeMap<String, usize>,
    /// Cases that ran and were wrong.
    pub failures: Vec<String>,
}

/// Runs every row on its smallest shapes in every dtype, forward and backward.
pub fn measure(target: &Target) -> Coverage {
    let mut coverage = Coverage { device: target.device.name().to_string(), ..Coverage::default() };
    for (op, rows) in rows_by_op() {
        coverage.ops.push(op);
        for dtype in DType::ALL {
            let rows: Vec<OpCase> = rows
                .iter()
                .filter(|row| row.dtypes.contains(&dtype))
                .filter_map(|row| smallest_in(row, dtype))
                .collect();
            let forward = coverage.run(&rows, Check::Forward, target);
            let with_gradient: Vec<OpCase> =
                rows.into_iter().filter(|row| row.forward_only.is_none() && row.has_gradient()).collect();
            let backward = coverage.run(&with_gradient, Check::Backward, target);
            coverage.cells.insert((op.to_string(), dtype.name()), (forward, backward));
        }
    }
    coverage
}

fn smallest_in(row: &OpCase, dtype: DType) -> Option<OpCase> {
    let mut row = row.smallest();
    row.dtypes = vec![dtype];
    (!row.instances.is_empty()).then_some(row)
}

impl Coverage {
    /// What the rows find together: the least of them.
    fn run(&mut self, rows: &[OpCase], check: Check, target: &Target) -> Support {
        let found = rows.iter().filter_map(|row| {
            let outcome = check_row(row, check, target, &Filter::default());
            // A row of empty tensors alone compares nothing, and says nothing of support.
            let empty = outcome.compared == 0 && outcome.skipped.is_empty();
            let support = (!empty).then(|| support(&outcome));
            self.compared += outcome.compared;
            for (why, count) in outcome.skipped {
                *self.skipped.entry(why).or_default() += count;
            }
            self.failures.extend(outcome.failures.iter().map(ToString::to_string));
            support
        });
        found.min().unwrap_or(Support::Absent)
    }

    /// The section of the page for this device.
    pub fn section(&self) -> String {
        let dtypes: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        let mut text = format!("## {}\n\n", self.device);
        writeln!(text, "{} elements compared.\n", self.compared).expect("text grows");
        writeln!(text, "| op | {} |", dtypes.join(" | ")).expect("text grows");
        writeln!(text, "|---|{}", "---|".repeat(dtypes.len())).expect("text grows");
        for op in &self.ops {
            let cells: Vec<String> = dtypes.iter().map(|dtype| self.cell(op, dtype)).collect();
            writeln!(text, "| {op} | {} |", cells.join(" | ")).expect("text grows");
        }
        if !self.skipped.is_empty() {
            text += "\nDid not run:\n\n";
            for (why, count) in &self.skipped {
                writeln!(text, "- {why} ({count} cases)").expect("text grows");
            }
        }
        text
    }

    fn cell(&self, op: &str, dtype: &'static str) -> String {
        let (forward, backward) =
            self.cells.get(&(op.to_string(), dtype)).copied().unwrap_or((Support::Absent, Support::Absent));
        format!("{}{}", forward.mark(true), backward.mark(false))
    }
}

fn support(outcome: &Outcome) -> Support {
    match outcome.compared {
        0 => Support::No,
        _ if outcome.trace.composed.is_empty() => Support::Kernels,
        _ => Support::Composed,
    }
}

/// The page: what does not depend on a device, then the sections.
pub fn page(sections: &BTreeMap<String, String>) -> String {
    let mut text = String::from(INTRODUCTION);
    text += &facts();
    for section in sections.values() {
        text += "\n";
        text += section;
    }
    text
}

const INTRODUCTION: &str = "# What runs where

Written by `cargo xtask coverage`; `tests/coverage.rs` fails if it differs from a fresh run.

`F` forward and `B` backward, checked against the float64 oracle in every memory layout; `f` and `b` the same, composed from primitives at least in part because the device
has no kernel for it; `-` not supported. An empty cell has no row: the op has no meaning in that dtype. No `B`: the op has no gradient, for the reason below.
The cells show each row of the op table on its smallest shapes; `cargo test --test ops` runs all of them.

";

/// What can be told of the table without running it.
fn facts() -> String {
    let rows = table();
    let instances: usize = rows.iter().map(|row| row.instances.len()).sum();
    let layouts =
        |row: &OpCase| row.instances.iter().map(|instance| arrangements(row, instance).len()).sum::<usize>();
    let cases: usize = rows.iter().map(|row| layouts(row) * row.dtypes.len()).sum();
    let hostile: usize = rows.iter().map(|row| row.hostile.len()).sum();
    let rejects: usize = rows.iter().map(|row| row.rejects.len()).sum();
    let twice = rows.iter().filter(|row| row.twice).count();
    let ops = rows_by_op().len();
    let mut text = format!(
        "{ops} ops and methods, {} rows, {instances} sets of shapes, {cases} cases (shapes x dtype x memory layout); {twice} rows check gradients of gradients; \
         {hostile} sets of hostile inputs; {rejects} calls that must be rejected.\n",
        rows.len()
    );
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in &rows {
        if let Some(why) = row.forward_only {
            reasons.entry(why).or_default().insert(row.op);
        }
    }
    text += "\nForward only:\n\n";
    for (why, ops) in reasons {
        writeln!(text, "- {why}: {}", ops.into_iter().collect::<Vec<_>>().join(", ")).expect("text grows");
    }
    text
}

/// The sections of a page by device.
pub fn sections(page: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut device: Option<String> = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            device = Some(name.to_string());
        }
        if let Some(device) = &device {
            let section = found.entry(device.clone()).or_default();
            section.push_str(line);
            section.push('\n');
        }
    }
    for section in found.values_mut() {
        section.truncate(section.trim_end().len());
        section.push('\n');
    }
    found
}

/// Cells in which `after` shows less support than `before`: op, dtype number, and both.
pub fn shrunk(before: &str, after: &str) -> Vec<String> {
    let (before, after) = (cells(before), cells(after));
    let rank = |cell: &str| (cell.contains(['F', 'f']), cell.contains(['B', 'b']));
    let mut lost = Vec::new();
    for ((op, dtype), was) in before {
        let now = after.get(&(op.clone(), dtype.clone())).map_or("nothing", String::as_str);
        let ((was_forward, was_backward), (forward, backward)) = (rank(&was), rank(now));
        if (was_forward && !forward) || (was_backward && !backward) {
            lost.push(format!("{op} {dtype}: was {was}, now {now}"));
        }
    }
    lost
}

fn cells(section: &str) -> BTreeMap<(String, String), String> {
    let row = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
    };
    let mut lines = section.lines().filter(|line| line.starts_with("| "));
    let header = lines.next().map(row).unwrap_or_default();
    let mut found = BTreeMap::new();
    for line in lines {
        let cells = row(line);
        for (dtype, cell) in header.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            found.insert((cells[0].clone(), dtype.clone()), cell.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# What\n\ntext\n\n## cpu\n\n| op | f64 | f32 |\n|---|---|---|\n| exp | FB | FB |\n| floor | F |  |\n\n## cuda:0\n\n| op | f64 |\n|---|---|\n| exp | - |\n";

    #[test]
    fn a_page_falls_into_sections() {
        let found = sections(PAGE);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["cpu", "cuda:0"]);
        assert!(found["cpu"].starts_with("## cpu\n\n| op |") && found["cpu"].ends_with("| floor | F |  |\n"));
    }

    #[test]
    fn lost_support_is_named() {
        let before = &sections(PAGE)["cpu"];
        assert!(shrunk(before, before).is_empty());
        assert!(shrunk(before, &before.replace("FB", "fb")).is_empty(), "a composition is support too");
        assert_eq!(
            shrunk(before, &before.replace("| exp | FB | FB |", "| exp | FB | F |")),
            ["exp f32: was FB, now F"]
        );
        assert_eq!(
            shrunk(before, &before.replace("| floor | F |", "| floor | - |")),
            ["floor f64: was F, now -"]
        );
    }
}
