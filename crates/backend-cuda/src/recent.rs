//! What was launched last: a fault of the device is told later than it was made.

/// Names of launches that are kept: of several training steps.
const RECENT: usize = 4096;

/// Names of different ops that a fault of the device is told with.
const TOLD: usize = 32;

/// The ops that were launched last.
#[derive(Debug)]
pub(crate) struct Recent {
    /// The name of launch `n` at place `n % RECENT`.
    names: Box<[&'static str]>,
    /// Launches so far.
    pub(crate) count: usize,
    /// Launches before the device was last waited for: they did nothing wrong.
    pub(crate) ended: usize,
}

impl Recent {
    pub(crate) fn new() -> Recent {
        Recent { names: vec!["nothing"; RECENT].into(), count: 0, ended: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, op: &'static str) {
        self.names[self.count % RECENT] = op;
        self.count += 1;
    }

    pub(crate) fn last(&self) -> &'static str {
        self.names[(self.count + RECENT - 1) % RECENT]
    }

    /// What may have made a fault that is told now.
    pub(crate) fn suspects(&self) -> String {
        let launched = self.count - self.ended;
        let mut names: Vec<&str> = Vec::new();
        for back in 1..=launched.min(RECENT) {
            let name = self.names[(self.count - back) % RECENT];
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let more = if names.len() > TOLD || launched > RECENT { " and ops before them" } else { "" };
        names.truncate(TOLD);
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
    fn a_fault_is_told_with_what_was_launched_since_the_last_wait() {
        let mut recent = Recent::new();
        assert!(recent.suspects().starts_with("Nothing was launched"));
        recent.add("add");
        recent.ended = recent.count;
        recent.add("matmul");
        assert_eq!(recent.suspects(), "matmul did it, the one launch since the device was last waited for");
        for op in ["gather", "matmul", "relu", "gather"] {
            recent.add(op);
        }
        let told = recent.suspects();
        assert!(
            told.starts_with("One of the 5 launches since the device was last waited for did it"),
            "{told}"
        );
        assert!(told.ends_with("latest first: gather, relu, matmul"), "{told}");
        (0..RECENT).for_each(|_| recent.add("sum"));
        assert!(
            recent.suspects().ends_with("latest first: sum and ops before them"),
            "{}",
            recent.suspects()
        );
        assert_eq!((recent.last(), recent.count), ("sum", RECENT + 6));
    }
}
