//! Matrix products with an epilogue.

use crate::access::{Locked, Pointer};
use crate::elementwise::Operand;
use crate::kernel::Variant;
use crate::memory::zeros;
use crate::number::Number;
use crate::ops::{copy, unary};
use crate::storage::Compute;
use crate::strided_iter::OperandLayout;
use crate::temporary::WorkBuffer;
use crate::threads::for_pieces;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_core::ops::unary::UnaryOp;
use ternion_core::{DType, Error, Layout, Op, Result, Scalar};

/// The maximum number of rows and columns of an output tile, which is one piece of work. With tiles
/// of this size, packing the operands takes only a few percent of the time. A tile is wider than
/// high, because it packs its columns of b once, but its rows of a once per block of columns.
const LARGEST_TILE: [usize; 2] = [512, 1024];
/// Tiles are made smaller while their number is below this, and each of them takes more than
/// [`SMALL_WORK`] multiplications.
const ENOUGH_TILES: usize = 4;
/// The number of multiplications up to which a tile is not made smaller.
const SMALL_WORK: usize = 1 << 22;
/// Below this number of multiplications, a second thread costs more than it saves.
const ONE_THREAD: usize = 1 << 15;

/// Supports every dtype that core accepts; integers only without an epilogue. f32 is multiplied as
/// f32, whether or not TF32 is allowed.
pub(crate) fn select_matmul(payload: &Matmul, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    if !inputs[0].dtype.is_float() && payload.epilogue != Epilogue::NONE {
        return Err(Unsupported::because("integers have no fused epilogue"));
    }
    let Epilogue { pre_activation, activation_grad, row_sums_of_a, .. } = payload.epilogue;
    if pre_activation || activation_grad.is_some() || row_sums_of_a {
        return Err(Unsupported::because(
            "a pre-activation, the gradient of one and sums of rows are composed",
        ));
    }
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_matmul })
}

fn run_matmul(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Matmul(Matmul { epilogue, .. }) = op else {
        return Err(Error::invalid(op.name(), "is not matmul"));
    };
    match inputs[0].dtype {
        DType::F64 => product::<f64>(epilogue, inputs, outputs[0]),
        DType::F32 => product::<f32>(epilogue, inputs, outputs[0]),
        DType::F16 | DType::BF16 => half_precision_product(epilogue, inputs, outputs[0]),
        DType::I64 => product::<i64>(epilogue, inputs, outputs[0]),
        DType::I32 => product::<i32>(epilogue, inputs, outputs[0]),
        DType::I16 => product::<i16>(epilogue, inputs, outputs[0]),
        DType::I8 => product::<i8>(epilogue, inputs, outputs[0]),
        DType::U64 => product::<u64>(epilogue, inputs, outputs[0]),
        DType::U32 => product::<u32>(epilogue, inputs, outputs[0]),
        DType::U16 => product::<u16>(epilogue, inputs, outputs[0]),
        DType::U8 | DType::Bool => product::<u8>(epilogue, inputs, outputs[0]),
    }
}

