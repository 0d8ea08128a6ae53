//! Ops of which each element depends on the elements at its place alone.

use super::GROUP;
use crate::gpu::{Gpu, Launch};
use crate::linker::Class;
use crate::pipelines::{Name, Variant};
use crate::select::Call;
use crate::slots::{Access, Store};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::View;
use ternion_core::ops::binary::{BinaryScalar, Side};
use ternion_core::ops::compare::CompareScalar;
use ternion_core::{DType, Error, Layout, Op, Result, Scalar, UnaryOp};

/// The parameters, as in elementwise.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    spare: u32,
    offsets: [u32; 4],
    constants: [u32; 4],
    scalar: [u32; 4],
    space: Space,
}

/// No function.
const NONE: Name = ["", ""];

/// One of the shaders that elementwise.wgsl makes.
#[derive(Clone, Copy)]
pub(crate) struct Shader {
    pub(crate) class: Class,
    /// How y and the inputs lie.
    pub(crate) stores: [Store; 4],
    /// How the bits of an element come about, of those in result.wgsl.
    pub(crate) result: &'static str,
    pub(crate) function: Name,
    /// Two constants of the function, and the number of a scalar form: bits of the class.
    pub(crate) constants: [u64; 2],
    pub(crate) scalar: u64,
}

impl Shader {
    fn new(dtype: DType, result: &'static str, function: Name) -> Shader {
        let store = Store::of(dtype);
        Shader { class: store.class(), stores: [store; 4], result, function, constants: [0; 2], scalar: 0 }
    }

    /// One that only moves elements of `dtype`.
    pub(crate) fn moving(dtype: DType, result: &'static str) -> Shader {
        Shader {
            stores: [Store::bits_of(dtype); 4],
            class: Class::Byte,
            ..Shader::new(DType::U8, result, NONE)
        }
    }

    /// The shader without its slots.
    fn variant(&self, write: &'static str) -> Variant {
        Variant::new("elementwise.wgsl", self.class)
            .text("RESULT", self.result)
            .name("FUNCTION", self.function)
            .text("WRITE", write)
    }

    /// With so many slots, y first, and what is done with each.
    fn slots(&self, variant: Variant, slots: impl Iterator<Item = (usize, Access)>) -> Variant {
        slots.fold(variant, |variant, (at, access)| {
            variant.slot(["y", "a", "b", "c"][at], self.stores[at], access)
        })
    }

    pub(crate) fn storing(self, y: Store) -> Shader {
        let [_, a, b, c] = self.stores;
        Shader { stores: [y, a, b, c], ..self }
    }
}

/// The bits of `scalar`, rounded to `dtype`, as a number of the class that the dtype is computed in.
pub(crate) fn rounded_bits(scalar: Scalar, dtype: DType) -> u64 {
    let bits = scalar.bits(dtype);
    match dtype {
        DType::F16 => u64::from(half::f16::from_bits(bits as u16).to_f32().to_bits()),
        DType::BF16 => u64::from(half::bf16::from_bits(bits as u16).to_f32().to_bits()),
        DType::I16 => u64::from(i32::from(bits as i16) as u32),
        DType::I8 => u64::from(i32::from(bits as i8) as u32),
        _ => bits,
    }
}

/// Low and high word.
pub(crate) fn words(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

/// Queues `shader` for y, the first of `views`, and its inputs, which have y's shape.
pub(crate) fn launch(gpu: &Gpu, op: &'static str, shader: Shader, views: &[View<'_>]) -> Result<()> {
    if views[0].layout.elements() == 0 {
        return Ok(());
    }
    for view in views {
        if !gpu.fits(op, view)? {
            return in_halves(gpu, op, shader, views);
        }
    }
    let layouts: Vec<&Layout> = views.iter().map(|view| view.layout).collect();
    let (space, rank) = Space::of(&layouts);
    let y = views[0];
    let count = y.layout.elements();
    let [constants_first, constants_second] = shader.constants.map(words);
    let scalar = words(shader.scalar);
    let mut parameters = Parameters {
        launched: 0,
        count: count as u32,
        rank,
        spare: 0,
        offsets: [0; 4],
        constants: [constants_first[0], constants_first[1], constants_second[0], constants_second[1]],
        scalar: [scalar[0], scalar[1], 0, 0],
        space,
    };
    let mut bindings = smallvec::SmallVec::new();
    for (offset, view) in parameters.offsets.iter_mut().zip(views) {
        let (binding, first) = gpu.bind(op, view)?;
        bindings.push(binding);
        *offset = first;
    }
    let fours = Fours::of(&shader, &parameters, views);
    let (variant, groups) = match fours {
        Some(fours) => fours.variant(&shader, views.len(), count),
        None => one_by_one(&shader, &layouts),
    };
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(&parameters))
}

