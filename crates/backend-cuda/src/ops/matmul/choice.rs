//! The choice for a product: its tile, how operands are loaded into it, and the number of splits of
//! a long k.

use super::operand::Operand;
use super::tensor_maps;
use crate::tiles::{LaunchedTile, record_tile, tile_override};
use crate::variant::gemm::{
    BF16X6_TILES, Engine, EpilogueVariant, FUSED_TILES, GemmVariant, LoadMode, MmaInput, Purpose,
    ROW_SUM_TILES, Tile, is_fused, tiles,
};
use crate::variant::{Architecture, Architectures, wrapping_like};
use smallvec::{SmallVec, smallvec};
use ternion_core::DType;
use ternion_core::backend::View;

/// The maximum number of bytes of partial sums.
const MAX_PARTIAL_BYTES: usize = 256 << 20;

/// The maximum number of splits of k.
const MAX_SPLITS: usize = 128;

/// The maximum number of splits that can be counted in the 8 bits of the arrival counter of a
/// consumer's part of a tile (`gemm/wgmma_split_k_fixup.cuh`).
const MAX_ARRIVALS: usize = 255;
const _: () = assert!(MAX_SPLITS <= MAX_ARRIVALS);
/// Microseconds that a separate epilogue kernel takes in addition to its memory traffic, which a
/// fused epilogue saves.
const UNFUSED_MICROSECONDS: f64 = 4.0;
/// The minimum k for bf16x6. With a smaller k, sums in which one term is much larger than the
/// others may be less accurate than in f32 (`bf16x6/tests.rs`).
const MIN_K_OF_BF16X6: usize = 64;
/// The maximum number of blocks of a cluster that every device supports.
const MAX_SPLITS_IN_CLUSTER: usize = 8;
/// Microseconds to queue the copy of an operand.
const COPY_MICROSECONDS: f64 = 4.0;
/// As [`COPY_MICROSECONDS`], if the lines of the copy are padded with zeros.
const PADDED_COPY_MICROSECONDS: f64 = 6.0;
/// Microseconds of bf16x6 in addition to the split kernels and the products: to clear the word that
/// the split kernels set, and to run the product kernel that returns at once.
const PARTS_MICROSECONDS: f64 = 0.897;
/// Bytes that are read and written per element to split it.
const SPLIT_BYTES: usize = 4 + 3 * 2;
/// Bytes per microsecond of copies, of splitting operands into bf16 terms and of separate
/// epilogues: two thirds of an H100's bandwidth.
const BYTES_PER_MICROSECOND: f64 = 2e6;

/// The numbers of blocks that split-K aims at: from half of an H100's multiprocessors to six times
/// all of them.
const TARGET_BLOCKS: [usize; 6] = [66, 132, 264, 396, 528, 792];

/// The sizes of a product, and the properties of its operands that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// The number of products in the batch.
    pub(super) matrices: usize,
    /// Elements of a and of b, if the fast tiles of tensor cores do not load them in their layout,
    /// so that these tiles need a copy; otherwise 0.
    pub(super) unaligned: [usize; 2],
    /// Elements of a and of b, if these tiles load them along columns of a or rows of b (MN-major);
    /// otherwise 0.
    pub(super) mn_major_elements: [usize; 2],
    /// Whether tensor maps support the layouts of the operands, or of their copies, and of the
    /// result.
    pub(super) supports_tensor_maps: bool,
    /// Whether lines of a and of b, as operands of tensor cores, are not aligned to 128 bytes.
    pub(super) unaligned_to_l2_line: [bool; 2],
    /// Bytes of an element of the operands and of the result on tensor cores; otherwise 0.
    pub(super) element_bytes: [usize; 2],
}

impl Sizes {
    pub(super) fn outputs(&self) -> usize {
        self.m * self.n * self.matrices
    }

