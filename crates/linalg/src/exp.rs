//! The exponential of matrices.

use crate::checks;
use crate::host::Values;
use crate::record::with_gradient;
use ternion_core::autograd::{Context, Grads, no_grad};
use ternion_core::op::Saves;
use ternion_core::{DType, Result, Tensor, without_precision};

/// Returns `e^a = 1 + a + a^2 / 2 + ..` of square matrices, by the Taylor polynomial of degree 18
/// of a matrix scaled to a norm of at most 1.09 (in f32 3.01), which is then squared repeatedly
/// (Bader, Blanes and Casas 2019, table 3). The host reads the 1-norms; the products run on the
/// device.
///
/// # Shapes
/// `[.., n, n]`, unchanged. f32 and half precision are computed in f64 if the device has it, else
/// in f32, and rounded once.
///
/// # Gradient
/// The upper right block of the exponential of `[[a^T, dy], [0, a^T]]` (Najfeld and Havel 1995;
/// Higham 2008, 3.16), which has gradients too.
///
/// # Errors
/// Returns an error for a dtype that is not floating and matrices that are not square.
pub fn matrix_exp(a: &Tensor) -> Result<Tensor> {
    const OP: &str = "linalg.matrix_exp";
    checks::floating(OP, a)?;
    let size = checks::square_sizes(OP, a)?;
    if a.dtype() != DType::F64 {
        // Each squaring doubles the relative error: for a norm of 40 there are six. wgpu has no
        // f64.
        if let Ok(wide) = a.to_dtype(DType::F64) {
            return matrix_exp(&wide)?.to_dtype(a.dtype());
        }
        if a.dtype() != DType::F32 {
            return matrix_exp(&a.to_dtype(DType::F32)?)?.to_dtype(a.dtype());
        }
    }
    if a.elements() == 0 {
        return Ok(a.clone());
    }
    let y = no_grad(|| without_precision(|| value(a)))?;
    let rule = move |context: &Context<'_>, grads: &[Option<Tensor>]| {
        let Some(dy) = &grads[0] else { return Ok(Grads::new()) };
        let transposed = checks::transposed(context.input(0)?)?;
        // The result is linear in dy, which is normalized so that a large dy does not cause more
        // scaling than a needs.
        let unit = dy.detach().abs()?.max_keep([-2, -1])?;
        let unit = unit.masked_fill(&unit.eq_scalar(0i64)?, 1i64)?;
        let above = Tensor::concat(&[&transposed, &dy.div(&unit)?], -1)?;
        let below = Tensor::concat(&[&transposed.zeros_like()?, &transposed], -1)?;
        let blocks = matrix_exp(&Tensor::concat(&[&above, &below], -2)?)?;
        let da = blocks.narrow(-2, 0, size)?.narrow(-1, size, size)?.mul(&unit)?;
        Ok(Grads::from_elem(Some(da), 1))
    };
    Ok(with_gradient(OP, &[a], vec![y], Saves::INPUTS, rule)?.swap_remove(0))
}

/// Returns how often each matrix of 1-norm `norm` is halved.
fn squarings(norm: f64, dtype: DType) -> i32 {
    // Up to this norm the polynomial of degree 18 is accurate to the precision of the dtype.
    let largest = if dtype == DType::F64 { 1.090863719290036 } else { 3.010066362817634 };
    // Non-finite matrices are not scaled.
    if norm.is_finite() && norm > largest { (norm / largest).log2().ceil() as i32 } else { 0 }
}

fn value(a: &Tensor) -> Result<Tensor> {
    let norms = a.abs()?.sum(-2)?.max(-1)?.to_vec_f64()?;
    let counts: Vec<i32> = norms.into_iter().map(|norm| squarings(norm, a.dtype())).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let each = |f: &dyn Fn(i32) -> f64| -> Result<Tensor> {
        let mut values = Values::default();
        values.extend(counts.iter().map(|&count| f(count)));
        values.into_tensor(a, &[1, 1])
    };
    // In two steps: a power of two may be too small for f32.
    let scaled = a.mul(&each(&|count| f64::from(-(count / 2)).exp2())?)?;
    let scaled = scaled.mul(&each(&|count| f64::from(-(count - count / 2)).exp2())?)?;
    let mut y = polynomial(&scaled)?;
    let counts = each(&f64::from)?;
    for done in 0..most {
        y = counts.gt_scalar(i64::from(done))?.where_(&y.matmul(&y)?, &y)?;
    }
    Ok(y)
}

/// Returns `sum of x^k / k!` for k up to 18, in seven products (Paterson and Stockmeyer 1973):
/// polynomials of degree 4 in x as coefficients of powers of x^5.
fn polynomial(x: &Tensor) -> Result<Tensor> {
    let size = x.dims()[x.rank() - 1];
    let mut powers = vec![checks::identity(size, x)?, x.clone()];
    for _ in 2..=5 {
        powers.push(powers[powers.len() - 1].matmul(x)?);
    }
    let factorials: Vec<f64> = (0..19)
        .scan(1.0, |product, k| {
            *product *= f64::from(k.max(1));
            Some(*product)
        })
        .collect();
    let mut y: Option<Tensor> = None;
    for chunk in factorials.chunks(5).rev() {
        let mut sum = powers[0].div_scalar(chunk[0])?;
        for (power, factorial) in powers[1..].iter().zip(&chunk[1..]) {
            sum = sum.add(&power.div_scalar(*factorial)?)?;
        }
        y = Some(match y {
            Some(higher) => sum.add(&powers[5].matmul(&higher)?)?,
            None => sum,
        });
    }
    y.map_or_else(|| x.zeros_like(), Ok)
}
