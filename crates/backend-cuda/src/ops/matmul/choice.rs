//! The choice for a product: its tile, how operands come into that, and into how many parts long
//! sums are cut.

use super::operand::Operand;
use super::tensor_maps;
use crate::space::Space;
use crate::tiles::{Taken, note_taken, wanted};
use crate::variant::gemm::{
    BF16X6_TILES, Engine, EpilogueVariant, FUSED_TILES, GemmVariant, LoadMode, MmaInput, Purpose,
    ROW_SUM_TILES, Tile, is_fused, tiles,
};
use crate::variant::{Architecture, Architectures, wrapping_like};
use smallvec::{SmallVec, smallvec};
use ternion_core::DType;
use ternion_core::backend::View;

/// The most bytes of partial sums.
const MOST_PARTIAL: usize = 256 << 20;

/// The most parts that a sum is cut into.
const MOST_SPLITS: usize = 128;

/// Parts that the word of a unit counts at most (`gemm/wgmma_parts.cuh`).
const MOST_ARRIVALS: usize = 255;
const _: () = assert!(MOST_SPLITS <= MOST_ARRIVALS);
/// Microseconds that a kernel takes beside its traffic which does to a product what a fused one does to its sums.
const APART_MICROSECONDS: f64 = 4.0;
/// Sums of fewer terms may be farther from the exact ones by parts of bf16 than in f32, where one term is far above the others (`parts/tests.rs`).
const LEAST_INNER_OF_PARTS: usize = 64;
/// The most blocks of a cluster on every device.
const MOST_IN_CLUSTER: usize = 8;
/// Microseconds that it takes to queue the copy of an operand, and of one with zeros behind its
/// lines.
const COPY_MICROSECONDS: f64 = 4.0;
const PADDED_COPY_MICROSECONDS: f64 = 6.0;
/// Microseconds that products in parts of bf16 take beside the splits and the products: the word that the splits set, and the kernel that returns at once.
const PARTS_MICROSECONDS: f64 = 0.897;
/// Bytes that are read of an element to split it, and written.
const SPLIT_BYTES: usize = 4 + 3 * 2;
/// Two thirds of an H100's bandwidth.
const BYTES_PER_MICROSECOND: f64 = 2e6;

/// Numbers of blocks that a cut aims at: a half of an H100 up to six times all of it.
const AIMS: [usize; 6] = [66, 132, 264, 396, 528, 792];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) matrices: usize,
    /// Elements of a and of b, if the fast tiles of tensor cores do not load them as they are, so
    /// that they are copied for those; else 0.
    pub(super) unaligned: [usize; 2],
    /// Elements of a and of b, if those tiles load them as runs along columns of a or rows of b; else 0.
    pub(super) turned: [usize; 2],
    /// Whether tensor maps can say where operands, or their copies, and the result are.
    pub(super) suits_tensor_maps: bool,
    /// Whether lines of a and of b, as operands of tensor cores, begin beside multiples of 128 bytes.
    pub(super) straddles: [bool; 2],
    /// Bytes of an element of operands of tensor cores and of the result; of others 0.
    pub(super) element_bytes: [usize; 2],
}

impl Sizes {
    pub(super) fn outputs(&self) -> usize {
        self.m * self.n * self.matrices
    }

    /// Elements of a and of b that are copied first for `tile`, along k; 0 of an operand that it takes as it is.
    pub(super) fn copied(&self, tile: &Tile) -> [usize; 2] {
        let [a, b] = self.turned;
        match tile.takes_elements() {
            true => [0; 2],
            // The smaller one.
            false if tile.engine.needs_one_k_major() && a > 0 && b > 0 => {
                if a < b {
                    [a, 0]
                } else {
                    [0, b]
                }
            }
            false => self.unaligned,
        }
    }

    /// Microseconds that the copies take that `tile` asks for, of elements of `size` bytes: to queue one and the zeros
    /// behind its lines, to read and to write.
    fn copies(&self, tile: &Tile, size: usize) -> f64 {
        let copied = self.copied(tile).into_iter().filter(|&elements| elements > 0);
        let queued =
            if self.k.is_multiple_of(16 / size) { COPY_MICROSECONDS } else { PADDED_COPY_MICROSECONDS };
        copied.map(|elements| queued + (elements * 2 * size) as f64 / BYTES_PER_MICROSECOND).sum()
    }

