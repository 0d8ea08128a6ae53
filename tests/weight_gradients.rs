//! The gradient of a weight is stored in the axis order of the weight, on every device, so that
//! optimizer steps and gradient norms read both contiguously.

#[path = "support/cuda.rs"]
#[allow(dead_code)] // no test here needs exclusive use of the device
mod support;

use std::sync::RwLockReadGuard;
use ternion::decorators::Counting;
use ternion::nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion::nn::{Forward, Linear, Module};
use ternion::{DType, Device, GradOptions, Precision, Result, Tensor, grad, with_precision};
use ternion_testing::suite;

/// Returns the devices of this machine.
fn devices() -> (RwLockReadGuard<'static, ()>, Vec<Device>) {
    let guard = support::lock_shared();
    let mut devices = vec![ternion_cpu::device()];
    devices.extend(support::cuda());
    if suite::expects("wgpu") {
        devices.push(ternion_wgpu::device(0).expect("TERNION_EXPECT asks for an adapter"));
    }
    (guard, devices)
}

/// Returns multiples of 1/8 between -2 and 2, which half precision represents: their products and
/// the sums of a few are exact.
fn numbers(shape: &[usize], seed: usize, device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|at| ((at * 37 + seed) % 33) as f32 / 8.0 - 2.0).collect();
    Tensor::from_vec(values, shape, device)
}

fn maybe_in<T>(precision: Option<Precision>, f: impl FnOnce() -> T) -> T {
    match precision {
        Some(precision) => with_precision(precision, f),
        None => f(),
    }
}

const PRECISIONS: [Option<Precision>; 4] =
    [None, Some(Precision::Tf32), Some(Precision::Bf16), Some(Precision::F16)];

/// `dw[j, k] = sum over i of dy[i, j] x[i, k]`.
fn expected(dy: &Tensor, x: &Tensor) -> Result<Vec<f32>> {
    let ([outputs, inputs], rows) =
        ([dy, x].map(|t| t.dims()[t.rank() - 1]), x.elements() / x.dims()[x.rank() - 1]);
    let (dy, x) = (dy.to_vec::<f32>()?, x.to_vec::<f32>()?);
    let sum = |j, k| (0..rows).map(|i| dy[i * outputs + j] * x[i * inputs + k]).sum();
    Ok((0..outputs * inputs).map(|at| sum(at / inputs, at % inputs)).collect())
}

#[test]
fn the_gradient_of_a_linear_layer_is_stored_as_its_weight() -> Result<()> {
    let (_shared, devices) = devices();
    for device in &devices {
        for (leading, outputs, inputs) in
            [(&[6][..], 5, 7), (&[2, 3], 5, 7), (&[6], 1, 7), (&[6], 5, 1), (&[1], 1, 1), (&[40], 72, 136)]
        {
            for precision in PRECISIONS {
                let x = numbers(&[leading, &[inputs]].concat(), 5, device)?;
                let dy = numbers(&[leading, &[outputs]].concat(), 11, device)?;
                let weight = numbers(&[outputs, inputs], 3, device)?.requires_grad()?;
                let y = maybe_in(precision, || x.linear(&weight, None))?;
                let found = grad(
                    std::slice::from_ref(&y),
                    std::slice::from_ref(&weight),
                    &[dy.to_dtype(y.dtype())?],
                    GradOptions::default(),
                )?;
                let found = found[0].as_ref().expect("a gradient");
                let what = format!("{outputs} of {inputs} by {leading:?} in {precision:?} on {device}");
                assert_eq!(found.dtype(), DType::F32, "{what}");
                assert_eq!(found.layout().strides(), weight.layout().strides(), "{what}");
                assert_eq!(found.to_vec::<f32>()?, expected(&dy, &x)?, "{what}");
            }
        }
    }
    Ok(())
}

