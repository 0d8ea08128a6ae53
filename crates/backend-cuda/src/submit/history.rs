//! A history of the most recent launches: it names the ops that may have caused a fault of the
//! device, which the driver reports later than it occurs. On request it records all launches, for
//! measurements.

use crate::launch::Launch;

/// The number of launches whose names are kept: those of several training steps.
const LENGTH: usize = 4096;

/// The maximum number of ops that the report of a device fault names.
const MAX_NAMED: usize = 32;

/// A launch of a kernel, as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRecord {
    /// The op's name.
    pub op: &'static str,
    /// The kernel's name.
    pub kernel: &'static str,
    /// The file of `kernels/` that it is compiled from.
    pub file: &'static str,
    /// That file, and what distinguishes the variant from other variants of the file.
    pub variant: String,
    /// The number of blocks along each axis.
    pub grid: [u32; 3],
    /// The number of threads of a block along each axis.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Whether the launch was added to a step that was being recorded.
    pub is_recorded: bool,
}

/// A recorded launch. It is converted to a `LaunchRecord` when the records are requested.
#[derive(Clone, Copy, Debug)]
struct LaunchEntry {
    op: &'static str,
    launch: Launch,
    is_recorded: bool,
}

impl LaunchEntry {
    fn record(&self) -> LaunchRecord {
        let Launch { variant, kernel, grid, block, shared_bytes, .. } = self.launch;
        let source = variant.source();
        LaunchRecord {
            op: self.op,
            kernel: source.kernels[kernel],
            file: source.file,
            variant: source.name,
            grid,
            block,
            dynamic_shared: shared_bytes,
            is_recorded: self.is_recorded,
        }
    }
}

/// The most recently launched ops.
#[derive(Debug)]
pub(crate) struct LaunchHistory {
    /// The name of launch `n` at index `n % LENGTH`.
    names: Box<[&'static str]>,
    /// The number of launches so far.
    pub(crate) count: usize,
    /// The number of launches that are known to have ended, because a wait for the device succeeded
    /// after them.
    ended: usize,
    /// All launches since `begin_records`; `None` while launches are not recorded.
    records: Option<Vec<LaunchEntry>>,
}

impl LaunchHistory {
    pub(crate) fn new() -> LaunchHistory {
        LaunchHistory { names: vec!["nothing"; LENGTH].into(), count: 0, ended: 0, records: None }
    }

    #[inline]
    pub(crate) fn add(&mut self, op: &'static str) {
        self.names[self.count % LENGTH] = op;
        self.count += 1;
    }

    /// Adds the launch of a kernel.
    #[inline]
    pub(crate) fn add_launch(&mut self, op: &'static str, launch: &Launch, is_recorded: bool) {
        self.add(op);
        if let Some(records) = &mut self.records {
            records.push(LaunchEntry { op, launch: *launch, is_recorded });
        }
    }

    /// Starts to record every launch.
    pub(crate) fn begin_records(&mut self) {
        self.records = Some(Vec::new());
    }

    /// Stops recording and returns the launches since `begin_records`, in order.
    pub(crate) fn take_records(&mut self) -> Vec<LaunchRecord> {
        self.records.take().iter().flatten().map(LaunchEntry::record).collect()
    }

    /// Records that the first `count` launches have ended. Several threads may wait.
    pub(crate) fn mark_ended(&mut self, count: usize) {
        self.ended = self.ended.max(count);
    }

    pub(crate) fn last(&self) -> &'static str {
        self.names[(self.count + LENGTH - 1) % LENGTH]
    }

    /// Returns the ops that may have caused a fault that is reported now.
    pub(crate) fn suspects(&self) -> String {
        let launched = self.count - self.ended;
        let mut names: Vec<&str> = Vec::new();
        for back in 1..=launched.min(LENGTH) {
            let name = self.names[(self.count - back) % LENGTH];
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let more = if names.len() > MAX_NAMED || launched > LENGTH { " and ops before them" } else { "" };
        names.truncate(MAX_NAMED);
        match launched {
            0 => "Nothing was launched since the device was last waited for".into(),
            1 => format!("{} did it, the one launch since the device was last waited for", names[0]),
            _ => format!(
                "One of the {launched} launches since the device was last waited for did it, of these ops, latest first: {}{more}",
                names.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::Variant;

    #[test]
    fn a_fault_is_reported_with_what_was_launched_since_the_last_wait() {
        let mut history = LaunchHistory::new();
        assert!(history.suspects().starts_with("Nothing was launched"));
        history.add("add");
        history.ended = history.count;
        history.add("matmul");
        assert_eq!(history.suspects(), "matmul did it, the one launch since the device was last waited for");
        for op in ["gather", "matmul", "relu", "gather"] {
            history.add(op);
        }
        let suspects = history.suspects();
        assert!(
            suspects.starts_with("One of the 5 launches since the device was last waited for did it"),
            "{suspects}"
        );
        assert!(suspects.ends_with("latest first: gather, relu, matmul"), "{suspects}");
        (0..LENGTH).for_each(|_| history.add("sum"));
        assert!(
            history.suspects().ends_with("latest first: sum and ops before them"),
            "{}",
            history.suspects()
        );
        assert_eq!((history.last(), history.count), ("sum", LENGTH + 6));
    }

    #[test]
    fn launches_are_recorded_in_order_while_that_is_requested() {
        let (mut history, launch) = (LaunchHistory::new(), Launch::new(Variant::PROBE, 1, 3, 64));
        history.add_launch("before", &launch, false);
        history.begin_records();
        history.add_launch("eager", &launch, false);
        history.add("replay");
        history.add_launch("recorded", &Launch { shared_bytes: 16, ..launch }, true);
        let records = history.take_records();
        let recorded: Vec<_> =
            records.iter().map(|record| (record.op, record.is_recorded, record.dynamic_shared)).collect();
        assert_eq!(recorded, [("eager", false, 0), ("recorded", true, 16)]);
        assert_eq!((records[0].kernel, records[0].file), ("probe_cluster", "probe/launch.cu"));
        assert_eq!((records[0].grid, records[0].block), ([3, 1, 1], [64, 1, 1]));
        history.add_launch("after", &launch, false);
        assert!(history.take_records().is_empty());
        assert_eq!((history.count, history.last()), (5, "after"));
    }
}