    /// Returns the elements of a and of b that are copied first for `tile`, to be contiguous along
    /// k; 0 for an operand that it supports unchanged.
    pub(super) fn copied_elements(&self, tile: &Tile) -> [usize; 2] {
        let [a, b] = self.mn_major_elements;
        match tile.supports_elements() {
            true => [0; 2],
            // The smaller operand is copied.
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

    /// Returns the microseconds of the copies that `tile` needs, with elements of `size` bytes: to
    /// queue each copy, with the padding of its lines, to read and to write it.
    fn copy_microseconds(&self, tile: &Tile, size: usize) -> f64 {
        let copied = self.copied_elements(tile).into_iter().filter(|&elements| elements > 0);
        let queued =
            if self.k.is_multiple_of(16 / size) { COPY_MICROSECONDS } else { PADDED_COPY_MICROSECONDS };
        copied.map(|elements| queued + (elements * 2 * size) as f64 / BYTES_PER_MICROSECOND).sum()
    }

    /// Returns the rows and columns of the product that the kernel of `tile` computes, which are
    /// exchanged if it [swaps a and b](Tile::swaps_operands).
    pub(super) fn extents(&self, tile: &Tile) -> [usize; 2] {
        match self.swaps_operands(tile) {
            true => [self.n, self.m],
            false => [self.m, self.n],
        }
    }

    /// Returns whether the rows of the product that the kernel of `tile` computes are columns of
    /// the result.
    pub(super) fn swaps_operands(&self, tile: &Tile) -> bool {
        let load = |i: usize| match self.mn_major_elements[i] > 0 && self.copied_elements(tile)[i] == 0 {
            true => LoadMode::MnMajor,
            false => LoadMode::KMajor,
        };
        tile.swaps_operands([load(0), load(1)])
    }
}

/// The resources of a device for tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Device {
    pub(super) multiprocessors: usize,
    /// Maximum bytes of shared memory of a block.
    pub(super) max_shared_memory: usize,
    pub(super) architecture: Architecture,
}

/// The result of a product, and its epilogue.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    pub(super) view: &'a View<'a>,
    /// Whether its boxes are stored by tensor maps.
    pub(super) stores_boxes: bool,
    /// The epilogue beyond bias and relu, if a kernel can be fused with it.
    pub(super) fused: Option<EpilogueVariant>,
}

/// How a product is launched, independent of the addresses of its tensors and of what follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Whether a and b are copied first.
    pub(super) is_copied: [bool; 2],
    pub(super) tile: &'static Tile,
    /// How a and b are loaded.
    pub(super) loads: [LoadMode; 2],
    /// The number of splits of k, and the length of each.
    pub(super) splits: usize,
    pub(super) split_length: usize,
    pub(super) blocks: usize,
    pub(super) threads: usize,
    /// Bytes of dynamic shared memory.
    pub(super) shared_bytes: usize,
    /// The epilogue of the kernel.
    pub(super) epilogue: EpilogueVariant,
}

impl Choice {
    /// Returns the variant of the kernel for the operand a and the result y.
    #[inline]
    pub(super) fn variant(&self, a: &Operand<'_>, y: &View<'_>) -> GemmVariant {
        GemmVariant {
            tile: self.tile,
            a: self.loads[0],
            b: self.loads[1],
            operands: self.tile.engine.operands(wrapping_like(a.view.dtype)),
            output: wrapping_like(y.dtype),
            epilogue: self.epilogue,
        }
    }

    /// Returns the bytes of the partial sums, which are those of whole tiles, if the product kernel
    /// adds them itself; otherwise `None`.
    pub(super) fn fused_partial_bytes(&self) -> Option<usize> {
        let Tile { block, .. } = self.tile;
        let bytes = self.blocks * block.m * block.n * DType::F32.size();
        let reduces = self.splits > 1 && self.tile.reduces_splits(self.blocks / self.splits);
        (reduces && bytes <= MAX_PARTIAL_BYTES).then_some(bytes)
    }
}

/// How a product is launched, and how it is launched as bf16x6 if that is faster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choices {
    pub(super) choice: Choice,
    pub(super) bf16x6_choice: Option<Choice>,
}

impl Choices {
    /// Records the choice for [measurements of tiles](crate::tiles).
    fn record(&self) {
        let Choice { tile, splits, is_copied, epilogue, .. } =
            self.bf16x6_choice.as_ref().unwrap_or(&self.choice);
        let copies = is_copied.iter().filter(|&&copied| copied).count();
        let is_fused = *epilogue != EpilogueVariant::BiasRelu;
        record_tile(LaunchedTile { tile: tile.name, splits: *splits, copies, is_fused });
    }
}

