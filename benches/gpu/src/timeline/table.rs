//! Matches CUPTI's measurements with the launches: rows, their groups, and output.

use super::groups::{MEMORY, group};
use serde_json::{Value, json};
use std::fmt::Write;
use ternion_cuda::{Activity, ActivityKind, LaunchRecord};

/// One kernel, copy or fill of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub group: &'static str,
    pub op: String,
    /// The file and the variant.
    pub variant: String,
    pub activity: Activity,
}

/// A traced step, eager or recorded.
pub struct Mode {
    pub name: String,
    pub rows: Vec<Row>,
    /// The median time of a step without a trace, by the host's clock.
    pub untraced_ms: f64,
    /// The time of the traced step.
    pub traced_ms: f64,
}

/// Returns whether CUPTI's kernel is the one that was launched.
fn is_of(activity: &Activity, record: &LaunchRecord) -> bool {
    activity.grid == record.grid && activity.block == record.block && activity.name.contains(record.kernel)
}

/// Returns the device's activities with their ops. Kernels run in the order in which they were
/// launched. A kernel that this framework did not launch, such as a copy that the driver implements
/// as a kernel, has no op.
///
/// # Errors
/// CUPTI did not report a launch.
pub fn rows(activities: Vec<Activity>, records: &[LaunchRecord]) -> Result<Vec<Row>, String> {
    let mut records = records.iter().peekable();
    let mut rows = Vec::new();
    for activity in activities {
        let record = match activity.kind {
            ActivityKind::Kernel => records.next_if(|record| is_of(&activity, record)),
            _ => None,
        };
        rows.push(row(activity, record));
    }
    match records.next() {
        None => Ok(rows),
        Some(record) => Err(format!(
            "kernel {} of {} with grid {:?} was launched, and CUPTI saw no such kernel where it should be: {} \
             launches are behind it",
            record.kernel,
            record.op,
            record.grid,
            records.count()
        )),
    }
}

fn row(activity: Activity, record: Option<&LaunchRecord>) -> Row {
    match record {
        Some(record) => Row {
            group: group(record.op, record.file),
            op: record.op.into(),
            variant: record.variant.clone(),
            activity,
        },
        None => {
            let group = if activity.kind == ActivityKind::Kernel { "other" } else { MEMORY };
            Row { group, op: String::new(), variant: String::new(), activity }
        }
    }
}

