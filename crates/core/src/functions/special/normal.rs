//! The complementary error function, also scaled, the distribution function of the normal
//! distribution, and their inverses.

use super::{for_dtype, polynomial};
use crate::functions::unary;
use crate::{DType, Result, Tensor};
use std::f64::consts::{FRAC_1_SQRT_2, PI, TAU};

functions! {
    /// Returns `1 - erf(x)` of each element, accurate to the last digits where `erf(x)` is near 1.
    erfc: erfc_value, |x| gaussian(x)?.mul_scalar(-2.0 / PI.sqrt());
    /// Returns `e^(x^2) erfc(x)` of each element.
    erfcx: erfcx_value, erfcx_grad;
    /// Returns the inverse error function of each element. It is infinite at -1 and 1, and NaN
    /// outside. Uses the approximation of [`ndtri`](Tensor::ndtri).
    erfinv: erfinv_value, erfinv_grad;
    /// Returns the distribution function of the normal distribution, which is the probability of
    /// values below each element: `erfc(-x / sqrt(2)) / 2`.
    ndtr: ndtr_value, |x| half_gaussian(x)?.mul_scalar(1.0 / TAU.sqrt());
    /// Returns the inverse of the normal distribution function of each element. It is infinite at 0
    /// and 1, and NaN outside (Wichura, "Algorithm AS 241: The Percentage Points of the Normal
    /// Distribution", Applied Statistics 37, 1988).
    ndtri: ndtri_value, ndtri_grad;
    /// Returns the logarithm of the normal distribution function, which is finite where the
    /// function itself underflows to 0.
    log_ndtr: log_ndtr_value, log_ndtr_grad;
}

/// Returns `e^(-x^2)`.
fn gaussian(x: &Tensor) -> Result<Tensor> {
    unary("bell", x, |x| power_of_square(x, -1.0), |x| gaussian(x)?.mul(&x.mul_scalar(-2)?))
}

/// Returns `e^(-x^2 / 2)`.
fn half_gaussian(x: &Tensor) -> Result<Tensor> {
    unary("half_bell", x, |x| power_of_square(x, -0.5), |x| half_gaussian(x)?.mul(&x.neg()?))
}

/// Returns `e^(f x^2) = e^(f h^2) e^(f (x-h)(x+h))` for f of 1 or 1/2 with either sign. h has so
/// few digits that its square is exact; with a rounded square, the relative error of the result
/// would grow with x^2.
fn power_of_square(x: &Tensor, factor: f64) -> Result<Tensor> {
    // Near the offset, neighboring numbers are 2^-20 apart in f64 and 2^-8 in f32, so adding and
    // subtracting it rounds to a multiple of that.
    let (largest, offset) = match x.dtype() {
        DType::F64 => (60.0, 1.5 * 2f64.powi(32)),
        _ => (16.0, 1.5 * 2f64.powi(15)),
    };
    let size = x.abs()?.clamp(0.0, largest)?;
    let high = size.add_scalar(offset)?.sub_scalar(offset)?;
    let rest = size.sub(&high)?.mul(&size.add(&high)?)?;
    high.square()?.mul_scalar(factor)?.exp()?.mul(&rest.mul_scalar(factor)?.exp()?)
}

/// `(1 + 2x) e^(x^2) erfc(x)` for `0 <= x` as powers of `t = (x - 3.75) / (x + 3.75)`, starting
/// with `t^0`: the expansion of Shepherd and Laframboise ("Chebyshev Approximation of (1 + 2x)
/// exp(x^2) erfc x in 0 <= x < infinity", Mathematics of Computation 36, 1981), with coefficients
/// computed with 50 digits. Relative error below 1e-16.
const SCALED_ERFC: [f64; 26] = [
    1.2375126308378275,
    -0.14024059858554702,
    0.0035854154854644293,
    0.08227673849015102,
    -0.10880393014174886,
    0.09230432116019834,
    -0.05869339858963677,
    0.0283622774215156,
    -0.009746579558029276,
    0.0017556258324217529,
    0.0002937136655913448,
    -0.0002901539792898677,
    5.164909889268242e-05,
    2.2383912036550736e-05,
    -1.1444146237700573e-05,
    -9.728495822112503e-07,
    1.751637648849144e-06,
    -5.82628107878092e-08,
    -2.58668507161649e-07,
    2.4289762925284e-08,
    3.867533424228509e-08,
    -4.389284159851587e-09,
    -5.1739902140363326e-09,
    5.457157304192589e-10,
    4.251471444839978e-10,
    -3.75315827710474e-11,
];