    /// Rows and columns of what the kernel of `tile` multiplies: the other way around where it [is turned](Tile::is_turned).
    pub(super) fn extents(&self, tile: &Tile) -> [usize; 2] {
        match self.are_exchanged(tile) {
            true => [self.n, self.m],
            false => [self.m, self.n],
        }
    }

    /// Whether rows of what the kernel of `tile` multiplies are columns of the result.
    pub(super) fn are_exchanged(&self, tile: &Tile) -> bool {
        let load = |at: usize| match self.turned[at] > 0 && self.copied(tile)[at] == 0 {
            true => LoadMode::MnMajor,
            false => LoadMode::KMajor,
        };
        tile.is_turned([load(0), load(1)])
    }
}

/// What a device has for tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Device {
    pub(super) multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub(super) room: usize,
    pub(super) architecture: Architecture,
}

/// The result of a product, and what is done to it before it is stored.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    pub(super) view: &'a View<'a>,
    /// Whether boxes of it are stored by tensor maps.
    pub(super) stores_boxes: bool,
    /// More than bias and relu, if a kernel may do it.
    pub(super) fused: Option<EpilogueVariant>,
}

/// How a product is launched, wherever its tensors lie and whatever follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Whether a and b are copied first.
    pub(super) is_copied: [bool; 2],
    pub(super) tile: &'static Tile,
    /// How a and b are loaded.
    pub(super) loads: [LoadMode; 2],
    /// Parts that sums are cut into, and how long each is.
    pub(super) splits: usize,
    pub(super) split_length: usize,
    pub(super) blocks: usize,
    pub(super) threads: usize,
    /// Bytes of dynamic shared memory.
    pub(super) shared: usize,
    /// What the kernel does to the sums.
    pub(super) epilogue: EpilogueVariant,
}

impl Choice {
    /// Bytes of the sums of all parts where the product itself adds them up, which are those of whole tiles; else none.
    pub(super) fn parts_inside(&self) -> Option<usize> {
        let Tile { block, .. } = self.tile;
        let bytes = self.blocks * block.m * block.n * DType::F32.size();
        let adds_up = self.splits > 1 && self.tile.adds_up_parts(self.blocks / self.splits);
        (adds_up && bytes <= MOST_PARTIAL).then_some(bytes)
    }
}

/// How a product is launched, and how its form in parts of bf16 is, where that is faster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) choice: Choice,
    pub(super) by_parts: Option<Choice>,
}

impl Chosen {
    /// For those who [measure tiles](crate::tiles).
    fn note(&self) {
        let Choice { tile, splits, is_copied, epilogue, .. } = self.by_parts.as_ref().unwrap_or(&self.choice);
        let copies = is_copied.iter().filter(|&&copied| copied).count();
        let is_fused = *epilogue != EpilogueVariant::BiasRelu;
        note_taken(Taken { tile: tile.name, splits: *splits, copies, is_fused });
    }
}

