//! The launches of rows.wgsl: parameters and bindings. `cut` determines how rows are split and
//! assigned to threads.

mod cut;
pub(crate) mod registers;
pub(crate) mod template;

pub(crate) use cut::{Cut, beside};
pub(crate) use template::{Accumulator, RowFamily, RowFinish, RowKernel};

use super::copy::copy;
use crate::gpu::{Binding, Gpu, Launch};
use crate::names::{
    Constant, Exponential, Fill, Finish, FinishElements, Gather, NormStoreTwo, NumberWords, SlotName,
    TeamMerge,
};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, Store};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use std::sync::Arc;
use ternion_core::backend::{Buffer, View};
use ternion_core::{Layout, Result};

/// Bytes of an accumulator between two launches.
const PART_BYTES: usize = 16;

/// The parameters, as in rows.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    rank: u32,
    over_rank: u32,
    fault: u32,
    cut: Cut,
    spare: [u32; 3],
    offsets: [u32; 4],
    extras: [u32; 8],
    numbers: [u32; 8],
    space: Space,
    over: Space,
}

/// Where the index of a tensor's first element is passed: in `offsets` for a tensor of the space of
/// rows, in `extras` for a dense tensor, otherwise nowhere.
#[derive(Clone, Copy)]
enum Where {
    Space(usize),
    Dense(usize),
    Elsewhere,
}

struct Bound<'a> {
    name: SlotName,
    store: Store,
    access: Access,
    binding: Binding<'a>,
    first: u32,
    place: Where,
}

