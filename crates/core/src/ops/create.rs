//! Tensors from nothing: constants, evenly spaced numbers, diagonals, triangles and one-hot rows.

use crate::backend::Meta;
use crate::dispatch::{apply_on, apply_one};
use crate::dtype::Scalar;
use crate::error::{Error, Result, Text, index_told_as};
use crate::functions::floats_of;
use crate::op::{Differentiability, Output, Outputs, Rule, check};
use crate::ops::index::{Scatter, ScatterMode};
use crate::tensor::Tensor;
use crate::{DType, Device, IntoShape, Shape, text};

/// `y[..] = value`. No input; one output. Primitive, all dtypes.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The sizes.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// The value: rounded to nearest for floats, taken exactly for integers, `!= 0` for bool.
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

/// `y[i] = start + i * step`, shape `[count]`. No input. Primitive, all dtypes but bool.
///
/// Floats: computed in f64 as one product and one sum, then rounded once. Integers: exact, wrapping.
#[derive(Clone, Debug)]
pub struct Iota {
    /// The number of elements.
    pub count: usize,
    /// The element type.
    pub dtype: DType,
    /// The first value.
    pub start: Scalar,
    /// The difference of neighbours.
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

/// The least and greatest value of an integer dtype.
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

/// `count` evenly spaced numbers from `start` to `end` in f64, the upper half counted from the end, so that the last one is exact. For an integer dtype both ends are
/// cut off to whole numbers, which it must hold.
fn spaced(op: &'static str, start: f64, end: f64, count: usize, dtype: DType) -> Result<Vec<f64>> {
    if dtype == DType::Bool {
        return Err(Error::dtype(op, "output", dtype, "a number"));
    }
    let (start, end) = if dtype.is_float() { (start, end) } else { (start.trunc(), end.trunc()) };
    if let Some(&beyond) = [start, end].iter().find(|&&end| !holds(dtype, end)) {
        return Err(Error::invalid(op, text![format!("{beyond} does not fit "), dtype]));
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

/// Whether an integer dtype holds a number without its fraction. Others hold all.
fn holds(dtype: DType, number: f64) -> bool {
    // The largest i64 and u64 are none of f64, whose next number is one more.
    integer_range(dtype)
        .is_none_or(|(low, high)| number.trunc() >= low as f64 && number.trunc() < high as f64 + 1.0)
}

/// Numbers without their fractions.
fn integers_of(op: &'static str, numbers: Vec<f64>, dtype: DType, device: &Device) -> Result<Tensor> {
    if let Some(number) = numbers.iter().find(|&&number| !holds(dtype, number)) {
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

/// An integer tensor takes a number only if it holds it: `add_scalar: 0.5 is not a whole number, tensor is i32`.
#[inline]
pub(crate) fn exact_scalar(op: &'static str, scalar: Scalar, dtype: DType) -> Result<()> {
    let Some((low, high)) = integer_range(dtype) else { return Ok(()) };
    let fits = match scalar {
        Scalar::Float(value) if value.is_nan() || (value.is_finite() && value.fract() != 0.0) => {
            return Err(Error::invalid(
                op,
                text![format!("{value:?} is not a whole number, tensor is "), dtype],
            ));
        }
        // In i128, where 2^63 is not yet rounded down to the largest i64.
        Scalar::Float(value) => value.is_finite() && (low..=high).contains(&(value as i128)),
        Scalar::Int(_) | Scalar::UInt(_) => (low..=high).contains(&scalar.as_i128()),
        Scalar::Bool(_) => true,
    };
    if fits { Ok(()) } else { Err(Error::invalid(op, text![format!("{scalar} does not fit "), dtype])) }
}

/// The number of steps from `start` up (or down) to, not including, `end`.
fn steps(start: Scalar, end: Scalar, step: Scalar, dtype: DType) -> Result<usize> {
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
        // The end itself is not among the numbers: it may be one too large for the dtype.
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
    // 2^53 elements are more than a shape takes; up to there f64 counts exactly.
    if count < 9e15 { Ok(count as usize) } else { fail("too many elements".into()) }
}

impl Tensor {
    /// `count` evenly spaced numbers: `start + i * step`.
    ///
    /// # Errors
    /// No memory, dtype bool, or a start or step that an integer dtype does not hold.
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

    /// The numbers from `start` up to, not including, `end`, `step` apart; `step` may be negative.
    ///
    /// # Shapes
    /// `[ceil((end - start) / step)]`
    ///
    /// # Errors
    /// A step that is 0 or leads away from the end, bounds that are not finite or that an integer dtype does not hold, dtype bool.
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let (start, end, step) = (start.into(), end.into(), step.into());
        Tensor::iota(steps(start, end, step, dtype)?, dtype, start, step, device)
    }

    /// `count` evenly spaced numbers from `start` to `end`, both exact and included. Of an integer dtype the fractions of both ends are cut off first, then those of
    /// the numbers between them.
    ///
    /// # Errors
    /// A dtype of truth values, ends that an integer dtype does not hold, no memory.
    pub fn linspace(start: f64, end: f64, count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        if !dtype.is_float() {
            return integers_of("linspace", spaced("linspace", start, end, count, dtype)?, dtype, device);
        }
        // Divided apart: the difference of finite ends may be infinite.
        let steps = (count.max(2) - 1) as f64;
        let step = match end - start {
            span if span.is_finite() => span / steps,
            _ => end / steps - start / steps,
        };
        let line = Tensor::iota(count, dtype, start, step, device)?;
        // The upper half is counted from the end, so that the last number is `end` to the last bit.
        let half = count.div_ceil(2);
        if half < count {
            let upper = Tensor::iota(count - half, dtype, end, -step, device)?.flip(0)?;
            line.narrow(0, half, count - half)?.copy_(&upper)?;
        }
        Ok(line)
    }

    /// `count` powers of `base` whose exponents are evenly spaced from `start` to `end`, both included. Computed on the host in f64, and rounded once. Of an integer
    /// dtype the fractions of both exponents are cut off first, then those of the powers.
    ///
    /// # Errors
    /// A dtype of truth values, an exponent or a power that an integer dtype does not hold, no memory.
    pub fn logspace(
        start: f64,
        end: f64,
        count: usize,
        base: f64,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let mut powers = spaced("logspace", start, end, count, dtype)?;
        powers.iter_mut().for_each(|exponent| *exponent = base.powf(*exponent));
        if dtype.is_float() {
            return floats_of(powers, [count], dtype, device);
        }
        integers_of("logspace", powers, dtype, device)
    }

    /// One value everywhere.
    ///
    /// # Errors
    /// No memory, or a value that an integer dtype does not hold.
    pub fn full(
        shape: impl IntoShape,
        value: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let op = Fill { shape: shape.into_shape()?, dtype, value: value.into() };
        Ok(apply_on(op, device, &[])?.swap_remove(0))
    }

    /// Zeros.
    ///
    /// # Errors
    /// No memory.
    pub fn zeros(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::full(shape, 0i64, dtype, device)
    }

    /// Ones.
    ///
    /// # Errors
    /// No memory.
    pub fn ones(shape: impl IntoShape, dtype: DType, device: &Device) -> Result<Tensor> {
        Tensor::full(shape, 1i64, dtype, device)
    }

    /// The identity matrix of `size` rows and columns.
    ///
    /// # Errors
    /// No memory.
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

    /// Zeros of this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// No memory.
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_like(0i64)
    }

    /// Ones of this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// No memory.
    pub fn ones_like(&self) -> Result<Tensor> {
        self.full_like(1i64)
    }

    /// One value everywhere, in this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// No memory, or a value that an integer dtype does not hold.
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(*self.shape(), value, self.dtype(), self.device())
    }

    /// A single element of this tensor's dtype, on its device, to broadcast against it.
    pub(crate) fn scalar_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full((), value, self.dtype(), self.device())
    }

    /// The lower triangle of each matrix, zeros above: `diagonal` 0 keeps the main diagonal, 1 one more above it, -1 one less.
    ///
    /// # Shapes
    /// `[.., rows, columns]`, unchanged
    ///
    /// # Errors
    /// Fewer than two axes.
    pub fn tril(&self, diagonal: isize) -> Result<Tensor> {
        let keep = self.below_diagonal("tril", diagonal)?;
        keep.where_(self, &self.scalar_like(0i64)?)
    }

    /// The upper triangle of each matrix, zeros below: `diagonal` 0 keeps the main diagonal, 1 one less, -1 one more below it.
    ///
    /// # Shapes
    /// `[.., rows, columns]`, unchanged
    ///
    /// # Errors
    /// Fewer than two axes.
    pub fn triu(&self, diagonal: isize) -> Result<Tensor> {
        let drop = self.below_diagonal("triu", diagonal.saturating_sub(1))?;
        drop.where_(&self.scalar_like(0i64)?, self)
    }

    /// Where `column <= row + diagonal`: `[rows, columns]`.
    fn below_diagonal(&self, op: &'static str, diagonal: isize) -> Result<Tensor> {
        let &[.., rows, columns] = self.dims() else {
            return Err(Error::Rank { op, expected: "at least 2".into(), shape: Box::new(*self.shape()) });
        };
        // Diagonals beyond the matrix all mean "nothing" or "everything"; the bounds keep the sum below from wrapping.
        let diagonal = (diagonal as i64).clamp(-(rows as i64), columns as i64);
        let row = Tensor::iota(rows, DType::I64, diagonal, 1i64, self.device())?.unsqueeze(1)?;
        let column = Tensor::iota(columns, DType::I64, 0i64, 1i64, self.device())?;
        column.le(&row)
    }

    /// For each class index a row of `classes` zeros with a one in its place.
    ///
    /// # Shapes
    /// `[..]` of i32 or i64 to `[.., classes]`
    ///
    /// # Errors
    /// A dtype other than i32 or i64; a class outside `0..classes` (on asynchronous devices at the next synchronisation).
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Result<Tensor> {
        check::index("one_hot", "input", &self.meta())?;
        let index = self.unsqueeze(-1)?;
        let zeros = Tensor::zeros(self.shape().with_axis(self.rank(), classes)?, dtype, self.device())?;
        let one = Tensor::ones((), dtype, self.device())?.expand(*index.shape())?;
        let scatter = Scatter { axis: self.rank(), mode: ScatterMode::Set };
        index_told_as("one_hot", || apply_one(scatter, &[&zeros, &index, &one]))
    }
}
