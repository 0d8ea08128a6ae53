//! Rows of comparisons and of selection between two tensors.

use crate::compare::round_to;
use crate::prelude::*;
use ternion_core::no_grad;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = comparisons();
    rows.extend(scalar_comparisons());
    rows.extend([
        negative_numbers(),
        select(),
        select_other_dtypes(),
        masked_fill(),
        masked_fill_integers(),
        rejected(),
    ]);
    rows
}

fn special() -> Vec<f64> {
    vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, 1e30]
}

fn special_pairs() -> [Array; 2] {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for a in special() {
        for b in special() {
            left.push(a);
            right.push(b);
        }
    }
    [Array::new(&[7, 7], left), Array::new(&[7, 7], right)]
}

fn comparisons() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, fn(&f64, &f64) -> bool);
    let cases: [Case; 6] = [
        ("eq", |a, b| a.eq(b), f64::eq),
        ("ne", |a, b| a.ne(b), f64::ne),
        ("lt", |a, b| a.lt(b), f64::lt),
        ("le", |a, b| a.le(b), f64::le),
        ("gt", |a, b| a.gt(b), f64::gt),
        ("ge", |a, b| a.ge(b), f64::ge),
    ];
    cases
        .into_iter()
        .map(|(op, run, definition)| {
            OpCase::new(op, "")
                .input(Integers(-2, 2))
                .input(Integers(-2, 2))
                .shapes([&[], &[0, 3], &[13], &[7, 33], &[2, 5, 3]])
                .on([&[7, 1], &[33]])
                .on([&[], &[2, 3]])
                .also(INTEGERS)
                .also(UNSIGNED)
                .also(BOOL)
                .forward_only("bools have no gradient")
                .run(move |x| run(&x[0], &x[1]))
                .oracle(move |x| x[0].zip(&x[1], |a, b| f64::from(definition(&a, &b))))
                .adversarial("special", special_pairs())
                .perf([&[8192, 1024], &[8192, 1024]])
        })
        .collect()
}

