//! Rows that are read as vec4 and kept in registers: which rows qualify, how they are partitioned
//! among threads, and the launches of exponentials_vec4.wgsl, sums_vec4.wgsl and
//! norm_grad_vec4.wgsl. Also reductions that read vec4.

use super::partition::ContiguousAxis;
use super::template::{RegisterOutput, RegisterRows, RegisterTemplate, SingleElements};
use super::{Bound, Partition, RowOperand, Rows};
use crate::gpu::Gpu;
use crate::names::{
    Accumulate, Constant, Exponentials, ExponentialsOfAny, Fill, HiddenWords, JoinedWords, PutVec4,
    RowPadding, SlotName, SoftmaxVec4, Switch, TeamMax, TeamSum, TeamSums, Vec4OfWords, WordsOfVec4,
};
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use ternion_core::Result;
use ternion_core::backend::Buffer;
use wgpu::Limits;

/// Minimum number of elements for which a separate shader is worth its compilation time.
const MIN_ELEMENTS: usize = 1 << 14;
/// Threads of a workgroup, unless a row has more.
const THREADS: u32 = 256;
/// Maximum number of threads of a row.
pub(crate) const MAX_THREADS: u32 = 512;
/// Number of threads that fill a device. If there would be fewer, each thread holds fewer elements.
const BUSY_THREADS: usize = 1 << 15;
/// Number of workgroups that loop over rows: twice the number of multiprocessors of large devices.
const LOOP_WORKGROUPS: u32 = 264;
/// If there are fewer than `FEW_ROWS` rows and they are longer than `LONG_ROW`, several workgroups
/// process each row.
const LONG_ROW: usize = 8192;
const FEW_ROWS: usize = 128;

/// Minimum number of elements that a thread reduces, for many rows and for few: eight vec4 and two.
const MIN_REDUCED_PER_THREAD: [usize; 2] = [32, 8];

/// How a row is partitioned among threads: placeholders of row_vec4.wgsl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RegisterPartition {
    /// Threads of a workgroup, and threads that share a row.
    threads: u32,
    members: u32,
    /// Number of vec4 that a thread holds.
    per_thread: u32,
    /// Whether all threads hold the same number of elements.
    exact: bool,
    /// Whether rows may begin or end in the middle of a vec4.
    edges: bool,
    /// Whether a row is longer than what its threads hold.
    long: bool,
    /// Number of vec4 that a thread reads at a time of the part of a long row that is not held.
    batch: u32,
}

/// The number of vec4 that a thread holds.
struct RegisterBudget {
    /// The number for a row that may have as many threads as it needs.
    target: usize,
    /// The maximum number.
    max: usize,
    /// The number for a row that its threads cannot hold completely.
    long: usize,
    /// The number of vec4 that a thread reads at a time of the part of such a row that is not held.
    batch: usize,
}

impl RegisterBudget {
    fn of(per_word: usize) -> RegisterBudget {
        match per_word {
            2 => RegisterBudget { target: 8, max: 8, long: 2, batch: 8 },
            _ => RegisterBudget { target: 4, max: 8, long: 2, batch: 4 },
        }
    }
}

/// Returns the largest workgroup size of these shaders on the device: a power of two.
fn max_threads(gpu: &Gpu) -> u32 {
    let Limits {
        max_compute_invocations_per_workgroup: threads, max_compute_workgroup_size_x: size_x, ..
    } = gpu.limits;
    1 << threads.min(size_x).clamp(1, MAX_THREADS).ilog2()
}

impl RegisterPartition {
    /// Returns the partition for `rows` rows of `length` elements, with `per_word` elements in a
    /// word. Returns `None` if the threads cannot hold the rows and the shader requires it.
    fn of(
        gpu: &Gpu,
        [rows, length]: [usize; 2],
        per_word: usize,
        edges: bool,
        register_rows: &RegisterRows,
    ) -> Option<RegisterPartition> {
        let RegisterBudget { target, max, long: long_per_thread, batch } = RegisterBudget::of(per_word);
        let vec4s = if edges { length.div_ceil(4) + 1 } else { length / 4 };
        let max_members = max_threads(gpu).min(register_rows.max_threads) as usize;
        let target = if rows * vec4s.div_ceil(target) < BUSY_THREADS { target / 2 } else { target };
        let members = vec4s.div_ceil(target).next_power_of_two().min(max_members);
        let per_thread = vec4s.div_ceil(members);
        let long = per_thread > max;
        let register_partition = RegisterPartition {
            threads: THREADS.min(register_rows.max_threads).max(members as u32).min(max_threads(gpu)),
            members: members as u32,
            per_thread: if long { long_per_thread } else { per_thread } as u32,
            batch: batch as u32,
            exact: !edges && vec4s == members * per_thread,
            edges,
            long,
        };
        (register_rows.any_length || !long).then_some(register_partition)
    }

