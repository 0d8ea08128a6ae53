//! Ops of which each element depends on the elements at its place alone.

use super::GROUP;
use crate::gpu::{Gpu, Launch};
use crate::linker::Class;
use crate::pipelines::Variant;
use crate::select::Call;
use crate::slots::{Access, Store};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::View;
use ternion_core::ops::binary::{BinaryOp, BinaryScalar, Side};
use ternion_core::ops::compare::{CompareOp, CompareScalar};
use ternion_core::{DType, Element, Error, Layout, Op, Result, Scalar, UnaryOp};

/// The parameters, as in elementwise.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    zero: u32,
    count: u32,
    rank: u32,
    spare: u32,
    offsets: [u32; 4],
    constants: [u32; 4],
    scalar: [u32; 4],
    space: Space,
}

/// One of the shaders that elementwise.wgsl makes.
#[derive(Clone, Copy)]
pub(crate) struct Shader {
    pub(crate) class: Class,
    /// How y and the inputs lie.
    pub(crate) stores: [Store; 4],
    /// How the bits of an element come about, of those in result.wgsl.
    pub(crate) result: &'static str,
    pub(crate) function: &'static str,
    /// Two constants of the function, and the number of a scalar form: bits of the class.
    pub(crate) constants: [u64; 2],
    pub(crate) scalar: u64,
}

impl Shader {
    fn new(dtype: DType, result: &'static str, function: &'static str) -> Shader {
        let store = Store::of(dtype);
        Shader { class: store.class(), stores: [store; 4], result, function, constants: [0; 2], scalar: 0 }
    }

    /// One that only moves elements of `dtype`.
    pub(crate) fn moving(dtype: DType, result: &'static str) -> Shader {
        Shader {
            stores: [Store::bits_of(dtype); 4],
            class: Class::Byte,
            ..Shader::new(DType::U8, result, "")
        }
    }

    pub(crate) fn storing(self, y: Store) -> Shader {
        let [_, a, b, c] = self.stores;
        Shader { stores: [y, a, b, c], ..self }
    }
}

/// The bits of `scalar` as an element of `dtype`, rounded once.
pub(crate) fn element_bits(scalar: Scalar, dtype: DType) -> u64 {
    match dtype {
        DType::F64 => f64::from_scalar(scalar).to_bits(),
        DType::F32 => u64::from(f32::from_scalar(scalar).to_bits()),
        DType::F16 => u64::from(half::f16::from_scalar(scalar).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_scalar(scalar).to_bits()),
        DType::I64 => i64::from_scalar(scalar) as u64,
        DType::I32 => u64::from(i32::from_scalar(scalar) as u32),
        DType::U8 => u64::from(u8::from_scalar(scalar)),
        DType::Bool => u64::from(scalar.as_bool()),
    }
}