impl Mode {
    fn begin_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.activity.start_ns).min().unwrap_or_default()
    }

    /// Returns the time from the first kernel's begin to the last one's end, in microseconds.
    fn span_us(&self) -> f64 {
        let end = self.rows.iter().map(|row| row.activity.end_ns).max().unwrap_or_default();
        micro(end - self.begin_ns())
    }

    /// Returns, for each row, the microseconds in which no earlier row was running, and those of
    /// the gap before it. The sum of all of them is the span.
    fn shares(&self) -> Vec<(f64, f64)> {
        let mut ended = self.begin_ns();
        let time_of_row = |row: &Row| {
            let (start, end) = (row.activity.start_ns, row.activity.end_ns);
            let gap = start.saturating_sub(ended);
            let exclusive = end.saturating_sub(start.max(ended));
            ended = ended.max(end);
            (micro(exclusive), micro(gap))
        };
        self.rows.iter().map(time_of_row).collect()
    }

    /// Returns the groups with their microseconds and kernels, the longest first; gaps are one of
    /// the groups.
    fn groups(&self) -> Vec<(&'static str, f64, usize)> {
        let mut groups: Vec<(&'static str, f64, usize)> = Vec::new();
        let mut add = |name, time, count| match groups.iter_mut().find(|(other, ..)| *other == name) {
            Some(group) => {
                group.1 += time;
                group.2 += count;
            }
            None => groups.push((name, time, count)),
        };
        for (row, (exclusive, gap)) in self.rows.iter().zip(self.shares()) {
            add(row.group, exclusive, 1);
            add("gaps", gap, usize::from(gap > 0.0));
        }
        groups.sort_by(|left, right| right.1.total_cmp(&left.1));
        groups
    }

    /// Returns the groups as text.
    pub fn report(&self) -> String {
        let span = self.span_us();
        let mut text = format!(
            "{}: {:.3} ms on the device in {} kernels, copies and fills; by the host's clock {:.3} ms, without a trace {:.3} ms\n",
            self.name,
            span / 1e3,
            self.rows.len(),
            self.traced_ms,
            self.untraced_ms
        );
        for (name, time, count) in self.groups() {
            let share = 100.0 * time / span.max(f64::MIN_POSITIVE);
            let _ = writeln!(text, "  {name:24} {:9.3} ms {share:5.1} % {count:6}", time / 1e3);
        }
        text
    }

    /// Returns the groups as JSON.
    pub fn json(&self) -> Value {
        let group = |(name, time, count): (&'static str, f64, usize)| json!({"group": name, "us": time, "count": count});
        json!({
            "mode": self.name, "span_us": self.span_us(), "traced_ms": self.traced_ms, "untraced_ms": self.untraced_ms,
            "groups": self.groups().into_iter().map(group).collect::<Vec<_>>(),
        })
    }
}

fn micro(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// The columns of the table, as `peers/timeline.py` reads them.
const COLUMNS: &str =
    "mode\tindex\tstart_us\tus\tgap_us\tgroup\top\tkernel\tvariant\tgrid\tblock\tshared\tregisters\tbytes";

/// Returns every row of every mode in order.
pub fn tsv(modes: &[Mode]) -> String {
    let mut text = format!("{COLUMNS}\n");
    for mode in modes {
        let begin = mode.begin_ns();
        for (index, (row, (_, gap))) in mode.rows.iter().zip(mode.shares()).enumerate() {
            let Row { group, op, variant, activity } = row;
            let sizes = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
            let (start, time) =
                (micro(activity.start_ns - begin), micro(activity.end_ns - activity.start_ns));
            let _ = writeln!(
                text,
                "{}\t{index}\t{start:.3}\t{time:.3}\t{gap:.3}\t{group}\t{op}\t{}\t{variant}\t{}\t{}\t{}\t{}\t{}",
                mode.name,
                activity.name.replace(['\t', '\n'], " "),
                sizes(activity.grid),
                sizes(activity.block),
                activity.static_shared + activity.dynamic_shared,
                activity.registers,
                activity.bytes
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(kind: ActivityKind, name: &str, start_ns: u64, end_ns: u64, blocks: u32) -> Activity {
        let (grid, block) = ([blocks, 1, 1], [128, 1, 1]);
        let (static_shared, dynamic_shared, registers, bytes, correlation) = (16, 48, 32, 0, 7);
        let name = name.into();
        Activity {
            kind,
            name,
            start_ns,
            end_ns,
            grid,
            block,
            static_shared,
            dynamic_shared,
            registers,
            bytes,
            correlation,
        }
    }

    fn kernel(name: &str, start_ns: u64, end_ns: u64, blocks: u32) -> Activity {
        activity(ActivityKind::Kernel, name, start_ns, end_ns, blocks)
    }

    fn record(op: &'static str, kernel: &'static str, file: &'static str, blocks: u32) -> LaunchRecord {
        let (grid, block) = ([blocks, 1, 1], [128, 1, 1]);
        LaunchRecord {
            op,
            kernel,
            file,
            variant: format!("{file} (TYPE bf16)"),
            grid,
            block,
            dynamic_shared: 48,
            is_recorded: true,
        }
    }

    fn step() -> Mode {
        let activities = vec![
            kernel("product", 1_000, 5_000, 132),
            activity(ActivityKind::Fill, "fill", 5_500, 6_000, 0),
            kernel("some_kernel_of_the_driver", 6_000, 6_500, 1),
            // This kernel began before the previous one ended.
            kernel("line", 6_250, 8_250, 64),
        ];
        let records = [
            record("matmul", "product", "gemm/mma.cu", 132),
            record("gelu", "line", "ops/elementwise.cu", 64),
        ];
        let rows = rows(activities, &records).expect("rows");
        Mode { name: "ternion/graph".into(), rows, untraced_ms: 0.007, traced_ms: 0.02 }
    }

    #[test]
    fn kernels_get_the_ops_that_launched_them() {
        let step = step();
        let listed: Vec<_> = step.rows.iter().map(|row| (row.group, row.op.as_str())).collect();
        assert_eq!(listed, [("products", "matmul"), (MEMORY, ""), ("other", ""), ("elementwise", "gelu")]);
        assert_eq!(step.rows[3].variant, "ops/elementwise.cu (TYPE bf16)");
    }

    #[test]
    fn a_launch_that_was_not_seen_is_an_error() {
        let records = [
            record("matmul", "product", "gemm/mma.cu", 132),
            record("gelu", "line", "ops/elementwise.cu", 64),
        ];
        for seen in
            [vec![kernel("product", 0, 1, 132)], vec![kernel("product", 0, 1, 132), kernel("line", 1, 2, 65)]]
        {
            let error = rows(seen, &records).expect_err("rejected");
            assert!(error.starts_with("kernel line of gelu with grid [64, 1, 1]"), "{error}");
        }
    }

    #[test]
    fn groups_and_gaps_add_up_to_the_span() {
        let step = step();
        assert_eq!(step.span_us(), 7.25);
        let groups = step.groups();
        assert_eq!(
            groups,
            [
                ("products", 4.0, 1),
                ("elementwise", 1.75, 1),
                ("gaps", 0.5, 1),
                (MEMORY, 0.5, 1),
                ("other", 0.5, 1)
            ]
        );
        assert_eq!(groups.iter().map(|(_, time, _)| time).sum::<f64>(), step.span_us());
        let report = step.report();
        assert!(report.contains("  products                     0.004 ms  55.2 %      1\n"), "{report}");
        assert_eq!(step.json()["groups"][1]["us"], 1.75);
        let empty = Mode { rows: Vec::new(), ..step };
        assert_eq!((empty.span_us(), empty.groups().len()), (0.0, 0));
    }

    #[test]
    fn every_row_is_written() {
        let text = tsv(&[step()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.split('\t').count() == COLUMNS.split('\t').count()));
        assert_eq!(
            lines[4],
            "ternion/graph\t3\t5.250\t2.000\t0.000\telementwise\tgelu\tline\tops/elementwise.cu (TYPE bf16)\t64x1x1\t128x1x1\t64\t32\t0"
        );
        let python = include_str!("../../../peers/timeline.py");
        assert!(COLUMNS.split('\t').all(|column| python.contains(&format!("\"{column}\""))));
    }
}
