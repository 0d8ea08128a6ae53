//! What was launched last: a fault of the device is reported later than it was made.

/// Names of launches that are kept: of several training steps.
const LENGTH: usize = 4096;

/// Names of different ops that a fault of the device is reported with.
const NAMED: usize = 32;

/// The ops that were launched last.
#[derive(Debug)]
pub(crate) struct LaunchHistory {
    /// The name of launch `n` at index `n % LENGTH`.
    names: Box<[&'static str]>,
    /// Launches so far.
    pub(crate) count: usize,
    /// Launches before the device was last waited for: they did nothing wrong.
    pub(crate) ended: usize,
}

impl LaunchHistory {
    pub(crate) fn new() -> LaunchHistory {
        LaunchHistory { names: vec!["nothing"; LENGTH].into(), count: 0, ended: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, op: &'static str) {
        self.names[self.count % LENGTH] = op;
        self.count += 1;
    }

    pub(crate) fn last(&self) -> &'static str {
        self.names[(self.count + LENGTH - 1) % LENGTH]
    }

    /// What may have made a fault that is reported now.
    pub(crate) fn suspects(&self) -> String {
        let launched = self.count - self.ended;
        let mut names: Vec<&str> = Vec::new();
        for back in 1..=launched.min(LENGTH) {
            let name = self.names[(self.count - back) % LENGTH];
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let more = if names.len() > NAMED || launched > LENGTH { " and ops before them" } else { "" };
        names.truncate(NAMED);
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
}
