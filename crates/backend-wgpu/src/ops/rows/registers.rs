//! Rows that are read as vec4 and kept in registers: which rows qualify, how they are partitioned
//! among threads, and the launches of exponentials_vec4.wgsl, sums_vec4.wgsl and
//! norm_grad_vec4.wgsl. Also reductions that read vec4.

use super::cut::Beside;
use super::template::{RegisterOutput, RegisterRows, RegisterTemplate, SingleElements};
use super::{Bound, Cut, Rows, Where};
use crate::gpu::Gpu;
use crate::names::{
    Constant, Exponentials, ExponentialsOfAny, Fill, Gather, HiddenWords, JoinedWords, PutVec4, RowPadding,
    SlotName, SoftmaxShares, Switch, TeamMax, TeamSum, TeamSums, Vec4OfWords, WordsOfVec4,
};
use crate::shaders::{Class, Shader};
use crate::slots::{Access, Store};
use ternion_core::Result;
use ternion_core::backend::Buffer;
use wgpu::Limits;

/// Minimum number of elements for which such a shader is worth compiling.
const MANY: usize = 1 << 14;
/// Threads of a workgroup, unless a row has more.
const THREADS: u32 = 256;
/// Maximum number of threads of a row.
pub(crate) const MOST_THREADS: u32 = 512;
/// Number of threads that fill a device: with fewer, each thread holds fewer elements.
const BUSY: usize = 1 << 15;
/// Number of workgroups that loop over rows: twice the number of multiprocessors of large devices.
const WALKING: u32 = 264;
/// If there are fewer than `FEW` rows and they are longer than `ALONE`, several workgroups process
/// each row.
const ALONE: usize = 8192;
const FEW: usize = 128;

/// Minimum number of elements that a thread reduces, for many rows and for few: eight vec4 and two.
const EACH_REDUCED: [usize; 2] = [32, 8];

/// How a row is partitioned among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowPartition {
    threads: u32,
    members: u32,
    hold: u32,
    /// Whether all threads hold the same number of elements.
    exact: bool,
    edges: bool,
    long: bool,
    batch: u32,
}

/// How many vec4 a thread holds.
struct RegisterBudget {
    /// Target if the number of threads of a row is not limited.
    each: usize,
    /// Maximum.
    most: usize,
    /// Number for a longer row.
    long: usize,
    /// Number of vec4 that are read at a time of the part of such a row that is not held.
    batch: usize,
}

impl RegisterBudget {
    fn of(per_word: usize) -> RegisterBudget {
        match per_word {
            2 => RegisterBudget { each: 8, most: 8, long: 2, batch: 8 },
            _ => RegisterBudget { each: 4, most: 8, long: 2, batch: 4 },
        }
    }
}

/// Returns the largest workgroup size that such shaders can use: a power of two.
fn most_threads(gpu: &Gpu) -> u32 {
    let Limits {
        max_compute_invocations_per_workgroup: threads, max_compute_workgroup_size_x: beside, ..
    } = gpu.limits;
    1 << threads.min(beside).clamp(1, MOST_THREADS).ilog2()
}

impl RowPartition {
    /// Returns the partition for `rows` rows of `length` elements, with `per_word` elements in a
    /// word. Returns `None` if the threads cannot hold the rows and must.
    fn of(
        gpu: &Gpu,
        [rows, length]: [usize; 2],
        per_word: usize,
        edges: bool,
        held: &RegisterRows,
    ) -> Option<RowPartition> {
        let RegisterBudget { each, most, long: long_hold, batch } = RegisterBudget::of(per_word);
        let vec4s = if edges { length.div_ceil(4) + 1 } else { length / 4 };
        let most_members = most_threads(gpu).min(held.most_threads) as usize;
        let each = if rows * vec4s.div_ceil(each) < BUSY { each / 2 } else { each };
        let members = vec4s.div_ceil(each).next_power_of_two().min(most_members);
        let hold = vec4s.div_ceil(members);
        let long = hold > most;
        let partition = RowPartition {
            threads: THREADS.min(held.most_threads).max(members as u32).min(most_threads(gpu)),
            members: members as u32,
            hold: if long { long_hold } else { hold } as u32,
            batch: batch as u32,
            exact: !edges && vec4s == members * hold,
            edges,
            long,
        };
        (held.any_length || !long).then_some(partition)
    }

