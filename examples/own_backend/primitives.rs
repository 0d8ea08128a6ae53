//! The primitives, each implemented as a plain loop over the elements in row-major order.

use super::Values::{self, Real, Whole};
use super::with_element;
use ternion_core::op::Op;
use ternion_core::ops::binary::BinaryOp;
use ternion_core::ops::compare::CompareOp;
use ternion_core::ops::index::ScatterMode;
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::ops::unary::UnaryOp;
use ternion_core::{DType, Element, Error, Result, Scalar, Shape};

/// Computes the outputs of `op`. `shapes` are the shapes of the inputs, `output` is the shape of
/// the first output.
pub(super) fn compute(op: &Op, inputs: &[Values], shapes: &[Shape], output: &Shape) -> Result<Vec<Values>> {
    Ok(match op {
        Op::Fill(fill) => vec![repeated(fill.value, fill.dtype, output.elements())],
        Op::Iota(iota) => vec![evenly_spaced(iota.start, iota.step, iota.dtype, iota.count)],
        Op::Copy(copy) => vec![cast(&inputs[0], copy.dtype)],
        Op::Unary(unary) => vec![each(unary.op, &inputs[0])?],
        Op::Binary(binary) => vec![pairs(binary.op, &inputs[0], &inputs[1])],
        Op::Compare(compare) => vec![compared(compare.op, &inputs[0], &inputs[1])],
        Op::Select(_) => vec![selected(&inputs[0], &inputs[1], &inputs[2])],
        Op::Reduce(reduce) => vec![reduced(reduce, &inputs[0], &shapes[0])],
        Op::CumulativeSum(sum) => vec![running_sum(&inputs[0], &shapes[0], sum.axis)],
        Op::Matmul(_) => vec![product(&inputs[0], &inputs[1], &shapes[0], &shapes[1])],
        Op::Gather(gather) => {
            let positions = along("gather", &shapes[0], &shapes[1], gather.axis, &inputs[1])?;
            vec![inputs[0].pick(&positions)]
        }
        Op::Scatter(scatter) => {
            let positions = along(op.name(), &shapes[0], &shapes[1], scatter.axis, &inputs[1])?;
            vec![scattered(&inputs[0], &inputs[2], &positions, scatter.mode)]
        }
        Op::Sort(sort) => sorted(&inputs[0], &shapes[0], sort.axis, sort.descending),
        Op::RandomBits(random) => {
            vec![random_bits(&inputs[0], random.offset, random.bits, output.elements())]
        }
        _ => return Err(Error::invalid(op.name(), "is not a primitive")),
    })
}

fn repeated(value: Scalar, dtype: DType, count: usize) -> Values {
    match dtype {
        dtype if dtype.is_float() => Real(vec![value.as_f64(); count]),
        // A value outside the range of the dtype saturates, as `Element::from_scalar` defines.
        dtype => Whole(vec![with_element!(dtype, E => E::from_scalar(value).to_scalar().as_i128()); count]),
    }
}

fn evenly_spaced(start: Scalar, step: Scalar, dtype: DType, count: usize) -> Values {
    match dtype.is_float() {
        true => Real((0..count).map(|i| start.as_f64() + i as f64 * step.as_f64()).collect()),
        false => Whole(
            (0..count as i128)
                .map(|i| start.as_i128().wrapping_add(i.wrapping_mul(step.as_i128())))
                .collect(),
        ),
    }
}

fn cast(x: &Values, dtype: DType) -> Values {
    match (x, dtype) {
        (x, DType::Bool) => Whole(match x {
            Real(values) => values.iter().map(|&value| i128::from(value != 0.0)).collect(),
            Whole(values) => values.iter().map(|&value| i128::from(value != 0)).collect(),
        }),
        (x, dtype) if dtype.is_float() => Real(x.real()),
        // A cast from float to integer saturates to the range of the target dtype. A cast between
        // integer dtypes wraps, which `write` does.
        (Real(values), dtype) => Whole(
            values
                .iter()
                .map(|&v| with_element!(dtype, E => E::from_scalar(Scalar::Float(v)).to_scalar().as_i128()))
                .collect(),
        ),
        (Whole(values), _) => Whole(values.clone()),
    }
}

fn each(op: UnaryOp, x: &Values) -> Result<Values> {
    let mapped = match x {
        Real(values) => real_unary(op).map(|f| Real(values.iter().map(|&value| f(value)).collect())),
        Whole(values) => whole_unary(op).map(|f| Whole(values.iter().map(|&value| f(value)).collect())),
    };
    mapped.ok_or_else(|| Error::invalid(op.name(), "has no loop here"))
}