/// The bits of `scalar`, rounded to `dtype`, as a number of the class that the dtype is computed in.
pub(crate) fn rounded_bits(scalar: Scalar, dtype: DType) -> u64 {
    let bits = element_bits(scalar, dtype);
    match dtype {
        DType::F16 => u64::from(half::f16::from_bits(bits as u16).to_f32().to_bits()),
        DType::BF16 => u64::from(half::bf16::from_bits(bits as u16).to_f32().to_bits()),
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
    if !views.iter().all(|view| gpu.fits(view)) {
        return in_halves(gpu, op, shader, views);
    }
    let layouts: Vec<&Layout> = views.iter().map(|view| view.layout).collect();
    let (space, rank) = Space::of(&layouts);
    let y = views[0];
    let count = y.layout.elements();
    let dense = |at: usize| layouts[at].is_contiguous();
    let inputs_dense = (1..views.len()).all(dense);
    let per_word = shader.stores[0].per_word();
    let (write, access) = match (dense(0), per_word) {
        (false, _) => ("write_anywhere", Access::Scattered),
        (true, 1) => ("write_single", Access::Words),
        (true, _) => ("write_packed", Access::Words),
    };
    let [constants_first, constants_second] = shader.constants.map(words);
    let scalar = words(shader.scalar);
    let mut parameters = Parameters {
        zero: 0,
        count: count as u32,
        rank,
        spare: 0,
        offsets: [0; 4],
        constants: [constants_first[0], constants_first[1], constants_second[0], constants_second[1]],
        scalar: [scalar[0], scalar[1], 0, 0],
        space,
    };
    let mut variant = Variant::new("elementwise.wgsl", shader.class)
        .text("RESULT", shader.result)
        .text("FUNCTION", shader.function)
        .text("WRITE", write)
        .flag("DENSE", inputs_dense);
    let mut bindings = smallvec::SmallVec::new();
    for (at, view) in views.iter().enumerate() {
        let access = if at == 0 { access } else { Access::Read };
        variant = variant.slot(["y", "a", "b", "c"][at], shader.stores[at], access);
        let (binding, offset) = gpu.bind(op, view)?;
        bindings.push(binding);
        parameters.offsets[at] = offset;
    }
    // A word more where the first one begins in the middle.
    let threads =
        if access == Access::Words { count.div_ceil(per_word) + usize::from(per_word > 1) } else { count };
    let launch = Launch { variant, bindings, groups: threads.div_ceil(GROUP) };
    gpu.launch(op, launch, bytemuck::bytes_of(&parameters))
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

/// The constants of a function, in the class that it is computed in.
fn constants_of(op: UnaryOp, dtype: DType) -> [u64; 2] {
    let wide = dtype.accumulator();
    let bits = |value: f64| element_bits(Scalar::Float(value), wide);
    // Saturates: a bound beyond an integer dtype is the dtype's own extreme.
    match op {
        UnaryOp::LeakyRelu { slope } => [bits(slope), 0],
        UnaryOp::Elu { alpha } => [bits(alpha), 0],
        UnaryOp::Clamp { low, high } => [bits(low), bits(high)],
        _ => [0; 2],
    }
}

/// A function of one element: its name in the files of the classes, and its constants.
pub(crate) fn unary_function(op: UnaryOp, dtype: DType) -> (&'static str, [u64; 2]) {
    (unary(op), constants_of(op, dtype))
}

/// The names in the files of the classes.
fn unary(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "unary_neg",
        UnaryOp::Abs => "unary_abs",
        UnaryOp::Sign => "unary_sign",
        UnaryOp::Exp => "unary_exp",
        UnaryOp::Log => "unary_log",
        UnaryOp::Log1p => "unary_log1p",
        UnaryOp::Expm1 => "unary_expm1",
        UnaryOp::Sqrt => "unary_sqrt",
        UnaryOp::Rsqrt => "unary_rsqrt",
        UnaryOp::Sin => "unary_sin",
        UnaryOp::Cos => "unary_cos",
        UnaryOp::Tanh => "unary_tanh",
        UnaryOp::Sigmoid => "unary_sigmoid",
        UnaryOp::Relu => "unary_relu",
        UnaryOp::Erf => "unary_erf",
        UnaryOp::Square => "unary_square",
        UnaryOp::Recip => "unary_recip",
        UnaryOp::Floor => "unary_floor",
        UnaryOp::Ceil => "unary_ceil",
        UnaryOp::Round => "unary_round",
        UnaryOp::Not => "unary_logical_not",
        UnaryOp::LeakyRelu { .. } => "unary_leaky_relu",
        UnaryOp::Elu { .. } => "unary_elu",
        UnaryOp::GeluErf => "unary_gelu_erf",
        UnaryOp::GeluTanh => "unary_gelu_tanh",
        UnaryOp::Silu => "unary_silu",
        UnaryOp::Softplus => "unary_softplus",
        UnaryOp::Clamp { .. } => "unary_clamp",
    }
}

fn slope(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "slope_neg",
        UnaryOp::Abs => "slope_abs",
        UnaryOp::Sign => "slope_sign",
        UnaryOp::Exp => "slope_exp",
        UnaryOp::Log => "slope_log",
        UnaryOp::Log1p => "slope_log1p",
        UnaryOp::Expm1 => "slope_expm1",
        UnaryOp::Sqrt => "slope_sqrt",
        UnaryOp::Rsqrt => "slope_rsqrt",
        UnaryOp::Sin => "slope_sin",
        UnaryOp::Cos => "slope_cos",
        UnaryOp::Tanh => "slope_tanh",
        UnaryOp::Sigmoid => "slope_sigmoid",
        UnaryOp::Relu => "slope_relu",
        UnaryOp::Erf => "slope_erf",
        UnaryOp::Square => "slope_square",
        UnaryOp::Recip => "slope_recip",
        UnaryOp::Floor => "slope_floor",
        UnaryOp::Ceil => "slope_ceil",
        UnaryOp::Round => "slope_round",
        UnaryOp::Not => "slope_logical_not",
        UnaryOp::LeakyRelu { .. } => "slope_leaky_relu",
        UnaryOp::Elu { .. } => "slope_elu",
        UnaryOp::GeluErf => "slope_gelu_erf",
        UnaryOp::GeluTanh => "slope_gelu_tanh",
        UnaryOp::Silu => "slope_silu",
        UnaryOp::Softplus => "slope_softplus",
        UnaryOp::Clamp { .. } => "slope_clamp",
    }
}

