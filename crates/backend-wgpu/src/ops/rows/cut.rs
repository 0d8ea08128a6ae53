//! How rows are split into parts, and assigned to workgroups and their threads.

use bytemuck::{Pod, Zeroable};
use ternion_core::{Error, Result};

/// Threads of a workgroup.
const THREADS: usize = 256;
/// Minimum number of adjacent rows of a workgroup if rows are contiguous across: as many words as a
/// memory transaction reads.
const ACROSS: usize = 32;
/// Minimum number of adjacent rows for which a workgroup processes rows across.
const ROWS_BESIDE: usize = 8;
/// Minimum number of elements of a row per thread before more threads share the row: many if there
/// are enough rows for `BUSY` threads, otherwise few.
const EACH_OF_MANY: usize = 16;
const EACH_OF_FEW: usize = 4;
const BUSY: usize = 1 << 16;
/// Minimum number of elements of a part for each of its threads.
const EACH_OF_PART: usize = 8;
/// Number of workgroups that fill a device.
const FILLED: usize = 1024;

/// How rows are split, and assigned to threads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub(crate) struct Cut {
    pub(crate) rows: u32,
    pub(crate) length: u32,
    pub(super) members: u32,
    pub(super) per_group: u32,
    pub(super) across: u32,
    pub(super) parts: u32,
    pub(super) per_part: u32,
    pub(super) blocks: u32,
    pub(super) gathered: u32,
}

/// What is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Elements,
    Rows,
}

/// Returns what is contiguous in tensor 1, given the axes of its rows and those of a row's
/// elements.
pub(crate) fn beside(rows: &[(usize, Vec<i64>)], row: &[(usize, Vec<i64>)]) -> Beside {
    let last = |axes: &[(usize, Vec<i64>)]| {
        axes.iter().rfind(|(size, _)| *size > 1).map(|(size, strides)| (*size, strides[1]))
    };
    match (last(rows), last(row)) {
        (Some((size, 1)), Some((_, along))) if along != 1 && size >= ROWS_BESIDE => Beside::Rows,
        _ => Beside::Elements,
    }
}

/// Maximum number of columns that a thread keeps in registers.
const HELD: usize = 16;
/// Columns of a workgroup that adds the partial sums of teams: a line of memory.
const COLUMNS: usize = 16;
/// Number of workgroups that loop over rows.
const WALKING: usize = 512;

impl Cut {
    /// Returns teams that loop over all rows, in which each thread keeps its columns in registers,
    /// and the number of teams. Returns `None` if a row has too many columns.
    pub(crate) fn walking(rows: usize, length: usize) -> Option<(Cut, usize)> {
        let members = length.div_ceil(EACH_OF_FEW).next_power_of_two().min(THREADS);
        let per_group = THREADS / members;
        let blocks = rows.div_ceil(per_group).min(WALKING);
        let teams = blocks * per_group;
        let fits = (1..1 << 31).contains(&rows) && (1..=members * HELD).contains(&length);
        fits.then(|| {
            let cut = Cut {
                rows: rows as u32,
                length: length as u32,
                members: members as u32,
                per_group: per_group as u32,
                across: 0,
                parts: 1,
                per_part: length as u32,
                blocks: blocks as u32,
                gathered: rows.div_ceil(teams) as u32,
            };
            (cut, teams)
        })
    }

    /// Returns the maximum number of columns that a thread of such a team keeps in registers.
    pub(super) fn held(&self) -> usize {
        if self.length <= self.members * EACH_OF_FEW as u32 { EACH_OF_FEW } else { HELD }
    }

    /// Returns the cut for columns with partial sums of `teams` teams, where neighboring columns
    /// are contiguous: few columns per workgroup, so that many workgroups read.
    pub(crate) fn of_teams(columns: usize, teams: usize) -> Cut {
        let members = THREADS / COLUMNS;
        Cut {
            rows: columns as u32,
            length: teams as u32,
            members: members as u32,
            per_group: COLUMNS as u32,
            across: 1,
            parts: 1,
            per_part: teams as u32,
            blocks: columns.div_ceil(COLUMNS) as u32,
            gathered: 0,
        }
    }

    /// Returns the cut for rows whose elements, or which themselves, are contiguous. Few long rows
    /// are split into parts.
    pub(crate) fn of(op: &'static str, rows: usize, length: usize, beside: Beside) -> Result<Cut> {
        if rows >= 1 << 31 || length >= 1 << 31 {
            return Err(Error::invalid(
                op,
                format!("{rows} rows of {length} elements; each must be below 2^31"),
            ));
        }
        Ok(Cut::dealt(rows, length, beside, [EACH_OF_MANY, EACH_OF_FEW]))
    }

    /// Like [`Cut::of`], with the minimum number of elements per thread, for many rows and for few
    /// rows.
    pub(super) fn dealt(rows: usize, length: usize, beside: Beside, [of_many, of_few]: [usize; 2]) -> Cut {
        let most = if beside == Beside::Rows { THREADS / ACROSS } else { THREADS };
        let many = rows * length.div_ceil(of_many) >= BUSY;
        let each = if many { of_many } else { of_few };
        let members = length.div_ceil(each).next_power_of_two().min(most);
        let per_group = THREADS / members;
        let blocks = rows.div_ceil(per_group);
        let parts = (FILLED / blocks.max(1)).clamp(1, (length / (members * EACH_OF_PART)).max(1));
        let per_part = length.div_ceil(parts).next_multiple_of(members).max(1);
        Cut {
            rows: rows as u32,
            length: length as u32,
            members: members as u32,
            per_group: per_group as u32,
            across: u32::from(beside == Beside::Rows),
            parts: length.div_ceil(per_part).max(1) as u32,
            per_part: per_part as u32,
            blocks: blocks as u32,
            gathered: 0,
        }
    }

    /// Returns the cut of the launch that combines the parts of the first one, if each row has one
    /// result.
    pub(super) fn gathering(self) -> Cut {
        let members = self.parts.next_power_of_two().min(THREADS as u32);
        let per_group = THREADS as u32 / members;
        let blocks = self.rows.div_ceil(per_group);
        Cut {
            members,
            per_group,
            blocks,
            across: 0,
            parts: 1,
            per_part: self.length,
            gathered: self.parts,
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
    fn cuts_cover_every_element_once() {
        for beside in [Beside::Elements, Beside::Rows] {
            for rows in [0, 1, 3, 1000, 1 << 20] {
                for length in [0, 1, 2, 7, 33, 1024, 4099, 1_000_003] {
                    let cut = Cut::of("test", rows, length, beside).expect("within the limits");
                    assert_eq!(cut.members * cut.per_group, 256, "{cut:?}");
                    assert!(u64::from(cut.blocks) * u64::from(cut.per_group) >= rows as u64, "{cut:?}");
                    let (parts, per_part) = (u64::from(cut.parts), u64::from(cut.per_part));
                    assert!(parts * per_part >= length as u64, "{cut:?}");
                    assert!(length == 0 || (parts - 1) * per_part < length as u64, "{cut:?}");
                }
            }
        }
    }
}
