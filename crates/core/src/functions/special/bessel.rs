//! Modified Bessel functions of the first kind, of orders 0 and 1.
//!
//! Up to 8 they are computed by their power series (DLMF 10.25.2), whose terms are all positive.
//! Above, the function times `e^-x sqrt(x)` is a polynomial in `16 / x - 1`, as in Cephes (Moshier
//! 1984). Its coefficients come from interpolation at Chebyshev points, computed with 60 digits.

use super::{for_dtype, odd, polynomial};
use crate::functions::unary;
use crate::{Result, Tensor};

functions! {
    /// Returns the modified Bessel function of the first kind of order 0 of each element.
    i0: |x| unscaled(&x.abs()?, 0), Tensor::i1;
    /// Returns `e^-|x|` times [`i0`](Tensor::i0).
    i0e: |x| scaled(&x.abs()?, 0), i0e_grad;
    /// Returns the modified Bessel function of the first kind of order 1 of each element.
    i1: |x| odd(x, |size| unscaled(size, 1)), i1_grad;
    /// Returns `e^-|x|` times [`i1`](Tensor::i1).
    i1e: |x| odd(x, |size| scaled(size, 1)), i1e_grad;
}

/// The largest argument for the power series.
const NEAR: f64 = 8.0;

/// `e^-x sqrt(x) I_0(x)` for `8 <= x` as powers of `16 / x - 1`. Relative error below 1.1e-16.
const I0: [f64; 23] = [
    0.4021765094450081,
    0.0033605519836677235,
    0.00013621607439187193,
    1.1143033802583682e-05,
    1.4838475863096976e-06,
    2.9735956581528157e-07,
    8.872154618944625e-08,
    3.932926571091252e-08,
    2.155681110989874e-08,
    7.532386417555123e-09,
    -6.805980075129678e-09,
    -1.331979859201994e-08,
    -5.162517880939013e-09,
    7.323310735122893e-09,
    6.789790403895736e-09,
    -3.11851456121224e-09,
    -4.8482509221176966e-09,
    1.0924527246468664e-09,
    2.3981927228949238e-09,
    -2.748111637276033e-10,
    -7.473844621887592e-10,
    3.525321019700796e-11,
    1.0881994785468934e-10,
];

/// The same with an error of 2e-9, for f32.
const I0_SHORT: [f64; 7] = [
    0.4021765094450081,
    0.003360555851925354,
    0.00013621684311530046,
    1.1111525456650673e-05,
    1.4767921099426897e-06,
    3.631710305277285e-07,
    1.0829898259260847e-07,
];

/// `e^-x sqrt(x) I_1(x)` for `8 <= x` as powers of `16 / x - 1`. Relative error below 1e-16.
const I1: [f64; 23] = [
    0.38939845902587233,
    -0.009749577193235609,
    -0.000219235763833829,
    -1.503854721127423e-05,
    -1.8349101539664522e-06,
    -3.483853071371078e-07,
    -1.0001220638799958e-07,
    -4.31323156237458e-08,
    -2.3382691353601083e-08,
    -8.407326839577817e-09,
    6.795073490187386e-09,
    1.3952625102162603e-08,
    5.722677527454156e-09,
    -7.432535335623792e-09,
    -7.222524178953976e-09,
    3.0717395650769477e-09,
    5.094016301574338e-09,
    -1.0476127785270019e-09,
    -2.5062162405593894e-09,
    2.582169443152386e-10,
    7.79067217908059e-10,
    -3.2677656089803323e-11,
    -1.13288885034257e-10,
];

/// The same with an error of 2e-9, for f32.
const I1_SHORT: [f64; 7] = [
    0.38939845902587233,
    -0.009749581526547915,
    -0.00021923666942859845,
    -1.500332306614829e-05,
    -1.8267145046635388e-06,
    -4.2155543729815765e-07,
    -1.2212498465941114e-07,
];

/// `e^-x x^1.5 (I_0(x) - I_1(x))` for `8 <= x` as powers of `16 / x - 1`. Relative error below
/// 1e-16.
const DIFFERENCE: [f64; 27] = [
    0.20444880670617194,
    0.0053132601242861606,
    0.0003739692873425731,
    4.493600846905952e-05,
    8.164113835498862e-06,
    2.1678146339859238e-06,
    8.519657821596854e-07,
    4.6729477045315097e-07,
    2.5124397957018134e-07,
    4.615754580723961e-09,
    -2.1884919251920903e-07,
    -2.2082445530858837e-07,
    3.230763565134572e-08,
    2.1223080219956966e-07,
    5.169422077192474e-08,
    -1.6433693140552019e-07,
    -6.840167327580291e-08,
    1.1548755480720145e-07,
    5.497739569988298e-08,
    -6.821627393943564e-08,
    -3.2339525008910874e-08,
    2.994123848603358e-08,
    1.3460887262414625e-08,
    -8.35148188375757e-09,
    -3.5203107617904485e-09,
    1.0890445663165954e-09,
    4.3157853842867327e-10,
];

