//! How rows are split into parts, and assigned to workgroups and their threads.

use bytemuck::{Pod, Zeroable};
use ternion_core::{Error, Result};

/// Threads of a workgroup.
const THREADS: usize = 256;
/// Minimum number of adjacent rows of a workgroup if neighboring rows are contiguous in memory: as
/// many words as a memory transaction reads.
const GROUP_ROWS_ACROSS: usize = 32;
/// Minimum number of contiguous neighboring rows for which a workgroup reads across rows.
const MIN_ROWS_ACROSS: usize = 8;
/// Minimum number of elements of a row per thread: the larger one if the rows still keep
/// `BUSY_THREADS` threads busy, otherwise the smaller one.
const MIN_PER_THREAD_MANY_ROWS: usize = 16;
const MIN_PER_THREAD_FEW_ROWS: usize = 4;
const BUSY_THREADS: usize = 1 << 16;
/// Minimum number of elements of a part for each of its threads.
const MIN_PER_THREAD_OF_PART: usize = 8;
/// Number of workgroups that fill a device.
const BUSY_GROUPS: usize = 1024;

/// How rows are split, and assigned to threads: fields of the parameters of rows.wgsl, which has a
/// figure.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Partition {
    pub(crate) rows: u32,
    /// Elements of a row.
    pub(crate) length: u32,
    /// Threads that share a row, and rows of a workgroup.
    pub(super) members: u32,
    pub(super) per_group: u32,
    /// 1: neighboring rows are contiguous, and so neighboring threads process different rows.
    pub(super) across: u32,
    /// Parts of a row, and elements of a part.
    pub(super) parts: u32,
    pub(super) per_part: u32,
    /// Workgroups of a part.
    pub(super) blocks: u32,
    /// Number of iterations of a workgroup that loops over rows, or of accumulators that the second
    /// launch merges for a row.
    pub(super) loop_count: u32,
}

/// Whether the elements of a row or neighboring rows are contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContiguousAxis {
    Elements,
    Rows,
}

/// Returns whether elements or rows are contiguous in tensor 1, given the axes of its rows and the
/// axes of a row's elements.
pub(crate) fn contiguous_axis(rows: &[(usize, Vec<i64>)], row: &[(usize, Vec<i64>)]) -> ContiguousAxis {
    let last = |axes: &[(usize, Vec<i64>)]| {
        axes.iter().rfind(|(size, _)| *size > 1).map(|(size, strides)| (*size, strides[1]))
    };
    match (last(rows), last(row)) {
        (Some((size, 1)), Some((_, along))) if along != 1 && size >= MIN_ROWS_ACROSS => ContiguousAxis::Rows,
        _ => ContiguousAxis::Elements,
    }
}

/// Maximum number of columns that a thread keeps in registers.
const MAX_COLUMNS_PER_THREAD: usize = 16;
/// Columns of a workgroup that adds the partial sums of teams. Their pairs of f32 fill a cache line
/// of 128 bytes.
const COLUMNS: usize = 16;
/// Number of workgroups that loop over rows.
const LOOP_WORKGROUPS: usize = 512;

impl Partition {
    /// Returns the partition for teams of threads that loop over all rows, in which each thread
    /// keeps its columns in registers, and the number of teams. Returns `None` if a row has too
    /// many columns.
    pub(crate) fn row_loop(rows: usize, length: usize) -> Option<(Partition, usize)> {
        let members = length.div_ceil(MIN_PER_THREAD_FEW_ROWS).next_power_of_two().min(THREADS);
        let per_group = THREADS / members;
        let blocks = rows.div_ceil(per_group).min(LOOP_WORKGROUPS);
        let teams = blocks * per_group;
        let fits = (1..1 << 31).contains(&rows) && (1..=members * MAX_COLUMNS_PER_THREAD).contains(&length);
        fits.then(|| {
            let partition = Partition {
                rows: rows as u32,
                length: length as u32,
                members: members as u32,
                per_group: per_group as u32,
                across: 0,
                parts: 1,
                per_part: length as u32,
                blocks: blocks as u32,
                loop_count: rows.div_ceil(teams) as u32,
            };
            (partition, teams)
        })
    }

