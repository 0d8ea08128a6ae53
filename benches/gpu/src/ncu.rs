//! Parses the CSV output of Nsight Compute and reports it as text.
//!
//! The profiler prints two formats: wide (`--page raw`: a column for each metric, units in the
//! first row) and long (a row for each metric of each kernel). Lines of other programs may precede
//! both.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The sections that the profiler measures.
pub const SECTIONS: [&str; 6] = [
    "SpeedOfLight",
    "MemoryWorkloadAnalysis",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
];

/// How many stall reasons are reported.
const STALLS: usize = 3;

/// A number with its unit, or a string, as the profiler prints it.
#[derive(Clone, Debug, PartialEq)]
struct Metric {
    value: String,
    unit: String,
}

/// One launch of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    name: String,
    metrics: BTreeMap<String, Metric>,
}

impl Kernel {
    /// Returns the value of the first of these metrics that exists: their names differ between
    /// versions and devices.
    fn number(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| parse_number(&self.metrics.get(*name)?.value))
    }

    /// As [`number`](Kernel::number), converted to seconds, bytes, or bytes per second.
    fn scaled(&self, name: &str) -> Option<f64> {
        let metric = self.metrics.get(name)?;
        Some(parse_number(&metric.value)? * factor(&metric.unit)?)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.metrics.get(name).map(|metric| metric.value.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns the reasons why warps stalled, the most frequent first: reason and cycles per issued
    /// instruction.
    fn stalls(&self) -> Vec<(&str, f64)> {
        let reason = |name: &str| -> Option<usize> {
            name.ends_with("_per_issue_active.ratio").then_some(())?;
            name.find("_issue_stalled_").map(|at| at + "_issue_stalled_".len())
        };
        let mut stalls: Vec<(&str, f64)> = self
            .metrics
            .iter()
            .filter_map(|(name, metric)| {
                let begin = reason(name)?;
                let end = name.len() - "_per_issue_active.ratio".len();
                Some((name.get(begin..end)?, parse_number(&metric.value)?))
            })
            .collect();
        stalls.sort_by(|a, b| b.1.total_cmp(&a.1));
        stalls
    }
}

/// Parses a number that may have thousands separators.
fn parse_number(text: &str) -> Option<f64> {
    let plain: String = text.chars().filter(|c| *c != ',').collect();
    plain.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the factor that converts a unit to seconds, bytes or bytes per second: `usecond`, `us`,
/// `Gbyte/s`, `byte/second`.
fn factor(unit: &str) -> Option<f64> {
    let (base, _) = unit.split_once('/').unwrap_or((unit, ""));
    if let Some(prefix) = base.strip_suffix("byte") {
        let prefixes = [("", 1.0), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
        return prefixes.iter().find(|(name, _)| *name == prefix).map(|(_, factor)| *factor);
    }
    let prefix = ["second", "s"].into_iter().find_map(|name| base.strip_suffix(name))?;
    let prefixes = [("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9)];
    prefixes.iter().find(|(name, _)| *name == prefix).map(|(_, factor)| *factor)
}

/// Returns the kernels in the profiler's output.
///
/// # Errors
/// There is no table, or it lacks the columns that both formats have.
pub fn kernels(printed: &str) -> Result<Vec<Kernel>, String> {
    let begin = printed
        .match_indices("\"ID\"")
        .map(|(at, _)| at)
        .find(|at| *at == 0 || printed[..*at].ends_with('\n'))
        .ok_or_else(|| format!("expected a table that begins with \"ID\", got {:?}", shortened(printed)))?;
    let mut records = records(&printed[begin..]).into_iter();
    let head = records.next().unwrap_or_default();
    let column = |name: &str| head.iter().position(|title| title == name);
    let required = |name: &str| column(name).ok_or_else(|| format!("the table has no column {name:?}"));
    let (id, kernel) = (required("ID")?, required("Kernel Name")?);
    let rows: Vec<Vec<String>> = records.filter(|record| record.len() == head.len()).collect();
    match (column("Metric Name"), column("Metric Unit"), column("Metric Value")) {
        (Some(name), Some(unit), Some(value)) => Ok(read_long(&rows, [id, kernel, name, unit, value], &head)),
        _ => Ok(read_wide(&rows, id, kernel, &head)),
    }
}

/// Reads the long format: a row for each metric of each kernel.
fn read_long(rows: &[Vec<String>], columns: [usize; 5], head: &[String]) -> Vec<Kernel> {
    let [id, kernel, name, unit, value] = columns;
    let mut kernels: Vec<(String, Kernel)> = Vec::new();
    for row in rows {
        if kernels.last().is_none_or(|(last, _)| *last != row[id]) {
            let metrics = launch_columns(head, row);
            kernels.push((row[id].clone(), Kernel { name: row[kernel].clone(), metrics }));
        }
        if let Some((_, kernel)) = kernels.last_mut() {
            let metric = Metric { value: row[value].clone(), unit: row[unit].clone() };
            kernel.metrics.insert(row[name].clone(), metric);
        }
    }
    kernels.into_iter().map(|(_, kernel)| kernel).collect()
}

/// Returns grid and block, which are separate columns in the long format.
fn launch_columns(head: &[String], row: &[String]) -> BTreeMap<String, Metric> {
    let sizes = head.iter().zip(row).filter(|(name, _)| *name == "Grid Size" || *name == "Block Size");
    sizes.map(|(name, value)| (name.clone(), Metric { value: value.clone(), unit: String::new() })).collect()
}

/// Reads the wide format: a column for each metric. A row without an ID contains the units.
fn read_wide(rows: &[Vec<String>], id: usize, kernel: usize, head: &[String]) -> Vec<Kernel> {
    let none = vec![String::new(); head.len()];
    let units = rows.iter().find(|row| row[id].is_empty()).unwrap_or(&none);
    let metrics = |row: &[String]| {
        let metric = |index: usize| Metric { value: row[index].clone(), unit: units[index].clone() };
        head.iter().enumerate().map(|(index, name)| (name.clone(), metric(index))).collect()
    };
    let launches = rows.iter().filter(|row| !row[id].is_empty());
    launches.map(|row| Kernel { name: row[kernel].clone(), metrics: metrics(row) }).collect()
}

/// Parses comma-separated values according to RFC 4180: quotes may enclose commas, line ends and
/// doubled quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                field.push('"');
                characters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            '\r' if !quoted => {}
            c => field.push(c),
        }
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    records
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(300).collect()
}

/// Returns the key metrics of kernels, a paragraph for each. A metric that was not measured is a
/// dash.
pub fn report(kernels: &[Kernel]) -> String {
    let mut text = String::new();
    for kernel in kernels {
        let line = |text: &mut String, name: &str, value: String| {
            let _ = writeln!(text, "  {name:<11} {value}");
        };
        let dims = |name: &str| kernel.text(name).unwrap_or("-").to_string();
        let _ = writeln!(text, "{}  grid {}  block {}", kernel.name, dims("Grid Size"), dims("Block Size"));
        line(&mut text, "time", format!("{} us", dash(kernel.scaled("gpu__time_duration.sum"), 1e6, 2)));
        line(&mut text, "memory", memory(kernel));
        let compute = kernel.number(&["sm__throughput.avg.pct_of_peak_sustained_elapsed"]);
        line(&mut text, "arithmetic", format!("{} % of peak", dash(compute, 1.0, 1)));
        line(&mut text, "block needs", needs(kernel));
        line(&mut text, "occupancy", occupancy(kernel));
        line(&mut text, "waits for", waits(kernel));
        text.push('\n');
    }
    text
}

/// Formats a number times `factor`, or a dash.
fn dash(number: Option<f64>, factor: f64, digits: usize) -> String {
    number.map_or("-".into(), |number| format!("{:.digits$}", number * factor))
}

fn memory(kernel: &Kernel) -> String {
    let names = [
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ];
    let rate = kernel.scaled("dram__bytes.sum.per_second");
    format!("{} % of peak, {} GB/s", dash(kernel.number(&names), 1.0, 1), dash(rate, 1e-9, 0))
}

fn needs(kernel: &Kernel) -> String {
    let shared = |kind: &str| kernel.scaled(&format!("launch__shared_mem_per_block_{kind}"));
    format!(
        "{} registers a thread, {} + {} bytes of shared memory (static + dynamic)",
        dash(kernel.number(&["launch__registers_per_thread"]), 1.0, 0),
        dash(shared("static"), 1.0, 0),
        dash(shared("dynamic"), 1.0, 0)
    )
}

fn occupancy(kernel: &Kernel) -> String {
    let achieved = kernel.number(&["sm__warps_active.avg.pct_of_peak_sustained_active"]);
    let possible = kernel.number(&["sm__maximum_warps_per_active_cycle_pct"]);
    let waves = kernel.number(&["launch__waves_per_multiprocessor"]);
    format!(
        "{} % of {} % possible, {} waves",
        dash(achieved, 1.0, 1),
        dash(possible, 1.0, 1),
        dash(waves, 1.0, 2)
    )
}

fn waits(kernel: &Kernel) -> String {
    let stalls = kernel.stalls();
    let reasons = stalls.iter().take(STALLS).map(|(reason, cycles)| format!("{reason} {cycles:.2}"));
    let reasons: Vec<String> = reasons.collect();
    match reasons.is_empty() {
        true => "-".into(),
        false => format!("{} (cycles for each instruction)", reasons.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: &str = r#"{"case":"softmax/fwd/f32","impl":"ternion","ms":1.0}
==PROF== Connected to process 4711
"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","dram__bytes.sum.per_second","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread","launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static","launch__waves_per_multiprocessor","sm__maximum_warps_per_active_cycle_pct","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","smsp__average_warps_issue_stalled_wait_per_issue_active.ratio","smsp__average_warps_issue_stalled_selected_per_issue_active.ratio","smsp__average_warps_issue_stalled_barrier_not_issued.ratio"
"","","","","","","Tbyte/s","%","us","register/thread","Kbyte/block","byte/block","","%","%","%","inst","inst","inst","inst","inst"
"0","4711","softmax_rows<float, 4>","(256, 1, 1)","(8192, 1, 1)","9.0","2.91","87.45","92.16","40","1.02","16","7.75","100","21.5","81.25","1.25","12.5","3","1","99"
"1","4711","say ""hi""","(32, 1, 1)","(1, 1, 1)","9.0","n/a","nan","1,234.5","16","0","0","0.01","50","","","","","","",""
"#;

    #[test]
    fn the_wide_form_is_read() {
        let kernels = kernels(WIDE).expect("a table");
        assert_eq!(kernels.len(), 2, "the row of units is none");
        assert_eq!(kernels[0].name, "softmax_rows<float, 4>");
        assert_eq!(kernels[0].scaled("dram__bytes.sum.per_second"), Some(2.91e12));
        assert_eq!(kernels[0].number(&["no_such_metric", "launch__registers_per_thread"]), Some(40.0));
        assert_eq!(kernels[0].stalls()[..2], [("long_scoreboard", 12.5), ("wait", 3.0)]);
        assert_eq!(kernels[0].stalls().len(), 4, "one of each reason");
        assert_eq!(kernels[1].name, "say \"hi\"");
        assert!((kernels[1].scaled("gpu__time_duration.sum").expect("a time") - 1234.5e-6).abs() < 1e-12);
    }

    #[test]
    fn key_figures_are_reported() {
        let text = report(&kernels(WIDE).expect("a table"));
        let expected = "softmax_rows<float, 4>  grid (8192, 1, 1)  block (256, 1, 1)
  time        92.16 us
  memory      87.5 % of peak, 2910 GB/s
  arithmetic  21.5 % of peak
  block needs 40 registers a thread, 16 + 1020 bytes of shared memory (static + dynamic)
  occupancy   81.2 % of 100.0 % possible, 7.75 waves
  waits for   long_scoreboard 12.50, wait 3.00, barrier 1.25 (cycles for each instruction)

";
        assert!(text.starts_with(expected), "{text}");
        let second = text.strip_prefix(expected).expect("seen above");
        assert!(second.contains("  memory      - % of peak, - GB/s\n"), "{second}");
        assert!(second.contains("  waits for   -\n"), "{second}");
    }

    #[test]
    fn the_long_form_is_read() {
        let printed = "\"ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\r\n\
            \"0\",\"add\",\"(256, 1, 1)\",\"(1024, 1, 1)\",\"\",\"gpu__time_duration.sum\",\"nsecond\",\"93,120\"\r\n\
            \"0\",\"add\",\"(256, 1, 1)\",\"(1024, 1, 1)\",\"\",\"dram__bytes.sum.per_second\",\"Gbyte/second\",\"2,900.5\"\r\n\
            \"1\",\"add\",\"(256, 1, 1)\",\"(1, 1, 1)\",\"\",\"gpu__time_duration.sum\",\"msecond\",\"2\"\r\n";
        let kernels = kernels(printed).expect("a table");
        assert_eq!(kernels.len(), 2);
        let text = report(&kernels);
        assert!(
            text.starts_with("add  grid (1024, 1, 1)  block (256, 1, 1)\n  time        93.12 us\n"),
            "{text}"
        );
        assert!(text.contains("2900 GB/s") || text.contains("2901 GB/s"), "{text}");
        assert!(text.contains("grid (1, 1, 1)  block (256, 1, 1)\n  time        2000.00 us\n"), "{text}");
    }

    #[test]
    fn what_is_no_table_is_reported() {
        let error = kernels("==ERROR== ERR_NVGPUCTRPERM - no permission").expect_err("no table");
        assert!(error.contains("ERR_NVGPUCTRPERM"), "{error}");
        assert_eq!(
            kernels("\"ID\",\"Name\"\n\"0\",\"x\"\n").err(),
            Some("the table has no column \"Kernel Name\"".into())
        );
        assert_eq!(kernels("\"ID\",\"Kernel Name\"\n").map(|found| found.len()), Ok(0));
    }

    #[test]
    fn units_are_scaled() {
        for (unit, expected) in [
            ("ns", 1e-9),
            ("usecond", 1e-6),
            ("ms", 1e-3),
            ("second", 1.0),
            ("Gbyte/s", 1e9),
            ("byte/block", 1.0),
        ] {
            assert_eq!(factor(unit), Some(expected), "{unit}");
        }
        assert_eq!(factor("inst"), None);
        assert_eq!(factor("%"), None);
    }
}
