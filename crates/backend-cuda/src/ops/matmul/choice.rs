//! The choice for a product: its tile, how operands come into that, and into how many parts long sums are cut.

use super::operand::Operand;
use super::{Factors, Form, Tile, tiles};
use crate::sources::matmul_name;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;
use std::cell::RefCell;

/// The most bytes of partial sums.
const MOST_PARTIAL: usize = 256 << 20;

/// Products whose choices are remembered.
const MOST_CHOSEN: usize = 4096;

/// The most parts that a sum is cut into.
const MOST_SPLITS: usize = 128;

/// Numbers of blocks that a cut aims at: a half of an H100 up to six times all of it.
const AIMS: [usize; 6] = [66, 132, 264, 396, 528, 792];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) matrices: usize,
    /// Elements of a and of b, if they fit no form of the fast tiles of tensor cores, which are laid out anew for those; else 0.
    pub(super) strays: [usize; 2],
}

impl Sizes {
    pub(super) fn outputs(&self) -> usize {
        self.m * self.n * self.matrices
    }

    /// Microseconds that the copies of strays take, of elements of `size` bytes: what queueing one and the zeros behind its lines takes, and reading and
    /// writing at two thirds of an H100's bandwidth.
    fn copies(&self, size: usize) -> f64 {
        let copied = self.strays.iter().filter(|&&elements| elements > 0);
        let queued = if self.k.is_multiple_of(16 / size) { 4.0 } else { 6.0 };
        copied.map(|&elements| queued + (elements * 2 * size) as f64 / 2e6).sum()
    }
}

/// What a device has for tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Device {
    pub(super) multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub(super) room: usize,
}

/// All that the choice depends on.
#[derive(PartialEq, Eq, Hash)]
struct Asked {
    factors: Factors,
    device: Device,
    /// Whether a and b are aligned.
    are_aligned: [bool; 2],
    /// m, n, k and the number of matrices; a's strides from row to row and along one, then b's.
    matrix: [isize; 8],
    /// Size, stride of a and stride of b of the axes before the matrices.
    batch: SmallVec<[[isize; 3]; 2]>,
}

impl Asked {
    #[inline(always)]
    fn of(factors: Factors, [a, b]: [&Operand<'_>; 2], sizes: &Sizes, device: Device) -> Asked {
        let (a_strides, b_strides) = (a.view.layout.strides(), b.view.layout.strides());
        let leading = a_strides.len() - 2;
        let [m, n, k, matrices] = [sizes.m, sizes.n, sizes.k, sizes.matrices].map(|size| size as isize);
        let [a_row, a_inner, b_inner, b_column] =
            [a_strides[leading], a_strides[leading + 1], b_strides[leading], b_strides[leading + 1]];
        let mut batch = SmallVec::new();
        for axis in 0..leading {
            batch.push([a.view.layout.shape().dim(axis) as isize, a_strides[axis], b_strides[axis]]);
        }
        Asked {
            factors,
            device,
            are_aligned: [a.is_aligned(), b.is_aligned()],
            matrix: [m, n, k, matrices, a_row, a_inner, b_inner, b_column],
            batch,
        }
    }
}

/// How a product is launched, wherever its tensors lie and whatever follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Whether a and b are laid out anew first.
    pub(super) is_copied: [bool; 2],
    /// The name of the unit.
    pub(super) name: &'static str,
    /// Parts that sums are cut into, and how long each is.
    pub(super) splits: usize,
    pub(super) split_length: usize,
    pub(super) blocks: usize,
    pub(super) threads: usize,
    /// Bytes of dynamic shared memory.
    pub(super) shared: usize,
}

impl Choice {
    /// Worked out once for each product of other sizes or strides: to look it up takes a fraction of the time.
    #[inline]
    pub(super) fn remembered(
        factors: Factors,
        operands: [&Operand<'_>; 2],
        sizes: &Sizes,
        device: Device,
    ) -> Choice {
        thread_local! {
            static CHOSEN: RefCell<FxHashMap<Asked, Choice>> =
                const { RefCell::new(FxHashMap::with_hasher(FxBuildHasher)) };
        }
        let asked = Asked::of(factors, operands, sizes, device);
        CHOSEN.with_borrow_mut(|chosen| {
            if let Some(choice) = chosen.get(&asked) {
                return *choice;
            }
            let choice = Choice::of(factors, operands, sizes, device);
            // A program that never multiplies the same sizes twice must not fill the memory with them.
            if chosen.len() >= MOST_CHOSEN {
                chosen.clear();
            }
            chosen.insert(asked, choice);
            choice
        })
    }

    #[cold]
    fn of(factors: Factors, operands: [&Operand<'_>; 2], sizes: &Sizes, device: Device) -> Choice {
        let stray = |operand: &Operand<'_>| if factors.on_tensor_cores() { operand.stray() } else { 0 };
        let sizes = Sizes { strays: operands.map(stray), ..*sizes };
        let (tile, splits) = choose(factors, &sizes, device);
        let own_form = |at: usize| match tile.tensor() {
            true => operands[at].tensor_form(),
            false => operands[at].simt_form(tile, at == 0),
        };
        let own_forms = [own_form(0), own_form(1)];
        let is_copied = own_forms.map(|form| form.is_stray() && !tile.takes_elements());
        let form = |at: usize| if is_copied[at] { Form::Inner } else { own_forms[at] };
        let forms = [form(0), form(1)];
        let split_length = sizes.k.max(1).div_ceil(splits).next_multiple_of(tile.block[2]);
        let splits = sizes.k.div_ceil(split_length).max(1);
        Choice {
            is_copied,
            name: matmul_name(tile.name, forms),
            splits,
            split_length,
            blocks: tile.count(&sizes) * splits,
            threads: tile.threads(),
            shared: tile.shared(factors.dtype(), forms),
        }
    }
}

/// The tile and the number of parts with the least predicted time.
pub(super) fn choose(factors: Factors, sizes: &Sizes, device: Device) -> (&'static Tile, usize) {
    let Device { multiprocessors, room } = device;
    let (dtype, tiles) = (factors.dtype(), tiles(factors));
    let serving = || tiles.iter().filter(|tile| tile.serves(sizes));
    let mut best: Option<(f64, &'static Tile, usize)> = None;
    for tile in serving().filter(|tile| tile.most_shared(dtype) <= room) {
        let copies = if tile.takes_elements() { 0.0 } else { sizes.copies(dtype.size()) };
        let blocks = tile.count(sizes).max(1);
        let longest = sizes.k / (2 * tile.block[2]).max(64);
        let cuts = AIMS.iter().map(|aim| (aim / blocks).min(longest).min(MOST_SPLITS)).filter(|&cut| cut > 1);
        for splits in std::iter::once(1).chain(cuts) {
            if splits > 1 && sizes.outputs() * splits * 8 > MOST_PARTIAL {
                continue;
            }
            let time = copies + tile.predicted(sizes, splits, multiprocessors);
            if best.is_none_or(|(least, ..)| time < least) {
                best = Some((time, tile, splits));
            }
        }
    }
    let smallest = || serving().min_by_key(|tile| tile.most_shared(dtype)).unwrap_or(&tiles[0]);
    best.map_or_else(|| (smallest(), 1), |(_, tile, splits)| (tile, splits))
}