impl Choice {
    /// Selects the tile of a product that is not in the cache of choices.
    #[cold]
    pub(super) fn select(
        input: MmaInput,
        operands: [&Operand<'_>; 2],
        output: Output<'_>,
        sizes: &Sizes,
        device: Device,
    ) -> Choices {
        let choice = Choice::of(input, operands, output, sizes, device);
        let bf16x6_choice = match input {
            MmaInput::Bf16x6 => bf16x6_choice(&choice, operands, output, sizes, device),
            _ => None,
        };
        let choices = Choices { choice, bf16x6_choice };
        choices.record();
        choices
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
            mn_major_elements: operands.map(|operand| if_used(operand.mn_major_elements())),
            supports_tensor_maps: uses_tensor_cores && supports_tensor_maps(operands, output, sizes),
            unaligned_to_l2_line: operands
                .map(|operand| uses_tensor_cores && operand.is_unaligned_to_l2_line()),
            element_bytes: match uses_tensor_cores {
                true => [input.dtype().size(), output.view.dtype.size()],
                false => [0; 2],
            },
            ..*sizes
        };
        let (tile, splits) = choose(input, &sizes, device);
        let direct_load = |operand: usize| match uses_tensor_cores {
            true => operands[operand].tensor_load(),
            false => operands[operand].simt_load(tile, operand == 0),
        };
        let direct_loads = [direct_load(0), direct_load(1)];
        let is_copied = sizes.copied_elements(tile).map(|elements| elements > 0);
        let load = |i: usize| if is_copied[i] { LoadMode::KMajor } else { direct_loads[i] };
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
        let shared_bytes = match tile.engine.uses_tensor_maps() {
            true => variant.shared_bytes(),
            false => tile.shared_bytes(input.dtype(), [a, b]),
        };
        Choice {
            is_copied,
            tile,
            loads: [a, b],
            splits,
            split_length,
            blocks: tile.count(&sizes) * splits,
            threads: tile.threads(),
            shared_bytes,
            epilogue: variant.epilogue,
        }
    }
}

/// Returns the variant with the epilogue of `variant`, and its number of splits, if there is one
/// and it takes less time than the product in `splits` splits by the tile of `variant` followed by
/// an epilogue kernel.
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
        // If its tile adds rows, the product is launched as it would be without row sums.
        let unchanged = Some((variant, splits)).filter(|(variant, _)| is_fused(variant));
        return unchanged.or_else(|| with_row_sums(variant, splits, sizes, device));
    }
    if splits > 1 && tile_override().splits.is_some() {
        return None;
    }
    let fused = fastest_fused(variant, sizes, device)?;
    let time = |tile: &Tile, splits| tile.predicted(sizes, splits, device.multiprocessors);
    let fused_time = time(fused.tile, 1) + fused.tile.epilogue_microseconds(sizes, fused.epilogue);
    let unfused_time = time(variant.tile, splits) + unfused_microseconds(sizes, fused.epilogue);
    (fused_time <= unfused_time).then_some((fused, 1))
}

/// Returns the variant and the number of splits with the shortest predicted time among those that
/// add the rows of a, if that time is less than the time of the product in `splits` splits by the
/// tile of `variant` plus that of a reduction, which reads a again.
fn with_row_sums(
    variant: GemmVariant,
    splits: usize,
    sizes: &Sizes,
    device: Device,
) -> Option<(GemmVariant, usize)> {
    let time = |tile: &Tile, splits| tile.predicted(sizes, splits, device.multiprocessors);
    let tile_override = tile_override();
    let of_tile = ROW_SUM_TILES.iter().map(|&tile| GemmVariant { tile, ..variant });
    let suitable = of_tile.filter(|variant| is_fused(variant) && tile_override.admits(variant.tile));
    let with_splits = suitable.flat_map(|variant| {
        let splits = splits_of(variant.tile, sizes, tile_override.splits, device.multiprocessors);
        splits.into_iter().filter(|&splits| fits_partial(sizes, splits)).map(move |splits| (variant, splits))
    });
    let fused_time = |&(variant, splits): &(GemmVariant, usize)| time(variant.tile, splits);
    let fastest = with_splits.min_by(|one, other| fused_time(one).total_cmp(&fused_time(other)))?;
    let read = sizes.m * sizes.k * sizes.element_bytes[0];
    let unfused_time =
        time(variant.tile, splits) + UNFUSED_MICROSECONDS + read as f64 / BYTES_PER_MICROSECOND;
    (fused_time(&fastest) <= unfused_time).then_some(fastest)
}

/// Returns the microseconds of the separate epilogue kernel: it reads the product and the other
/// inputs of the epilogue, and writes the result.
fn unfused_microseconds(sizes: &Sizes, epilogue: EpilogueVariant) -> f64 {
    let tensors = match epilogue {
        EpilogueVariant::PreActivation(_) => 2,
        EpilogueVariant::ActivationGrad(_) | EpilogueVariant::Residual => 3,
        EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => 0,
    };
    let bytes = sizes.outputs() * tensors * sizes.element_bytes[1];
    UNFUSED_MICROSECONDS + bytes as f64 / BYTES_PER_MICROSECOND
}