    /// Returns the partition for teams that loop over rows. Each thread holds less, because it also
    /// holds sums and the next row.
    fn row_loop(gpu: &Gpu, length: usize) -> Option<RegisterPartition> {
        let max_members = max_threads(gpu) as usize;
        let vec4s = length / 4;
        let members = vec4s.div_ceil(2).next_power_of_two().min(max_members);
        let per_thread = vec4s.div_ceil(members);
        let register_partition = RegisterPartition {
            threads: THREADS.max(members as u32).min(max_threads(gpu)),
            members: members as u32,
            per_thread: per_thread as u32,
            exact: vec4s == members * per_thread,
            edges: false,
            long: false,
            batch: 1,
        };
        (per_thread <= 4).then_some(register_partition)
    }

    /// Returns `partition` with the threads of this partition and at most `max_groups` workgroups,
    /// which loop if there are more rows.
    fn apply_to(self, partition: Partition, max_groups: u32) -> Partition {
        let per_group = self.threads / self.members;
        let blocks = partition.rows.div_ceil(per_group).min(max_groups);
        let loop_count = partition.rows.div_ceil(blocks * per_group);
        Partition { members: self.members, per_group, parts: 1, blocks, loop_count, ..partition }
    }

    /// Returns the placeholders that depend on the partition.
    fn fills(self, gpu: &Gpu) -> [Fill; 10] {
        let [max, sum, sums]: [Fill; 3] = match gpu.subgroup {
            Some(_) => [TeamMax::Subgroups.into(), TeamSum::Subgroups.into(), TeamSums::Subgroups.into()],
            None => [TeamMax::Memory.into(), TeamSum::Memory.into(), TeamSums::Memory.into()],
        };
        let subgroup = gpu.subgroup.unwrap_or(1);
        [
            Constant::Threads.is(self.threads),
            Constant::Members.is(self.members),
            Constant::PerThread.is(self.per_thread),
            Switch::Exact.is(self.exact),
            Switch::Edges.is(self.edges),
            Constant::Subgroup.is(subgroup),
            Constant::TeamMemory.is(2 * self.threads.div_ceil(subgroup)),
            max,
            sum,
            sums,
        ]
    }
}

/// The value of padding next to a row.
#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zero,
    Lowest,
}

/// Returns the functions for elements stored as `store`. `single`: elements may also be written one
/// by one.
fn store_fills(store: StorageFormat, padding: Padding, single: bool) -> [Fill; 8] {
    let (vec4, words, lowest) = match store {
        StorageFormat::F16 => (Vec4OfWords::F16, WordsOfVec4::F16, RowPadding::LowestF16),
        StorageFormat::BF16 if single => (Vec4OfWords::BF16, WordsOfVec4::OneBF16, RowPadding::LowestBF16),
        StorageFormat::BF16 => (Vec4OfWords::BF16, WordsOfVec4::BF16, RowPadding::LowestBF16),
        _ => (Vec4OfWords::F32, WordsOfVec4::F32, RowPadding::LowestF32),
    };
    let is_half = store.per_word() == 2;
    let zero = if is_half { RowPadding::ZeroHalf } else { RowPadding::ZeroF32 };
    let (vec4, words) = (vec4.into(), words.into());
    let padding = if padding == Padding::Lowest { lowest } else { zero }.into();
    let [joined, hidden, exponentials, softmax, of_any]: [Fill; 5] = match is_half {
        true => [
            JoinedWords::Half.into(),
            HiddenWords::Half.into(),
            Exponentials::Half.into(),
            SoftmaxVec4::Half.into(),
            ExponentialsOfAny::Half.into(),
        ],
        false => [
            JoinedWords::F32.into(),
            HiddenWords::F32.into(),
            Exponentials::F32.into(),
            SoftmaxVec4::F32.into(),
            ExponentialsOfAny::F32.into(),
        ],
    };
    [vec4, words, padding, joined, hidden, exponentials, softmax, of_any]
}

impl<'a> Rows<'a> {
    /// Queues the shader that holds rows in registers if the layout allows it. Otherwise calls
    /// [`Rows::launch`].
    pub(crate) fn launch_in_registers(self, register_rows: &RegisterRows) -> Result<()> {
        match self.register_partition(register_rows) {
            Some(register_partition) => self.queue_in_registers(register_rows, register_partition),
            None => self.launch(),
        }
    }

