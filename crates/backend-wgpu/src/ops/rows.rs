//! What rows.wgsl asks for: parameters, and what is bound. How rows are cut and dealt to threads is in `cut`.

mod cut;
pub(crate) mod fours;

pub(crate) use cut::{Cut, beside};

use super::copy::copy;
use crate::gpu::{Binding, Gpu, Launch};
use crate::linker::Class;
use crate::pipelines::{Define, Variant};
use crate::slots::{Access, Store};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;
use std::sync::Arc;
use ternion_core::backend::{Buffer, View};
use ternion_core::{Layout, Result};

const ROWS: &str = "rows.wgsl";
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

/// The functions of an accumulator: names in the files of the families.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) dtype: &'static str,
    pub(crate) start: &'static str,
    pub(crate) merge: &'static str,
    pub(crate) words: &'static str,
    pub(crate) from: &'static str,
    /// That of another thread of the subgroup.
    pub(crate) from_lane: &'static str,
}

/// Of a number or a vector.
pub(crate) const PLAIN_FROM_LANE: &str = "plain_from_lane";

impl Accumulator {
    pub(crate) const SUMS: Accumulator = Accumulator::floats("sums_start", "sums_merge");
    pub(crate) const EXPONENTIALS: Accumulator =
        Accumulator::floats("exponentials_start", "exponentials_merge");
    pub(crate) const MOMENTS: Accumulator = Accumulator::floats("moments_start", "moments_merge");
    /// A sum of numbers of the class.
    pub(crate) const SUM: Accumulator = Accumulator::number("zero", "sum_of");

    const fn floats(start: &'static str, merge: &'static str) -> Accumulator {
        Accumulator {
            dtype: "vec4<f32>",
            start,
            merge,
            words: "floats_words",
            from: "floats_from",
            from_lane: PLAIN_FROM_LANE,
        }
    }

    pub(crate) const fn number(start: &'static str, merge: &'static str) -> Accumulator {
        Accumulator {
            dtype: "C",
            start,
            merge,
            words: "plain_words",
            from: "plain_from",
            from_lane: PLAIN_FROM_LANE,
        }
    }
}

/// What follows the gathering: names of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// A result for each row, by its first member.
    Result(&'static str),
    /// Elements of y, by the threads of each part: PREPARE and VALUE.
    Elements(&'static str, &'static str),
    /// The same, several elements of a thread at a time where it has many: for values that are mostly read.
    ManyElements(&'static str, &'static str),
    /// The same of some rows: the first function calls FINISH_ELEMENTS for those.
    SomeElements(&'static str, &'static str, &'static str),
}

/// A tensor in the space of rows, or one that lies dense.
#[derive(Clone, Copy)]
enum Where {
    Space(usize),
    Dense(usize),
    Elsewhere,
}

struct Bound<'a> {
    name: &'static str,
    store: Store,
    access: Access,
    binding: Binding<'a>,
    first: u32,
    place: Where,
}

