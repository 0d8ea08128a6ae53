//! [`OpCase`], a row of the table: one op with its inputs, oracle and limits. [`crate::cases`]
//! contains the rows, one file per family.
//!
//! A row names an op and its parameters, defines its random inputs and their shapes, calls the op
//! through the [`Tensor`] API, and gives a float64 oracle written from the definition. Everything
//! else follows from it: [`crate::check`] runs each row on each shape, dtype, memory layout and
//! device, forward and backward.
//!
//! ```
//! use ternion_testing::prelude::*;
//!
//! fn rows() -> Vec<OpCase> {
//!     vec![
//!         OpCase::new("add", "")
//!             .input(Uniform(-4.0, 4.0))
//!             .input(Uniform(-4.0, 4.0))
//!             .shapes([&[], &[1, 13], &[7, 33]])  // every input has this shape: three instances
//!             .on([&[7, 1], &[33]])               // one shape for each input: a fourth
//!             .also(INTEGERS)                     // floats by default
//!             .double_backward()                  // second-order gradients too
//!             .run(|x| x[0].add(&x[1]))
//!             .oracle(|x| x[0].zip(&x[1], |a, b| a + b))
//!             .rejects("add: shapes [2] and [3] do not broadcast", |device| {
//!                 Tensor::zeros([2], F32, device)?.add(&Tensor::zeros([3], F32, device)?)
//!             }),
//!     ]
//! }
//! assert_eq!(rows()[0].key(&rows()[0].instances[3]), "add [7,1]x[33]");
//! ```
//!
//! Rules for rows:
//!
//! - The oracle is plain loops over float64, written from the definition (cite it): it must not
//!   call the framework. Its inputs are *rounded* to the dtype. It must be smooth around the random
//!   inputs, because gradients are compared with its central differences: stay away from kinks and
//!   ties with [`Values::AwayFrom`] and [`Values::Distinct`], and test those points in
//!   [`OpCase::adversarial`] or a [`OpCase::forward_only`] row.
//! - Shapes are small (a gradient of n elements costs 2n oracle calls, up to 512 elements; above, 4
//!   random directions), odd and prime, and include one less and one more than the tile sizes of
//!   the kernels: [`edges`]. Three to six shapes are plenty; give large ones to [`OpCase::perf`].
//! - Integer and bool outputs are compared exactly, and so are all outputs of an [`OpCase::exact`]
//!   row. Floats: `|got - want| <= abs + rel |want|`. In half precision,
//!   `2 |rounded oracle - oracle| + 1 ulp` is added to the limit, since ops accumulate in f32 and
//!   round once.
//! - Rows of [`INTEGERS`] and [`UNSIGNED`] run in i16, i8, u64, u32 and u16 on every shape, dense
//!   and sliced; in i64, i32 and u8 in every layout.
//! - Never loosen a limit to make a row pass; find the error. A row that needs more than the
//!   default says why in a comment.

mod returns;

pub use returns::{IntoArrays, IntoOutputs};

use crate::array::Array;
use crate::values::Values;
use std::sync::Arc;
use ternion_core::{DType, Device, Result, Tensor};

/// The floating dtypes, which are the default of a row.
pub const FLOATS: &[DType] = &DType::FLOATS;
/// The integer dtypes of most rows.
pub const INTEGERS: &[DType] = &[DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];
/// The wide unsigned dtypes: in addition to [`INTEGERS`] for rows of storage, casts, arithmetic,
/// comparisons, indexing and reductions.
pub const UNSIGNED: &[DType] = &[DType::U64, DType::U32, DType::U16];
/// The signed integer dtypes.
pub const SIGNED: &[DType] = &[DType::I64, DType::I32, DType::I16, DType::I8];
/// The dtype bool.
pub const BOOL: &[DType] = &[DType::Bool];

/// The dtype of an input, as a function of the dtype in which the row runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The row's dtype.
    Row,
    /// The accumulator of the row's dtype: f32 for half precision.
    Accumulator,
    /// Indices: i64 in rows of f64 and f32, i32 otherwise, so that both are tested.
    Index,
    /// Always this one.
    Fixed(DType),
}

impl Class {
    /// Returns the dtype when the row runs in `row`.
    pub fn dtype(self, row: DType) -> DType {
        match self {
            Class::Row => row,
            Class::Accumulator => row.accumulator(),
            Class::Index if matches!(row, DType::F64 | DType::F32) => DType::I64,
            Class::Index => DType::I32,
            Class::Fixed(dtype) => dtype,
        }
    }
}