/// The shader that forms words or elements of y, and its work groups.
fn one_by_one(shader: &Shader, layouts: &[&Layout]) -> (Variant, usize) {
    let (count, per_word) = (layouts[0].elements(), shader.stores[0].per_word());
    let (write, access) = match (layouts[0].is_contiguous(), per_word) {
        (false, _) => ("write_anywhere", Access::Scattered),
        (true, 1) => ("write_single", Access::Words),
        (true, _) => ("write_packed", Access::Words),
    };
    let dense = layouts[1..].iter().all(|layout| layout.is_contiguous());
    let variant = shader.variant(write).text("PLACE", if dense { "located_dense" } else { "located" });
    let slots = (0..layouts.len()).map(|at| (at, if at == 0 { access } else { Access::Read }));
    // A word more where the first one begins in the middle.
    let words = count.div_ceil(per_word) + usize::from(per_word > 1);
    let threads = if access == Access::Words { words } else { count };
    (shader.slots(variant, slots), threads.div_ceil(GROUP))
}

/// Elements from which on fours are worth a shader of their own.
pub(crate) const MANY: usize = 1 << 14;

/// How fours of y are formed.
#[derive(Clone, Copy)]
struct Fours {
    /// Which inputs lie in fours as y does, by bits of their numbers; the others have one element at each four of y.
    runs: u32,
    /// Axes of the space; 0 for more than two.
    rank: u32,
}

impl Fours {
    /// Where y does, and every input is one or the other.
    fn of(shader: &Shader, parameters: &Parameters, views: &[View<'_>]) -> Option<Fours> {
        let Parameters { count, rank, offsets, space, .. } = parameters;
        let last = *rank as usize - 1;
        let wide = shader.stores[..views.len()].contains(&Store::I64);
        let cut = last > 0 && space.sizes[last] % 4 != 0;
        // Numbers of elements behind the last one are formed, too.
        let countable = (MANY..1 << 31).contains(&(*count as usize));
        if wide || cut || !countable {
            return None;
        }
        let mut runs = 0;
        for at in 0..views.len() {
            let strides = &space.strides[at];
            let aligned = offsets[at] % 4 == 0 && strides[..last].iter().all(|stride| stride % 4 == 0);
            match strides[last] {
                1 if aligned => runs |= 1 << at,
                0 if at > 0 => {}
                _ => return None,
            }
            // Memory that is written is declared as y is.
            if at > 0 && views[at].buffer.is(views[0].buffer) && runs >> at & 1 == 0 {
                return None;
            }
        }
        Some(Fours { runs, rank: if last < 2 { *rank } else { 0 } })
    }

    /// The shader, and its work groups.
    fn variant(self, shader: &Shader, tensors: usize, count: usize) -> (Variant, usize) {
        // 16 bytes of y for each thread and more.
        let twice = shader.stores[0].per_word() > 1;
        let write = if twice { "write_fours_twice" } else { "write_fours" };
        let variant = shader
            .variant(write)
            .text("PLACE", "place_in_four")
            .number("RUNS", self.runs)
            .number("RANK", self.rank);
        let slots = (0..tensors).map(|at| {
            let access = match self.runs >> at & 1 {
                _ if at == 0 => Access::FoursWritten,
                1 => Access::Fours,
                _ => Access::Read,
            };
            (at, access)
        });
        let threads = count.div_ceil(if twice { 8 } else { 4 });
        (shader.slots(variant, slots), threads.div_ceil(GROUP))
    }
}

/// As two launches over halves of the longest axis, of tensors of which a shader sees only a part at a time.
fn in_halves(gpu: &Gpu, op: &'static str, shader: Shader, views: &[View<'_>]) -> Result<()> {
    let shape = views[0].layout.shape();
    let axis = (0..shape.rank()).max_by_key(|&axis| shape.dim(axis)).unwrap_or(0);
    let size = if shape.rank() == 0 { 1 } else { shape.dim(axis) };
    if size < 2 {
        return Err(Error::invalid(
            op,
            format!("shape {shape:?} is larger than what {} binds at a time", gpu.name),
        ));
    }
    // Halves of words stay together.
    let middle = if size >= 16 { size / 2 / 8 * 8 } else { size / 2 };
    for (start, end) in [(0, middle), (middle, size)] {
        let layouts: Vec<Layout> = views
            .iter()
            .map(|view| view.layout.slice(axis, start, end as isize, 1))
            .collect::<Result<_>>()?;
        let parts: Vec<View<'_>> =
            views.iter().zip(&layouts).map(|(view, layout)| View { layout, ..*view }).collect();
        launch(gpu, op, shader, &parts)?;
    }
    Ok(())
}