/// The same with an error of 2e-8, for f32.
const DIFFERENCE_SHORT: [f64; 8] = [
    0.2044488071073136,
    0.0053132612559743135,
    0.00037395738810840393,
    4.4900041225785034e-05,
    8.197914817650384e-06,
    2.340527302672877e-06,
    9.116813491651416e-07,
    2.32187883290884e-07,
];

/// Returns `sum of (x^2 / 4)^k / (k! (k + order)!)`, times `x / 2` for order 1, and x clamped to at
/// most [`NEAR`].
fn power_series(size: &Tensor, order: u32) -> Result<(Tensor, Tensor)> {
    let near = size.clamp(0.0, NEAR)?;
    let mut coefficients = vec![1.0];
    let mut term = 1.0;
    for k in 1..*for_dtype(size, &23, &16) {
        term /= f64::from(k) * f64::from(k + order);
        coefficients.push(term);
    }
    let sum = polynomial(&near.square()?.mul_scalar(0.25)?, &coefficients)?;
    let sum = if order == 0 { sum } else { sum.mul(&near)?.mul_scalar(0.5)? };
    Ok((sum, near))
}

/// Returns a polynomial in `16 / x - 1` divided by `sqrt(x)`, and x, both with x clamped to at
/// least [`NEAR`].
fn asymptotic_series(size: &Tensor, long: &[f64], short: &[f64]) -> Result<(Tensor, Tensor)> {
    let far = size.maximum_scalar(NEAR)?;
    let t = far.rdiv_scalar(2.0 * NEAR)?.sub_scalar(1)?;
    Ok((polynomial(&t, for_dtype(size, long, short))?.div(&far.sqrt()?)?, far))
}

/// Returns `e^-x I(x)` for x of at least [`NEAR`].
fn scaled_asymptotic(size: &Tensor, order: u32) -> Result<Tensor> {
    let (long, short): (&[f64], &[f64]) = if order == 0 { (&I0, &I0_SHORT) } else { (&I1, &I1_SHORT) };
    Ok(asymptotic_series(size, long, short)?.0)
}

/// Returns `e^-x I(x)` for x of at least 0.
fn scaled(size: &Tensor, order: u32) -> Result<Tensor> {
    let (sum, near) = power_series(size, order)?;
    size.gt_scalar(NEAR)?.where_(&scaled_asymptotic(size, order)?, &sum.mul(&near.neg()?.exp()?)?)
}

/// Returns `e^x y`, where y has the magnitude of `e^-x I(x)`. `e^x` may overflow where the product
/// does not.
fn times_exp(size: &Tensor, y: &Tensor) -> Result<Tensor> {
    let root = size.mul_scalar(0.5)?.exp()?;
    root.mul(&root.mul(y)?)?.masked_fill(&size.eq_scalar(f64::INFINITY)?, f64::INFINITY)
}

/// Returns `I(x)` for x of at least 0.
fn unscaled(size: &Tensor, order: u32) -> Result<Tensor> {
    let (sum, _) = power_series(size, order)?;
    size.gt_scalar(NEAR)?.where_(&times_exp(size, &scaled_asymptotic(size, order)?)?, &sum)
}

/// Returns `sign(x) e^-|x| (I_1(|x|) - I_0(|x|))`. At 0, where it jumps from 1 to -1, it is 0, and
/// its derivative is that of `e^-|x| I_1(x)`, as in PyTorch.
fn i0e_grad(x: &Tensor) -> Result<Tensor> {
    let value = |x: &Tensor| difference_value(&x.abs()?)?.mul(&x.sign()?)?.neg();
    unary("i0e_grad", x, value, |x| {
        let size = x.abs()?;
        scaled_difference(&size)?.mul_scalar(2)?.sub(&ratio(&size)?)?.masked_fill(&x.eq_scalar(0)?, 0.5)
    })
}

/// Returns `e^-x (I_0(x) - I_1(x))` for x of at least 0. The plain difference would lose digits by
/// cancellation where x is large.
fn scaled_difference(size: &Tensor) -> Result<Tensor> {
    unary("i1e_grad", size, difference_value, |x| ratio(x)?.sub(&scaled_difference(x)?.mul_scalar(2)?))
}

fn difference_value(size: &Tensor) -> Result<Tensor> {
    let (sum, near) = power_series(size, 0)?;
    let below = sum.sub(&power_series(size, 1)?.0)?.mul(&near.neg()?.exp()?)?;
    let (value, far) = asymptotic_series(size, &DIFFERENCE, &DIFFERENCE_SHORT)?;
    size.gt_scalar(NEAR)?.where_(&value.div(&far)?, &below)
}

/// Returns `e^-x I_1(x) / x` for x of at least 0; 1/2 at 0.
fn ratio(size: &Tensor) -> Result<Tensor> {
    let zero = size.eq_scalar(0)?;
    size.i1e()?.div(&size.masked_fill(&zero, 1)?)?.masked_fill(&zero, 0.5)
}

/// Returns `I_0(x) - I_1(x) / x` (DLMF 10.29.2).
fn i1_grad(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    times_exp(&size, &size.i0e()?.sub(&ratio(&size)?)?)
}

fn i1e_grad(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    scaled_difference(&size)?.sub(&ratio(&size)?)
}