/// One input of a row. Converted from [`Values`], it has the row's dtype and a gradient.
#[derive(Clone, Debug)]
pub struct Input {
    /// The distribution of its values.
    pub values: Values,
    /// Its dtype class.
    pub class: Class,
    /// Whether its gradient is checked (if its dtype is floating).
    pub differentiable: bool,
}

impl From<Values> for Input {
    fn from(values: Values) -> Input {
        Input { values, class: Class::Row, differentiable: true }
    }
}

impl Input {
    /// Creates an input of the row's dtype, with a gradient.
    pub fn float(values: Values) -> Input {
        values.into()
    }

    /// Creates an input of indices (i64 or i32).
    pub fn index(values: Values) -> Input {
        Input { values, class: Class::Index, differentiable: false }
    }

    /// Creates a bool input.
    pub fn bool() -> Input {
        Input { values: Values::Bools, class: Class::Fixed(DType::Bool), differentiable: false }
    }

    /// Creates an input that always has this dtype.
    pub fn of(dtype: DType, values: Values) -> Input {
        Input { values, class: Class::Fixed(dtype), differentiable: dtype.is_float() }
    }

    /// Creates an input of the accumulator of the row's dtype: f32 for half precision.
    pub fn accumulator(values: Values) -> Input {
        Input { class: Class::Accumulator, ..values.into() }
    }

    /// Excludes the input from gradient checks.
    pub fn constant(mut self) -> Input {
        self.differentiable = false;
        self
    }
}

/// The limit of a comparison: `|got - want| <= abs + rel * |want|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The part that does not depend on the value.
    pub abs: f64,
    /// The part that grows with the value.
    pub rel: f64,
}

impl Tolerance {
    /// No difference at all.
    pub const EXACT: Tolerance = Tolerance { abs: 0.0, rel: 0.0 };

    /// Returns the limit around `want`.
    pub fn limit(self, want: f64) -> f64 {
        self.abs + self.rel * want.abs()
    }

    /// Returns a multiple of this tolerance.
    pub fn times(self, factor: f64) -> Tolerance {
        Tolerance { abs: factor * self.abs, rel: factor * self.rel }
    }
}

/// The call under test. Arguments: inputs, the device (for ops without inputs), and the row's
/// dtype.
pub type Run = Arc<dyn Fn(&[Tensor], &Device, DType) -> Result<Vec<Tensor>> + Send + Sync>;
/// The definition in float64. Arguments: the row's dtype, and the inputs rounded to their dtypes.
pub type Oracle = Arc<dyn Fn(DType, &[Array]) -> Vec<Array> + Send + Sync>;
/// An oracle that passes its intermediate values through a rounding function.
pub type RoundedOracle = Arc<dyn Fn(&dyn Fn(f64) -> f64, &[Array]) -> Vec<Array> + Send + Sync>;
/// Gradients for the inputs, computed from the inputs and the cotangents of the outputs, with
/// intermediate values passed through a rounding function.
pub type RoundedGradients = Arc<dyn Fn(&dyn Fn(f64) -> f64, &[Array], &[Array]) -> Vec<Array> + Send + Sync>;
/// A call that must fail.
pub type Rejected = Arc<dyn Fn(&Device) -> Result<Vec<Tensor>> + Send + Sync>;

/// The shapes of the inputs of one instance of a row.
pub type Instance = Vec<Vec<usize>>;