/// A launch of rows.wgsl under construction.
pub(crate) struct Rows<'a> {
    gpu: &'a Arc<Gpu>,
    op: &'static str,
    shader: Shader,
    class: Class,
    cut: Cut,
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
        cut: Cut,
        kernel: RowKernel,
    ) -> Rows<'a> {
        let parameters = Parameters {
            cut,
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
            cut,
            kernel,
            fills: SmallVec::new(),
            inputs: SmallVec::new(),
            outputs: SmallVec::new(),
            parameters,
        }
    }

    /// Sets the space of rows: axes with the strides of its tensors.
    pub(crate) fn space(mut self, axes: &[(usize, Vec<i64>)]) -> Rows<'a> {
        (self.parameters.space, self.parameters.rank) = Space::in_order(axes);
        self
    }

    /// Sets the space of a row's elements in the same way.
    pub(crate) fn over(mut self, axes: &[(usize, Vec<i64>)]) -> Rows<'a> {
        (self.parameters.over, self.parameters.over_rank) = Space::in_order(axes);
        self
    }

    pub(crate) fn number(mut self, at: usize, bits: u32) -> Rows<'a> {
        self.parameters.numbers[at] = bits;
        self
    }

    pub(crate) fn float(self, at: usize, value: f64) -> Rows<'a> {
        self.number(at, (value as f32).to_bits())
    }

    /// Binds a tensor of the space of rows.
    pub(crate) fn input(self, name: SlotName, tensor: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Read, Where::Space(tensor))
    }

    pub(crate) fn output(self, name: SlotName, tensor: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Scattered, Where::Space(tensor))
    }

    /// Binds a dense tensor. The index of its first element is stored in `extras[extra]`.
    pub(crate) fn dense_input(self, name: SlotName, extra: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Read, Where::Dense(extra))
    }

    pub(crate) fn dense_output(self, name: SlotName, extra: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Scattered, Where::Dense(extra))
    }

    /// Binds the partial sums that norm_grad.wgsl wrote.
    pub(crate) fn teams(mut self, teams: &'a Buffer) -> Result<Rows<'a>> {
        let (binding, place) = (self.gpu.scratch(self.op, teams)?, Where::Elsewhere);
        self.inputs.push(Bound {
            name: SlotName::Teams,
            store: Store::I64,
            access: Access::Read,
            binding,
            first: 0,
            place,
        });
        Ok(self)
    }

    /// Enables the check of indices against `size`.
    pub(crate) fn faults(mut self, size: usize) -> Rows<'a> {
        self.parameters.fault = self.gpu.fault_number(self.op, size);
        let (binding, place) = (self.gpu.record(), Where::Elsewhere);
        self.outputs.push(Bound {
            name: SlotName::Faults,
            store: Store::Atomic,
            access: Access::Scattered,
            binding,
            first: 0,
            place,
        });
        self
    }

    fn bind(mut self, name: SlotName, view: &View<'a>, access: Access, place: Where) -> Result<Rows<'a>> {
        let (binding, first) = self.gpu.bind(self.op, view)?;
        let bound = Bound { name, store: Store::of(view.dtype), access, binding, first, place };
        match access {
            Access::Read => self.inputs.push(bound),
            _ => self.outputs.push(bound),
        }
        Ok(self)
    }

    /// Queues the launch, or two launches if rows are split into parts.
    pub(crate) fn launch(mut self) -> Result<()> {
        if self.cut.rows == 0 {
            return Ok(());
        }
        let RowKernel { gather, finish, .. } = self.kernel;
        let function = self.finishing(finish);
        if self.cut.parts == 1 {
            return self.queue(Some(gather), Some(function), None);
        }
        let room = self.gpu.alloc(self.cut.rows as usize * self.cut.parts as usize * PART_BYTES)?;
        let outputs = std::mem::take(&mut self.outputs);
        self.queue(Some(gather), Some(Finish::Part), Some((&room, Access::Scattered)))?;
        self.outputs = outputs;
        self.parameters.cut = match finish {
            RowFinish::Row(_) => self.cut.gathering(),
            _ => Cut { gathered: self.cut.parts, ..self.cut },
        };
        self.queue(Some(Gather::Parts), Some(function), Some((&room, Access::Read)))
    }

    /// Returns the function that finishes rows. Functions that write elements write whole words if
    /// possible.
    fn finishing(&mut self, finish: RowFinish) -> Finish {
        let (outer, prepare, value) = match finish {
            RowFinish::Row(function) => return function,
            RowFinish::Elements { prepare, value } | RowFinish::ManyElements { prepare, value } => {
                (None, prepare, value)
            }
            RowFinish::SomeElements { finish, prepare, value } => (Some(finish), prepare, value),
        };
        let many =
            matches!(finish, RowFinish::ManyElements { .. }) && self.cut.per_part >= 8 * self.cut.members;
        let (own, elements) = match (self.writes_pairs(), self.lies_side_by_side()) {
            (true, _) => (Finish::Pairs, FinishElements::Pairs),
            (_, true) => (Finish::Words, FinishElements::Words),
            _ if many => (Finish::FourElements, FinishElements::FourElements),
            _ => (Finish::Elements, FinishElements::Elements),
        };
        self.fills.extend::<[Fill; 3]>([prepare.into(), value.into(), elements.into()]);
        outer.unwrap_or(own)
    }

    /// Returns whether y can be written in whole words of two elements. If so, declares y for that.
    fn writes_pairs(&mut self) -> bool {
        let even = |numbers: &[u32]| numbers.iter().all(|number| number % 2 == 0);
        let Parameters { rank, over_rank, space, over, .. } = self.parameters;
        let Some(y) = self.outputs.iter_mut().find(|bound| bound.name == SlotName::Y) else { return false };
        let last = over_rank as usize - 1;
        let in_pairs = y.store.per_word() == 2
            && over.strides[0][last] == 1
            && even(&[y.first, over.sizes[last], self.cut.per_part])
            && even(&over.strides[0][..last])
            && even(&space.strides[0][..rank as usize]);
        if in_pairs {
            y.access = Access::Words;
        }
        in_pairs
    }

    /// Returns whether the elements of a row of y are contiguous, two to a word.
    fn lies_side_by_side(&self) -> bool {
        let Parameters { over_rank, over, .. } = self.parameters;
        let in_half = |bound: &Bound<'_>| bound.name == SlotName::Y && bound.store.per_word() == 2;
        over_rank == 1 && over.strides[0][0] == 1 && self.outputs.iter().any(in_half)
    }

    /// Returns the exponential that is accurate enough for the result.
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
    pub(crate) fn launch_running(mut self) -> Result<()> {
        self.shader = Shader::Cumulative;
        if self.cut.parts == 1 {
            return self.queue(Some(Gather::RunningFromZero), None, None);
        }
        let room = self.gpu.alloc(self.cut.rows as usize * self.cut.parts as usize * PART_BYTES)?;
        let outputs = std::mem::take(&mut self.outputs);
        self.shader = Shader::Rows;
        self.queue(Some(Gather::Reduce), Some(Finish::Part), Some((&room, Access::Scattered)))?;
        self.outputs = outputs;
        self.shader = Shader::Cumulative;
        self.parameters.cut.gathered = self.cut.parts;
        self.queue(Some(Gather::RunningFromParts), None, Some((&room, Access::Read)))
    }

    /// Queues norm_grad.wgsl, which writes partial sums of teams to `parts`.
    pub(crate) fn launch_norm_grad(mut self, parts: &Buffer) -> Result<()> {
        self.shader = Shader::NormGrad;
        let in_pairs = self.writes_pairs();
        self.parameters.spare = if in_pairs { [1, 2, 0] } else { [self.cut.members, 1, 0] };
        let store = if in_pairs { NormStoreTwo::Pair } else { NormStoreTwo::Each };
        let hold = Constant::Hold.is(self.cut.held() as u32);
        self.fills.extend::<[Fill; 2]>([hold, store.into()]);
        self.queue(None, None, Some((parts, Access::Scattered)))
    }

    fn queue(
        &self,
        gather: Option<Gather>,
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
        variant.fills.extend(gather.map(Fill::from));
        variant.fills.extend(finish.map(Fill::from));
        variant.fills.extend(self.kernel.accumulator.fills());
        variant.fills.extend(self.kernel.family.fills());
        variant.fills.extend(self.fills.iter().copied());
        let mut parameters = self.parameters;
        let mut bindings: SmallVec<[Binding<'_>; 6]> = SmallVec::new();
        for bound in self.outputs.iter().chain(&self.inputs) {
            variant = variant.slot(bound.name, bound.store, bound.access);
            bindings.push(bound.binding);
            match bound.place {
                Where::Space(tensor) => parameters.offsets[tensor] = bound.first,
                Where::Dense(extra) => parameters.extras[extra] = bound.first,
                Where::Elsewhere => {}
            }
        }
        if let Some((parts, access)) = parts {
            let store = if access == Access::Vec4Written { Store::F32 } else { Store::I64 };
            variant = variant.slot(SlotName::Parts, store, access);
            bindings.push(self.gpu.scratch(self.op, parts)?);
        }
        let groups = parameters.cut.groups();
        self.gpu.launch(self.op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
    }
}

fn number_words(class: Class) -> NumberWords {
    match class {
        Class::Float => NumberWords::Float,
        Class::Int => NumberWords::Int,
        Class::Byte | Class::Unsigned => NumberWords::Byte,
        Class::Wide | Class::WideUnsigned => NumberWords::Wide,
    }
}

/// A contiguous tensor, or a contiguous copy of a tensor that is not.
pub(crate) enum Dense<'a> {
    There(View<'a>),
    Copy(Buffer, Layout, View<'a>),
}

impl<'a> Dense<'a> {
    /// Wraps an output: [`Dense::finish`] copies the result to it.
    pub(crate) fn output(gpu: &Arc<Gpu>, view: &View<'a>) -> Result<Dense<'a>> {
        if view.layout.is_contiguous() {
            return Ok(Dense::There(*view));
        }
        let layout = Layout::row_major(*view.layout.shape());
        let room = gpu.alloc(layout.elements() * view.dtype.size())?;
        Ok(Dense::Copy(room, layout, *view))
    }

    pub(crate) fn input(gpu: &Arc<Gpu>, op: &'static str, view: &View<'a>) -> Result<Dense<'a>> {
        let dense = Dense::output(gpu, view)?;
        if let Dense::Copy(..) = dense {
            copy(gpu, op, view, &dense.view())?;
        }
        Ok(dense)
    }

    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Dense::There(view) => *view,
            Dense::Copy(buffer, layout, original) => View { buffer, dtype: original.dtype, layout },
        }
    }

    pub(crate) fn finish(&self, gpu: &Gpu, op: &'static str) -> Result<()> {
        match self {
            Dense::There(_) => Ok(()),
            Dense::Copy(_, _, original) => copy(gpu, op, &self.view(), original),
        }
    }
}

/// Returns the axes of `layouts` except `axis`, with their strides, for [`Rows::space`].
pub(crate) fn axes_but(axis: usize, layouts: &[&Layout]) -> Vec<(usize, Vec<i64>)> {
    let dims = layouts[0].shape().dims();
    let strides = |at: usize| layouts.iter().map(|layout| layout.strides()[at] as i64).collect();
    (0..dims.len()).filter(|&at| at != axis).map(|at| (dims[at], strides(at))).collect()
}