/// Multiplies half-precision matrices, which are converted to f32 first.
fn half_precision_product(epilogue: &Epilogue, inputs: &[Locked<'_>], output: Locked<'_>) -> Result<()> {
    let layouts = [0, 1].map(|operand| Layout::row_major(*inputs[operand].layout.shape()));
    let mut wide =
        [WorkBuffer::<f32>::uninit(layouts[0].elements())?, WorkBuffer::uninit(layouts[1].elements())?];
    let mut operands: Vec<Locked<'_>> = Vec::new();
    for ((values, layout), input) in wide.iter_mut().zip(&layouts).zip(inputs) {
        let operand = Locked::of_slice(values, DType::F32, layout);
        copy::copy_view(*input, operand)?;
        operands.push(operand);
    }
    operands.extend_from_slice(&inputs[2..]);
    product::<f32>(epilogue, &operands, output)
}

/// A matrix in memory.
#[derive(Clone, Copy)]
struct Matrix<T> {
    first: Pointer<T>,
    /// The strides of rows and columns, in elements.
    strides: [isize; 2],
}

impl<T> Matrix<T> {
    /// Returns the submatrix that starts at `row` and `column`, which must be inside the matrix.
    fn submatrix(self, row: usize, column: usize) -> Matrix<T> {
        let position = row as isize * self.strides[0] + column as isize * self.strides[1];
        Matrix { first: Pointer(self.first.get().wrapping_offset(position)), ..self }
    }
}

/// Types in which matrix products are computed.
trait Product: Number {
    /// Computes `c = alpha * a b + beta * c`, with `a` of `[m, k]` and `b` of `[k, n]`; if `beta`
    /// is 0, `c` is not read.
    ///
    /// # Safety
    /// The matrices must be in readable memory, only this thread may write `c`, and the elements of
    /// `c` must not overlap.
    unsafe fn multiply(
        size: [usize; 3],
        alpha: Self,
        a: Matrix<Self>,
        b: Matrix<Self>,
        beta: Self,
        c: Matrix<Self>,
    );

    /// Computes `y = activation(x)`.
    fn activate(activation: UnaryOp, x: &[Self], y: &mut [Self]);
}

macro_rules! by_matrixmultiply {
    ($($float:ty => $gemm:path;)*) => {
        $(impl Product for $float {
            unsafe fn multiply([m, n, k]: [usize; 3], alpha: Self, a: Matrix<Self>, b: Matrix<Self>, beta: Self, c: Matrix<Self>) {
                let ([rsa, csa], [rsb, csb], [rsc, csc]) = (a.strides, b.strides, c.strides);
                // SAFETY: guaranteed by the caller.
                unsafe {
                    $gemm(m, k, n, alpha, a.first.get(), rsa, csa, b.first.get(), rsb, csb, beta, c.first.get(), rsc, csc);
                }
            }
            fn activate(activation: UnaryOp, x: &[Self], y: &mut [Self]) {
                unary::apply(activation, x, y);
            }
        })*
    };
}
by_matrixmultiply! {
    f32 => matrixmultiply::sgemm;
    f64 => matrixmultiply::dgemm;
}

macro_rules! by_loops {
    ($($integer:ty),*) => {
        $(impl Product for $integer {
            unsafe fn multiply(size: [usize; 3], alpha: Self, a: Matrix<Self>, b: Matrix<Self>, beta: Self, c: Matrix<Self>) {
                // SAFETY: guaranteed by the caller.
                unsafe { naive_gemm(size, alpha, a, b, beta, c) }
            }
            fn activate(_: UnaryOp, _: &[Self], _: &mut [Self]) {
                unreachable!("integers with an epilogue were declined before")
            }
        })*
    };
}
by_loops!(i64, i32, i16, i8, u64, u32, u16, u8);

/// # Safety
/// As for [`Product::multiply`].
unsafe fn naive_gemm<T: Number>(
    [m, n, k]: [usize; 3],
    alpha: T,
    a: Matrix<T>,
    b: Matrix<T>,
    beta: T,
    c: Matrix<T>,
) {
    let mut sums = vec![T::ZERO; n];
    for row in 0..m {
        sums.fill(T::ZERO);
        for inner in 0..k {
            // SAFETY: inside a.
            let factor = unsafe { a.submatrix(row, inner).first.get().read() };
            let b_row = b.submatrix(inner, 0);
            for (column, sum) in sums.iter_mut().enumerate() {
                // SAFETY: inside b.
                let other = unsafe { b_row.first.get().offset(column as isize * b.strides[1]).read() };
                *sum = sum.add(factor.mul(other));
            }
        }
        for (column, &sum) in sums.iter().enumerate() {
            let target = c.submatrix(row, column).first.get();
            // SAFETY: inside c.
            unsafe {
                let old = if beta == T::ZERO { T::ZERO } else { beta.mul(target.read()) };
                target.write(old.add(alpha.mul(sum)));
            }
        }
    }
}

/// The tensors of one product.
struct Task<'a, T: 'static> {
    epilogue: &'a Epilogue,
    /// m, n, k.
    size: [usize; 3],
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    bias: Vec<T>,
    residual: Option<Operand<'a, T>>,
    output: Operand<'a, T>,
}

fn product<T: Product>(epilogue: &Epilogue, inputs: &[Locked<'_>], output: Locked<'_>) -> Result<()> {
    let dims = |view: &Locked<'_>| {
        let dims = view.layout.shape().dims();
        [dims[dims.len() - 2], dims[dims.len() - 1]]
    };
    let ([m, k], [_, n]) = (dims(&inputs[0]), dims(&inputs[1]));
    let mut epilogue_inputs = inputs[2..].iter();
    let bias = match epilogue.bias {
        true => epilogue_inputs.next().map(read_vector::<T>).transpose()?.unwrap_or_default(),
        false => Vec::new(),
    };
    let residual = match epilogue.residual {
        true => epilogue_inputs.next().map(|residual| Operand::new("matmul", *residual)).transpose()?,
        false => None,
    };
    let (a, b) = (Operand::new("matmul", inputs[0])?, Operand::new("matmul", inputs[1])?);
    let output = Operand::new("matmul", output)?;
    Task { epilogue, size: [m, n, k], a, b, bias, residual, output }.run();
    Ok(())
}

fn read_vector<T: Compute>(vector: &Locked<'_>) -> Result<Vec<T>> {
    let operand = Operand::<T>::new("matmul", *vector)?;
    let mut values = zeros::<T>(vector.layout.elements())?;
    // SAFETY: the vector has this number of elements, with the stride of its layout.
    unsafe { (operand.conversion.load)(operand.first(), vector.layout.strides()[0], &mut values) };
    Ok(values)
}

/// Returns the batch axes of an operand, and the strides of its matrices.
fn split_batch<'a, C>(operand: &Operand<'a, C>) -> (OperandLayout<'a>, [isize; 2]) {
    let (dims, strides) = (operand.view.layout.shape().dims(), operand.view.layout.strides());
    let batch = dims.len() - 2;
    (OperandLayout { dims: &dims[..batch], strides: &strides[..batch] }, [strides[batch], strides[batch + 1]])
}