    /// Returns the partition for teams that loop over rows. Each thread holds less, because it also
    /// holds sums and the next row.
    fn walking(gpu: &Gpu, length: usize) -> Option<RowPartition> {
        let most_members = most_threads(gpu) as usize;
        let vec4s = length / 4;
        let members = vec4s.div_ceil(2).next_power_of_two().min(most_members);
        let hold = vec4s.div_ceil(members);
        let partition = RowPartition {
            threads: THREADS.max(members as u32).min(most_threads(gpu)),
            members: members as u32,
            hold: hold as u32,
            exact: vec4s == members * hold,
            edges: false,
            long: false,
            batch: 1,
        };
        (hold <= 4).then_some(partition)
    }

    /// Applies the partition to `cut`, with at most `most` workgroups, which loop over rows if
    /// there are more.
    fn cut(self, cut: Cut, most: u32) -> Cut {
        let per_group = self.threads / self.members;
        let blocks = cut.rows.div_ceil(per_group).min(most);
        let gathered = cut.rows.div_ceil(blocks * per_group);
        Cut { members: self.members, per_group, parts: 1, blocks, gathered, ..cut }
    }

    fn fills(self, gpu: &Gpu) -> [Fill; 10] {
        let [max, sum, sums]: [Fill; 3] = match gpu.subgroup {
            Some(_) => [TeamMax::Subgroups.into(), TeamSum::Subgroups.into(), TeamSums::Subgroups.into()],
            None => [TeamMax::Memory.into(), TeamSum::Memory.into(), TeamSums::Memory.into()],
        };
        let subgroup = gpu.subgroup.unwrap_or(1);
        [
            Constant::Threads.is(self.threads),
            Constant::Members.is(self.members),
            Constant::Hold.is(self.hold),
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

/// Returns the functions for elements stored as `store`. `single`: also for elements that are
/// written one by one.
fn store_fills(store: Store, padding: Padding, single: bool) -> [Fill; 8] {
    let (vec4, words, lowest) = match store {
        Store::F16 => (Vec4OfWords::F16, WordsOfVec4::F16, RowPadding::LowestF16),
        Store::BF16 if single => (Vec4OfWords::BF16, WordsOfVec4::OneBF16, RowPadding::LowestBF16),
        Store::BF16 => (Vec4OfWords::BF16, WordsOfVec4::BF16, RowPadding::LowestBF16),
        _ => (Vec4OfWords::F32, WordsOfVec4::F32, RowPadding::LowestF32),
    };
    let is_half = store.per_word() == 2;
    let zero = if is_half { RowPadding::ZeroHalf } else { RowPadding::ZeroF32 };
    let (vec4, words) = (vec4.into(), words.into());
    let padding = if padding == Padding::Lowest { lowest } else { zero }.into();
    let [joined, hidden, exponentials, shares, of_any]: [Fill; 5] = match is_half {
        true => [
            JoinedWords::Half.into(),
            HiddenWords::Half.into(),
            Exponentials::Half.into(),
            SoftmaxShares::Half.into(),
            ExponentialsOfAny::Half.into(),
        ],
        false => [
            JoinedWords::F32.into(),
            HiddenWords::F32.into(),
            Exponentials::F32.into(),
            SoftmaxShares::F32.into(),
            ExponentialsOfAny::F32.into(),
        ],
    };
    [vec4, words, padding, joined, hidden, exponentials, shares, of_any]
}

impl<'a> Rows<'a> {
    /// Queues the shader that holds rows in registers if the layout allows it. Otherwise calls
    /// [`Rows::launch`].
    pub(crate) fn launch_in_registers(self, held: &RegisterRows) -> Result<()> {
        match self.partition(held) {
            Some(partition) => self.hold(held, partition),
            None => self.launch(),
        }
    }

    fn partition(&self, held: &RegisterRows) -> Option<RowPartition> {
        let (rows, length) = (self.cut.rows as usize, self.cut.length as usize);
        let several = self.cut.parts > 1 && length > ALONE && rows < FEW;
        if self.cut.across != 0 || several || rows * length < MANY {
            return None;
        }
        let (store, edges) = self.in_vec4(held.vec4)?;
        let partition = RowPartition::of(self.gpu, [rows, length], store.per_word(), edges, held)?;
        (held.any_length || !edges).then_some(partition)
    }

    /// Returns how the elements of these tensors are stored, if all of them can be read as vec4,
    /// and whether rows begin and end in the middle of a vec4, in the same way in all tensors.
    fn in_vec4(&self, names: &[SlotName]) -> Option<(Store, bool)> {
        let (space, rank, over) = (&self.parameters.space, self.parameters.rank, &self.parameters.over);
        let mut store = None;
        // Where rows begin within a vec4, for each tensor: the first row, and the offset from one
        // row to the next along each axis.
        let mut begins: Option<[u32; 9]> = None;
        for bound in self.outputs.iter().chain(&self.inputs).filter(|bound| names.contains(&bound.name)) {
            let mut begin = [0; 9];
            begin[8] = bound.first % 4;
            if let Where::Space(tensor) = bound.place {
                let moves = |axis: &usize| space.sizes[*axis] > 1;
                (0..rank as usize)
                    .filter(moves)
                    .for_each(|axis| begin[axis] = space.strides[tensor][axis] % 4);
                if self.parameters.over_rank != 1 || over.strides[tensor][0] != 1 {
                    return None;
                }
            }
            let alike = begins.is_none_or(|begins| begins == begin);
            let known = store.is_none_or(|store| store == bound.store);
            if !alike || !known || !self.gpu.is_one_binding(&bound.binding) {
                return None;
            }
            (begins, store) = (Some(begin), Some(bound.store));
        }
        let edges = begins? != [0; 9] || !self.cut.length.is_multiple_of(4);
        Some((store?, edges))
    }

    /// Declares these tensors as arrays of vec4.
    fn by_vec4(&mut self, names: &[SlotName]) {
        for bound in self.outputs.iter_mut().chain(&mut self.inputs) {
            if names.contains(&bound.name) {
                bound.access = if bound.access.writes() { Access::Vec4Written } else { Access::Vec4 };
            }
        }
    }

    fn hold(mut self, held: &RegisterRows, partition: RowPartition) -> Result<()> {
        let (shader, padding) = match held.template {
            RegisterTemplate::Exponentials { .. } => (Shader::ExponentialsVec4, Padding::Lowest),
            RegisterTemplate::Sums { .. } => (Shader::SumsVec4, Padding::Zero),
        };
        self.shader = shader;
        let single = self.fill_output(held.output, partition);
        if single || (partition.edges && matches!(held.output, RegisterOutput::Elements { .. })) {
            self.bind_edges();
        }
        match held.template {
            RegisterTemplate::Exponentials { skips, sums } => {
                self.fills.extend::<[Fill; 2]>([skips.into(), Constant::Sums.is_one_if(sums.is_some())]);
                self.fills.extend(sums.map(Fill::from));
            }
            RegisterTemplate::Sums { terms, accumulated, with_d, squares } => {
                let counts = [Constant::WithD.is_one_if(with_d), Constant::Squares.is_one_if(squares)];
                self.fills.extend(counts.into_iter().chain([terms.into(), accumulated.into()]));
            }
        }
        let store =
            self.inputs.iter().find(|bound| bound.name == SlotName::X).map_or(Store::F32, |x| x.store);
        self.fills.extend(store_fills(store, padding, single));
        self.fills.extend([Constant::Long.is_one_if(partition.long), Constant::Batch.is(partition.batch)]);
        self.fills.extend(partition.fills(self.gpu));
        self.by_vec4(held.vec4);
        self.parameters.cut = partition.cut(self.cut, u32::MAX);
        self.queue(None, None, None)
    }

    /// Sets the placeholders of the output. Returns whether elements may have to be computed one by
    /// one.
    fn fill_output(&mut self, output: RegisterOutput, partition: RowPartition) -> bool {
        let put = if partition.edges { PutVec4::Within } else { PutVec4::Whole };
        self.fills.push(put.into());
        let (keeps, single) = match output {
            RegisterOutput::Row(result) => {
                self.fills.push(result.into());
                (false, None)
            }
            RegisterOutput::Elements { prepare, values, kept, single } => {
                let kept = kept.filter(|_| !partition.long);
                self.fills.extend::<[Fill; 2]>([prepare.into(), kept.unwrap_or(values).into()]);
                (kept.is_some(), single)
            }
        };
        if let Some(SingleElements { regular, value }) = single {
            self.fills.extend::<[Fill; 2]>([regular.into(), value.into()]);
        }
        self.fills.extend([
            Constant::Keep.is_one_if(keeps),
            Constant::Strange.is_one_if(single.is_some()),
            Constant::Elements.is_one_if(matches!(output, RegisterOutput::Elements { .. })),
        ]);
        single.is_some()
    }

    /// Binds y once more, for elements that are written one by one.
    fn bind_edges(&mut self) {
        let Some(y) = self.outputs.iter().find(|bound| bound.name == SlotName::Y) else { return };
        let (store, binding, first) = (y.store, y.binding, y.first);
        let (access, place) = (Access::Scattered, Where::Elsewhere);
        self.outputs.push(Bound { name: SlotName::Edges, store, access, binding, first, place });
    }

    /// Queues a reduction: with vec4 if the rows of x can be read as vec4, otherwise as
    /// [`Rows::launch`].
    pub(crate) fn launch_reduction(mut self) -> Result<()> {
        if self.kernel.gather == Gather::Reduce
            && let Some(cut) = self.reduced_by_vec4()
        {
            (self.cut, self.parameters.cut) = (cut, cut);
            self.by_vec4(&[SlotName::X]);
            self.kernel.gather = Gather::ReduceVec4;
        }
        self.launch()
    }

    fn reduced_by_vec4(&self) -> Option<Cut> {
        let (rows, length) = (self.cut.rows as usize, self.cut.length as usize);
        if self.class != Class::Float || self.cut.across != 0 || rows * length < MANY {
            return None;
        }
        let (_, false) = self.in_vec4(&[SlotName::X])? else { return None };
        let cut = Cut::dealt(rows, length, Beside::Elements, EACH_REDUCED);
        (cut.parts == 1 || cut.per_part.is_multiple_of(4)).then_some(cut)
    }

    /// Returns teams that loop over all rows as vec4, in which each thread keeps its columns in
    /// registers. Returns `None` if the layout does not allow it or rows are too long.
    pub(crate) fn row_loop(&self, names: &[SlotName]) -> Option<RowLoop> {
        let (rows, length) = (self.cut.rows as usize, self.cut.length as usize);
        let (store, false) = self.in_vec4(names)? else { return None };
        if rows * length < MANY {
            return None;
        }
        let partition = RowPartition::walking(self.gpu, length)?;
        Some(RowLoop { partition, cut: partition.cut(self.cut, WALKING), store })
    }

    /// Queues norm_grad_vec4.wgsl, which writes partial sums of teams to `parts`.
    pub(crate) fn launch_norm_grad_vec4(
        mut self,
        row_loop: &RowLoop,
        names: &[SlotName],
        parts: &Buffer,
    ) -> Result<()> {
        self.shader = Shader::NormGradVec4;
        self.by_vec4(names);
        self.fills.extend(store_fills(row_loop.store, Padding::Zero, false));
        self.fills.extend(row_loop.partition.fills(self.gpu));
        self.parameters.cut = row_loop.cut;
        self.queue(None, None, Some((parts, Access::Vec4Written)))
    }
}

/// How teams loop over rows.
pub(crate) struct RowLoop {
    partition: RowPartition,
    cut: Cut,
    store: Store,
}

impl RowLoop {
    pub(crate) fn teams(&self) -> usize {
        self.cut.blocks as usize * self.cut.per_group as usize
    }
}