/// Returns the float implementation of a unary op, or `None` if there is none. `plan` then returns
/// `Unsupported`.
pub(super) fn real_unary(op: UnaryOp) -> Option<fn(f64) -> f64> {
    Some(match op {
        UnaryOp::Neg => |x| -x,
        UnaryOp::Abs => f64::abs,
        UnaryOp::Sign => |x| if x.is_nan() || x == 0.0 { x } else { x.signum() },
        UnaryOp::Exp => f64::exp,
        UnaryOp::Log => f64::ln,
        UnaryOp::Log1p => f64::ln_1p,
        UnaryOp::Expm1 => f64::exp_m1,
        UnaryOp::Sqrt => f64::sqrt,
        UnaryOp::Rsqrt => |x| 1.0 / x.sqrt(),
        UnaryOp::Sin => f64::sin,
        UnaryOp::Cos => f64::cos,
        UnaryOp::Tanh => f64::tanh,
        UnaryOp::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Relu => |x| if x < 0.0 { 0.0 } else { x },
        UnaryOp::Erf => libm::erf,
        UnaryOp::Square => |x| x * x,
        UnaryOp::Recip => |x| 1.0 / x,
        UnaryOp::Floor => f64::floor,
        UnaryOp::Ceil => f64::ceil,
        UnaryOp::Round => f64::round_ties_even,
        _ => return None,
    })
}

/// Returns the integer and bool implementation of a unary op, or `None` if there is none.
pub(super) fn whole_unary(op: UnaryOp) -> Option<fn(i128) -> i128> {
    Some(match op {
        UnaryOp::Neg => i128::wrapping_neg,
        UnaryOp::Abs => i128::wrapping_abs,
        UnaryOp::Sign => i128::signum,
        UnaryOp::Square => |x| x.wrapping_mul(x),
        UnaryOp::Relu => |x| x.max(0),
        UnaryOp::Not => |x| i128::from(x == 0),
        _ => return None,
    })
}

fn pairs(op: BinaryOp, a: &Values, b: &Values) -> Values {
    match (a, b) {
        (Real(a), Real(b)) => Real(a.iter().zip(b).map(|(&a, &b)| real_binary(op, a, b)).collect()),
        _ => Whole(a.whole().into_iter().zip(b.whole()).map(|(a, b)| whole_binary(op, a, b)).collect()),
    }
}

fn real_binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Pow => a.powf(b),
        BinaryOp::Max => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.max(b)
            }
        }
        BinaryOp::Min => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.min(b)
            }
        }
        BinaryOp::Atan2 => a.atan2(b),
        BinaryOp::Remainder => real_remainder(a, b),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => f64::NAN,
    }
}

/// Returns the remainder with the sign of the divisor: `fmod`, which is exact, plus the divisor if
/// the signs differ.
fn real_remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

fn whole_binary(op: BinaryOp, a: i128, b: i128) -> i128 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => {
            if b == 0 {
                0
            } else {
                a.wrapping_div(b)
            }
        }
        BinaryOp::Pow => whole_power(a, b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Min => a.min(b),
        BinaryOp::Remainder => {
            if b == 0 {
                0
            } else {
                a.wrapping_rem(b).wrapping_add(b).wrapping_rem(b)
            }
        }
        BinaryOp::And => i128::from(a != 0 && b != 0),
        BinaryOp::Or => i128::from(a != 0 || b != 0),
        BinaryOp::Xor => i128::from((a != 0) != (b != 0)),
        BinaryOp::Atan2 => 0,
    }
}