/// Returns the variant with the fused epilogue whose tile has the shortest predicted time, if there
/// is one.
fn fastest_fused(variant: GemmVariant, sizes: &Sizes, device: Device) -> Option<GemmVariant> {
    let tile_override = tile_override();
    let of_tile = FUSED_TILES.iter().map(|&tile| GemmVariant { tile, ..variant });
    let is_excluded = |variant: &GemmVariant| !tile_override.admits(variant.tile);
    let time = |variant: &GemmVariant| {
        let epilogue_time = variant.tile.epilogue_microseconds(sizes, variant.epilogue);
        variant.tile.predicted(sizes, 1, device.multiprocessors) + epilogue_time
    };
    of_tile.filter(is_fused).min_by(|one, other| {
        is_excluded(one).cmp(&is_excluded(other)).then(time(one).total_cmp(&time(other)))
    })
}

/// Returns how a product is launched as bf16x6, if that is faster than `choice`.
fn bf16x6_choice(
    choice: &Choice,
    operands: [&Operand<'_>; 2],
    output: Output<'_>,
    sizes: &Sizes,
    device: Device,
) -> Option<Choice> {
    let batch = super::batch_space([output.view, &operands[0].view, &operands[1].view]);
    let is_supported = output.stores_boxes && tensor_maps::supports_batch(&batch);
    let sizes = &Sizes { supports_tensor_maps: is_supported, ..*sizes };
    let exact = choice.tile.predicted(sizes, choice.splits, device.multiprocessors);
    let elements = operands.map(Operand::distinct_elements);
    let (tile, splits) = faster_bf16x6(exact, elements, sizes, device)?;
    let loads = operands.map(Operand::bf16x6_load);
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
        shared_bytes: variant.shared_bytes(),
        epilogue: variant.epilogue,
    })
}

/// Returns the tile for bf16x6 and the number of splits, if their predicted time is less than
/// `exact` microseconds. `elements` are those of a and of b, which are split into bf16 terms first.
pub(super) fn faster_bf16x6(
    exact: f64,
    elements: [usize; 2],
    sizes: &Sizes,
    device: Device,
) -> Option<(&'static Tile, usize)> {
    if !sizes.supports_tensor_maps || sizes.k < MIN_K_OF_BF16X6 {
        return None;
    }
    let is_supported = |tile: &Tile| tile.engine.architectures().contain(device.architecture);
    if !BF16X6_TILES
        .iter()
        .any(|tile| is_supported(tile) && tile.max_shared_bytes(DType::BF16) <= device.max_shared_memory)
    {
        return None;
    }
    // The last stage of each pair of bf16 terms is multiplied completely.
    let sizes = &Sizes { k: sizes.k.next_multiple_of(BF16X6_TILES[0].block.k), ..*sizes };
    let architectures = |tile: &Tile| tile.engine.architectures();
    let (tile, splits) = choose_among(&BF16X6_TILES, architectures, DType::BF16, sizes, device);
    let tile_override = tile_override();
    if tile_override.tile.is_some() {
        return tile_override.admits(tile).then_some((tile, splits));
    }
    let split_time =
        |elements: usize| COPY_MICROSECONDS + (elements * SPLIT_BYTES) as f64 / BYTES_PER_MICROSECOND;
    let time = PARTS_MICROSECONDS
        + elements.map(split_time).iter().sum::<f64>()
        + tile.predicted(sizes, splits, device.multiprocessors);
    (time < exact).then_some((tile, splits))
}

