//! Memory-bound ops. Bytes are counted as in the PyTorch script: each input is read once and each
//! output written once.

use crate::Case;
use crate::clock::{Clock, emit};
use crate::device::Kind;
use std::rc::Rc;
use ternion::nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion::{DType, GradOptions, Result, Tensor, grad, no_grad};

const ROWS: usize = 8192;
const COLUMNS: usize = 4096;
const ELEMENTS: usize = ROWS * COLUMNS;

/// The call that is timed, created with random inputs.
type Call = Box<dyn FnMut() -> Result<()>>;

/// Returns every case.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![copy()];
    for dtype in [DType::F32, DType::BF16] {
        cases.extend(elementwise(dtype));
        cases.extend(reductions(dtype));
        cases.extend(rows(dtype));
    }
    cases.extend([cross_entropy(), embedding(), adamw(), total_norm()]);
    cases
}

/// Returns a case that moves `bytes` bytes, and times a plain copy of as many bytes for comparison:
/// the costs of a launch and of cold memory are the same for both.
fn moving(name: String, bytes: usize, make: impl Fn(&Clock) -> Result<Call> + 'static) -> Case {
    Case::new(name, move |clock, name| {
        let rate = |milliseconds: f64| bytes as f64 / milliseconds / 1e6;
        let milliseconds = clock.median(make(clock)?)?;
        emit(name, clock.implementation(), milliseconds, rate(milliseconds), "GB/s");
        if clock.is_once() {
            return Ok(());
        }
        let milliseconds = fastest(&copying(clock, bytes / 2)?);
        emit(name, clock.kind.copy(), milliseconds, rate(milliseconds), "GB/s");
        Ok(())
    })
}

/// Returns the median milliseconds of a device-to-device copy for each way in which the device can
/// copy. The bytes that are read and written are `bytes` together.
fn copying(clock: &Clock, bytes: usize) -> Result<Vec<(&'static str, f64)>> {
    let [from, to] = [clock.device.backend().alloc(bytes)?, clock.device.backend().alloc(bytes)?];
    let plain = clock.median(|| clock.timed.copy_bytes(&from, &to, bytes))?;
    if clock.kind == Kind::Cuda {
        return Ok(vec![("driver", plain)]);
    }
    drop((from, to));
    // The speed of a copy command depends on the driver: the shader that copies may be faster.
    let shape = [bytes / 4];
    let [from, to] =
        [Tensor::zeros(shape, DType::F32, &clock.device)?, Tensor::zeros(shape, DType::F32, &clock.device)?];
    let shader = clock.median(|| no_grad(|| to.copy_(&from).map(drop)))?;
    Ok(vec![("command", plain), ("shader", shader)])
}