    /// Returns the partition of rows that are held in registers, or `None` if the layout does not
    /// allow it, there are few elements, or several workgroups should process each row.
    fn register_partition(&self, register_rows: &RegisterRows) -> Option<RegisterPartition> {
        let (rows, length) = (self.partition.rows as usize, self.partition.length as usize);
        let several = self.partition.parts > 1 && length > LONG_ROW && rows < FEW_ROWS;
        if self.partition.across != 0 || several || rows * length < MIN_ELEMENTS {
            return None;
        }
        let (store, edges) = self.vec4_store(register_rows.vec4)?;
        let register_partition =
            RegisterPartition::of(self.gpu, [rows, length], store.per_word(), edges, register_rows)?;
        (register_rows.any_length || !edges).then_some(register_partition)
    }

    /// Returns how the elements of these tensors are stored, and whether rows begin or end in the
    /// middle of a vec4. Returns `None` unless all of the tensors can be read as vec4, with the
    /// same alignment of rows.
    fn vec4_store(&self, names: &[SlotName]) -> Option<(StorageFormat, bool)> {
        let (space, rank, over) = (&self.parameters.space, self.parameters.rank, &self.parameters.over);
        let mut store = None;
        // The alignment of rows modulo 4: of the first row, and of the stride from row to row along
        // each axis.
        let mut begins: Option<[u32; 9]> = None;
        for bound in self.outputs.iter().chain(&self.inputs).filter(|bound| names.contains(&bound.name)) {
            let mut begin = [0; 9];
            begin[8] = bound.first % 4;
            if let RowOperand::Space(tensor) = bound.operand {
                let moves = |axis: &usize| space.sizes[*axis] > 1;
                (0..rank as usize)
                    .filter(moves)
                    .for_each(|axis| begin[axis] = space.strides[tensor][axis] % 4);
                if self.parameters.over_rank != 1 || over.strides[tensor][0] != 1 {
                    return None;
                }
            }
            let has_same_alignment = begins.is_none_or(|begins| begins == begin);
            let has_same_store = store.is_none_or(|store| store == bound.store);
            if !has_same_alignment || !has_same_store || !self.gpu.is_one_binding(&bound.binding) {
                return None;
            }
            (begins, store) = (Some(begin), Some(bound.store));
        }
        let edges = begins? != [0; 9] || !self.partition.length.is_multiple_of(4);
        Some((store?, edges))
    }

    /// Declares these tensors as arrays of vec4.
    fn access_as_vec4(&mut self, names: &[SlotName]) {
        for bound in self.outputs.iter_mut().chain(&mut self.inputs) {
            if names.contains(&bound.name) {
                bound.access =
                    if bound.access.binds_read_write() { Access::WriteVec4 } else { Access::ReadVec4 };
            }
        }
    }

    fn queue_in_registers(
        mut self,
        register_rows: &RegisterRows,
        register_partition: RegisterPartition,
    ) -> Result<()> {
        let (shader, padding) = match register_rows.template {
            RegisterTemplate::Exponentials { .. } => (Shader::ExponentialsVec4, Padding::Lowest),
            RegisterTemplate::Sums { .. } => (Shader::SumsVec4, Padding::Zero),
        };
        self.shader = shader;
        let single = self.fill_output(register_rows.output, register_partition);
        if single
            || (register_partition.edges && matches!(register_rows.output, RegisterOutput::Elements { .. }))
        {
            self.bind_edges();
        }
        match register_rows.template {
            RegisterTemplate::Exponentials { skips, sums } => {
                self.fills.extend::<[Fill; 2]>([skips.into(), Constant::Sums.is_one_if(sums.is_some())]);
                self.fills.extend(sums.map(Fill::from));
            }
            RegisterTemplate::Sums { terms, accumulator, with_d, squares } => {
                let counts = [Constant::WithD.is_one_if(with_d), Constant::Squares.is_one_if(squares)];
                self.fills.extend(counts.into_iter().chain([terms.into(), accumulator.into()]));
            }
        }
        let store = self
            .inputs
            .iter()
            .find(|bound| bound.name == SlotName::X)
            .map_or(StorageFormat::F32, |x| x.store);
        self.fills.extend(store_fills(store, padding, single));
        self.fills.extend([
            Constant::Long.is_one_if(register_partition.long),
            Constant::Batch.is(register_partition.batch),
        ]);
        self.fills.extend(register_partition.fills(self.gpu));
        self.access_as_vec4(register_rows.vec4);
        self.parameters.partition = register_partition.apply_to(self.partition, u32::MAX);
        self.queue(None, None, None)
    }