/// The same with an error of 5e-9, for f32.
const SCALED_ERFC_SHORT: [f64; 13] = [
    1.2375126300326993,
    -0.1402406583213864,
    0.00358549531406309,
    0.08227841998347046,
    -0.10880522754949953,
    0.09229076959130378,
    -0.05868544049363111,
    0.02840925236412726,
    -0.009770087183368234,
    0.001675912217981131,
    0.00033016745627228067,
    -0.00022411674674416022,
    2.2046718905694024e-05,
];

/// Returns `e^(x^2) erfc(x)` for x of at least 0, by [`SCALED_ERFC`].
fn scaled_erfc(size: &Tensor) -> Result<Tensor> {
    let sum =
        polynomial(&chebyshev_variable(size)?, for_dtype(size, &SCALED_ERFC[..], &SCALED_ERFC_SHORT[..]))?;
    sum.div(&size.add_scalar(0.5)?)?.mul_scalar(0.5)
}

/// Returns `(x - 3.75) / (x + 3.75)`, and 1 at infinity.
fn chebyshev_variable(size: &Tensor) -> Result<Tensor> {
    let size = size.clamp(0.0, 1e18)?;
    size.sub_scalar(3.75)?.div(&size.add_scalar(3.75)?)
}

/// Returns `1 - erf(x)`: directly below 0.5, where it has all digits, otherwise by [`SCALED_ERFC`].
fn erfc_value(x: &Tensor) -> Result<Tensor> {
    let size = x.maximum_scalar(0)?;
    let far = power_of_square(&size, -1.0)?.mul(&scaled_erfc(&size)?)?;
    x.lt_scalar(0.5)?.where_(&x.erf()?.rsub_scalar(1)?, &far)
}

/// Returns `e^(x^2) erfc(x)`. For negative x it is `2 e^(x^2)` minus the value at `-x`.
fn erfcx_value(x: &Tensor) -> Result<Tensor> {
    let value = scaled_erfc(&x.abs()?)?;
    let below = power_of_square(x, 1.0)?.mul_scalar(2)?.sub(&value)?;
    x.lt_scalar(0)?.where_(&below, &value)
}

/// `(1 + 2x)^2 (1 - sqrt(pi) x e^(x^2) erfc(x))` for `0 <= x` as powers of
/// `t = (x - 3.75) / (x + 3.75)`, interpolated at Chebyshev points with more than 60 digits.
/// Relative error below 1e-16.
const ERFCX_GRAD: [f64; 28] = [
    2.3342903551819307,
    -0.28891496883396095,
    -0.3475779435208367,
    0.6467986050601309,
    -0.5696699339601458,
    0.2921085684113992,
    -0.03218620581458633,
    -0.09497624132698741,
    0.10091575661990837,
    -0.05599206991382214,
    0.016556312304161134,
    0.00036482347562518546,
    -0.0025056713685934926,
    0.0007454191641275635,
    0.000180003682635117,
    -0.00015642203761986876,
    -4.755820492140902e-07,
    2.593849693913051e-05,
    -2.7975504854678014e-06,
    -4.2896926830802805e-06,
    7.128334075635151e-07,
    7.51865387496275e-07,
    -1.287266622516751e-07,
    -1.326825392969251e-07,
    1.7184284464817583e-08,
    1.9694210807982735e-08,
    -1.2829680508198065e-09,
    -1.680207425713312e-09,
];