/// A row of the table. See the [module documentation](crate::table).
#[derive(Clone)]
pub struct OpCase {
    /// The stem of the op or method.
    pub op: &'static str,
    /// Parameters and variant as printed in the key, such as `axis=1`.
    pub parameters: String,
    /// The parameters as JSON, if a program outside of the table runs the same case.
    pub configuration: Option<serde_json::Value>,
    /// Whether it is a function composed of ops, without dedicated kernels.
    pub composition: bool,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// Shapes to run on.
    pub instances: Vec<Instance>,
    /// Dtypes to run in.
    pub dtypes: Vec<DType>,
    /// The call under test.
    pub run: Option<Run>,
    /// The definition.
    pub oracle: Option<Oracle>,
    /// The definition with intermediate rounding, for half precision.
    pub rounded_oracle: Option<RoundedOracle>,
    /// Gradients for the leading inputs with intermediate rounding, for half precision.
    pub rounded_gradients: Option<RoundedGradients>,
    /// Limits in f64, and in f32 and dtypes that are computed in f32.
    pub tolerances: [Tolerance; 2],
    /// The same for gradients.
    pub grad_tolerances: [Tolerance; 2],
    /// Whether all outputs must be equal to the oracle's.
    pub exact: bool,
    /// Whether half precision is rounded after every step instead of once at the end.
    pub steps: bool,
    /// The minimum number of roundings of a gradient in half precision.
    pub grad_roundings: usize,
    /// Whether second-order gradients are checked.
    pub double_backward: bool,
    /// Why no gradient is checked, if none is.
    pub forward_only: Option<&'static str>,
    /// How many outputs, starting with the first, have gradients.
    pub differentiable_outputs: usize,
    /// Whether all cotangents have one sign, so that long sums of them grow and show in which
    /// precision they were accumulated.
    pub positive_cotangents: bool,
    /// Whether outputs may be of lower precision than the row's dtype.
    pub casts: bool,
    /// How many inputs, starting with the first, are factors of products that may be computed in
    /// TF32.
    pub tf32_factors: usize,
    /// Why bits may differ from run to run, if they may.
    pub unordered: Option<&'static str>,
    /// Why only the dense layout is tested, if so.
    pub dense_only: Option<&'static str>,
    /// Named adversarial inputs: NaN, infinities, extreme values, empty tensors. Forward only.
    pub adversarial: Vec<(&'static str, Vec<Array>)>,
    /// Calls that must fail, with the exact message.
    pub rejects: Vec<(String, Rejected)>,
    /// Shapes for benchmarks and for comparing devices.
    pub perf: Vec<Instance>,
}

impl OpCase {
    /// Creates a row for `op` with these parameters (as printed; empty if it has none).
    pub fn new(op: &'static str, parameters: impl Into<String>) -> OpCase {
        OpCase {
            op,
            parameters: parameters.into(),
            configuration: None,
            composition: false,
            inputs: Vec::new(),
            instances: Vec::new(),
            dtypes: FLOATS.to_vec(),
            run: None,
            oracle: None,
            rounded_oracle: None,
            rounded_gradients: None,
            tolerances: [Tolerance { abs: 1e-13, rel: 1e-13 }, Tolerance { abs: 5e-7, rel: 2e-6 }],
            // In f64 the limit of gradients is the error of central differences, about 1e-9 of the
            // values involved.
            grad_tolerances: [Tolerance { abs: 1e-7, rel: 1e-7 }, Tolerance { abs: 5e-6, rel: 2e-5 }],
            exact: false,
            steps: false,
            grad_roundings: 1,
            double_backward: false,
            forward_only: None,
            differentiable_outputs: usize::MAX,
            positive_cotangents: false,
            casts: false,
            tf32_factors: 0,
            unordered: None,
            dense_only: None,
            adversarial: Vec::new(),
            rejects: Vec::new(),
            perf: Vec::new(),
        }
    }

    /// Adds an input: [`Values`] (of the row's dtype, with a gradient) or an [`Input`].
    pub fn input(mut self, input: impl Into<Input>) -> OpCase {
        self.inputs.push(input.into());
        self
    }

    /// Sets parameters that a program outside of the table reads.
    pub fn configured(mut self, configuration: serde_json::Value) -> OpCase {
        self.configuration = Some(configuration);
        self
    }

    /// Adds instances in which every input has the same shape. Call it after the inputs.
    pub fn shapes<const N: usize>(mut self, shapes: [&[usize]; N]) -> OpCase {
        let count = self.inputs.len();
        self.instances.extend(shapes.iter().map(|shape| vec![shape.to_vec(); count]));
        self
    }

    /// Adds an instance with a shape for each input; none for an op without inputs.
    pub fn on<const N: usize>(mut self, shapes: [&[usize]; N]) -> OpCase {
        self.instances.push(shapes.iter().map(|shape| shape.to_vec()).collect());
        self
    }

    /// Runs in these dtypes only.
    pub fn dtypes(mut self, dtypes: &[DType]) -> OpCase {
        self.dtypes = dtypes.to_vec();
        self
    }

    /// Runs in these dtypes as well. (Random values are rounded to integers for integer dtypes,
    /// limited to the range of i16 and i8, made positive for unsigned ones, and compared with 0 for
    /// bool.)
    pub fn also(mut self, dtypes: &[DType]) -> OpCase {
        self.dtypes.extend(dtypes);
        self
    }