/// A launch of rows.wgsl in the making.
pub(crate) struct Rows<'a> {
    gpu: &'a Arc<Gpu>,
    op: &'static str,
    file: &'static str,
    class: Class,
    cut: Cut,
    accumulator: Accumulator,
    defines: SmallVec<[(&'static str, Define); 8]>,
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
        accumulator: Accumulator,
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
            file: ROWS,
            class,
            cut,
            accumulator,
            defines: SmallVec::new(),
            inputs: SmallVec::new(),
            outputs: SmallVec::new(),
            parameters,
        }
    }

    /// The space of rows: axes with the strides of its tensors.
    pub(crate) fn space(mut self, axes: &[(usize, Vec<i64>)]) -> Rows<'a> {
        (self.parameters.space, self.parameters.rank) = Space::in_order(axes);
        self
    }

    /// The space of a row's elements, likewise.
    pub(crate) fn over(mut self, axes: &[(usize, Vec<i64>)]) -> Rows<'a> {
        (self.parameters.over, self.parameters.over_rank) = Space::in_order(axes);
        self
    }

    /// What an identifier stands for.
    pub(crate) fn with(mut self, name: &'static str, function: &'static str) -> Rows<'a> {
        self.defines.push((name, Define::Text(function)));
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
    pub(crate) fn input(self, name: &'static str, tensor: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Read, Where::Space(tensor))
    }

    pub(crate) fn output(self, name: &'static str, tensor: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Scattered, Where::Space(tensor))
    }

    /// Binds a tensor that lies dense, whose first element is extra number `extra`.
    pub(crate) fn dense_input(self, name: &'static str, extra: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Read, Where::Dense(extra))
    }

    pub(crate) fn dense_output(self, name: &'static str, extra: usize, view: &View<'a>) -> Result<Rows<'a>> {
        self.bind(name, view, Access::Scattered, Where::Dense(extra))
    }

    /// Binds what norm_grad.wgsl left.
    pub(crate) fn teams(mut self, teams: &'a Buffer) -> Result<Rows<'a>> {
        let (binding, place) = (self.gpu.scratch(self.op, teams)?, Where::Elsewhere);
        self.inputs.push(Bound {
            name: "teams",
            store: Store::I64,
            access: Access::Read,
            binding,
            first: 0,
            place,
        });
        Ok(self)
    }

    /// Indices are checked against `size`.
    pub(crate) fn faults(mut self, size: usize) -> Rows<'a> {
        self.parameters.fault = self.gpu.fault_number(self.op, size);
        let (binding, place) = (self.gpu.record(), Where::Elsewhere);
        self.outputs.push(Bound {
            name: "faults",
            store: Store::Atomic,
            access: Access::Scattered,
            binding,
            first: 0,
            place,
        });
        self
    }

    fn bind(mut self, name: &'static str, view: &View<'a>, access: Access, place: Where) -> Result<Rows<'a>> {
        let (binding, first) = self.gpu.bind(self.op, view)?;
        let bound = Bound { name, store: Store::of(view.dtype), access, binding, first, place };
        match access {
            Access::Read => self.inputs.push(bound),
            _ => self.outputs.push(bound),
        }
        Ok(self)
    }

    /// Queues it: one launch, or two where rows are cut into parts. `gather` names a function.
    pub(crate) fn launch(mut self, gather: &'static str, finish: Finish) -> Result<()> {
        if self.cut.rows == 0 {
            return Ok(());
        }
        let function = self.finishing(finish);
        if self.cut.parts == 1 {
            return self.queue(gather, function, None);
        }
        let room = self.gpu.alloc(self.cut.rows as usize * self.cut.parts as usize * PART_BYTES)?;
        let outputs = std::mem::take(&mut self.outputs);
        self.queue(gather, "finish_part", Some((&room, Access::Scattered)))?;
        self.outputs = outputs;
        self.parameters.cut = match finish {
            Finish::Result(_) => self.cut.gathering(),
            _ => Cut { gathered: self.cut.parts, ..self.cut },
        };
        self.queue("gather_parts", function, Some((&room, Access::Read)))
    }

    /// The function that finishes rows; those that write elements do so by whole words where they can.
    fn finishing(&mut self, finish: Finish) -> &'static str {
        let (outer, prepare, value) = match finish {
            Finish::Result(function) => return function,
            Finish::Elements(prepare, value) | Finish::ManyElements(prepare, value) => (None, prepare, value),
            Finish::SomeElements(outer, prepare, value) => (Some(outer), prepare, value),
        };
        let many = matches!(finish, Finish::ManyElements(..)) && self.cut.per_part >= 8 * self.cut.members;
        let elements = match (self.writes_pairs(), self.lies_side_by_side()) {
            (true, _) => "finish_pairs",
            (_, true) => "finish_words",
            _ if many => "finish_four_elements",
            _ => "finish_elements",
        };
        let functions = [("PREPARE", prepare), ("VALUE", value), ("FINISH_ELEMENTS", elements)];
        self.defines.extend(functions.map(|(name, function)| (name, Define::Text(function))));
        outer.unwrap_or(elements)
    }

    /// Whether y lies in whole words of two elements, which it is written by then.
    fn writes_pairs(&mut self) -> bool {
        let even = |numbers: &[u32]| numbers.iter().all(|number| number % 2 == 0);
        let Parameters { rank, over_rank, space, over, .. } = self.parameters;
        let Some(y) = self.outputs.iter_mut().find(|bound| bound.name == "y") else { return false };
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

    /// Whether the elements of a row of y lie side by side, two to a word.
    fn lies_side_by_side(&self) -> bool {
        let Parameters { over_rank, over, .. } = self.parameters;
        let in_halves = |bound: &Bound<'_>| bound.name == "y" && bound.store.per_word() == 2;
        over_rank == 1 && over.strides[0][0] == 1 && self.outputs.iter().any(in_halves)
    }

    /// The exponential that is exact enough for what comes of it.
    fn exponential(&self) -> &'static str {
        let mut floats =
            self.outputs.iter().chain(&self.inputs).filter(|bound| ["x", "y"].contains(&bound.name));
        if floats.all(|bound| bound.store.per_word() == 2) { "exponential_of_half" } else { "exponential" }
    }

    /// Queues a running sum: of parts, those before are added up first.
    pub(crate) fn launch_running(mut self) -> Result<()> {
        self.file = "cumulative.wgsl";
        if self.cut.parts == 1 {
            return self.queue("running_from_nothing", "", None);
        }
        let room = self.gpu.alloc(self.cut.rows as usize * self.cut.parts as usize * PART_BYTES)?;
        let outputs = std::mem::take(&mut self.outputs);
        self.file = ROWS;
        self.queue("reduce_gather", "finish_part", Some((&room, Access::Scattered)))?;
        self.outputs = outputs;
        self.file = "cumulative.wgsl";
        self.parameters.cut.gathered = self.cut.parts;
        self.queue("running_from_parts", "", Some((&room, Access::Read)))
    }

    /// Queues norm_grad.wgsl, which leaves sums of teams in `parts`.
    pub(crate) fn launch_walking(mut self, parts: &Buffer) -> Result<()> {
        self.file = "norm_grad.wgsl";
        self.defines.push(("HOLD", Define::Number(self.cut.held() as u32)));
        let in_pairs = self.writes_pairs();
        self.parameters.spare = if in_pairs { [1, 2, 0] } else { [self.cut.members, 1, 0] };
        let store = if in_pairs { "norm_store_pair" } else { "norm_store_each" };
        self.with("STORE_TWO", store).queue("", "", Some((parts, Access::Scattered)))
    }

    fn queue(
        &self,
        gather: &'static str,
        finish: &'static str,
        parts: Option<(&Buffer, Access)>,
    ) -> Result<()> {
        let accumulator = self.accumulator;
        let mut variant = Variant::new(self.file, self.class)
            .text("ACC", accumulator.dtype)
            .text("START", accumulator.start)
            .text("MERGE", accumulator.merge)
            .text("WORDS_FROM", accumulator.words)
            .text("ACC_FROM", accumulator.from)
            .text("ACC_FROM_LANE", accumulator.from_lane)
            .text("OF_TEAM", if self.gpu.subgroup.is_some() { "team_of_subgroups" } else { "team_in_memory" })
            .number("SUBGROUP", self.gpu.subgroup.unwrap_or(1))
            .text("NUMBER_WORDS", number_words(self.class))
            .text("EXPONENTIAL", self.exponential())
            .text("GATHER", gather)
            .text("FINISH", finish);
        variant.defines.extend(self.defines.iter().copied());
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
            let store = if access == Access::FoursWritten { Store::F32 } else { Store::I64 };
            variant = variant.slot("parts", store, access);
            bindings.push(self.gpu.scratch(self.op, parts)?);
        }
        let groups = parameters.cut.groups();
        self.gpu.launch(self.op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
    }
}

fn number_words(class: Class) -> &'static str {
    match class {
        Class::Float => "words_of_float",
        Class::Int => "words_of_int",
        Class::Byte => "words_of_byte",
        Class::Wide => "words_of_wide",
    }
}

/// A tensor, or where it does not lie row by row, room for a copy that does.
pub(crate) enum Dense<'a> {
    There(View<'a>),
    Copy(Buffer, Layout, View<'a>),
}

impl<'a> Dense<'a> {
    /// Of an output: [`Dense::finish`] brings the copy to it.
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

/// The axes of `layouts` but `axis`, with their strides, for [`Rows::space`].
pub(crate) fn axes_but(axis: usize, layouts: &[&Layout]) -> Vec<(usize, Vec<i64>)> {
    let dims = layouts[0].shape().dims();
    let strides = |at: usize| layouts.iter().map(|layout| layout.strides()[at] as i64).collect();
    (0..dims.len()).filter(|&at| at != axis).map(|at| (dims[at], strides(at))).collect()
}
