//! Rows of special functions of one element or two.

mod definitions;
mod gamma;
mod normal;
mod pairs;

use crate::oracle::erf;
use crate::prelude::*;
use std::f64::consts::PI;

/// A function with its definition.
struct Function {
    name: &'static str,
    parameters: &'static str,
    values: Values,
    run: fn(&Tensor) -> Result<Tensor>,
    definition: fn(f64) -> f64,
}

/// The name of a method, the parameters in the name of the row, the random inputs, the call and its
/// definition.
macro_rules! function {
    ($name:ident, $values:expr, |$x:ident| $definition:expr) => {
        function!($name "", $values, |x| x.$name(), |$x| $definition)
    };
    ($name:ident $parameters:literal, $values:expr, |$t:ident| $run:expr, |$x:ident| $definition:expr) => {
        Function {
            name: stringify!($name),
            parameters: $parameters,
            values: $values,
            run: |$t| $run,
            definition: |$x| $definition,
        }
    };
}
use function;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let functions = [elementary(), gamma::functions(), normal::functions()];
    let rows = functions.into_iter().flatten().map(Function::row);
    rows.chain(gamma::rows()).chain(pairs::rows()).collect()
}

impl Function {
    fn row(self) -> OpCase {
        let Function { name, parameters, values, run, definition } = self;
        OpCase::new(name, parameters)
            .input(values)
            .shapes([&[], &[0, 3], &[13], &[3, 11], &[2, 5, 3]])
            .double_backward()
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(definition))
            .adversarial("special", [specials()])
            .rejects(format!("{name}: input is i64, expected a floating dtype"), move |device| {
                run(&Tensor::zeros([2], I64, device)?)
            })
            .perf([&[8192, 1024]])
    }
}

/// Zeros of both signs, infinities, NaN, ones and numbers near the ends of a dtype.
fn specials() -> Array {
    let values = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-30, -1e-30, 60000.0, -60000.0];
    Array::new(&[values.len()], values.to_vec())
}

/// Random inputs stay away from poles: the accuracy of second-order gradients is that of
/// differences, which fail where third derivatives are large. The ends of ranges are adversarial
/// inputs here, and gradients there are tested by `python/tests/test_whole_range.py`.
fn elementary() -> Vec<Function> {
    vec![
        function!(tan, Uniform(-1.0, 1.0), |x| x.tan()),
        function!(asin, Uniform(-0.7, 0.7), |x| x.asin()),
        function!(acos, Uniform(-0.7, 0.7), |x| x.acos()),
        function!(sinh, Uniform(-4.0, 4.0), |x| x.sinh()),
        function!(cosh, Uniform(-4.0, 4.0), |x| x.cosh()),
        function!(asinh, Uniform(-8.0, 8.0), |x| x.asinh()),
        function!(acosh, Uniform(1.6, 8.0), |x| x.acosh()),
        function!(atanh, Uniform(-0.7, 0.7), |x| x.atanh()),
        function!(erfc, Uniform(-3.0, 3.0), |x| 1.0 - erf(x)),
        function!(exp2, Uniform(-4.0, 4.0), |x| x.exp2()),
        function!(atan, Uniform(-4.0, 4.0), |x| x.atan()),
        function!(log2, Uniform(0.2, 8.0), |x| x.log2()),
        function!(log10, Uniform(0.2, 8.0), |x| x.log10()),
        function!(sinc, Uniform(-3.0, 3.0), |x| if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }),
    ]
}