/// Output and inputs of a call.
pub(crate) fn views_of<'a>(call: &Call<'a>) -> Vec<View<'a>> {
    [call.outputs[0]].into_iter().chain(call.inputs.iter().copied()).collect()
}

fn queue(call: &Call<'_>, shader: Shader) -> Result<()> {
    launch(call.gpu, call.name, shader, &views_of(call))
}

fn wrong(call: &Call<'_>) -> Error {
    Error::invalid(call.name, "another op's shader was chosen")
}

/// The constants of a function, in the type that it is computed in; one beyond an integer dtype is the dtype's own extreme.
fn constants_of(op: UnaryOp, dtype: DType) -> [u64; 2] {
    op.constants().map(|constant| rounded_bits(Scalar::Float(constant), dtype.accumulator()))
}

/// Functions that half.wgsl has a form of, for results of 16 bits.
const OF_HALVES: [&str; 6] = ["tanh", "sigmoid", "erf", "gelu_erf", "gelu_tanh", "silu"];
/// Likewise slopes.
const SLOPES_OF_HALVES: [&str; 5] = ["erf", "gelu_erf", "gelu_tanh", "silu", "softplus"];

/// A function of one element whose result is rounded to `dtype`: its name in the files of the classes, and its constants.
pub(crate) fn unary_function(op: UnaryOp, dtype: DType) -> (Name, [u64; 2]) {
    let of_halves = dtype.is_half() && OF_HALVES.contains(&op.name());
    ([if of_halves { "unary_half_" } else { "unary_" }, op.name()], constants_of(op, dtype))
}

/// The gradient of such a function.
fn slope_function(op: UnaryOp, dtype: DType) -> (Name, [u64; 2]) {
    let of_halves = dtype.is_half() && SLOPES_OF_HALVES.contains(&op.name());
    ([if of_halves { "slope_half_" } else { "slope_" }, op.name()], constants_of(op, dtype))
}

pub(crate) fn run_unary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Unary(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let (function, constants) = unary_function(payload.op, dtype);
    queue(call, Shader { constants, ..Shader::new(dtype, "unary_result", function) })
}

pub(crate) fn run_unary_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::UnaryGrad(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let (function, constants) = slope_function(payload.op, dtype);
    queue(call, Shader { constants, ..Shader::new(dtype, "binary_result", function) })
}

pub(crate) fn run_binary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Binary(payload) = op else { return Err(wrong(call)) };
    queue(call, Shader::new(call.inputs[0].dtype, "binary_result", ["binary_", payload.op.name()]))
}

/// The number is in the type that the op is computed in.
pub(crate) fn run_binary_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BinaryScalar(BinaryScalar { op, scalar, side }) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let result = if *side == Side::Right { "scalar_right_result" } else { "scalar_left_result" };
    let scalar = rounded_bits(*scalar, dtype.accumulator());
    queue(call, Shader { scalar, ..Shader::new(dtype, result, ["binary_", op.name()]) })
}

pub(crate) fn run_multiply_add(_: &Op, call: &Call<'_>) -> Result<()> {
    queue(call, Shader::new(call.inputs[0].dtype, "multiply_add_result", NONE))
}

pub(crate) fn run_scale_add(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::ScaleAdd(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let scalar = Scalar::Float(payload.scale).bits(dtype.accumulator());
    queue(call, Shader { scalar, ..Shader::new(dtype, "scale_add_result", NONE) })
}

pub(crate) fn run_add_relu(_: &Op, call: &Call<'_>) -> Result<()> {
    queue(call, Shader::new(call.inputs[0].dtype, "add_relu_result", NONE))
}

pub(crate) fn run_bias_activation(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BiasActivation(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let (function, constants) = unary_function(payload.activation, dtype);
    queue(call, Shader { constants, ..Shader::new(dtype, "bias_activation_result", function) })
}

pub(crate) fn run_compare(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Compare(payload) = op else { return Err(wrong(call)) };
    let shader = Shader::new(call.inputs[0].dtype, "compare_result", ["compare_", payload.op.name()]);
    queue(call, shader.storing(Store::Bool))
}

/// The number is rounded to the tensor's dtype first.
pub(crate) fn run_compare_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CompareScalar(CompareScalar { op, scalar }) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let scalar = rounded_bits(*scalar, dtype);
    let shader = Shader { scalar, ..Shader::new(dtype, "compare_scalar_result", ["compare_", op.name()]) };
    queue(call, shader.storing(Store::Bool))
}

pub(crate) fn run_select(_: &Op, call: &Call<'_>) -> Result<()> {
    let moving = Shader::moving(call.inputs[1].dtype, "select_result");
    let [y, _, b, c] = moving.stores;
    queue(call, Shader { stores: [y, Store::Bool, b, c], ..moving })
}