impl Choice {
    /// Selects the tile of a product that was not asked for before.
    #[cold]
    pub(super) fn select(
        input: MmaInput,
        operands: [&Operand<'_>; 2],
        output: Output<'_>,
        sizes: &Sizes,
        device: Device,
    ) -> Chosen {
        let choice = Choice::of(input, operands, output, sizes, device);
        let by_parts = match input {
            MmaInput::Bf16x6 => by_parts(&choice, operands, output, sizes, device),
            _ => None,
        };
        let new = Chosen { choice, by_parts };
        new.note();
        new
    }

    fn of(
        input: MmaInput,
        operands: [&Operand<'_>; 2],
        output: Output<'_>,
        sizes: &Sizes,
        device: Device,
    ) -> Choice {
        let uses_tensor_cores = input.uses_tensor_cores();
        let if_used = |count: usize| if uses_tensor_cores { count } else { 0 };
        let sizes = Sizes {
            unaligned: operands.map(|operand| if_used(operand.unaligned_elements())),
            turned: operands.map(|operand| if_used(operand.turned_elements())),
            suits_tensor_maps: uses_tensor_cores && suits_tensor_maps(operands, output, sizes),
            straddles: operands.map(|operand| uses_tensor_cores && operand.straddles()),
            element_bytes: match uses_tensor_cores {
                true => [input.dtype().size(), output.view.dtype.size()],
                false => [0; 2],
            },
            ..*sizes
        };
        let (tile, splits) = choose(input, &sizes, device);
        let own_load = |at: usize| match uses_tensor_cores {
            true => operands[at].tensor_load(),
            false => operands[at].simt_load(tile, at == 0),
        };
        let own_loads = [own_load(0), own_load(1)];
        let is_copied = sizes.copied(tile).map(|elements| elements > 0);
        let load = |at: usize| if is_copied[at] { LoadMode::KMajor } else { own_loads[at] };
        let [a, b] = [load(0), load(1)];
        let variant = GemmVariant {
            tile,
            a,
            b,
            operands: wrapping_like(input.dtype()),
            output: wrapping_like(output.view.dtype),
            epilogue: EpilogueVariant::BiasRelu,
        };
        let (variant, splits) = output
            .fused
            .and_then(|epilogue| with_epilogue(GemmVariant { epilogue, ..variant }, splits, &sizes, device))
            .unwrap_or((variant, splits));
        let tile = variant.tile;
        let split_length = sizes.k.max(1).div_ceil(splits).next_multiple_of(tile.block.k);
        let splits = sizes.k.div_ceil(split_length).max(1);
        let shared = match tile.engine.uses_tensor_maps() {
            true => variant.shared(),
            false => tile.shared(input.dtype(), [a, b]),
        };
        Choice {
            is_copied,
            tile,
            loads: [a, b],
            splits,
            split_length,
            blocks: tile.count(&sizes) * splits,
            threads: tile.threads(),
            shared,
            epilogue: variant.epilogue,
        }
    }
}

/// The variant that has the epilogue of `variant`, and the number of parts of its sums, if there is one and it takes less than the
/// product in `splits` parts by the tile of `variant` and a kernel behind it.
pub(super) fn with_epilogue(
    variant: GemmVariant,
    splits: usize,
    sizes: &Sizes,
    device: Device,
) -> Option<(GemmVariant, usize)> {
    if !matches!(variant.tile.engine, Engine::Wgmma | Engine::WgmmaSplitK) || sizes.matrices != 1 {
        return None;
    }
    if variant.epilogue == EpilogueVariant::RowSumsOfA {
        // The product is as it is without, if its tile adds up rows.
        let as_it_is = Some((variant, splits)).filter(|(variant, _)| is_fused(variant));
        return as_it_is.or_else(|| with_row_sums(variant, splits, sizes, device));
    }
    if splits > 1 && wanted().splits.is_some() {
        return None;
    }
    let fused = fused(variant, sizes, device)?;
    let time = |tile: &Tile, splits| tile.predicted(sizes, splits, device.multiprocessors);
    let together = time(fused.tile, 1) + fused.tile.beside_microseconds(sizes, fused.epilogue);
    let apart = time(variant.tile, splits) + apart_microseconds(sizes, fused.epilogue);
    (together <= apart).then_some((fused, 1))
}

/// The variant and the number of parts that are fastest by prediction among those that add up the rows of a, if that takes less than the product in `splits`
/// parts by the tile of `variant` and a reduction, which reads a once more.
fn with_row_sums(
    variant: GemmVariant,
    splits: usize,
    sizes: &Sizes,
    device: Device,
) -> Option<(GemmVariant, usize)> {
    let time = |tile: &Tile, splits| tile.predicted(sizes, splits, device.multiprocessors);
    let wanted = wanted();
    let of_tile = ROW_SUM_TILES.iter().map(|&tile| GemmVariant { tile, ..variant });
    let suitable = of_tile.filter(|variant| is_fused(variant) && wanted.admits(variant.tile));
    let in_parts = suitable.flat_map(|variant| {
        let splits = splits_of(variant.tile, sizes, wanted.splits, device.multiprocessors);
        splits.into_iter().filter(|&splits| fits_partial(sizes, splits)).map(move |splits| (variant, splits))
    });
    let together = |&(variant, splits): &(GemmVariant, usize)| time(variant.tile, splits);
    let fastest = in_parts.min_by(|one, other| together(one).total_cmp(&together(other)))?;
    let read = sizes.m * sizes.k * sizes.element_bytes[0];
    let apart = time(variant.tile, splits) + APART_MICROSECONDS + read as f64 / BYTES_PER_MICROSECOND;
    (together(&fastest) <= apart).then_some(fastest)
}

/// Microseconds of the kernel that does to a stored product what a fused epilogue does to its sums: it reads the product and what the epilogue reads beside,
/// and writes the result.
fn apart_microseconds(sizes: &Sizes, epilogue: EpilogueVariant) -> f64 {
    let tensors = match epilogue {
        EpilogueVariant::PreActivation(_) => 2,
        EpilogueVariant::ActivationGrad(_) | EpilogueVariant::Residual => 3,
        EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => 0,
    };
    let bytes = sizes.outputs() * tensors * sizes.element_bytes[1];
    APART_MICROSECONDS + bytes as f64 / BYTES_PER_MICROSECOND
}

/// The variant with the fused epilogue of the tile that is fastest by prediction, if there are such.
fn fused(variant: GemmVariant, sizes: &Sizes, device: Device) -> Option<GemmVariant> {
    let wanted = wanted();
    let of_tile = FUSED_TILES.iter().map(|&tile| GemmVariant { tile, ..variant });
    let is_unwanted = |variant: &GemmVariant| !wanted.admits(variant.tile);
    let time = |variant: &GemmVariant| {
        let beside = variant.tile.beside_microseconds(sizes, variant.epilogue);
        variant.tile.predicted(sizes, 1, device.multiprocessors) + beside
    };
    of_tile.filter(is_fused).min_by(|one, other| {
        is_unwanted(one).cmp(&is_unwanted(other)).then(time(one).total_cmp(&time(other)))
    })
}

/// How a product is launched in parts of bf16, if it is faster so than by `choice`.
fn by_parts(
    choice: &Choice,
    operands: [&Operand<'_>; 2],
    output: Output<'_>,
    sizes: &Sizes,
    device: Device,
) -> Option<Choice> {
    let batch = Space::in_order(&super::batch_axes([output.view, &operands[0].view, &operands[1].view]));
    let suits = output.stores_boxes && tensor_maps::suits_batch(&batch);
    let sizes = &Sizes { suits_tensor_maps: suits, ..*sizes };
    let exact = choice.tile.predicted(sizes, choice.splits, device.multiprocessors);
    let elements = operands.map(Operand::distinct_elements);
    let (tile, splits) = faster_by_parts(exact, elements, sizes, device)?;
    let loads = operands.map(Operand::load_of_parts);
    let split_length = sizes.k.div_ceil(splits).next_multiple_of(tile.block.k);
    let splits = sizes.k.div_ceil(split_length).max(1);
    let variant = GemmVariant {
        tile,
        a: loads[0],
        b: loads[1],
        operands: tile.engine.operands(DType::F32),
        output: DType::F32,
        epilogue: EpilogueVariant::BiasRelu,
    };
    Some(Choice {
        is_copied: [false; 2],
        tile,
        loads,
        splits,
        split_length,
        blocks: tile.count(sizes) * splits,
        threads: tile.threads(),
        shared: variant.shared(),
        epilogue: variant.epilogue,
    })
}

/// The tile of parts of bf16 and the number of parts of sums, if they take less than `exact` microseconds by prediction; `elements` are those of a and of b,
/// which are split first.
pub(super) fn faster_by_parts(
    exact: f64,
    elements: [usize; 2],
    sizes: &Sizes,
    device: Device,
) -> Option<(&'static Tile, usize)> {
    if !sizes.suits_tensor_maps || sizes.k < LEAST_INNER_OF_PARTS {
        return None;
    }
    let runs = |tile: &Tile| tile.engine.architectures().contain(device.architecture);
    if !BF16X6_TILES.iter().any(|tile| runs(tile) && tile.most_shared(DType::BF16) <= device.room) {
        return None;
    }
    // The last stage of each pair of parts is multiplied as a whole.
    let sizes = &Sizes { k: sizes.k.next_multiple_of(BF16X6_TILES[0].block.k), ..*sizes };
    let architectures = |tile: &Tile| tile.engine.architectures();
    let (tile, splits) = choose_among(&BF16X6_TILES, architectures, DType::BF16, sizes, device);
    let wanted = wanted();
    if wanted.tile.is_some() {
        return wanted.admits(tile).then_some((tile, splits));
    }
    let split_time =
        |elements: usize| COPY_MICROSECONDS + (elements * SPLIT_BYTES) as f64 / BYTES_PER_MICROSECOND;
    let time = PARTS_MICROSECONDS
        + elements.map(split_time).iter().sum::<f64>()
        + tile.predicted(sizes, splits, device.multiprocessors);
    (time < exact).then_some((tile, splits))
}

/// Whether the tensor memory accelerator copies both operands, as they are or as copies, and the result.
fn suits_tensor_maps(
    operands: [&Operand<'_>; 2],
    Output { view: y, stores_boxes, .. }: Output<'_>,
    sizes: &Sizes,
) -> bool {
    let batch = Space::in_order(&super::batch_axes([y, &operands[0].view, &operands[1].view]));
    stores_boxes
        && sizes.k > 0
        && operands.into_iter().all(tensor_maps::suits_operand)
        && tensor_maps::suits_batch(&batch)
}

impl Tile {
    /// Whether it is for products of these sizes, on a device of so many multiprocessors.
    fn serves(&self, sizes: &Sizes, multiprocessors: usize) -> bool {
        if self.engine.uses_tensor_maps() && !sizes.suits_tensor_maps {
            return false;
        }
        if self.needs_rows_along_k() && sizes.turned[0] > 0 {
            return false;
        }
        // A cluster's blocks run at the same time.
        if self.cluster > multiprocessors {
            return false;
        }
        match self.purpose {
            Purpose::Any => true,
            Purpose::FewRows => sizes.m <= self.block.m,
            Purpose::UnalignedOperands => sizes.unaligned != [0; 2],
        }
    }

    /// Tiles of a product, those of whole clusters.
    pub(super) fn count(&self, sizes: &Sizes) -> usize {
        let [rows, columns] = sizes.extents(self);
        let [down, across] = self.cluster_shape();
        let rows = rows.div_ceil(self.block.m).next_multiple_of(down);
        rows * columns.div_ceil(self.block.n).next_multiple_of(across) * sizes.matrices
    }
}

/// The tile and the number of parts with the least predicted time.
pub(super) fn choose(input: MmaInput, sizes: &Sizes, device: Device) -> (&'static Tile, usize) {
    choose_among(tiles(input), |tile| tile.engine.architectures(), input.dtype(), sizes, device)
}

/// As [`choose`], of these tiles, each for its architectures, and of operands of `dtype`. One of them is for every device.
pub(super) fn choose_among(
    tiles: &[&'static Tile],
    architectures: impl Fn(&Tile) -> Architectures,
    dtype: DType,
    sizes: &Sizes,
    device: Device,
) -> (&'static Tile, usize) {
    let Device { multiprocessors, room, architecture } = device;
    let runs = |tile: &Tile| architectures(tile).contain(architecture);
    let serving = || tiles.iter().copied().filter(|tile| runs(tile) && tile.serves(sizes, multiprocessors));
    let wanted = wanted();
    // A tile that is not wanted is better than none.
    let mut best: Option<((bool, f64), &'static Tile, usize)> = None;
    for tile in serving().filter(|tile| tile.most_shared(dtype) <= room) {
        let copies = sizes.copies(tile, dtype.size());
        for splits in splits_of(tile, sizes, wanted.splits, multiprocessors) {
            let stores_parts = splits > 1 && !tile.engine.adds_up_in_clusters();
            if stores_parts && !fits_partial(sizes, splits) {
                continue;
            }
            let rank = (!wanted.admits(tile), copies + tile.predicted(sizes, splits, multiprocessors));
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, tile, splits));
            }
        }
    }
    let smallest = || serving().min_by_key(|tile| tile.most_shared(dtype)).unwrap_or(tiles[0]);
    best.map_or_else(|| (smallest(), 1), |(_, tile, splits)| (tile, splits))
}

/// Whether so many parts of sums are within what is stored of them at most.
fn fits_partial(sizes: &Sizes, splits: usize) -> bool {
    splits == 1 || sizes.outputs() * splits * 8 <= MOST_PARTIAL
}

/// The numbers of parts that a tile's sums may be cut into; where one is wanted, that alone.
fn splits_of(
    tile: &Tile,
    sizes: &Sizes,
    wanted: Option<usize>,
    multiprocessors: usize,
) -> SmallVec<[usize; 8]> {
    let blocks = tile.count(sizes).max(1);
    let longest = sizes.k / (2 * tile.block.k).max(64);
    let cut_of = |aim: &usize| (aim / blocks).min(longest).min(MOST_SPLITS);
    if tile.engine.adds_up_in_clusters() {
        let most = longest.clamp(1, MOST_IN_CLUSTER.min(multiprocessors));
        return match wanted {
            Some(splits) => smallvec![splits.clamp(1, most)],
            None => (1..=MOST_IN_CLUSTER).filter(|&cut| cut.is_power_of_two() && cut <= most).collect(),
        };
    }
    match wanted {
        Some(splits) => smallvec![splits.clamp(1, longest.clamp(1, MOST_SPLITS))],
        None => std::iter::once(1).chain(AIMS.iter().map(cut_of).filter(|&cut| cut > 1)).collect(),
    }
}
