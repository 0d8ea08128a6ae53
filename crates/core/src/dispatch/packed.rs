//! Outputs that are packed in one buffer, like the inputs with the same layouts. If queries, keys
//! and values are slices of one tensor, their gradients are then also slices of one tensor, and
//! concatenating them needs no copy.

use crate::Layout;
use smallvec::SmallVec;

/// The same range of columns in each row of a larger tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RowSlice {
    /// Number of contiguous elements in each row.
    run: usize,
    /// Distance from one row to the next, and number of rows.
    step: usize,
    count: usize,
}

impl RowSlice {
    /// Returns the row slice that `layout` describes, if it is one: of its axes, sorted by stride,
    /// the fast ones must form a contiguous run, and the slow ones must repeat this run at a
    /// constant distance.
    fn of(layout: &Layout) -> Option<RowSlice> {
        let mut axes: SmallVec<[(usize, usize); 6]> = SmallVec::new();
        for (&size, &stride) in layout.shape().dims().iter().zip(layout.strides()) {
            if size != 1 {
                axes.push((usize::try_from(stride).ok()?, size));
            }
        }
        axes.sort_unstable();
        let mut slice = RowSlice { run: 1, step: 0, count: 1 };
        for (stride, size) in axes {
            match slice.step {
                0 if stride == slice.run => slice.run *= size,
                0 => slice = RowSlice { step: stride, count: size, ..slice },
                step if stride == step * slice.count => slice.count *= size,
                _ => return None,
            }
        }
        Some(slice)
    }
}

/// Returns `layouts` moved to the start of a new buffer, and the number of elements of that buffer.
/// Returns `None` unless they are at least two consecutive slices that fill the rows completely.
pub(super) fn packed(layouts: &[&Layout]) -> Option<(SmallVec<[Layout; 3]>, usize)> {
    let [first, ..] = layouts else { return None };
    let RowSlice { step, count, .. } = RowSlice::of(first)?;
    let mut end = first.offset();
    for layout in layouts {
        let slice = RowSlice::of(layout)?;
        if slice.step != step || slice.count != count || layout.offset() != end || slice.run * count == 0 {
            return None;
        }
        end += slice.run;
    }
    if layouts.len() < 2 || end - first.offset() != step {
        return None;
    }
    let moved =
        |layout: &&Layout| Layout::new(*layout.shape(), layout.strides(), layout.offset() - first.offset());
    let moved = layouts.iter().map(moved).collect::<crate::Result<_>>().ok()?;
    Some((moved, step * count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    /// Returns one layout `[batch, heads, length, size]` for each number of heads in `heads` (those
    /// of queries, keys and values), split from rows of `[batch, length, all]`.
    fn split(batch: usize, length: usize, size: usize, heads: &[usize], offset: usize) -> Vec<Layout> {
        let row: usize = heads.iter().sum::<usize>() * size;
        let mut start = offset;
        let next_layout = |&heads: &usize| {
            let strides = [length * row, size, row, 1].map(|stride| stride as isize);
            let layout = Layout::new(Shape::unchecked(&[batch, heads, length, size]), &strides, start);
            start += heads * size;
            layout.expect("a layout")
        };
        heads.iter().map(next_layout).collect()
    }

    fn pack(layouts: &[Layout]) -> Option<(SmallVec<[Layout; 3]>, usize)> {
        packed(&layouts.iter().collect::<Vec<_>>())
    }

    #[test]
    fn parts_of_rows_are_packed_from_the_start_of_a_buffer() {
        for heads in [[4, 4, 4], [6, 2, 2], [1, 1, 1]] {
            let (layouts, elements) = pack(&split(2, 5, 8, &heads, 40)).expect("parts of rows");
            assert_eq!(layouts.to_vec(), split(2, 5, 8, &heads, 0));
            assert_eq!(elements, 2 * 5 * 8 * heads.iter().sum::<usize>());
        }
    }

    #[test]
    fn what_does_not_fill_its_rows_is_not_packed() {
        let parts = split(2, 5, 8, &[4, 4, 4], 0);
        assert!(pack(&parts[..2]).is_none(), "a part is missing");
        assert!(pack(&parts[..1]).is_none(), "one part");
        assert!(pack(&[]).is_none(), "no part");
        let swapped = [parts[1], parts[0], parts[2]];
        assert!(pack(&swapped).is_none(), "another order");
        let dense = Layout::row_major(Shape::unchecked(&[2, 4, 5, 8]));
        assert!(pack(&[dense, dense, dense]).is_none(), "separate tensors");
        let expanded = Layout::new(Shape::unchecked(&[2, 4, 5, 8]), &[480, 0, 96, 1], 0).expect("a layout");
        assert!(pack(&[expanded, parts[1], parts[2]]).is_none(), "a head for all");
        assert!(pack(&split(2, 0, 8, &[4, 4, 4], 0)).is_none(), "no rows");
        assert!(pack(&split(0, 5, 8, &[4, 4, 4], 0)).is_none(), "no batch");
    }
}