/// The same with an error of 5e-9, for f32.
const ERFCX_GRAD_SHORT: [f64; 15] = [
    2.3342903551819307,
    -0.288915048149708,
    -0.34757794948544013,
    0.6468015795649651,
    -0.5696697121828809,
    0.29207608650931266,
    -0.032188576769565276,
    -0.09481847863888482,
    0.10092683303069255,
    -0.056390897320786615,
    0.016530182870020015,
    0.0009192066717368531,
    -0.0024739088027555247,
    0.00032755588097360596,
    0.00016277659789850368,
];

/// Returns the derivative of `erfcx`, `2 x erfcx(x) - 2 / sqrt(pi)` (DLMF 7.10.1), without the
/// cancellation of this formula where x is large.
fn erfcx_grad(x: &Tensor) -> Result<Tensor> {
    let second = |x: &Tensor| x.erfcx()?.add(&erfcx_grad(x)?.mul(x)?)?.mul_scalar(2);
    unary("erfcx_grad", x, erfcx_grad_value, second)
}

fn erfcx_grad_value(x: &Tensor) -> Result<Tensor> {
    let size = x.abs()?;
    let sum = polynomial(&chebyshev_variable(&size)?, for_dtype(x, &ERFCX_GRAD[..], &ERFCX_GRAD_SHORT[..]))?;
    // Divides twice, because the square might overflow.
    let part = size.add_scalar(0.5)?;
    let above = sum.div(&part)?.div(&part)?.mul_scalar(-0.5 / PI.sqrt())?;
    let below = erfcx_value(x)?.mul(x)?.mul_scalar(2)?.sub_scalar(2.0 / PI.sqrt())?;
    x.lt_scalar(0)?.where_(&below, &above)
}

/// Returns the probability of values above x. For x of at least 0.7 it is computed by
/// [`SCALED_ERFC`] and has all digits.
fn upper_tail(x: &Tensor) -> Result<Tensor> {
    let size = x.maximum_scalar(0)?;
    let far = power_of_square(&size, -0.5)?
        .mul(&scaled_erfc(&size.mul_scalar(FRAC_1_SQRT_2)?)?)?
        .mul_scalar(0.5)?;
    let near = x.mul_scalar(FRAC_1_SQRT_2)?.erf()?.rsub_scalar(1)?.mul_scalar(0.5)?;
    x.lt_scalar(0.7)?.where_(&near, &far)
}

fn ndtr_value(x: &Tensor) -> Result<Tensor> {
    upper_tail(&x.neg()?)
}

/// Computes values below -1 by `erfcx`, which does not underflow.
fn log_ndtr_value(x: &Tensor) -> Result<Tensor> {
    let size = x.neg()?.maximum_scalar(0)?;
    let scaled = scaled_erfc(&size.mul_scalar(FRAC_1_SQRT_2)?)?;
    let below = scaled.mul_scalar(0.5)?.log()?.sub(&size.mul_scalar(0.5)?.mul(&size)?)?;
    x.lt_scalar(-1)?.where_(&below, &upper_tail(x)?.neg()?.log1p()?)
}

/// Returns the density divided by the distribution function, below 0 by `erfcx`. Both branches have
/// finite gradients where they are not selected.
fn log_ndtr_grad(x: &Tensor) -> Result<Tensor> {
    let (is_below, zero) = (x.lt_scalar(0)?, x.scalar_like(0)?);
    let size = is_below.where_(&x.neg()?, &zero)?;
    let below = size.mul_scalar(FRAC_1_SQRT_2)?.erfcx()?.rdiv_scalar((2.0 / PI).sqrt())?;
    let x = is_below.where_(&zero, x)?;
    let above = half_gaussian(&x)?.div(&x.ndtr()?)?.mul_scalar(1.0 / TAU.sqrt())?;
    is_below.where_(&below, &above)
}

