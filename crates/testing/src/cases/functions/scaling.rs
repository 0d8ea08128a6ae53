//! Rows of powers of 2, angles, powers in float64 and lengths of pairs.

use crate::cases::binary::both_gradients;
use crate::prelude::*;
use std::f64::consts::PI;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = vec![ldexp(), ldexp_of_integers(), ldexp_at_extremes()];
    rows.extend(frexp());
    rows.extend(angles());
    rows.push(float_power());
    rows.extend([hypot(), origin()]);
    rows
}

fn ldexp() -> OpCase {
    OpCase::new("ldexp", "")
        .input(AwayFrom(0.25))
        .input(Uniform(-3.0, 3.0))
        .shapes([&[], &[0, 3], &[7, 33]])
        .on([&[5, 1], &[7]])
        .double_backward()
        .run(|x| x[0].ldexp(&x[1]))
        .oracle(|x| x[0].zip(&x[1], |x, exponent| x * exponent.exp2()))
        .rejects("ldexp: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([2], I32, device)?.ldexp(&Tensor::zeros([2], I32, device)?)
        })
        .rejects("ldexp: exponent is f64, expected an integer dtype, or that of the input", |device| {
            Tensor::zeros([2], F32, device)?.ldexp(&Tensor::zeros([2], F64, device)?)
        })
        .rejects("ldexp: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.ldexp(&Tensor::zeros([3], F32, device)?)
        })
}

fn ldexp_of_integers() -> OpCase {
    OpCase::new("ldexp", "integer exponents")
        .input(AwayFrom(0.25))
        .input(Input::of(I32, Integers(-5, 5)))
        .shapes([&[7, 33]])
        .double_backward()
        .run(|x| x[0].ldexp(&x[1]))
        .oracle(|x| x[0].zip(&x[1], |x, exponent| x * exponent.exp2()))
}

/// The power by itself overflows or underflows where the product does not; 0 stays 0 and infinity
/// stays infinite.
fn ldexp_at_extremes() -> OpCase {
    let small = 2f64.powi(-100);
    OpCase::new("ldexp", "ends of f32")
        .input(Fixed(vec![small, 1.5 / small, small, 0.0, f64::INFINITY, 1.0, -1.0, f64::NAN, 1.5]))
        .input(Input::of(I32, Fixed(vec![140.0, -150.0, -10.0, 5000.0, -5000.0, 2000.0, -2000.0, 1.0, -126.0])))
        .shapes([&[9]])
        .dtypes(&[F64, F32])
        .forward_only("at the ends of the dtype")
        .run(|x| x[0].ldexp(&x[1]))
        .oracle(|x| {
            let exact = |x: f64, exponent: f64| match x == 0.0 || x.is_infinite() {
                true => x,
                false => x * exponent.exp2(),
            };
            x[0].zip(&x[1], exact)
        })
}

/// Returns mantissa and exponent: scales by 2 until the mantissa is in range.
fn mantissa_and_exponent(x: f64) -> (f64, f64) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0.0);
    }
    let (mut mantissa, mut exponent) = (x, 0.0);
    while mantissa.abs() >= 1.0 {
        (mantissa, exponent) = (mantissa / 2.0, exponent + 1.0);
    }
    while mantissa.abs() < 0.5 {
        (mantissa, exponent) = (mantissa * 2.0, exponent - 1.0);
    }
    (mantissa, exponent)
}

fn frexp() -> [OpCase; 2] {
    let row = |parameters: &str, values: Values| {
        OpCase::new("frexp", parameters)
            .input(values)
            .exact()
            .differentiable_outputs(1)
            .run(|x| x[0].frexp())
            .oracle(|x| (x[0].map(|x| mantissa_and_exponent(x).0), x[0].map(|x| mantissa_and_exponent(x).1)))
    };
    let largest = f64::from(f32::MAX);
    let ends = vec![
        0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 0.5, 0.25, 65504.0, largest, -largest, 2f64.powi(-126),
        1.0 - 2f64.powi(-24), 8.0, 2f64.powi(-14), 3.0 * 2f64.powi(100),
    ];
    [
        row("", between_powers())
            .shapes([&[], &[0, 3], &[7, 33]])
            .double_backward()
            .adversarial("ends", [Array::new(&[ends.len()], ends)])
            .rejects("frexp: input is i32, expected a floating dtype", |device| Tensor::zeros([2], I32, device)?.frexp()),
        row("of f64", between_powers()).shapes([&[6]]).dtypes(&[F64]).adversarial(
            "ends of f64",
            [Array::new(&[6], vec![f64::MAX, f64::MIN_POSITIVE, 5e-324, -f64::MAX, 1e300, 3e-310])],
        ),
    ]
}