impl<T: Product> Task<'_, T> {
    fn run(&self) {
        let [m, n, k] = self.size;
        let elements = self.output.view.layout.elements();
        if elements == 0 {
            return;
        }
        let [tile_rows, tile_columns] = tile_size([m, n, k], elements / (m * n));
        let tiles = [m.div_ceil(tile_rows), n.div_ceil(tile_columns)];
        let pieces = elements / (m * n) * tiles[0] * tiles[1];
        let work = |piece: usize| {
            let (batch, tile) = (piece / (tiles[0] * tiles[1]), piece % (tiles[0] * tiles[1]));
            let (row, column) = (tile / tiles[1] * tile_rows, tile % tiles[1] * tile_columns);
            self.run_tile(batch, [row, column], [tile_rows.min(m - row), tile_columns.min(n - column)]);
        };
        if elements * k < ONE_THREAD { (0..pieces).for_each(work) } else { for_pieces(pieces, work) }
    }

    /// Returns matrix `batch` of `operand`, whose memory is read without conversion.
    fn matrix(&self, operand: &Operand<'_, T>, batch: usize) -> Matrix<T> {
        let (batch_layout, strides) = split_batch(operand);
        let first = operand.first().cast::<T>().wrapping_offset(batch_layout.position(batch));
        Matrix { first: Pointer(first), strides }
    }

    fn is_plain(&self) -> bool {
        let Epilogue { bias, activation, residual, .. } = *self.epilogue;
        !bias && activation.is_none() && !residual && self.output.conversion.write_directly
    }

    fn run_tile(&self, batch: usize, [row, column]: [usize; 2], [rows, columns]: [usize; 2]) {
        let alpha = T::from_number(Scalar::Float(self.epilogue.alpha));
        let a = self.matrix(&self.a, batch).submatrix(row, 0);
        let b = self.matrix(&self.b, batch).submatrix(0, column);
        let size = [rows, columns, self.size[2]];
        if self.is_plain() {
            let beta = if self.epilogue.accumulate { T::ONE } else { T::ZERO };
            let c = self.matrix(&self.output, batch).submatrix(row, column);
            // SAFETY: the tile is inside the operands by their shapes; no other piece of work has
            // this tile of the output.
            return unsafe { T::multiply(size, alpha, a, b, beta, c) };
        }
        let mut sums = vec![T::ZERO; rows * columns];
        let c = Matrix { first: Pointer(sums.as_mut_ptr()), strides: [columns as isize, 1] };
        // SAFETY: as above; the sums are used only by this piece.
        unsafe { T::multiply(size, alpha, a, b, T::ZERO, c) };
        let mut scratch = vec![T::ZERO; columns];
        for (index, sums) in sums.chunks_exact_mut(columns).enumerate() {
            self.finish_row(batch, [row + index, column], sums, &mut scratch);
        }
    }

    /// Stores or accumulates `activation(sums + bias) + residual`.
    fn finish_row(&self, batch: usize, start: [usize; 2], sums: &mut [T], scratch: &mut [T]) {
        if self.epilogue.bias {
            let bias = &self.bias[start[1]..start[1] + sums.len()];
            sums.iter_mut().zip(bias).for_each(|(sum, &bias)| *sum = sum.add(bias));
        }
        if let Some(activation) = self.epilogue.activation {
            scratch.copy_from_slice(sums);
            T::activate(activation, scratch, sums);
        }
        let mut add = |operand: &Operand<'_, T>| {
            let (address, stride) = address(operand, batch, start);
            // SAFETY: part of a row of a tensor of the output's shape.
            unsafe { (operand.conversion.load)(address, stride, scratch) };
            sums.iter_mut().zip(&*scratch).for_each(|(sum, &other)| *sum = sum.add(other));
        };
        self.residual.iter().for_each(&mut add);
        if self.epilogue.accumulate {
            add(&self.output);
        }
        let (address, stride) = address(&self.output, batch, start);
        // SAFETY: as above; no other piece of work has this part.
        unsafe { (self.output.conversion.store)(sums, address, stride) };
    }
}