    /// Sets the placeholders of the output. Returns whether elements may have to be computed one by
    /// one.
    fn fill_output(&mut self, output: RegisterOutput, register_partition: RegisterPartition) -> bool {
        let put = if register_partition.edges { PutVec4::Within } else { PutVec4::Whole };
        self.fills.push(put.into());
        let (keeps, single) = match output {
            RegisterOutput::Row(result) => {
                self.fills.push(result.into());
                (false, None)
            }
            RegisterOutput::Elements { prepare, values, kept, single } => {
                let kept = kept.filter(|_| !register_partition.long);
                self.fills.extend::<[Fill; 2]>([prepare.into(), kept.unwrap_or(values).into()]);
                (kept.is_some(), single)
            }
        };
        if let Some(SingleElements { is_finite, value }) = single {
            self.fills.extend::<[Fill; 2]>([is_finite.into(), value.into()]);
        }
        self.fills.extend([
            Constant::Keep.is_one_if(keeps),
            Constant::NonFinite.is_one_if(single.is_some()),
            Constant::Elements.is_one_if(matches!(output, RegisterOutput::Elements { .. })),
        ]);
        single.is_some()
    }

    /// Binds y once more, for elements that are written one by one.
    fn bind_edges(&mut self) {
        let Some(y) = self.outputs.iter().find(|bound| bound.name == SlotName::Y) else { return };
        let (store, binding, first) = (y.store, y.binding, y.first);
        let (access, operand) = (Access::Scattered, RowOperand::Unindexed);
        self.outputs.push(Bound { name: SlotName::Edges, store, access, binding, first, operand });
    }

    /// Queues a reduction. It reads vec4 if the rows of x allow it.
    pub(crate) fn launch_reduction(mut self) -> Result<()> {
        if self.kernel.accumulate == Accumulate::Reduce
            && let Some(partition) = self.vec4_reduction_partition()
        {
            (self.partition, self.parameters.partition) = (partition, partition);
            self.access_as_vec4(&[SlotName::X]);
            self.kernel.accumulate = Accumulate::ReduceVec4;
        }
        self.launch()
    }

    fn vec4_reduction_partition(&self) -> Option<Partition> {
        let (rows, length) = (self.partition.rows as usize, self.partition.length as usize);
        if self.class != Class::Float || self.partition.across != 0 || rows * length < MIN_ELEMENTS {
            return None;
        }
        let (_, false) = self.vec4_store(&[SlotName::X])? else { return None };
        let partition =
            Partition::with_min_per_thread(rows, length, ContiguousAxis::Elements, MIN_REDUCED_PER_THREAD);
        (partition.parts == 1 || partition.per_part.is_multiple_of(4)).then_some(partition)
    }

    /// Returns a partition into teams that loop over all rows as vec4, in which each thread keeps
    /// its columns in registers. Returns `None` if the layout does not allow it or rows are too
    /// long.
    pub(crate) fn row_loop(&self, names: &[SlotName]) -> Option<RowLoop> {
        let (rows, length) = (self.partition.rows as usize, self.partition.length as usize);
        let (store, false) = self.vec4_store(names)? else { return None };
        if rows * length < MIN_ELEMENTS {
            return None;
        }
        let register_partition = RegisterPartition::row_loop(self.gpu, length)?;
        Some(RowLoop {
            register_partition,
            partition: register_partition.apply_to(self.partition, LOOP_WORKGROUPS),
            store,
        })
    }

    /// Queues norm_grad_vec4.wgsl, which writes the partial sums of each team to `parts`.
    pub(crate) fn launch_norm_grad_vec4(
        mut self,
        row_loop: &RowLoop,
        names: &[SlotName],
        parts: &Buffer,
    ) -> Result<()> {
        self.shader = Shader::NormGradVec4;
        self.access_as_vec4(names);
        self.fills.extend(store_fills(row_loop.store, Padding::Zero, false));
        self.fills.extend(row_loop.register_partition.fills(self.gpu));
        self.parameters.partition = row_loop.partition;
        self.queue(None, None, Some((parts, Access::WriteVec4)))
    }
}

/// How teams loop over rows.
pub(crate) struct RowLoop {
    register_partition: RegisterPartition,
    partition: Partition,
    store: StorageFormat,
}

impl RowLoop {
    pub(crate) fn teams(&self) -> usize {
        self.partition.blocks as usize * self.partition.per_group as usize
    }
}