/// Numerators and denominators of AS 241, for the center, and for tails above and below `e^-25`.
const QUANTILE: [[[f64; 8]; 2]; 3] = [
    [
        [
            3.3871328727963665,
            133.14166789178438,
            1971.5909503065513,
            13731.69376550946,
            45921.95393154987,
            67265.7709270087,
            33430.57558358813,
            2509.0809287301227,
        ],
        [
            1.0,
            42.31333070160091,
            687.1870074920579,
            5394.196021424751,
            21213.794301586597,
            39307.89580009271,
            28729.085735721943,
            5226.495278852854,
        ],
    ],
    [
        [
            1.4234371107496835,
            4.630337846156546,
            5.769497221460691,
            3.6478483247632045,
            1.2704582524523684,
            0.2417807251774506,
            0.022723844989269184,
            0.0007745450142783414,
        ],
        [
            1.0,
            2.053191626637759,
            1.6763848301838038,
            0.6897673349851,
            0.14810397642748008,
            0.015198666563616457,
            0.0005475938084995345,
            1.0507500716444169e-09,
        ],
    ],
    [
        [
            6.657904643501103,
            5.463784911164114,
            1.7848265399172913,
            0.29656057182850487,
            0.026532189526576124,
            0.0012426609473880784,
            2.7115555687434876e-05,
            2.0103343992922881e-07,
        ],
        [
            1.0,
            0.599832206555888,
            0.1369298809227358,
            0.014875361290850615,
            0.0007868691311456133,
            1.8463183175100548e-05,
            1.421511758316446e-07,
            2.0442631033899397e-15,
        ],
    ],
];

/// Returns the number whose distribution function is `0.5 + center`; `tail` is the distance of that
/// value from 0 or 1.
fn quantile(center: &Tensor, tail: &Tensor) -> Result<Tensor> {
    let fraction =
        |x: &Tensor, [over, under]: &[[f64; 8]; 2]| polynomial(x, over)?.div(&polynomial(x, under)?);
    let middle = fraction(&center.square()?.rsub_scalar(0.180625)?, &QUANTILE[0])?.mul(center)?;
    let root = tail.log()?.neg()?.sqrt()?;
    let near = fraction(&root.sub_scalar(1.6)?, &QUANTILE[1])?;
    let far = fraction(&root.sub_scalar(5)?, &QUANTILE[2])?;
    let size = root.le_scalar(5)?.where_(&near, &far)?.masked_fill(&tail.eq_scalar(0)?, f64::INFINITY)?;
    let outer = center.lt_scalar(0)?.where_(&size.neg()?, &size)?;
    center.abs()?.le_scalar(0.425)?.where_(&middle, &outer)
}

fn ndtri_value(x: &Tensor) -> Result<Tensor> {
    quantile(&x.sub_scalar(0.5)?, &tail(x)?)
}

fn erfinv_value(x: &Tensor) -> Result<Tensor> {
    let tail = x.abs()?.rsub_scalar(1)?.mul_scalar(0.5)?;
    quantile(&x.mul_scalar(0.5)?, &tail)?.mul_scalar(FRAC_1_SQRT_2)
}

/// Returns the distance of a probability from 0 or from 1, whichever is smaller.
fn tail(x: &Tensor) -> Result<Tensor> {
    x.minimum(&x.rsub_scalar(1)?)
}

/// Returns `1 / density(y) = sqrt(pi / 2) erfcx(|y| / sqrt(2)) / tail`. The exponential of the
/// square of a rounded number would lose digits.
fn ndtri_grad(x: &Tensor) -> Result<Tensor> {
    let tail = tail(x)?;
    let scaled = x.ndtri()?.abs()?.mul_scalar(FRAC_1_SQRT_2)?.erfcx()?;
    let value = scaled.div(&tail)?.mul_scalar((PI / 2.0).sqrt())?;
    value.masked_fill(&tail.eq_scalar(0)?, f64::INFINITY)
}

/// Returns `sqrt(pi) / 2 e^(y^2) = sqrt(pi) / 2 erfcx(|y|) / (1 - |x|)`.
fn erfinv_grad(x: &Tensor) -> Result<Tensor> {
    let tail = x.abs()?.rsub_scalar(1)?;
    let value = x.erfinv()?.abs()?.erfcx()?.div(&tail)?.mul_scalar(PI.sqrt() / 2.0)?;
    value.masked_fill(&tail.eq_scalar(0)?, f64::INFINITY)
}
