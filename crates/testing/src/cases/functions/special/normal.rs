//! Rows of functions related to the error function, of the normal distribution, and of logarithms
//! of probabilities.

use super::definitions::{erfcx, erfinv, log_ndtr, ndtr, ndtri};
use super::{Function, function};
use crate::prelude::*;

/// Functions of one element.
pub fn functions() -> Vec<Function> {
    vec![
        function!(erfcx, Uniform(-1.5, 6.0), |x| erfcx(x)),
        function!(erfinv, Uniform(-0.8, 0.8), |x| erfinv(x)),
        function!(ndtr, Uniform(-4.0, 3.0), |x| ndtr(x)),
        function!(ndtri, Uniform(0.3, 0.7), |x| ndtri(x)),
        function!(log_ndtr, Uniform(-6.0, 3.0), |x| log_ndtr(x)),
        function!(entr, Uniform(0.4, 3.0), |x| entropy(x)),
        function!(logit "", Uniform(0.2, 0.8), |x| x.logit(None), |x| (x / (1.0 - x)).ln()),
        function!(logit "eps=0.2", clear_of_bounds(), |x| x.logit(Some(0.2)), |x| bounded_logit(x)),
    ]
}

fn entropy(x: f64) -> f64 {
    match x {
        0.0 => 0.0,
        x if x < 0.0 => f64::NEG_INFINITY,
        x => -x * x.ln(),
    }
}

/// On both sides of 0.2 and of 0.8, where the gradient jumps.
fn clear_of_bounds() -> Values {
    Values::Fixed(vec![0.05, 0.3, 0.95, 0.5, 0.62, 0.1, 0.75, 0.9, 0.25])
}

fn bounded_logit(x: f64) -> f64 {
    let x = if x.is_nan() { x } else { x.clamp(0.2, 0.8) };
    (x / (1.0 - x)).ln()
}
