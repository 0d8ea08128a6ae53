//! The choice of a kernel for rows, by the length and the addresses of the rows.
//!
//! A family of kernels has a list of teams for each packing, the smallest first (see `variant`). A
//! row uses the first team that it fits. From one team to the next, the longest row grows by a
//! factor of two to four, so few threads of a team are idle.

use crate::launch::Launch;
use crate::variant::Variant;
use crate::variant::rows::{Packing, Rows, Team};
use ternion_core::{DType, Error, Result};

/// The maximum static shared memory of a kernel that requests much dynamic shared memory.
const STATIC_SHARED_BYTES: usize = 2 << 10;

/// The rows of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLayout {
    pub(crate) address: u64,
    /// Elements from row to row; 0 if there is only one.
    pub(crate) stride: i64,
}

impl Packing {
    /// Returns the best packing for rows of `columns` elements. Elements of 64 bits are accessed
    /// one by one: the access of a whole warp is wide enough.
    fn fitting(dtype: DType, columns: usize, layouts: &[RowLayout]) -> Packing {
        let (size, pack) = (dtype.size() as u64, Packing::Whole.pack(dtype));
        let start = |layout: &RowLayout| layout.address / size % pack as u64;
        let pitch = |layout: &RowLayout| layout.stride.rem_euclid(pack as i64);
        if pack == 1 {
            return Packing::Single;
        }
        let is_whole = columns.is_multiple_of(pack)
            && layouts.iter().all(|layout| start(layout) == 0 && pitch(layout) == 0);
        let is_uniform = layouts
            .iter()
            .all(|layout| start(layout) == start(&layouts[0]) && pitch(layout) == pitch(&layouts[0]));
        match (is_whole, is_uniform) {
            (true, _) => Packing::Whole,
            (_, true) => Packing::Masked,
            _ => Packing::Single,
        }
    }
}

/// The rows that a kernel is chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRequest<'a> {
    pub(crate) dtype: DType,
    pub(crate) columns: usize,
    pub(crate) layouts: &'a [RowLayout],
    /// Maximum bytes of shared memory of a block.
    pub(crate) max_shared_memory: usize,
}

/// A kernel for rows, and the number of packs of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKernel {
    pub(crate) rows: Rows,
    pub(crate) packs: usize,
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: usize,
}

impl Rows {
    /// Returns the first of the `teams` of a packing that is large enough. `shared_bytes` returns
    /// the bytes of shared memory that a kernel needs, given the packs of a row.
    pub(crate) fn choose(
        request: &RowRequest<'_>,
        teams: impl Fn(Packing) -> &'static [Team],
        shared_bytes: impl Fn(&Rows, usize) -> usize,
    ) -> Result<RowKernel> {
        let fitting = Packing::fitting(request.dtype, request.columns, request.layouts);
        let candidates: &[Packing] = match fitting {
            Packing::Whole => &[Packing::Whole, Packing::Masked, Packing::Single],
            Packing::Masked => &[Packing::Masked, Packing::Single],
            Packing::Single => &[Packing::Single],
        };
        for &packing in candidates {
            let pack = packing.pack(request.dtype);
            let packs = match (fitting, packing) {
                (Packing::Masked, Packing::Masked) => (request.columns + 2 * pack - 2) / pack,
                _ => request.columns.div_ceil(pack),
            };
            for &team in teams(packing) {
                let rows = Rows { packing, team };
                let bytes = shared_bytes(&rows, packs);
                if packs <= team.max_packs() && bytes + STATIC_SHARED_BYTES <= request.max_shared_memory {
                    return Ok(RowKernel { rows, packs, shared_bytes: bytes });
                }
            }
        }
        Err(Error::invalid("cuda", format!("no kernel supports rows of {} columns", request.columns)))
    }
}

impl RowKernel {
    /// Returns a launch of a variant's kernel for `count` rows.
    pub(crate) fn launch(
        &self,
        op: &'static str,
        variant: impl Into<Variant>,
        kernel: usize,
        count: usize,
    ) -> Result<Launch> {
        let blocks = grid(op, count.div_ceil(self.rows.per_block()))?;
        let launch = Launch::new(variant, kernel, blocks, self.rows.threads() as u32);
        Ok(Launch { shared_bytes: self.shared_bytes as u32, ..launch })
    }
}

/// Returns a number of blocks as the size of a grid.
pub(crate) fn grid(op: &'static str, blocks: usize) -> Result<u32> {
    i32::try_from(blocks)
        .map(|blocks| blocks as u32)
        .map_err(|_| Error::invalid(op, "more elements than one launch can process"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::rows::RowStorage;

    const TEAMS: &[Team] = &[Team::registers(8, 1), Team::registers(32, 4), Team::SHARED, Team::LONGEST];

    fn row_kernel(columns: usize, layouts: &[(u64, i64)]) -> RowKernel {
        let layouts: Vec<RowLayout> =
            layouts.iter().map(|&(address, stride)| RowLayout { address, stride }).collect();
        let request =
            RowRequest { dtype: DType::F32, columns, layouts: &layouts, max_shared_memory: 100 << 10 };
        Rows::choose(&request, |_| TEAMS, |rows, packs| rows.stored_bytes(DType::F32, packs, 1))
            .expect("a kernel")
    }

    #[test]
    fn packs_are_used_where_all_rows_are_aligned() {
        let of = |columns, layouts| {
            let row_kernel = row_kernel(columns, layouts);
            (row_kernel.rows.packing, row_kernel.packs)
        };
        assert_eq!(of(64, &[(256, 64), (0, 0)]), (Packing::Whole, 16));
        assert_eq!(of(63, &[(256, 63), (512, 63)]), (Packing::Masked, 17));
        assert_eq!(of(64, &[(260, -64), (516, 64)]), (Packing::Masked, 17));
        assert_eq!(of(64, &[(260, 64), (512, 64)]), (Packing::Single, 64));
        assert_eq!(of(64, &[(256, 65), (512, 64)]), (Packing::Single, 64));
    }

    #[test]
    fn a_row_uses_the_first_team_that_it_fits() {
        let storage = |columns| {
            let row_kernel = row_kernel(columns, &[(0, 0)]);
            (row_kernel.rows.team.threads(), row_kernel.rows.team.storage, row_kernel.shared_bytes)
        };
        assert_eq!(storage(0), (8, RowStorage::Registers, 0));
        assert_eq!(storage(32), (8, RowStorage::Registers, 0));
        assert_eq!(storage(36), (32, RowStorage::Registers, 0));
        assert_eq!(storage(8192), (512, RowStorage::Shared, 32 << 10));
        assert_eq!(storage(32 << 10), (512, RowStorage::Memory, 0));
    }
}