fn binary(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "binary_add",
        BinaryOp::Sub => "binary_sub",
        BinaryOp::Mul => "binary_mul",
        BinaryOp::Div => "binary_div",
        BinaryOp::Pow => "binary_pow",
        BinaryOp::Max => "binary_maximum",
        BinaryOp::Min => "binary_minimum",
        BinaryOp::Atan2 => "binary_atan2",
        BinaryOp::Remainder => "binary_remainder",
        BinaryOp::And => "binary_logical_and",
        BinaryOp::Or => "binary_logical_or",
        BinaryOp::Xor => "binary_logical_xor",
    }
}

fn comparison(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => "compare_eq",
        CompareOp::Ne => "compare_ne",
        CompareOp::Lt => "compare_lt",
        CompareOp::Le => "compare_le",
        CompareOp::Gt => "compare_gt",
        CompareOp::Ge => "compare_ge",
    }
}

pub(crate) fn run_unary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Unary(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let constants = constants_of(payload.op, dtype);
    queue(call, Shader { constants, ..Shader::new(dtype, "unary_result", unary(payload.op)) })
}

pub(crate) fn run_unary_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::UnaryGrad(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let constants = constants_of(payload.op, dtype);
    queue(call, Shader { constants, ..Shader::new(dtype, "binary_result", slope(payload.op)) })
}

pub(crate) fn run_binary(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Binary(payload) = op else { return Err(wrong(call)) };
    queue(call, Shader::new(call.inputs[0].dtype, "binary_result", binary(payload.op)))
}

/// The number is in the type that the op is computed in.
pub(crate) fn run_binary_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BinaryScalar(BinaryScalar { op, scalar, side }) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let result = if *side == Side::Right { "scalar_right_result" } else { "scalar_left_result" };
    let scalar = element_bits(*scalar, dtype.accumulator());
    queue(call, Shader { scalar, ..Shader::new(dtype, result, binary(*op)) })
}

pub(crate) fn run_multiply_add(_: &Op, call: &Call<'_>) -> Result<()> {
    queue(call, Shader::new(call.inputs[0].dtype, "multiply_add_result", ""))
}

pub(crate) fn run_scale_add(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::ScaleAdd(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let scalar = element_bits(Scalar::Float(payload.scale), dtype.accumulator());
    queue(call, Shader { scalar, ..Shader::new(dtype, "scale_add_result", "") })
}

pub(crate) fn run_add_relu(_: &Op, call: &Call<'_>) -> Result<()> {
    queue(call, Shader::new(call.inputs[0].dtype, "add_relu_result", ""))
}

pub(crate) fn run_bias_activation(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BiasActivation(payload) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let constants = constants_of(payload.activation, dtype);
    queue(
        call,
        Shader { constants, ..Shader::new(dtype, "bias_activation_result", unary(payload.activation)) },
    )
}

pub(crate) fn run_compare(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Compare(payload) = op else { return Err(wrong(call)) };
    let shader = Shader::new(call.inputs[0].dtype, "compare_result", comparison(payload.op));
    queue(call, shader.storing(Store::Bool))
}

/// The number is rounded to the tensor's dtype first.
pub(crate) fn run_compare_scalar(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::CompareScalar(CompareScalar { op, scalar }) = op else { return Err(wrong(call)) };
    let dtype = call.inputs[0].dtype;
    let scalar = rounded_bits(*scalar, dtype);
    let shader = Shader { scalar, ..Shader::new(dtype, "compare_scalar_result", comparison(*op)) };
    queue(call, shader.storing(Store::Bool))
}

pub(crate) fn run_select(_: &Op, call: &Call<'_>) -> Result<()> {
    let moving = Shader::moving(call.inputs[1].dtype, "select_result");
    let [y, _, b, c] = moving.stores;
    queue(call, Shader { stores: [y, Store::Bool, b, c], ..moving })
}