fn whole_power(base: i128, exponent: i128) -> i128 {
    match (base, exponent) {
        (1, _) => 1,
        (-1, exponent) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (_, exponent) if exponent < 0 => 0,
        (base, exponent) => {
            let (mut result, mut square, mut rest) = (1i128, base, exponent);
            while rest > 0 {
                if rest & 1 == 1 {
                    result = result.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                rest >>= 1;
            }
            result
        }
    }
}

fn compared(op: CompareOp, a: &Values, b: &Values) -> Values {
    fn holds<T: PartialOrd>(op: CompareOp, a: T, b: T) -> i128 {
        i128::from(match op {
            CompareOp::Eq => a == b,
            CompareOp::Ne => a != b,
            CompareOp::Lt => a < b,
            CompareOp::Le => a <= b,
            CompareOp::Gt => a > b,
            CompareOp::Ge => a >= b,
        })
    }
    Whole(match (a, b) {
        (Real(a), Real(b)) => a.iter().zip(b).map(|(&a, &b)| holds(op, a, b)).collect(),
        _ => a.whole().into_iter().zip(b.whole()).map(|(a, b)| holds(op, a, b)).collect(),
    })
}

fn selected(condition: &Values, a: &Values, b: &Values) -> Values {
    let condition = condition.whole();
    match (a, b) {
        (Real(a), Real(b)) => {
            Real((0..a.len()).map(|i| if condition[i] != 0 { a[i] } else { b[i] }).collect())
        }
        _ => {
            let (a, b) = (a.whole(), b.whole());
            Whole((0..a.len()).map(|i| if condition[i] != 0 { a[i] } else { b[i] }).collect())
        }
    }
}

/// Returns, for each element of the reduced tensor, the row-major positions of the input elements
/// that it combines, in ascending order.
fn groups(reduce: &Reduce, shape: &Shape) -> Vec<Vec<usize>> {
    let kept = reduce.axes.keep(shape);
    let mut groups = vec![Vec::new(); kept.elements()];
    let strides = kept.row_major_strides();
    for position in 0..shape.elements() {
        let (mut rest, mut group) = (position, 0);
        for axis in (0..shape.rank()).rev() {
            let index = rest % shape.dim(axis);
            rest /= shape.dim(axis);
            if !reduce.axes.contains(axis) {
                group += index * strides[axis] as usize;
            }
        }
        groups[group].push(position);
    }
    groups
}

fn reduced(reduce: &Reduce, x: &Values, shape: &Shape) -> Values {
    let groups = groups(reduce, shape);
    match (reduce.op, x) {
        (ReduceOp::ArgMax | ReduceOp::ArgMin, x) => {
            Whole(groups.iter().map(|group| winner(reduce.op, x, group) as i128).collect())
        }
        (op, Real(x)) => {
            Real(groups.iter().map(|group| real_reduced(op, group.iter().map(|&at| x[at]))).collect())
        }
        (op, Whole(x)) => {
            Whole(groups.iter().map(|group| whole_reduced(op, group.iter().map(|&at| x[at]))).collect())
        }
    }
}

fn real_reduced(op: ReduceOp, values: impl Iterator<Item = f64>) -> f64 {
    match op {
        ReduceOp::Sum => values.sum(),
        ReduceOp::Prod => values.product(),
        ReduceOp::Max => values.fold(f64::NEG_INFINITY, |a, b| real_binary(BinaryOp::Max, a, b)),
        _ => values.fold(f64::INFINITY, |a, b| real_binary(BinaryOp::Min, a, b)),
    }
}

fn whole_reduced(op: ReduceOp, values: impl Iterator<Item = i128>) -> i128 {
    match op {
        ReduceOp::Sum => values.fold(0, i128::wrapping_add),
        ReduceOp::Prod => values.fold(1, i128::wrapping_mul),
        // Without elements, `any` (max of bools) is false and `all` (min) is true. Core rejects
        // max and min of integers without elements.
        ReduceOp::Max => values.max().unwrap_or(0),
        _ => values.min().unwrap_or(1),
    }
}

/// Returns the index in `group` of the first maximum (`ArgMax`) or minimum (`ArgMin`). If there are
/// NaNs, it is the index of the first NaN.
fn winner(op: ReduceOp, x: &Values, group: &[usize]) -> usize {
    let mut best = 0;
    for (place, &at) in group.iter().enumerate().skip(1) {
        let better = match (x.at(at), x.at(group[best])) {
            (Scalar::Float(new), Scalar::Float(old)) if new.is_nan() || old.is_nan() => {
                new.is_nan() && !old.is_nan()
            }
            (Scalar::Float(new), Scalar::Float(old)) => {
                if op == ReduceOp::ArgMax {
                    new > old
                } else {
                    new < old
                }
            }
            (new, old) => {
                if op == ReduceOp::ArgMax {
                    new.as_i128() > old.as_i128()
                } else {
                    new.as_i128() < old.as_i128()
                }
            }
        };
        if better {
            best = place;
        }
    }
    best
}

/// Returns, for each line along `axis`, the row-major positions of its elements in ascending order.
fn lines(shape: &Shape, axis: usize) -> Vec<Vec<usize>> {
    let reduce = Reduce { op: ReduceOp::Sum, axes: ternion_core::AxisSet::one(axis), keep: true };
    groups(&reduce, shape)
}

fn running_sum(x: &Values, shape: &Shape, axis: usize) -> Values {
    let mut result = x.clone();
    for line in lines(shape, axis) {
        for step in line.windows(2) {
            match &mut result {
                Real(values) => values[step[1]] += values[step[0]],
                Whole(values) => values[step[1]] = values[step[1]].wrapping_add(values[step[0]]),
            }
        }
    }
    result
}

fn product(a: &Values, b: &Values, a_shape: &Shape, b_shape: &Shape) -> Values {
    let rank = a_shape.rank();
    let (m, k, n) = (a_shape.dim(rank - 2), a_shape.dim(rank - 1), b_shape.dim(rank - 1));
    let batch: usize = a_shape.dims()[..rank - 2].iter().product();
    let terms = |index: usize| {
        let (matrix, row, column) = (index / (m * n), index / n % m, index % n);
        (0..k).map(move |inner| (matrix * m * k + row * k + inner, matrix * k * n + inner * n + column))
    };
    match (a, b) {
        (Real(a), Real(b)) => {
            Real((0..batch * m * n).map(|index| terms(index).map(|(i, j)| a[i] * b[j]).sum()).collect())
        }
        _ => {
            let (a, b) = (a.whole(), b.whole());
            let sum =
                |index| terms(index).fold(0i128, |sum, (i, j)| sum.wrapping_add(a[i].wrapping_mul(b[j])));
            Whole((0..batch * m * n).map(sum).collect())
        }
    }
}

/// Returns, for each element of an index tensor of shape `to`, the row-major position of the
/// element that it selects along `axis` in a tensor of shape `from`.
fn along(op: &'static str, from: &Shape, to: &Shape, axis: usize, index: &Values) -> Result<Vec<usize>> {
    let strides = from.row_major_strides();
    let size = from.dim(axis);
    index
        .whole()
        .into_iter()
        .enumerate()
        .map(|(position, chosen)| {
            let chosen = usize::try_from(chosen)
                .ok()
                .filter(|&chosen| chosen < size)
                .ok_or(Error::IndexOutOfRange { op, index: chosen as i64, size })?;
            let (mut rest, mut target) = (position, chosen * strides[axis] as usize);
            for other in (0..to.rank()).rev() {
                if other != axis {
                    target += rest % to.dim(other) * strides[other] as usize;
                }
                rest /= to.dim(other);
            }
            Ok(target)
        })
        .collect()
}

fn scattered(base: &Values, source: &Values, positions: &[usize], mode: ScatterMode) -> Values {
    let mut result = base.clone();
    for (from, &to) in positions.iter().enumerate() {
        match (&mut result, source.at(from), mode) {
            (Real(values), value, ScatterMode::Set) => values[to] = value.as_f64(),
            (Real(values), value, ScatterMode::Add) => values[to] += value.as_f64(),
            (Whole(values), value, ScatterMode::Set) => values[to] = value.as_i128(),
            (Whole(values), value, ScatterMode::Add) => values[to] = values[to].wrapping_add(value.as_i128()),
        }
    }
    result
}

fn sorted(x: &Values, shape: &Shape, axis: usize, descending: bool) -> Vec<Values> {
    let mut sources = vec![0; shape.elements()];
    let mut places = vec![0; shape.elements()];
    for line in lines(shape, axis) {
        let mut order: Vec<usize> = (0..line.len()).collect();
        order.sort_by(|&left, &right| {
            let ordering = match (x.at(line[left]), x.at(line[right])) {
                // NaN is greater than all numbers and equal to itself; -0.0 and 0.0 are equal.
                (Scalar::Float(l), Scalar::Float(r)) => {
                    l.partial_cmp(&r).unwrap_or_else(|| l.is_nan().cmp(&r.is_nan()))
                }
                (l, r) => l.as_i128().cmp(&r.as_i128()),
            };
            if descending { ordering.reverse() } else { ordering }
        });
        for (at, from) in order.into_iter().enumerate() {
            sources[line[at]] = line[from];
            places[line[at]] = from as i128;
        }
    }
    vec![x.pick(&sources), Whole(places)]
}

fn random_bits(state: &Values, offset: u64, bits: u8, count: usize) -> Values {
    let state = state.whole();
    let first = (state[1] as u64).wrapping_add(offset);
    let word = |index: usize| ternion_core::philox::word(state[0] as u64, first, index as u64);
    Whole((0..count).map(|index| i128::from(word(index) >> (32 - u32::from(bits)))).collect())
}
