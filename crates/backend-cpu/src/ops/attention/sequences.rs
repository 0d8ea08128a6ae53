//! Packed sequences of different lengths.

use crate::access::Locked;
use crate::dense::dense;
use std::ops::Range;
use ternion_core::{Error, Result};

/// The cumulative lengths: 0, then for each sequence the index after its last row.
pub(super) struct Sequences {
    queries: Vec<usize>,
    keys: Vec<usize>,
}

impl Sequences {
    /// Reads the ends of sequences with this number of queries and keys.
    ///
    /// # Errors
    /// If the ends do not begin with 0, decrease, or exceed the number of rows.
    pub(super) fn new(
        op: &'static str,
        [query_lengths, key_lengths]: [&Locked<'_>; 2],
        [queries, keys]: [usize; 2],
    ) -> Result<Sequences> {
        Ok(Sequences {
            queries: ends(op, "cu_seqlens_q", query_lengths, queries)?,
            keys: ends(op, "cu_seqlens_k", key_lengths, keys)?,
        })
    }

    /// Returns the end of the queries and the range of the keys of the sequence that contains
    /// `query`. A query after the last sequence has no keys.
    pub(super) fn of(&self, query: usize) -> (usize, Range<usize>) {
        let sequence = self.queries[1..].partition_point(|&end| end <= query);
        match (self.queries.get(sequence + 1), self.keys.get(sequence + 1)) {
            (Some(&end), Some(&key_end)) => (end, self.keys[sequence]..key_end),
            _ => (query, self.last_key()..self.last_key()),
        }
    }

    fn last_key(&self) -> usize {
        self.keys.last().copied().unwrap_or(0)
    }
}

fn ends(op: &'static str, what: &'static str, view: &Locked<'_>, rows: usize) -> Result<Vec<usize>> {
    let cu_seqlens = dense::<i32>(op, view)?;
    let error = |detail: String| Error::invalid(op, format!("{what}: {detail}"));
    if cu_seqlens.first() != Some(&0) {
        return Err(error(format!("begins with {:?}, expected 0", cu_seqlens.first().copied().unwrap_or(0))));
    }
    if let Some(pair) = cu_seqlens.windows(2).find(|pair| pair[1] < pair[0]) {
        return Err(error(format!("{} behind {}, expected ends that do not fall", pair[1], pair[0])));
    }
    let ends: Vec<usize> = cu_seqlens.iter().map(|&end| end as usize).collect();
    match ends.last() {
        Some(&last) if last > rows => Err(error(format!("ends at {last}, expected at most {rows} rows"))),
        _ => Ok(ends),
    }
}