    /// Returns the maximum number of columns that a thread keeps in registers, in a partition of
    /// [`row_loop`](Partition::row_loop).
    pub(super) fn columns_per_thread(&self) -> usize {
        if self.length <= self.members * MIN_PER_THREAD_FEW_ROWS as u32 {
            MIN_PER_THREAD_FEW_ROWS
        } else {
            MAX_COLUMNS_PER_THREAD
        }
    }

    /// Returns the partition for sums over the partial sums of `teams` teams, for each column;
    /// neighboring columns are contiguous. A workgroup has few columns, so that many workgroups
    /// read.
    pub(crate) fn of_teams(columns: usize, teams: usize) -> Partition {
        let members = THREADS / COLUMNS;
        Partition {
            rows: columns as u32,
            length: teams as u32,
            members: members as u32,
            per_group: COLUMNS as u32,
            across: 1,
            parts: 1,
            per_part: teams as u32,
            blocks: columns.div_ceil(COLUMNS) as u32,
            loop_count: 0,
        }
    }

    /// Returns the partition for rows along the contiguous axis or across it. Few long rows are
    /// split into parts.
    pub(crate) fn of(
        op: &'static str,
        rows: usize,
        length: usize,
        contiguous_axis: ContiguousAxis,
    ) -> Result<Partition> {
        if rows >= 1 << 31 || length >= 1 << 31 {
            return Err(Error::invalid(
                op,
                format!("{rows} rows of {length} elements; each must be below 2^31"),
            ));
        }
        Ok(Partition::with_min_per_thread(
            rows,
            length,
            contiguous_axis,
            [MIN_PER_THREAD_MANY_ROWS, MIN_PER_THREAD_FEW_ROWS],
        ))
    }

    /// Like [`Partition::of`], with the minimum number of elements per thread, for many rows and
    /// for few rows.
    pub(super) fn with_min_per_thread(
        rows: usize,
        length: usize,
        contiguous_axis: ContiguousAxis,
        [many_rows, few_rows]: [usize; 2],
    ) -> Partition {
        let max_members =
            if contiguous_axis == ContiguousAxis::Rows { THREADS / GROUP_ROWS_ACROSS } else { THREADS };
        let many = rows * length.div_ceil(many_rows) >= BUSY_THREADS;
        let per_thread = if many { many_rows } else { few_rows };
        let members = length.div_ceil(per_thread).next_power_of_two().min(max_members);
        let per_group = THREADS / members;
        let blocks = rows.div_ceil(per_group);
        let parts =
            (BUSY_GROUPS / blocks.max(1)).clamp(1, (length / (members * MIN_PER_THREAD_OF_PART)).max(1));
        let per_part = length.div_ceil(parts).next_multiple_of(members).max(1);
        Partition {
            rows: rows as u32,
            length: length as u32,
            members: members as u32,
            per_group: per_group as u32,
            across: u32::from(contiguous_axis == ContiguousAxis::Rows),
            parts: length.div_ceil(per_part).max(1) as u32,
            per_part: per_part as u32,
            blocks: blocks as u32,
            loop_count: 0,
        }
    }

    /// Returns the partition of the second launch, which combines the parts of rows that have one
    /// result each.
    pub(super) fn of_combination(self) -> Partition {
        let members = self.parts.next_power_of_two().min(THREADS as u32);
        let per_group = THREADS as u32 / members;
        let blocks = self.rows.div_ceil(per_group);
        Partition {
            members,
            per_group,
            blocks,
            across: 0,
            parts: 1,
            per_part: self.length,
            loop_count: self.parts,
            ..self
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.blocks as usize * self.parts as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_cover_every_element_once() {
        for contiguous_axis in [ContiguousAxis::Elements, ContiguousAxis::Rows] {
            for rows in [0, 1, 3, 1000, 1 << 20] {
                for length in [0, 1, 2, 7, 33, 1024, 4099, 1_000_003] {
                    let partition =
                        Partition::of("test", rows, length, contiguous_axis).expect("within the limits");
                    assert_eq!(partition.members * partition.per_group, 256, "{partition:?}");
                    assert!(
                        u64::from(partition.blocks) * u64::from(partition.per_group) >= rows as u64,
                        "{partition:?}"
                    );
                    let (parts, per_part) = (u64::from(partition.parts), u64::from(partition.per_part));
                    assert!(parts * per_part >= length as u64, "{partition:?}");
                    assert!(length == 0 || (parts - 1) * per_part < length as u64, "{partition:?}");
                }
            }
        }
    }
}