/// Values away from powers of 2, where the mantissa jumps.
fn between_powers() -> Values {
    Values::custom(|shapes, position, rng| {
        let count = shapes[position].iter().product();
        (0..count).map(|_| rng.sign() * rng.uniform(1.1, 1.9) * 2f64.powi(rng.integer(-4, 4) as i32)).collect()
    })
}

fn angles() -> [OpCase; 2] {
    let row = |op: &'static str, run: fn(&Tensor) -> Result<Tensor>, factor: f64| {
        OpCase::new(op, "")
            .input(Uniform(-4.0, 4.0))
            .shapes([&[], &[0, 3], &[7, 33]])
            .double_backward()
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(|x| x * factor))
            .rejects(format!("{op}: input is i32, expected a floating dtype"), move |device| {
                run(&Tensor::zeros([2], I32, device)?)
            })
    };
    [row("deg2rad", Tensor::deg2rad, PI / 180.0), row("rad2deg", Tensor::rad2deg, 180.0 / PI)]
}

fn float_power() -> OpCase {
    OpCase::new("float_power", "")
        .input(Uniform(0.6, 3.0))
        .input(Uniform(-2.0, 2.0))
        .shapes([&[], &[0, 3], &[7, 33]])
        .on([&[5, 1], &[7]])
        .dtypes(&[F64])
        .double_backward()
        .run(|x| x[0].float_power(&x[1]))
        .oracle(|x| x[0].zip(&x[1], f64::powf))
        .rejects("float_power: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.float_power(&Tensor::zeros([3], F32, device)?)
        })
}

fn hypot() -> OpCase {
    let infinity = f64::INFINITY;
    let pairs = [
        Array::new(&[9], vec![infinity, -infinity, f64::NAN, f64::NAN, 0.0, 48000.0, 3e30, 3e-30, -3.0]),
        Array::new(&[9], vec![f64::NAN, 1.0, -infinity, 1.0, 0.0, 36000.0, 4e30, 4e-30, 4.0]),
    ];
    OpCase::new("hypot", "")
        .input(AwayFrom(0.25))
        .input(AwayFrom(0.25))
        .shapes([&[], &[0, 3], &[7, 33]])
        .on([&[5, 1], &[7]])
        .double_backward()
        .run(|x| x[0].hypot(&x[1]))
        .oracle(|x| x[0].zip(&x[1], f64::hypot))
        .adversarial("special", pairs)
        .rejects("hypot: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
            Tensor::zeros([2], F32, device)?.hypot(&Tensor::zeros([2], F64, device)?)
        })
        .rejects("hypot: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([2], I32, device)?.hypot(&Tensor::zeros([2], I32, device)?)
        })
}

/// At the origin gradients are 0; for large and small pairs they depend only on the direction.
fn origin() -> OpCase {
    OpCase::new("hypot", "gradient at the origin and far away")
        .input(Fixed(vec![0.0, 3.0 * 2f64.powi(120), 3.0 * 2f64.powi(-120), 0.0]))
        .input(Fixed(vec![0.0, 4.0 * 2f64.powi(120), 4.0 * 2f64.powi(-120), -2.0]))
        .shapes([&[4]])
        .dtypes(&[F64, F32])
        .forward_only("compares gradients themselves")
        .run(|x| both_gradients(x, |x, y| x.hypot(y)))
        .oracle(|x| [vec![0.0, 0.6, 0.6, 0.0], vec![0.0, 0.8, 0.8, -1.0]].map(|list| Array::new(&x[0].shape, list)).to_vec())
}
