//! The coverage page: facts about the table that need no run, then a column for each device.

use super::{Coverage, OpCoverage};
use crate::check::cases;
use crate::report::Check;
use crate::suite::rows_by_op;
use crate::table::{OpCase, table};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use ternion_core::DType;

const INTRODUCTION: &str = "# What runs where

Written by `cargo xtask coverage` from `coverage-*.json` next to it; `tests/coverage.rs` fails if it differs from them, or if a fresh run on the CPU does.

";

const LEGEND: &str = "
`F` forward and `B` backward, checked against the float64 oracle in every memory layout; `f` and `b` the same, composed from primitives at least in part because the device
has no kernel for it; `-` unsupported. Floats are f64, f32, f16 and bf16, integers i64, i32, i16, i8 and u8, unsigned u64, u32 and u16 (those, i16 and i8 dense and sliced only). The number is that of the cases. A dtype that is not named has no row: the op has no
meaning in it. No `B`: the op has no gradient, for the reason above. `?`: the op is newer than what was found on the device.

";

/// Returns the page for the coverage of these devices.
pub fn page(devices: &[Coverage]) -> String {
    let mut text = String::from(INTRODUCTION);
    text += &device_table(devices);
    text += &facts();
    text += &unsupported_calls(devices);
    text += "\n## Ops\n";
    text += LEGEND;
    let names: Vec<&str> = devices.iter().map(|device| device.device.as_str()).collect();
    table_line(&mut text, "op", names.into_iter());
    writeln!(text, "|---|{}", "---|".repeat(devices.len())).expect("text grows");
    for (op, _) in rows_by_op() {
        let summaries = devices.iter().map(|device| device.ops.get(op).map_or("?".to_string(), summary_of));
        table_line(&mut text, op, summaries);
    }
    text
}

fn table_line(text: &mut String, first: &str, others: impl Iterator<Item = impl AsRef<str>>) {
    write!(text, "| {first} |").expect("text grows");
    others.for_each(|other| write!(text, " {} |", other.as_ref()).expect("text grows"));
    text.push('\n');
}

/// Returns the description of each device, and how much was run on it.
fn device_table(devices: &[Coverage]) -> String {
    let mut text = String::from(
        "| device | what it is | what was run | cases | elements compared |\n|---|---|---|---:|---:|\n",
    );
    for device in devices {
        let counts = [device.cases().to_string(), device.compared.to_string()];
        let descriptions = [device.description.as_str(), device.scope.as_str()].map(str::to_string);
        table_line(&mut text, &device.device, descriptions.iter().chain(&counts));
    }
    text + "\n"
}

/// Returns a text such as `FB floats, F integers bool; 48`.
fn summary_of(op: &OpCoverage) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for dtype in DType::ALL {
        let mark = op.cells.get(dtype.name()).map(|cell| cell.mark()).unwrap_or_default();
        match groups.iter_mut().find(|(other, _)| *other == mark) {
            _ if mark.is_empty() => {}
            Some((_, dtypes)) => dtypes.push(dtype.name()),
            None => groups.push((mark, vec![dtype.name()])),
        }
    }
    let groups: Vec<String> =
        groups.into_iter().map(|(mark, dtypes)| format!("{mark} {}", families(&dtypes))).collect();
    format!("{}; {}", groups.join(", "), op.cases)
}

/// Lists dtypes: each complete family by its name, other dtypes by theirs.
fn families(dtypes: &[&str]) -> String {
    let [floats, integers, unsigned] = [
        DType::is_float as fn(DType) -> bool,
        |dtype| dtype == DType::U8 || (dtype.is_int() && !dtype.is_unsigned()),
        |dtype| dtype.is_unsigned() && dtype != DType::U8,
    ]
    .map(|is_member| {
        DType::ALL.iter().filter(|&&dtype| is_member(dtype)).map(|dtype| dtype.name()).collect::<Vec<_>>()
    });
    let mut remaining = dtypes.to_vec();
    let mut names = Vec::new();
    for (family, members) in [("floats", floats), ("integers", integers), ("unsigned", unsigned)] {
        if members.iter().all(|member| remaining.contains(member)) {
            remaining.retain(|dtype| !members.contains(dtype));
            names.push(family);
        }
    }
    names.extend(remaining);
    names.join(" ")
}