fn scalar_comparisons() -> Vec<OpCase> {
    type Case = (&'static str, fn(&Tensor, f64) -> Result<Tensor>, fn(&f64, &f64) -> bool);
    let cases: [Case; 6] = [
        ("eq_scalar", |t, number| t.eq_scalar(number), f64::eq),
        ("ne_scalar", |t, number| t.ne_scalar(number), f64::ne),
        ("lt_scalar", |t, number| t.lt_scalar(number), f64::lt),
        ("le_scalar", |t, number| t.le_scalar(number), f64::le),
        ("gt_scalar", |t, number| t.gt_scalar(number), f64::gt),
        ("ge_scalar", |t, number| t.ge_scalar(number), f64::ge),
    ];
    let mut rows = Vec::new();
    for (op, run, definition) in cases {
        for number in [1.0, 0.0, f64::INFINITY] {
            let dtypes: Vec<DType> = if number.is_finite() { DType::ALL.to_vec() } else { FLOATS.to_vec() };
            rows.push(
                OpCase::new(op, format!("number={number}"))
                    .input(Integers(-2, 2))
                    .shapes([&[], &[0, 3], &[7, 33], &[2, 5, 3]])
                    .dtypes(&dtypes)
                    .forward_only("bools have no gradient")
                    .run(move |x| run(&x[0], number))
                    .oracle(move |x| x[0].map(|x| f64::from(definition(&x, &number))))
                    .adversarial("special", [Array::new(&[7], special())]),
            );
        }
        // 1/10 is not representable in any floating dtype: it is rounded like the elements.
        rows.push(
            OpCase::new(op, "number=0.1")
                .input(Fixed(vec![0.1, -0.1, 0.125]))
                .shapes([&[3]])
                .forward_only("bools have no gradient")
                .run(move |x| run(&x[0], 0.1))
                .oracle_for(move |dtype, x| x[0].map(|x| f64::from(definition(&x, &round_to(dtype, 0.1))))),
        );
    }
    rows
}

/// Numbers whose upper bits do not fit a narrow dtype.
fn negative_numbers() -> OpCase {
    OpCase::new("lt_scalar", "negative, and the others")
        .input(Integers(-4, 4))
        .shapes([&[7, 33]])
        .dtypes(SIGNED)
        .forward_only("bools have no gradient")
        .run(|x| Ok(vec![x[0].lt_scalar(-1)?, x[0].ge_scalar(-3)?, x[0].eq_scalar(-2)?]))
        .oracle(|x| {
            let forms: [fn(f64) -> bool; 3] = [|x| x < -1.0, |x| x >= -3.0, |x| x == -2.0];
            forms.map(|form| x[0].map(|x| f64::from(form(x)))).to_vec()
        })
}

/// Returns the elements of `x[1]` where the condition `x[0]` is true, otherwise those of `x[2]`.
/// Infinity, which no input contains, marks the latter.
fn choose(x: &[Array]) -> Array {
    let selected = x[0].zip(&x[1], |condition, a| if condition != 0.0 { a } else { f64::INFINITY });
    selected.zip(&x[2], |selected, b| if selected == f64::INFINITY { b } else { selected })
}

fn select() -> OpCase {
    OpCase::new("where", "")
        .input(Input::bool())
        .input(Uniform(-4.0, 4.0))
        .input(Uniform(-4.0, 4.0))
        .shapes([&[], &[0, 3], &[13], &[7, 33], &[2, 5, 3]])
        .on([&[7, 1], &[33], &[]])
        .on([&[3], &[2, 1], &[2, 3]])
        .exact()
        .double_backward()
        .run(|x| x[0].where_(&x[1], &x[2]))
        .oracle(choose)
        .perf([&[8192, 1024], &[8192, 1024], &[8192, 1024]])
}

fn select_other_dtypes() -> OpCase {
    OpCase::new("where", "integers and bools")
        .input(Input::bool())
        .input(Integers(-4, 4))
        .input(Integers(-4, 4))
        .on([&[7, 1], &[33], &[7, 33]])
        .dtypes(INTEGERS)
        .also(UNSIGNED)
        .also(BOOL)
        .run(|x| x[0].where_(&x[1], &x[2]))
        .oracle(choose)
}

fn masked_fill() -> OpCase {
    OpCase::new("where", "as masked_fill")
        .input(Uniform(-4.0, 4.0))
        .input(Input::bool())
        .shapes([&[], &[7, 33]])
        .on([&[7, 33], &[33]])
        .on([&[2, 5, 3], &[5, 1]])
        .exact()
        .run(|x| {
            let changed = no_grad(|| {
                let y = x[0].detach().copy()?;
                y.masked_fill_(&x[1], f64::NEG_INFINITY)?;
                Ok::<_, Error>(y)
            })?;
            Ok(vec![x[0].masked_fill(&x[1], 2.5)?, changed])
        })
        .differentiable_outputs(1)
        .rejects("masked_fill: mask is f32, expected bool", |device| {
            let x = Tensor::zeros([2], F32, device)?;
            x.masked_fill(&x, 0.0)
        })
        .oracle(|x| {
            let fill = |value: f64| x[0].zip(&x[1], move |x, mask| if mask != 0.0 { value } else { x });
            vec![fill(2.5), fill(f64::NEG_INFINITY)]
        })
}

fn masked_fill_integers() -> OpCase {
    OpCase::new("where", "as masked_fill, integers")
        .input(Integers(-4, 4))
        .input(Input::bool())
        .on([&[7, 33], &[33]])
        .dtypes(INTEGERS)
        .also(UNSIGNED)
        .run(|x| x[0].masked_fill(&x[1], 7))
        .oracle(|x| x[0].zip(&x[1], |x, mask| if mask != 0.0 { 7.0 } else { x }))
}

fn rejected() -> OpCase {
    OpCase::new("eq", "rejects")
        .input(Integers(-1, 1))
        .shapes([&[3]])
        .forward_only("bools have no gradient")
        .run(|x| x[0].eq(&x[0]))
        .oracle(|x| x[0].map(|_| 1.0))
        .rejects("eq: shapes [2] and [3] do not broadcast", |device| {
            Tensor::zeros([2], F32, device)?.eq(&Tensor::zeros([3], F32, device)?)
        })
        .rejects("lt: dtypes f32 and f16 differ; cast one of them with to_dtype", |device| {
            Tensor::zeros([2], F32, device)?.lt(&Tensor::zeros([2], F16, device)?)
        })
        .rejects("lt_scalar: 2.5 is not an integer, tensor is i32", |device| {
            Tensor::zeros([2], I32, device)?.lt_scalar(2.5)
        })
        .rejects("gt_scalar: 128 does not fit i8", |device| Tensor::zeros([2], I8, device)?.gt_scalar(128))
        .rejects("gt_scalar: -1 does not fit u8", |device| Tensor::zeros([2], U8, device)?.gt_scalar(-1))
        .rejects("where: condition is f32, expected bool", |device| {
            let x = Tensor::zeros([2], F32, device)?;
            x.where_(&x, &x)
        })
        .rejects("masked_fill: shapes [3] and [2, 3] do not broadcast", |device| {
            let mask = Tensor::zeros([2, 3], Bool, device)?;
            Tensor::zeros([3], F32, device)?.masked_fill(&mask, 1.0)
        })
        .rejects("masked_fill: 0.5 is not an integer, tensor is i32", |device| {
            let mask = Tensor::zeros([3], Bool, device)?;
            Tensor::zeros([3], I32, device)?.masked_fill(&mask, 0.5)
        })
}
