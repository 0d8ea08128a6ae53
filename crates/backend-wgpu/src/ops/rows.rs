//! The launches of rows.wgsl: parameters and bindings. `partition` determines how rows are split
//! and assigned to threads.

mod partition;
pub(crate) mod registers;
pub(crate) mod template;

pub(crate) use partition::{Partition, contiguous_axis};
pub(crate) use template::{Accumulator, RowFamily, RowFinish, RowKernel};

use super::copy::copy;
use crate::gpu::{Binding, Gpu, Launch};
use crate::names::{
    Accumulate, Constant, Exponential, Fill, Finish, FinishElements, NormStoreTwo, NumberWords, SlotName,
    TeamMerge,
};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use std::sync::Arc;
use ternion_core::backend::{Buffer, View};
use ternion_core::{Layout, Result};

/// Bytes of an accumulator between two launches.
const PART_BYTES: usize = 16;

/// The parameters of rows.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    rank: u32,
    over_rank: u32,
    index_check: u32,
    partition: Partition,
    column_step: u32,
    thread_step: u32,
    _padding: u32,
    offsets: [u32; 4],
    extras: [u32; 8],
    numbers: [u32; 8],
    space: Space,
    over: Space,
}

/// The parameter that receives the index of a tensor's first element: an element of `offsets` for a
/// tensor of the space of rows, an element of `extras` for a dense tensor, otherwise none.
#[derive(Clone, Copy)]
enum RowOperand {
    Space(usize),
    Dense(usize),
    Unindexed,
}

/// A tensor that is bound to a slot.
struct Bound<'a> {
    name: SlotName,
    store: StorageFormat,
    access: Access,
    binding: Binding<'a>,
    /// Index of the first element.
    first: u32,
    operand: RowOperand,
}