/// The gradient of a bias is the sum of the rows of dy, in the bias's dtype f32 even if dy is half
/// precision, whether or not it is fused with the gradient of the weight.
#[test]
fn the_gradient_of_a_bias_is_the_sum_over_rows_in_its_dtype() -> Result<()> {
    let (_shared, devices) = devices();
    for device in &devices {
        for (leading, outputs, inputs) in [
            (&[6][..], 5, 7),
            (&[2, 3], 5, 7),
            (&[6], 1, 7),
            (&[1], 1, 1),
            (&[40], 72, 136),
            (&[700], 136, 264),
        ] {
            for precision in PRECISIONS {
                let x = numbers(&[leading, &[inputs]].concat(), 5, device)?;
                let dy = numbers(&[leading, &[outputs]].concat(), 11, device)?;
                let weight = numbers(&[outputs, inputs], 3, device)?.requires_grad()?;
                let bias = numbers(&[outputs], 7, device)?.requires_grad()?;
                let y = maybe_in(precision, || x.linear(&weight, Some(&bias)))?;
                let dy = dy.to_dtype(y.dtype())?;
                let gradients = |leaves: &[Tensor]| {
                    let options = GradOptions { retain_graph: true, ..Default::default() };
                    grad(std::slice::from_ref(&y), leaves, std::slice::from_ref(&dy), options)
                };
                let both = gradients(&[weight.clone(), bias.clone()])?;
                let only_bias = gradients(std::slice::from_ref(&bias))?;
                let rows = dy.to_dtype(DType::F32)?.reshape([dy.elements() / outputs, outputs])?;
                let expected = rows.to_device(&ternion_cpu::device())?.sum(0)?.to_vec::<f32>()?;
                let what = format!("{outputs} of {inputs} by {leading:?} in {precision:?} on {device}");
                for found in [&both[1], &only_bias[0]] {
                    let found = found.as_ref().expect("a gradient");
                    assert_eq!(
                        (found.dtype(), found.to_vec::<f32>()?),
                        (DType::F32, expected.clone()),
                        "{what}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// Returns first- and second-order gradients of `sum((a b)^2 c)` with respect to a and b.
fn gradients(a: &Tensor, b: &Tensor, c: &Tensor, product: Product) -> Result<Vec<Tensor>> {
    let inputs = [a.clone(), b.clone()];
    let value = |y: &Tensor| y.square()?.mul(c)?.sum(..);
    let ones = |of: &Tensor| Tensor::ones(*of.shape(), of.dtype(), of.device());
    let y = value(&product(a, b)?)?;
    let options = GradOptions { create_graph: true, ..Default::default() };
    let first: Vec<Tensor> = grad(std::slice::from_ref(&y), &inputs, &[ones(&y)?], options)?
        .into_iter()
        .map(|found| found.expect("a gradient"))
        .collect();
    let again = first[0].square()?.sum(..)?.add(&first[1].square()?.sum(..)?)?;
    let second = grad(std::slice::from_ref(&again), &inputs, &[ones(&again)?], GradOptions::default())?;
    Ok(first.into_iter().chain(second.into_iter().map(|found| found.expect("a gradient"))).collect())
}

type Product = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn transposed(tensor: &Tensor) -> Result<Tensor> {
    tensor.transpose(-1, -2)
}

/// The stored shapes of both operands, the product, and the same product of row-major copies.
const STORED_BY_COLUMNS: [(&[usize], &[usize], Product, Product); 5] = [
    (&[5, 7], &[4, 7], |a, b| a.matmul(&transposed(b)?), |a, b| a.matmul(&transposed(b)?.contiguous()?)),
    (&[7, 5], &[7, 4], |a, b| transposed(a)?.matmul(b), |a, b| transposed(a)?.contiguous()?.matmul(b)),
    (
        &[7, 5],
        &[4, 7],
        |a, b| transposed(a)?.matmul(&transposed(b)?),
        |a, b| transposed(a)?.contiguous()?.matmul(&transposed(b)?.contiguous()?),
    ),
    (
        &[3, 5, 7],
        &[3, 4, 7],
        |a, b| a.matmul(&transposed(b)?),
        |a, b| a.matmul(&transposed(b)?.contiguous()?),
    ),
    (
        &[2, 3, 7, 5],
        &[2, 3, 4, 7],
        |a, b| transposed(a)?.matmul(&transposed(b)?),
        |a, b| transposed(a)?.contiguous()?.matmul(&transposed(b)?.contiguous()?),
    ),
];

#[test]
fn column_major_operands_get_column_major_gradients() -> Result<()> {
    let (_shared, devices) = devices();
    for device in &devices {
        for (a_shape, b_shape, product, by_rows) in STORED_BY_COLUMNS {
            let a = numbers(a_shape, 5, device)?.requires_grad()?;
            let b = numbers(b_shape, 3, device)?.requires_grad()?;
            let c = numbers(product(&a, &b)?.dims(), 11, device)?;
            let found = gradients(&a, &b, &c, product)?;
            let reference = gradients(&a, &b, &c, by_rows)?;
            let what = format!("{a_shape:?} {b_shape:?} on {device}");
            for (found, operand) in found[..2].iter().zip([&a, &b]) {
                assert_eq!(found.layout().strides(), operand.layout().strides(), "{what}");
            }
            for (found, reference) in found.iter().zip(&reference) {
                let (found, reference) = (found.to_vec::<f32>()?, reference.to_vec::<f32>()?);
                let largest = reference.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
                let differ = |(x, y): (&f32, &f32)| (x - y).abs() > 1e-5 * largest;
                assert!(!found.iter().zip(&reference).any(differ), "{what}: {found:?} {reference:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_step_of_linear_layers_is_one_launch() -> Result<()> {
    let (_shared, devices) = devices();
    for device in devices {
        let (device, counter) = Counting::new(device);
        let layers = [Linear::new(7, 12, &device)?, Linear::new(12, 1, &device)?];
        let parameters: Vec<_> = layers.iter().flat_map(Module::parameters).collect();
        let mut adam = AdamW::new(parameters.clone(), AdamWConfig::default())?;
        let x = numbers(&[6, 7], 5, &device)?;
        for step in 0..2 {
            let loss = with_precision(Precision::Bf16, || {
                layers[1].forward(&layers[0].forward(&x)?.relu()?)?.square()?.mean(..)
            })?;
            let gradients = loss.backward()?;
            for parameter in &parameters {
                let found = gradients.get(&parameter.tensor()).expect("a gradient");
                assert_eq!(found.layout().strides(), parameter.tensor().layout().strides(), "{device}");
            }
            counter.reset();
            adam.step(&gradients)?;
            let counts = counter.counts();
            // The first step creates the states.
            if step == 1 {
                let ran: Vec<_> = counts.ops.iter().map(|(name, of)| (*name, of.launches)).collect();
                assert_eq!((ran, counts.allocations), (vec![("adam_step", 1)], 0), "{device}");
            }
        }
    }
    Ok(())
}