fn fastest(copy_times: &[(&'static str, f64)]) -> f64 {
    copy_times.iter().map(|(_, milliseconds)| *milliseconds).fold(f64::INFINITY, f64::min)
}

/// A device-to-device copy, with which the other cases are compared.
fn copy() -> Case {
    Case::new("copy/d2d", |clock, name| {
        let bytes = ELEMENTS * 4;
        let rate = |milliseconds: f64| 2.0 * bytes as f64 / milliseconds / 1e6;
        let copy_times = copying(clock, bytes)?;
        let milliseconds = fastest(&copy_times);
        emit(name, clock.implementation(), milliseconds, rate(milliseconds), "GB/s");
        if copy_times.len() > 1 {
            for (way, milliseconds) in copy_times {
                let kind = format!("{}/{way}", clock.implementation());
                emit(name, &kind, milliseconds, rate(milliseconds), "GB/s");
            }
        }
        Ok(())
    })
}

fn one(clock: &Clock, dtype: DType, f: impl Fn(&Tensor) -> Result<Tensor> + 'static) -> Result<Call> {
    let x = clock.randn(&[ROWS, COLUMNS], dtype)?;
    Ok(Box::new(move || no_grad(|| f(&x).map(drop))))
}

fn several<const N: usize>(
    clock: &Clock,
    dtype: DType,
    f: impl Fn([&Tensor; N]) -> Result<Tensor> + 'static,
) -> Result<Call> {
    let x = (0..N).map(|_| clock.randn(&[ROWS, COLUMNS], dtype)).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(move || no_grad(|| f(std::array::from_fn(|index| &x[index])).map(drop))))
}

fn elementwise(dtype: DType) -> Vec<Case> {
    let bytes = ELEMENTS * dtype.size();
    let name = |op: &str| format!("elementwise/{op}/{dtype}");
    vec![
        moving(name("add"), 3 * bytes, move |clock| several(clock, dtype, |[a, b]| a.add(b))),
        moving(name("gelu"), 2 * bytes, move |clock| one(clock, dtype, Tensor::gelu_tanh)),
        moving(name("add_relu"), 3 * bytes, move |clock| several(clock, dtype, |[a, b]| a.add_relu(b))),
        moving(name("multiply_add"), 4 * bytes, move |clock| {
            several(clock, dtype, |[a, b, c]| a.multiply_add(b, c))
        }),
        moving(name("scale_add"), 3 * bytes, move |clock| {
            several(clock, dtype, |[a, b]| a.scale_add(2.5, b))
        }),
        moving(name("bias_relu"), 2 * bytes, move |clock| {
            let (x, bias) = (clock.randn(&[ROWS, COLUMNS], dtype)?, clock.randn(&[COLUMNS], dtype)?);
            Ok(Box::new(move || no_grad(|| x.bias_activation(&bias, ternion::UnaryOp::Relu).map(drop))))
        }),
        moving(format!("layout/transpose/{dtype}"), 2 * bytes, move |clock| {
            one(clock, dtype, |x| x.t()?.contiguous())
        }),
    ]
}

fn reductions(dtype: DType) -> Vec<Case> {
    let bytes = ELEMENTS * dtype.size();
    let name = |op: &str| format!("reduce/{op}/{dtype}");
    vec![
        moving(name("sum_all"), bytes, move |clock| one(clock, dtype, |x| x.sum(..))),
        moving(name("sum_last"), bytes, move |clock| one(clock, dtype, |x| x.sum(-1))),
        moving(name("sum_first"), bytes, move |clock| one(clock, dtype, |x| x.sum(0))),
        moving(name("max_last"), bytes, move |clock| one(clock, dtype, |x| x.max(-1))),
        moving(name("sum_squares_all"), bytes, move |clock| one(clock, dtype, |x| x.sum_squares(..))),
        moving(name("max_abs_all"), bytes, move |clock| one(clock, dtype, |x| x.max_abs(..))),
    ]
}

fn retained() -> GradOptions {
    GradOptions { retain_graph: true, ..GradOptions::default() }
}

/// Returns a call of the gradients of a function of `inputs`, with a random output gradient.
fn backward(clock: &Clock, inputs: Vec<Tensor>, f: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<Call> {
    let y = f(&inputs)?;
    let dy = Tensor::randn(*y.shape(), y.dtype(), &clock.device)?;
    Ok(Box::new(move || grad(&[y.clone()], &inputs, &[dy.clone()], retained()).map(drop)))
}

fn rows(dtype: DType) -> Vec<Case> {
    let bytes = ELEMENTS * dtype.size();
    let leaf = move |clock: &Clock, shape: &[usize]| clock.randn(shape, dtype)?.requires_grad();
    let norm_inputs = move |clock: &Clock| -> Result<Vec<Tensor>> {
        Ok(vec![leaf(clock, &[ROWS, COLUMNS])?, leaf(clock, &[COLUMNS])?, leaf(clock, &[COLUMNS])?])
    };
    vec![
        moving(format!("softmax/fwd/{dtype}"), 2 * bytes, move |clock| one(clock, dtype, |x| x.softmax(-1))),
        moving(format!("softmax/bwd/{dtype}"), 3 * bytes, move |clock| {
            backward(clock, vec![leaf(clock, &[ROWS, COLUMNS])?], |x| x[0].softmax(-1))
        }),
        moving(format!("layernorm/fwd/{dtype}"), 2 * bytes, move |clock| {
            let x = norm_inputs(clock)?;
            Ok(Box::new(move || no_grad(|| x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5).map(drop))))
        }),
        moving(format!("layernorm/bwd/{dtype}"), 3 * bytes, move |clock| {
            backward(clock, norm_inputs(clock)?, |x| x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5))
        }),
    ]
}

fn cross_entropy() -> Case {
    let (rows, classes) = (8192, 50257);
    moving("cross_entropy/fwd_bwd/bf16/8192x50257".into(), 2 * rows * classes * 2, move |clock| {
        let x = clock.randn(&[rows, classes], DType::BF16)?.requires_grad()?;
        let targets = Tensor::randint(0, classes as i64, [rows], DType::I64, &clock.device)?;
        Ok(Box::new(move || {
            let loss = x.cross_entropy(&targets)?;
            grad(&[loss.clone()], &[x.clone()], &[loss.ones_like()?], GradOptions::default()).map(drop)
        }))
    })
}

fn embedding() -> Case {
    let (rows, width, tokens) = (50257, 768, 16384);
    let bytes = (2 * tokens * width + rows * width) * 4;
    moving("embedding/bwd/f32/16384x768".into(), bytes, move |clock| {
        let table = clock.randn(&[rows, width], DType::F32)?.requires_grad()?;
        let tokens = Tensor::randint(0, rows as i64, [16, 1024], DType::I64, &clock.device)?;
        backward(clock, vec![table], move |x| x[0].embedding(&tokens))
    })
}

/// 124 parameters of a million elements: parameter, gradient and two moments are read, all but the
/// gradient are written.
fn adamw() -> Case {
    let (count, elements) = (124, 1 << 20);
    moving("adamw/f32/124x1M".into(), count * elements * 4 * 7, move |clock| {
        let parameters = (0..count)
            .map(|_| ternion::nn::Param::new(&clock.randn(&[1024, 1024], DType::F32)?))
            .collect::<Result<Vec<_>>>()?;
        let mut loss = Tensor::zeros((), DType::F32, &clock.device)?;
        for parameter in &parameters {
            let weights = clock.randn(&[1024, 1024], DType::F32)?;
            loss = loss.add(&parameter.tensor().mul(&weights)?.sum(..)?)?;
        }
        let gradients = Rc::new(loss.backward()?);
        let mut optimizer = AdamW::new(parameters, AdamWConfig { lr: 1e-4, ..Default::default() })?;
        Ok(Box::new(move || optimizer.step(&gradients)))
    })
}

/// The total norm of 124 gradients of a million elements, as gradient clipping computes it: each
/// element is read once.
fn total_norm() -> Case {
    let (count, elements) = (124, 1 << 20);
    moving("total_norm/f32/124x1M".into(), count * elements * 4, move |clock| {
        let gradients =
            (0..count).map(|_| clock.randn(&[1024, 1024], DType::F32)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(move || ternion::total_norm(&gradients.iter().collect::<Vec<_>>()).map(drop)))
    })
}