    /// Sets the call under test.
    pub fn run<O: IntoOutputs>(self, f: impl Fn(&[Tensor]) -> Result<O> + Send + Sync + 'static) -> OpCase {
        self.run_on(move |inputs, _, _| f(inputs))
    }

    /// Sets the call under test, with the device and the row's dtype as additional arguments. The
    /// device is seeded with 0 before each call.
    pub fn run_on<O: IntoOutputs>(
        mut self,
        f: impl Fn(&[Tensor], &Device, DType) -> Result<O> + Send + Sync + 'static,
    ) -> OpCase {
        self.run = Some(Arc::new(move |inputs, device, dtype| f(inputs, device, dtype).map(O::into_outputs)));
        self
    }

    /// Sets the definition in float64.
    pub fn oracle<O: IntoArrays>(self, f: impl Fn(&[Array]) -> O + Send + Sync + 'static) -> OpCase {
        self.oracle_for(move |_, inputs| f(inputs))
    }

    /// Sets the definition in float64, with the row's dtype as an additional argument: for casts,
    /// and integers that wrap.
    pub fn oracle_for<O: IntoArrays>(
        mut self,
        f: impl Fn(DType, &[Array]) -> O + Send + Sync + 'static,
    ) -> OpCase {
        self.oracle = Some(Arc::new(move |dtype, inputs| f(dtype, inputs).into_arrays()));
        self
    }

    /// Sets the definition with `round` around each intermediate value that is rounded in half
    /// precision. Its distance from the oracle determines the limit.
    pub fn rounded_oracle<O: IntoArrays>(
        mut self,
        f: impl Fn(&dyn Fn(f64) -> f64, &[Array]) -> O + Send + Sync + 'static,
    ) -> OpCase {
        self.rounded_oracle = Some(Arc::new(move |round, inputs| f(round, inputs).into_arrays()));
        self
    }