/// Returns the rows and columns of a tile, which depend only on the shape, so that sums are the
/// same for any number of threads.
fn tile_size([m, n, k]: [usize; 3], batch: usize) -> [usize; 2] {
    let even = |size: usize, largest: usize| size.div_ceil(size.div_ceil(largest)).next_multiple_of(16);
    let mut tile = [even(m, LARGEST_TILE[0]), even(n, LARGEST_TILE[1])];
    loop {
        let count = batch * m.div_ceil(tile[0]) * n.div_ceil(tile[1]);
        let axis = usize::from(tile[1] > 4 * tile[0]);
        if count >= ENOUGH_TILES || tile[0] * tile[1] * k <= SMALL_WORK || tile[axis] <= 16 {
            return tile;
        }
        tile[axis] = (tile[axis] / 2).next_multiple_of(16);
    }
}

/// Returns the address of element `[row, column]` of matrix `batch`, and the stride to the next
/// element of its row.
fn address<T: Compute>(
    operand: &Operand<'_, T>,
    batch: usize,
    [row, column]: [usize; 2],
) -> (*mut u8, isize) {
    let (batch_layout, strides) = split_batch(operand);
    let position = batch_layout.position(batch) + row as isize * strides[0] + column as isize * strides[1];
    (operand.first().wrapping_offset(position * operand.conversion.size as isize), strides[1])
}