/// Returns the facts about the table that need no run.
fn facts() -> String {
    let rows = table();
    let instances: usize = rows.iter().map(|row| row.instances.len()).sum();
    let of_row = |row: &OpCase| {
        row.instances.iter().map(|instance| cases(row, Check::Forward, instance).len()).sum::<usize>()
    };
    let cases: usize = rows.iter().map(of_row).sum();
    let adversarial: usize = rows.iter().map(|row| row.adversarial.len()).sum();
    let rejects: usize = rows.iter().map(|row| row.rejects.len()).sum();
    let double_backward = rows.iter().filter(|row| row.double_backward).count();
    let ops = rows_by_op().len();
    let mut text = format!(
        "The table: {ops} ops and methods, {} rows, {instances} sets of shapes, {cases} cases (shapes x dtype x memory layout) forward; {double_backward} rows check gradients of \
         gradients; {adversarial} sets of adversarial inputs; {rejects} calls that must be rejected. `cargo test --test ops` runs all of it.\n",
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

fn unsupported_calls(devices: &[Coverage]) -> String {
    let mut text = String::new();
    for device in devices.iter().filter(|device| !device.unsupported.is_empty()) {
        write!(text, "\nNot supported by {}:\n\n", device.device).expect("text grows");
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (why, count) in &device.unsupported {
            *reasons.entry(without_op(why)).or_default() += count;
        }
        for (why, count) in reasons {
            writeln!(text, "- {why} ({count} cases)").expect("text grows");
        }
    }
    text
}

/// Removes the op from a reason that is repeated for each op: `f64: the device has no f64; exp: no
/// such floats`.
fn without_op(why: &str) -> String {
    let split = why.split_once("; ").and_then(|(head, rest)| Some((head, rest.split_once(": ")?.1)));
    split.map_or_else(|| why.to_string(), |(head, reason)| format!("{head}; {reason}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn each_device_has_a_column_below_its_description() {
        let cuda = example();
        let mut cpu = Coverage { device: "cpu".into(), ..example() };
        let exp = cpu.ops.get_mut("exp").expect("it exists");
        let cell = exp.cells["f64"];
        exp.cells = DType::ALL
            .iter()
            .filter(|&&dtype| dtype != DType::U8)
            .map(|dtype| (dtype.name().into(), cell))
            .collect();
        let page = page(&[cpu, cuda]);
        for expected in [
            "| cuda:0 | NVIDIA of \"one\", driver CUDA 13.0 | every case of the op table | 15 | 1234 |",
            "| op | cpu | cuda:0 |",
            "| exp | FB floats unsigned i64 i32 i16 i8 bool; 12 | FB f64, Fb f32, -- f16; 12 |",
            "| floor | F f32; 3 | F f32; 3 |",
            "| softmax | ? | ? |",
            "Not supported by cuda:0:",
            "- f16: the device has no f16 (4 cases)",
        ] {
            assert!(page.lines().any(|line| line == expected), "no line {expected:?} in\n{page}");
        }
    }

    #[test]
    fn a_reason_is_listed_once_for_all_ops() {
        let lacks = |op: &str| format!("f64: the device has no f64; {op}: WGSL has no 64-bit floats");
        let unsupported = [(lacks("exp"), 40), (lacks("floor"), 2), ("f16: none".into(), 1)].into();
        let page = page(&[Coverage { device: "wgpu:0".into(), unsupported, ..example() }]);
        let found: Vec<&str> = page.lines().skip_while(|line| *line != "Not supported by wgpu:0:").collect();
        let expected = [
            "",
            "- f16: none (1 cases)",
            "- f64: the device has no f64; WGSL has no 64-bit floats (42 cases)",
            "",
        ];
        assert_eq!(found[1..5], expected);
    }

    #[test]
    fn complete_dtype_families_are_listed_by_name() {
        assert_eq!(
            families(&["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"]),
            "floats integers bool"
        );
        assert_eq!(families(&["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]), "integers unsigned");
        assert_eq!(families(&["f64", "f32", "i64", "i32", "i16", "i8", "u8"]), "integers f64 f32");
    }
}