    /// Sets the gradients for the leading inputs with a kernel's intermediate rounding: `f`
    /// computes them from the inputs and the cotangents of the outputs, and passes each value that
    /// the kernel rounds through `round`. Their distance from the derivatives widens the limit, as
    /// does the distance of the same ops with each result rounded.
    pub fn rounded_gradients(
        mut self,
        f: impl Fn(&dyn Fn(f64) -> f64, &[Array], &[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> OpCase {
        self.rounded_gradients = Some(Arc::new(f));
        self
    }

    /// Marks a call of several consecutive ops: half precision is rounded after every primitive.
    /// Its limit follows from the error of the same ops with each result rounded.
    pub fn steps(mut self) -> OpCase {
        self.steps = true;
        self
    }

    /// Sets how often a gradient in half precision is rounded, for gradients computed by tensor
    /// cores, whose operands are half precision.
    pub fn grad_roundings(mut self, count: usize) -> OpCase {
        self.grad_roundings = count;
        self
    }

    /// Sets the forward limits in f64 and in f32.
    pub fn tolerances(mut self, f64_limit: Tolerance, f32_limit: Tolerance) -> OpCase {
        self.tolerances = [f64_limit, f32_limit];
        self
    }

    /// Sets the forward limit in f32 (and in dtypes that are computed in f32): `abs + rel *
    /// |want|`. The limit of gradients becomes ten times as large unless it is set too.
    pub fn f32_limit(mut self, abs: f64, rel: f64) -> OpCase {
        self.tolerances[1] = Tolerance { abs, rel };
        self.grad_tolerances[1] = Tolerance { abs, rel }.times(10.0);
        self
    }

    /// Sets the forward limit in f64.
    pub fn f64_limit(mut self, abs: f64, rel: f64) -> OpCase {
        self.tolerances[0] = Tolerance { abs, rel };
        self
    }

    /// Sets the limits of gradients in f64 and in f32. Call it after
    /// [`f32_limit`](OpCase::f32_limit).
    pub fn grad_tolerances(mut self, f64_limit: Tolerance, f32_limit: Tolerance) -> OpCase {
        self.grad_tolerances = [f64_limit, f32_limit];
        self
    }

    /// Requires outputs equal to the oracle's, rounded to the dtype: for data movement,
    /// comparisons, integers.
    pub fn exact(mut self) -> OpCase {
        self.exact = true;
        self.tolerances = [Tolerance::EXACT; 2];
        self
    }

    /// Checks second-order gradients too.
    pub fn double_backward(mut self) -> OpCase {
        self.double_backward = true;
        self
    }

    /// Checks no gradient, for this reason.
    pub fn forward_only(mut self, why: &'static str) -> OpCase {
        self.forward_only = Some(why);
        self
    }

    /// Limits gradients to the first `count` outputs.
    pub fn differentiable_outputs(mut self, count: usize) -> OpCase {
        self.differentiable_outputs = count;
        self
    }

    /// Gives all cotangents the same sign: a sum of hundreds of them loses the most in a narrow
    /// accumulator.
    pub fn positive_cotangents(mut self) -> OpCase {
        self.positive_cotangents = true;
        self
    }

    /// Allows outputs of lower precision than the row's dtype.
    pub fn casts(mut self) -> OpCase {
        self.casts = true;
        self
    }

    /// Declares that the first `factors` inputs are multiplied with one another, and that a device
    /// may round them to TF32 first. An f32 output then passes if all its elements match the
    /// oracle, or all match the oracle on TF32-rounded factors, within the same limit. Gradients
    /// likewise, with the cotangent rounded too. For rows that are linear in each factor (and may
    /// have a kink far away from the random inputs).
    pub fn tf32_factors(mut self, factors: usize) -> OpCase {
        self.tf32_factors = factors;
        self
    }

    /// Allows bits to differ from run to run, for this reason.
    pub fn unordered(mut self, why: &'static str) -> OpCase {
        self.unordered = Some(why);
        self
    }

    /// Tests only the dense layout, for this reason.
    pub fn dense_only(mut self, why: &'static str) -> OpCase {
        self.dense_only = Some(why);
        self
    }

    /// Adds adversarial inputs, one array for each input; forward only, in every floating dtype of
    /// the row.
    pub fn adversarial<const N: usize>(mut self, name: &'static str, inputs: [Array; N]) -> OpCase {
        self.adversarial.push((name, inputs.into()));
        self
    }

    /// Adds a call that must fail with exactly this message.
    pub fn rejects<O: IntoOutputs>(
        mut self,
        message: impl Into<String>,
        call: impl Fn(&Device) -> Result<O> + Send + Sync + 'static,
    ) -> OpCase {
        self.rejects.push((message.into(), Arc::new(move |device| call(device).map(O::into_outputs))));
        self
    }

    /// Adds shapes (one for each input) for benchmarks and for comparing devices, too large for the
    /// oracle.
    pub fn perf<const N: usize>(mut self, shapes: [&[usize]; N]) -> OpCase {
        self.perf.push(shapes.iter().map(|shape| shape.to_vec()).collect());
        self
    }

    /// Returns op and parameters: `softmax axis=1`.
    pub fn name(&self) -> String {
        match self.parameters.is_empty() {
            true => self.op.to_string(),
            false => format!("{} {}", self.op, self.parameters),
        }
    }

    /// Returns the key of an instance, from which its inputs are seeded and with which printed keys
    /// begin: `softmax axis=1 [7,33]`.
    pub fn key(&self, instance: &[Vec<usize>]) -> String {
        let shapes: Vec<String> = instance.iter().map(|shape| shape_text(shape)).collect();
        match shapes.is_empty() {
            true => self.name(),
            false => format!("{} {}", self.name(), shapes.join("x")),
        }
    }
}

/// Formats a shape as `[7,33]`.
pub fn shape_text(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", sizes.join(","))
}

/// Returns sizes around the tile `tile` of a kernel: zero, one, one less and one more than the
/// tile, and several tiles with a remainder.
pub fn edges(tile: usize) -> [usize; 6] {
    [0, 1, tile - 1, tile, tile + 1, 3 * tile + 5]
}

/// Returns every row of the table.
pub fn table() -> Vec<OpCase> {
    crate::cases::all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_op_parameters_and_shapes() {
        let row = OpCase::new("softmax", "axis=1").input(Values::Uniform(-1.0, 1.0)).shapes([&[7, 33], &[]]);
        assert_eq!(row.key(&row.instances[0]), "softmax axis=1 [7,33]");
        assert_eq!(row.key(&row.instances[1]), "softmax axis=1 []");
        assert_eq!(OpCase::new("eye", "").on([]).key(&[]), "eye");
    }
}