/// A launch of rows.wgsl under construction.
pub(crate) struct Rows<'a> {
    gpu: &'a Arc<Gpu>,
    op: &'static str,
    shader: Shader,
    class: Class,
    partition: Partition,
    kernel: RowKernel,
    /// Placeholders in addition to those of the kernel.
    fills: SmallVec<[Fill; 8]>,
    inputs: SmallVec<[Bound<'a>; 6]>,
    outputs: SmallVec<[Bound<'a>; 3]>,
    parameters: Parameters,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        gpu: &'a Arc<Gpu>,
        op: &'static str,
        class: Class,
        partition: Partition,
        kernel: RowKernel,
    ) -> Rows<'a> {
        let parameters = Parameters {
            partition,
            rank: 1,
            over_rank: 1,
            space: Space::EMPTY,
            over: Space::EMPTY,
            ..Zeroable::zeroed()
        };
        Rows {
            gpu,
            op,
            shader: Shader::Rows,
            class,
            partition,
            kernel,
            fills: SmallVec::new(),
            inputs: SmallVec::new(),
            outputs: SmallVec::new(),
            parameters,
        }
    }

    /// Sets the space of rows: its axes, with the strides of all tensors.
    pub(crate) fn space(mut self, axes: &[(usize, Vec<i64>)]) -> Rows<'a> {
        (self.parameters.space, self.parameters.rank) = Space::from_axes(axes);
        self
    }

    /// Sets the space of a row's elements: its axes, with the strides of all tensors.
    pub(crate) fn over(mut self, axes: &[(usize, Vec<i64>)]) -> Rows<'a> {
        (self.parameters.over, self.parameters.over_rank) = Space::from_axes(axes);
        self
    }

    /// Sets number `index` of the op: the family's shader describes its numbers.
    pub(crate) fn number(mut self, index: usize, bits: u32) -> Rows<'a> {
        self.parameters.numbers[index] = bits;
        self
    }

    /// Sets number `index` to the bits of an f32.
    pub(crate) fn float(self, index: usize, value: f64) -> Rows<'a> {
        self.number(index, (value as f32).to_bits())
    }

    /// Binds a tensor whose strides are number `tensor` of the space of rows.
    pub(crate) fn input(self, name: SlotName, tensor: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Read, RowOperand::Space(tensor))
    }

    pub(crate) fn output(self, name: SlotName, tensor: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Scattered, RowOperand::Space(tensor))
    }

    /// Binds a dense tensor. The index of its first element is stored in `extras[extra]`.
    pub(crate) fn dense_input(self, name: SlotName, extra: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Read, RowOperand::Dense(extra))
    }

    pub(crate) fn dense_output(self, name: SlotName, extra: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Scattered, RowOperand::Dense(extra))
    }

    /// Binds the partial sums that norm_grad.wgsl wrote.
    pub(crate) fn teams(mut self, teams: &'a Buffer) -> Result<Rows<'a>> {
        let (binding, operand) = (self.gpu.workspace(self.op, teams)?, RowOperand::Unindexed);
        self.inputs.push(Bound {
            name: SlotName::Teams,
            store: StorageFormat::I64,
            access: Access::Read,
            binding,
            first: 0,
            operand,
        });
        Ok(self)
    }

    /// Enables the check of indices against `size`.
    pub(crate) fn check_indices(mut self, size: usize) -> Rows<'a> {
        self.parameters.index_check = self.gpu.index_check_id(self.op, size);
        let (binding, operand) = (self.gpu.index_error_record(), RowOperand::Unindexed);
        self.outputs.push(Bound {
            name: SlotName::IndexErrors,
            store: StorageFormat::Atomic,
            access: Access::Scattered,
            binding,
            first: 0,
            operand,
        });
        self
    }

    fn bind(
        mut self,
        name: SlotName,
        view: &View<'a>,
        access: Access,
        operand: RowOperand,
    ) -> Result<Rows<'a>> {
        let (binding, first) = self.gpu.bind(self.op, view)?;
        let bound = Bound { name, store: StorageFormat::of(view.dtype), access, binding, first, operand };
        match access {
            Access::Read => self.inputs.push(bound),
            _ => self.outputs.push(bound),
        }
        Ok(self)
    }

    /// Queues the launch, or two launches if rows are split into parts: the second one combines the
    /// parts.
    pub(crate) fn launch(mut self) -> Result<()> {
        if self.partition.rows == 0 {
            return Ok(());
        }
        let RowKernel { accumulate, finish, .. } = self.kernel;
        let function = self.finish_function(finish);
        if self.partition.parts == 1 {
            return self.queue(Some(accumulate), Some(function), None);
        }
        let workspace =
            self.gpu.alloc(self.partition.rows as usize * self.partition.parts as usize * PART_BYTES)?;
        let outputs = std::mem::take(&mut self.outputs);
        self.queue(Some(accumulate), Some(Finish::Part), Some((&workspace, Access::Scattered)))?;
        self.outputs = outputs;
        self.parameters.partition = match finish {
            RowFinish::Row(_) => self.partition.of_combination(),
            _ => Partition { loop_count: self.partition.parts, ..self.partition },
        };
        self.queue(Some(Accumulate::Parts), Some(function), Some((&workspace, Access::Read)))
    }

    /// Returns the function that finishes rows. Functions that write elements write whole words if
    /// possible.
    fn finish_function(&mut self, finish: RowFinish) -> Finish {
        let (outer, prepare, value) = match finish {
            RowFinish::Row(function) => return function,
            RowFinish::Elements { prepare, value } | RowFinish::ManyElements { prepare, value } => {
                (None, prepare, value)
            }
            RowFinish::SomeElements { finish, prepare, value } => (Some(finish), prepare, value),
        };
        let many = matches!(finish, RowFinish::ManyElements { .. })
            && self.partition.per_part >= 8 * self.partition.members;
        let (y_finish, elements) = match (self.writes_pairs(), self.has_contiguous_half_rows()) {
            (true, _) => (Finish::Pairs, FinishElements::Pairs),
            (_, true) => (Finish::Words, FinishElements::Words),
            _ if many => (Finish::FourElements, FinishElements::FourElements),
            _ => (Finish::Elements, FinishElements::Elements),
        };
        self.fills.extend::<[Fill; 3]>([prepare.into(), value.into(), elements.into()]);
        outer.unwrap_or(y_finish)
    }

    /// Returns whether y can be written in whole words of two elements. If so, sets the access of y
    /// accordingly.
    fn writes_pairs(&mut self) -> bool {
        let even = |numbers: &[u32]| numbers.iter().all(|number| number % 2 == 0);
        let Parameters { rank, over_rank, space, over, .. } = self.parameters;
        let Some(y) = self.outputs.iter_mut().find(|bound| bound.name == SlotName::Y) else { return false };
        let last = over_rank as usize - 1;
        let in_pairs = y.store.per_word() == 2
            && over.strides[0][last] == 1
            && even(&[y.first, over.sizes[last], self.partition.per_part])
            && even(&over.strides[0][..last])
            && even(&space.strides[0][..rank as usize]);
        if in_pairs {
            y.access = Access::Words;
        }
        in_pairs
    }

    /// Returns whether the elements of a row of y are contiguous, two to a word.
    fn has_contiguous_half_rows(&self) -> bool {
        let Parameters { over_rank, over, .. } = self.parameters;
        let in_half = |bound: &Bound<'_>| bound.name == SlotName::Y && bound.store.per_word() == 2;
        over_rank == 1 && over.strides[0][0] == 1 && self.outputs.iter().any(in_half)
    }

    /// Returns the exponential with the accuracy that the dtype of the result needs.
    fn exponential(&self) -> Exponential {
        let mut floats = self
            .outputs
            .iter()
            .chain(&self.inputs)
            .filter(|bound| matches!(bound.name, SlotName::X | SlotName::Y));
        if floats.all(|bound| bound.store.per_word() == 2) { Exponential::Half } else { Exponential::F32 }
    }

    /// Queues a cumulative sum. If rows are split into parts, the sums of the preceding parts are
    /// computed first.
    pub(crate) fn launch_cumulative(mut self) -> Result<()> {
        self.shader = Shader::Cumulative;
        if self.partition.parts == 1 {
            return self.queue(Some(Accumulate::RunningFromZero), None, None);
        }
        let workspace =
            self.gpu.alloc(self.partition.rows as usize * self.partition.parts as usize * PART_BYTES)?;
        let outputs = std::mem::take(&mut self.outputs);
        self.shader = Shader::Rows;
        self.queue(Some(Accumulate::Reduce), Some(Finish::Part), Some((&workspace, Access::Scattered)))?;
        self.outputs = outputs;
        self.shader = Shader::Cumulative;
        self.parameters.partition.loop_count = self.partition.parts;
        self.queue(Some(Accumulate::RunningFromParts), None, Some((&workspace, Access::Read)))
    }

    /// Queues norm_grad.wgsl, which writes the partial sums of each team to `parts`.
    pub(crate) fn launch_norm_grad(mut self, parts: &Buffer) -> Result<()> {
        self.shader = Shader::NormGrad;
        let in_pairs = self.writes_pairs();
        let steps = if in_pairs { (1, 2) } else { (self.partition.members, 1) };
        (self.parameters.column_step, self.parameters.thread_step) = steps;
        let store = if in_pairs { NormStoreTwo::Pair } else { NormStoreTwo::Each };
        let per_thread = Constant::PerThread.is(self.partition.columns_per_thread() as u32);
        self.fills.extend::<[Fill; 2]>([per_thread, store.into()]);
        self.queue(None, None, Some((parts, Access::Scattered)))
    }

    fn queue(
        &self,
        accumulate: Option<Accumulate>,
        finish: Option<Finish>,
        parts: Option<(&Buffer, Access)>,
    ) -> Result<()> {
        let subgroup = self.gpu.subgroup;
        let mut variant = Variant::new(self.shader, self.class)
            .fill(if subgroup.is_some() { TeamMerge::Subgroups } else { TeamMerge::Memory })
            .fill(Constant::Subgroup.is(subgroup.unwrap_or(1)))
            .fill(number_words(self.class))
            .fill(self.exponential())
            .fill(self.kernel.bases);
        variant.fills.extend(accumulate.map(Fill::from));
        variant.fills.extend(finish.map(Fill::from));
        variant.fills.extend(self.kernel.accumulator.fills());
        variant.fills.extend(self.kernel.family.fills());
        variant.fills.extend(self.fills.iter().copied());
        let mut parameters = self.parameters;
        let mut bindings: SmallVec<[Binding<'_>; 6]> = SmallVec::new();
        for bound in self.outputs.iter().chain(&self.inputs) {
            variant = variant.slot(bound.name, bound.store, bound.access);
            bindings.push(bound.binding);
            match bound.operand {
                RowOperand::Space(tensor) => parameters.offsets[tensor] = bound.first,
                RowOperand::Dense(extra) => parameters.extras[extra] = bound.first,
                RowOperand::Unindexed => {}
            }
        }
        if let Some((parts, access)) = parts {
            let store = if access == Access::WriteVec4 { StorageFormat::F32 } else { StorageFormat::I64 };
            variant = variant.slot(SlotName::Parts, store, access);
            bindings.push(self.gpu.workspace(self.op, parts)?);
        }
        let groups = parameters.partition.groups();
        self.gpu.launch(self.op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
    }
}

/// Returns the function that converts a number of the class to words.
fn number_words(class: Class) -> NumberWords {
    match class {
        Class::Float => NumberWords::Float,
        Class::Int => NumberWords::Int,
        Class::Byte | Class::Unsigned => NumberWords::Byte,
        Class::Wide | Class::WideUnsigned => NumberWords::Wide,
    }
}

/// A contiguous tensor, or a contiguous copy of a strided tensor.
pub(crate) enum Dense<'a> {
    Borrowed(View<'a>),
    Copy(Buffer, Layout, View<'a>),
}

impl<'a> Dense<'a> {
    /// Wraps an output: [`Dense::finish`] copies the result to it.
    pub(crate) fn output(gpu: &Arc<Gpu>, view: &View<'a>) -> Result<Dense<'a>> {
        if view.layout.is_contiguous() {
            return Ok(Dense::Borrowed(*view));
        }
        let layout = Layout::row_major(*view.layout.shape());
        let workspace = gpu.alloc(layout.elements() * view.dtype.size())?;
        Ok(Dense::Copy(workspace, layout, *view))
    }

    /// Wraps an input, which is copied if it is not contiguous.
    pub(crate) fn input(gpu: &Arc<Gpu>, op: &'static str, view: &View<'a>) -> Result<Dense<'a>> {
        let dense = Dense::output(gpu, view)?;
        if let Dense::Copy(..) = dense {
            copy(gpu, op, view, &dense.view())?;
        }
        Ok(dense)
    }

    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Dense::Borrowed(view) => *view,
            Dense::Copy(buffer, layout, original) => View { buffer, dtype: original.dtype, layout },
        }
    }

    /// Copies the result to a strided output.
    pub(crate) fn finish(&self, gpu: &Gpu, op: &'static str) -> Result<()> {
        match self {
            Dense::Borrowed(_) => Ok(()),
            Dense::Copy(_, _, original) => copy(gpu, op, &self.view(), original),
        }
    }
}

/// Returns the axes of `layouts` except `axis`, with their strides, for [`Rows::space`].
pub(crate) fn axes_but(axis: usize, layouts: &[&Layout]) -> Vec<(usize, Vec<i64>)> {
    let dims = layouts[0].shape().dims();
    let strides = |index: usize| layouts.iter().map(|layout| layout.strides()[index] as i64).collect();
    (0..dims.len()).filter(|&index| index != axis).map(|index| (dims[index], strides(index))).collect()
}