/// Returns whether TMA can copy both operands, unchanged or as copies, and the result.
fn supports_tensor_maps(
    operands: [&Operand<'_>; 2],
    Output { view: y, stores_boxes, .. }: Output<'_>,
    sizes: &Sizes,
) -> bool {
    let batch = super::batch_space([y, &operands[0].view, &operands[1].view]);
    stores_boxes
        && sizes.k > 0
        && operands.into_iter().all(tensor_maps::supports_operand)
        && tensor_maps::supports_batch(&batch)
}

impl Tile {
    /// Returns whether it can be used for products of these sizes, on a device with this number of
    /// multiprocessors.
    fn supports_sizes(&self, sizes: &Sizes, multiprocessors: usize) -> bool {
        if self.engine.uses_tensor_maps() && !sizes.supports_tensor_maps {
            return false;
        }
        if self.needs_k_major_a() && sizes.mn_major_elements[0] > 0 {
            return false;
        }
        // The blocks of a cluster run at the same time.
        if self.cluster > multiprocessors {
            return false;
        }
        match self.purpose {
            Purpose::Any => true,
            Purpose::FewRows => sizes.m <= self.block.m,
            Purpose::UnalignedOperands => sizes.unaligned != [0; 2],
        }
    }

    /// Returns the tiles of a product, including those that complete clusters.
    pub(super) fn count(&self, sizes: &Sizes) -> usize {
        let [rows, columns] = sizes.extents(self);
        let [along_m, along_n] = self.cluster_shape();
        let rows = rows.div_ceil(self.block.m).next_multiple_of(along_m);
        rows * columns.div_ceil(self.block.n).next_multiple_of(along_n) * sizes.matrices
    }
}

/// Returns the tile and the number of splits with the shortest predicted time.
pub(super) fn choose(input: MmaInput, sizes: &Sizes, device: Device) -> (&'static Tile, usize) {
    choose_among(tiles(input), |tile| tile.engine.architectures(), input.dtype(), sizes, device)
}

/// As [`choose`], for these tiles, each with its architectures, and for operands of `dtype`. At
/// least one of the tiles supports every device.
pub(super) fn choose_among(
    tiles: &[&'static Tile],
    architectures: impl Fn(&Tile) -> Architectures,
    dtype: DType,
    sizes: &Sizes,
    device: Device,
) -> (&'static Tile, usize) {
    let Device { multiprocessors, max_shared_memory, architecture } = device;
    let fits = |tile: &Tile| architectures(tile).contain(architecture);
    let supported =
        || tiles.iter().copied().filter(|tile| fits(tile) && tile.supports_sizes(sizes, multiprocessors));
    let tile_override = tile_override();
    // If the requested tile does not support the product, another one is used.
    let mut best: Option<((bool, f64), &'static Tile, usize)> = None;
    for tile in supported().filter(|tile| tile.max_shared_bytes(dtype) <= max_shared_memory) {
        let copy_time = sizes.copy_microseconds(tile, dtype.size());
        for splits in splits_of(tile, sizes, tile_override.splits, multiprocessors) {
            let stores_partials = splits > 1 && !tile.engine.reduces_in_cluster();
            if stores_partials && !fits_partial(sizes, splits) {
                continue;
            }
            let rank =
                (!tile_override.admits(tile), copy_time + tile.predicted(sizes, splits, multiprocessors));
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, tile, splits));
            }
        }
    }
    let smallest = || supported().min_by_key(|tile| tile.max_shared_bytes(dtype)).unwrap_or(tiles[0]);
    best.map_or_else(|| (smallest(), 1), |(_, tile, splits)| (tile, splits))
}

/// Returns whether the partial sums of this many splits fit into the maximum memory.
fn fits_partial(sizes: &Sizes, splits: usize) -> bool {
    splits == 1 || sizes.outputs() * splits * 8 <= MAX_PARTIAL_BYTES
}

/// Returns the numbers of splits to consider for a tile. If a number is requested, it is the only
/// one.
fn splits_of(
    tile: &Tile,
    sizes: &Sizes,
    requested: Option<usize>,
    multiprocessors: usize,
) -> SmallVec<[usize; 8]> {
    let blocks = tile.count(sizes).max(1);
    let max_by_length = sizes.k / (2 * tile.block.k).max(64);
    let splits_for = |target: &usize| (target / blocks).min(max_by_length).min(MAX_SPLITS);
    if tile.engine.reduces_in_cluster() {
        let max_in_cluster = max_by_length.clamp(1, MAX_SPLITS_IN_CLUSTER.min(multiprocessors));
        return match requested {
            Some(splits) => smallvec![splits.clamp(1, max_in_cluster)],
            None => (1..=MAX_SPLITS_IN_CLUSTER)
                .filter(|&splits| splits.is_power_of_two() && splits <= max_in_cluster)
                .collect(),
        };
    }
    match requested {
        Some(splits) => smallvec![splits.clamp(1, max_by_length.clamp(1, MAX_SPLITS))],
        None => std::iter::once(1)
            .chain(TARGET_BLOCKS.iter().map(splits_for).filter(|&splits| splits > 1))
            .collect(),
    }
}
