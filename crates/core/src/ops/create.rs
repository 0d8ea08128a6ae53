//! Creation ops: constants, evenly spaced numbers, diagonals, triangles and one-hot rows.

use crate::backend::Meta;
use crate::dispatch::{apply_on, apply_one};
use crate::dtype::Scalar;
use crate::error::{Error, Result, Text, with_index_error_op};
use crate::functions::float_tensor;
use crate::op::{Differentiability, Output, Outputs, Rule, check};
use crate::ops::index::{Scatter, ScatterMode};
use crate::tensor::Tensor;
use crate::{DType, Device, IntoShape, Shape, text};

/// `y[..] = value`. No input; one output. Primitive, all dtypes.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The shape of the output.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// The value: rounded to nearest for floats, exact for integers, `!= 0` for bool.
    pub value: Scalar,
}

impl Rule for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("fill", inputs, 0)?;
        exact_scalar("fill", self.value, self.dtype)?;
        Ok(Outputs::from_buf([Output::fresh(self.shape, self.dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// `y[i] = start + i * step`, shape `[count]`. No input. Primitive, all dtypes except bool.
///
/// Floats: computed in f64 with one product and one sum, then rounded once. Integers: exact,
/// wrapping.
#[derive(Clone, Debug)]
pub struct Iota {
    /// The number of elements.
    pub count: usize,
    /// The element type.
    pub dtype: DType,
    /// The first value.
    pub start: Scalar,
    /// The difference between neighboring elements.
    pub step: Scalar,
}

impl Rule for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        check::count("iota", inputs, 0)?;
        if self.dtype == DType::Bool {
            return Err(Error::dtype("iota", "output", self.dtype, "a number"));
        }
        exact_scalar("iota", self.start, self.dtype)?;
        exact_scalar("iota", self.step, self.dtype)?;
        Ok(Outputs::from_buf([Output::fresh(Shape::new(&[self.count])?, self.dtype)]))
    }
    fn is_primitive(&self) -> bool {
        true
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::NonDifferentiable
    }
}

/// Returns the minimum and maximum of an integer dtype.
pub(crate) fn integer_range(dtype: DType) -> Option<(i128, i128)> {
    match dtype {
        DType::I64 => Some((i64::MIN.into(), i64::MAX.into())),
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        DType::I16 => Some((i16::MIN.into(), i16::MAX.into())),
        DType::I8 => Some((i8::MIN.into(), i8::MAX.into())),
        DType::U64 => Some((0, u64::MAX.into())),
        DType::U32 => Some((0, u32::MAX.into())),
        DType::U16 => Some((0, u16::MAX.into())),
        DType::U8 => Some((0, 255)),
        _ => None,
    }
}

/// Returns `count` evenly spaced numbers from `start` to `end` in f64. The upper half is computed
/// from the end, so that the last number is exact. For an integer dtype, both ends are first
/// truncated to integers, which the dtype must be able to represent.
fn linspace_values(op: &'static str, start: f64, end: f64, count: usize, dtype: DType) -> Result<Vec<f64>> {
    if dtype == DType::Bool {
        return Err(Error::dtype(op, "output", dtype, "a number"));
    }
    let (start, end) = if dtype.is_float() { (start, end) } else { (start.trunc(), end.trunc()) };
    if let Some(&outside) = [start, end].iter().find(|&&end| !is_representable(dtype, end)) {
        return Err(Error::invalid(op, text![format!("{outside} does not fit "), dtype]));
    }
    let mut numbers = Vec::new();
    if numbers.try_reserve_exact(count).is_err() {
        return Err(Error::host_memory(count.saturating_mul(size_of::<f64>())));
    }
    let step = (end - start) / (count.max(2) - 1) as f64;
    numbers.extend((0..count).map(|at| match at < count.max(2) / 2 {
        true => start + step * at as f64,
        false => end - step * (count - 1 - at) as f64,
    }));
    Ok(numbers)
}

/// Returns whether a dtype can represent a number without its fraction. True for all dtypes that
/// are not integers.
fn is_representable(dtype: DType, number: f64) -> bool {
    // The maxima of i64 and u64 are not representable in f64; the next f64 is larger by one.
    integer_range(dtype)
        .is_none_or(|(low, high)| number.trunc() >= low as f64 && number.trunc() < high as f64 + 1.0)
}

/// Returns a tensor of the numbers, truncated to integers.
fn integer_tensor(op: &'static str, numbers: Vec<f64>, dtype: DType, device: &Device) -> Result<Tensor> {
    if let Some(number) = numbers.iter().find(|&&number| !is_representable(dtype, number)) {
        return Err(Error::invalid(op, text![format!("{number} does not fit "), dtype]));
    }
    let count = numbers.len();
    if dtype == DType::U64 {
        let numbers: Vec<u64> = numbers.into_iter().map(|number| number as u64).collect();
        return Tensor::from_vec(numbers, [count], device);
    }
    let numbers: Vec<i64> = numbers.into_iter().map(|number| number as i64).collect();
    Tensor::from_vec(numbers, [count], device)?.to_dtype(dtype)
}

/// Checks that an integer dtype can represent the scalar exactly. The error is for example
/// `add_scalar: 0.5 is not an integer, tensor is i32`.
#[inline]
pub(crate) fn exact_scalar(op: &'static str, scalar: Scalar, dtype: DType) -> Result<()> {
    let Some((low, high)) = integer_range(dtype) else { return Ok(()) };
    let fits = match scalar {
        Scalar::Float(value) if value.is_nan() || (value.is_finite() && value.fract() != 0.0) => {
            return Err(Error::invalid(op, text![format!("{value:?} is not an integer, tensor is "), dtype]));
        }
        // Compared in i128, because 2^63 as i64 saturates at the maximum.
        Scalar::Float(value) => value.is_finite() && (low..=high).contains(&(value as i128)),
        Scalar::Int(_) | Scalar::UInt(_) => (low..=high).contains(&scalar.as_i128()),
        Scalar::Bool(_) => true,
    };
    if fits { Ok(()) } else { Err(Error::invalid(op, text![format!("{scalar} does not fit "), dtype])) }
}

/// Returns the number of steps from `start` up (or down) to `end`, which is excluded.
fn step_count(start: Scalar, end: Scalar, step: Scalar, dtype: DType) -> Result<usize> {
    let fail =
        |what: Text| Err(Error::invalid("arange", text![format!("from {start} to {end} by {step}: "), what]));
    if dtype == DType::Bool {
        return Err(Error::dtype("arange", "output", dtype, "a number"));
    }
    let (from, to, by) = (start.as_f64(), end.as_f64(), step.as_f64());
    if ![from, to, by].into_iter().all(f64::is_finite) {
        return fail("a bound is not finite".into());
    }
    if by == 0.0 {
        return fail("the step is 0".into());
    }
    if (to - from) * by < 0.0 {
        return fail("the step leads away from the end".into());
    }
    let count = if dtype.is_int() {
        for scalar in [start, end, step] {
            let is_large = dtype == DType::U64 && scalar.as_i128() > i64::MAX.into();
            exact_scalar("arange", scalar, if is_large { dtype } else { DType::I64 })?;
        }
        let (from, by) = (start.as_i128(), step.as_i128());
        let count = (end.as_i128() - from).unsigned_abs().div_ceil(by.unsigned_abs());
        // The end is excluded, so it may be one more than the maximum of the dtype.
        let last = from + by * (count as i128 - 1).max(0);
        let (low, high) = integer_range(dtype).unwrap_or((i64::MIN.into(), i64::MAX.into()));
        if [from, last].iter().any(|number| !(low..=high).contains(number)) {
            return fail(text!["not all numbers fit ", dtype]);
        }
        if exact_scalar("arange", step, dtype).is_err() {
            return fail(text!["the step does not fit ", dtype]);
        }
        count as f64
    } else {
        ((to - from) / by).ceil()
    };
    // A shape cannot have 2^53 elements, and up to there f64 counts exactly.
    if count < 9e15 { Ok(count as usize) } else { fail("too many elements".into()) }
}

impl Tensor {
    /// Creates a tensor of `count` evenly spaced numbers: `start + i * step`.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, for bool, or if an integer dtype cannot
    /// represent the start or step.
    pub fn iota(
        count: usize,
        dtype: DType,
        start: impl Into<Scalar>,
        step: impl Into<Scalar>,
        device: &Device,
    ) -> Result<Tensor> {
        let op = Iota { count, dtype, start: start.into(), step: step.into() };
        Ok(apply_on(op, device, &[])?.swap_remove(0))
    }

    /// Creates a tensor of the numbers from `start` to `end` (excluded) with distance `step`, which
    /// may be negative.
    ///
    /// # Shapes
    /// `[ceil((end - start) / step)]`
    ///
    /// # Errors
    /// Returns an error if the step is 0 or leads away from the end, if bounds are not finite or an
    /// integer dtype cannot represent them, or for bool.
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        Tensor::iota(step_count(start, end, step, dtype)?, dtype, start, step, device)
    }

    /// Creates a tensor of `count` evenly spaced numbers from `start` to `end`, both exact and
    /// included. For an integer dtype, first both ends are truncated, then the numbers between
    /// them.
    ///
    /// # Errors
    /// Returns an error for bool, if an integer dtype cannot represent the ends, or if there is not
    /// enough memory.
    pub fn linspace(start: f64, end: f64, count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        if !dtype.is_float() {
            return integer_tensor(
                "linspace",
                linspace_values("linspace", start, end, count, dtype)?,
                dtype,
                device,
            );
        }
        // Each end is divided separately, because the difference of finite ends may be infinite.
        let step_count = (count.max(2) - 1) as f64;
        let step = match end - start {
            span if span.is_finite() => span / step_count,
            _ => end / step_count - start / step_count,
        };
        let line = Tensor::iota(count, dtype, start, step, device)?;
        // The upper half is computed from the end, so that the last number is exactly `end`.
        let half = count.div_ceil(2);
        if half < count {
            let upper = Tensor::iota(count - half, dtype, end, -step, device)?.flip(0)?;
            line.narrow(0, half, count - half)?.copy_(&upper)?;
        }
        Ok(line)
    }

    /// Creates a tensor of `count` powers of `base`, whose exponents are evenly spaced from `start`
    /// to `end`, both included. The powers are computed on the host in f64 and rounded once. For an
    /// integer dtype, first both exponents are truncated, then the powers.
    ///
    /// # Errors
    /// Returns an error for bool, if an integer dtype cannot represent an exponent or a power, or
    /// if there is not enough memory.
    pub fn logspace(
        start: f64,
        end: f64,
        count: usize,
        base: f64,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let mut powers = linspace_values("logspace", start, end, count, dtype)?;
        powers.iter_mut().for_each(|exponent| *exponent = base.powf(*exponent));
        if dtype.is_float() {
            return float_tensor(powers, [count], dtype, device);
        }
        integer_tensor("logspace", powers, dtype, device)
    }

    /// Creates a tensor filled with one value.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or if an integer dtype cannot represent the
    /// value.
    pub fn full(
        shape: impl IntoShape,
        value: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let op = Fill { shape: shape.into_shape()?, dtype, value: value.into() };
        Ok(apply_on(op, device, &[])?.swap_remove(0))
    }

    /// Creates a tensor of zeros.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn zeros(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::full(shape, 0i64, dtype, device)
    }

    /// Creates a tensor of ones.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn ones(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::full(shape, 1i64, dtype, device)
    }

    /// Creates the identity matrix with `size` rows and columns.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn eye(size: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        let shape = Shape::new(&[size, size]).map_err(|_| {
            Error::invalid("eye", format!("[{size}, {size}] has more elements than can be addressed"))
        })?;
        let matrix = Tensor::zeros(shape, dtype, device)?;
        let elements = shape.elements();
        let diagonal = matrix.reshape([elements])?.slice_axis(0, 0, elements as isize, size as isize + 1)?;
        diagonal.copy_(&matrix.scalar_like(1i64)?)?;
        Ok(matrix)
    }

    /// Creates a tensor of zeros with this tensor's shape, dtype and device.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_like(0i64)
    }

    /// Creates a tensor of ones with this tensor's shape, dtype and device.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn ones_like(&self) -> Result<Tensor> {
        self.full_like(1i64)
    }

    /// Creates a tensor filled with one value, with this tensor's shape, dtype and device.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or if an integer dtype cannot represent the
    /// value.
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(*self.shape(), value, self.dtype(), self.device())
    }

    /// Creates a tensor of rank 0 with this tensor's dtype and device, for broadcasting.
    pub(crate) fn scalar_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full((), value, self.dtype(), self.device())
    }

    /// Returns the lower triangle of each matrix, with zeros above it. The diagonal of index
    /// `diagonal` is the uppermost one kept: 0 is the main diagonal, 1 the one above, -1 the one
    /// below.
    ///
    /// # Shapes
    /// `[.., rows, columns]`, unchanged
    ///
    /// # Errors
    /// Returns an error if there are fewer than two axes.
    pub fn tril(&self, diagonal: isize) -> Result<Tensor> {
        let is_kept = self.below_diagonal("tril", diagonal)?;
        is_kept.where_(self, &self.scalar_like(0i64)?)
    }

    /// Returns the upper triangle of each matrix, with zeros below it. The diagonal of index
    /// `diagonal` is the lowest one kept: 0 is the main diagonal, 1 the one above, -1 the one
    /// below.
    ///
    /// # Shapes
    /// `[.., rows, columns]`, unchanged
    ///
    /// # Errors
    /// Returns an error if there are fewer than two axes.
    pub fn triu(&self, diagonal: isize) -> Result<Tensor> {
        let is_dropped = self.below_diagonal("triu", diagonal.saturating_sub(1))?;
        is_dropped.where_(&self.scalar_like(0i64)?, self)
    }

    /// Returns the mask of elements with `column <= row + diagonal`: `[rows, columns]`.
    fn below_diagonal(&self, op: &'static str, diagonal: isize) -> Result<Tensor> {
        let &[.., rows, columns] = self.dims() else {
            return Err(Error::Rank { op, expected: "at least 2".into(), shape: Box::new(*self.shape()) });
        };
        // Diagonals outside the matrix select nothing or everything. The bounds keep the sum below
        // from wrapping.
        let diagonal = (diagonal as i64).clamp(-(rows as i64), columns as i64);
        let row = Tensor::iota(rows, DType::I64, diagonal, 1i64, self.device())?.unsqueeze(1)?;
        let column = Tensor::iota(columns, DType::I64, 0i64, 1i64, self.device())?;
        column.le(&row)
    }

    /// Returns one-hot rows: for each class index a row of `classes` zeros with a one at that
    /// index.
    ///
    /// # Shapes
    /// `[..]` of i32 or i64 -> `[.., classes]`
    ///
    /// # Errors
    /// Returns an error if the dtype is not i32 or i64, or if a class is outside `0..classes` (on
    /// asynchronous devices at the next synchronization).
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Result<Tensor> {
        check::index("one_hot", "input", &self.meta())?;
        let index = self.unsqueeze(-1)?;
        let zeros = Tensor::zeros(self.shape().with_axis(self.rank(), classes)?, dtype, self.device())?;
        let one = Tensor::ones((), dtype, self.device())?.expand(*index.shape())?;
        let scatter = Scatter { axis: self.rank(), mode: ScatterMode::Set };
        with_index_error_op("one_hot", || apply_one(scatter, &[&zeros, &index, &one]))
    }
}
