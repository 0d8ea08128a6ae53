//! Losses whose gradient is formed before it is known which one is wanted.

use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyWithGrad};
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{
    CrossEntropyOptions, Error, GradOptions, LinearCrossEntropyOptions, Precision, grad, observe_ops,
    with_precision,
};

/// Cross-entropy that forms its gradient beforehand gives what cross-entropy gives, whatever gradient its loss gets, and however often it is asked.
#[test]
fn a_gradient_formed_beforehand_is_right_when_it_was_not_foreseen() -> Result<()> {
    let device = ternion::cpu()?;
    device.seed(4);
    let logits = Tensor::randn([5, 7], DType::F64, &device)?;
    let target = Tensor::from_slice(&[0i64, 6, -100, 3, 3], [5], &device)?;
    let foreseen = Tensor::full([5], 0.25, DType::F64, &device)?;
    let (ignore_index, label_smoothing) = (-100, 0.1);
    let losses = |x: &Tensor, beforehand: bool| {
        let mut outputs = match beforehand {
            true => apply(CrossEntropyWithGrad { ignore_index, label_smoothing }, &[x, &target, &foreseen])?,
            false => apply(CrossEntropy { ignore_index, label_smoothing }, &[x, &target])?,
        };
        Ok::<_, Error>(outputs.swap_remove(0))
    };
    let found = |beforehand: bool| -> Result<Vec<Vec<f64>>> {
        let x = logits.requires_grad()?;
        let losses = losses(&x, beforehand)?;
        let gradient = |scale: [f64; 5], create_graph: bool| {
            let seed = Tensor::from_slice(&scale, [5], &device)?;
            let options = GradOptions { retain_graph: true, create_graph, ..Default::default() };
            Ok::<_, Error>(
                grad(&[losses.clone()], &[x.clone()], &[seed], options)?.swap_remove(0).expect("a gradient"),
            )
        };
        let mut all = Vec::new();
        // As foreseen in all rows but one, which another walk then finds given away; then as in no row; then one with a graph of its own.
        for scale in [[0.25, 0.25, 0.25, 2.0, 0.25], [0.25; 5], [1.0, 2.0, 3.0, 4.0, 5.0]] {
            all.push(gradient(scale, false)?.to_vec::<f64>()?);
        }
        let slope = gradient([0.25; 5], true)?;
        let curvature = slope.square()?.sum_all()?.backward()?;
        all.push(slope.to_vec::<f64>()?);
        all.push(curvature.get(&x).expect("a second gradient").to_vec::<f64>()?);
        Ok(all)
    };
    for (at, (formed, plain)) in found(true)?.iter().zip(&found(false)?).enumerate() {
        for (formed, plain) in formed.iter().zip(plain) {
            assert!((formed - plain).abs() <= 1e-14, "gradient {at}: {formed} instead of {plain}");
        }
    }
    Ok(())
}

/// x, weight and bias of a layer that ask for their gradients, and classes.
fn layer(dtype: DType, device: &Device) -> Result<([Tensor; 3], Tensor)> {
    device.seed(11);
    let normal = |shape: &[usize]| Tensor::randn(shape, dtype, device)?.requires_grad();
    let target = Tensor::from_slice(&[0i64, 6, -100, 3, 3, 1, 5], [7], device)?;
    Ok(([normal(&[7, 5])?, normal(&[9, 5])?, normal(&[9])?], target))
}

fn chunked([x, weight, bias]: &[Tensor; 3], target: &Tensor, rows: usize) -> Result<Tensor> {
    let loss = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
    let options = LinearCrossEntropyOptions { loss, chunk_rows: Some(rows) };
    x.linear_cross_entropy(LinearParameters { weight, bias: Some(bias) }, target, options)
}

fn whole([x, weight, bias]: &[Tensor; 3], target: &Tensor) -> Result<Tensor> {
    let options = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
    x.linear(weight, Some(bias))?.cross_entropy_with(target, options)
}

fn assert_close(found: &Tensor, expected: &Tensor, limit: f64, what: &str) -> Result<()> {
    assert_eq!(
        (found.shape(), found.dtype(), found.dims()),
        (expected.shape(), expected.dtype(), expected.dims())
    );
    for (found, expected) in found.to_vec_f64()?.into_iter().zip(expected.to_vec_f64()?) {
        assert!(
            (found - expected).abs() <= limit * (1.0 + expected.abs()),
            "{what}: {found}, not {expected}"
        );
    }
    Ok(())
}

/// Whatever gradient the loss gets, and however often it is asked; also gradients of gradients.
#[test]
fn a_loss_in_chunks_is_the_loss_of_all_scores() -> Result<()> {
    let device = ternion::cpu()?;
    let (inputs, target) = layer(DType::F64, &device)?;
    let gradients = |loss: &Tensor, seed: f64, create_graph: bool| -> Result<Vec<Tensor>> {
        let seed = Tensor::full((), seed, DType::F64, &device)?;
        let options = GradOptions { retain_graph: true, create_graph, ..Default::default() };
        let found = grad(&[loss.clone()], &inputs, &[seed], options)?;
        Ok(found.into_iter().map(|gradient| gradient.expect("a gradient")).collect())
    };
    let expected = whole(&inputs, &target)?;
    for rows in [1, 3, 7, 100] {
        let loss = chunked(&inputs, &target, rows)?;
        assert_close(&loss, &expected, 1e-14, "loss")?;
        for (walk, seed) in [1.0, 0.3, -2.0].into_iter().enumerate() {
            let pairs = gradients(&loss, seed, false)?.into_iter().zip(gradients(&expected, seed, false)?);
            for (index, (found, expected)) in pairs.enumerate() {
                assert_close(&found, &expected, 1e-14, &format!("{rows} rows, walk {walk}, input {index}"))?;
            }
        }
        let second = |loss: &Tensor| -> Result<Vec<Tensor>> {
            let squares =
                gradients(loss, 1.0, true)?.iter().try_fold(None, |sum: Option<Tensor>, gradient| {
                    let square = gradient.square()?.sum_all()?;
                    Ok::<_, Error>(Some(if let Some(sum) = sum { sum.add(&square)? } else { square }))
                })?;
            gradients(&squares.expect("three gradients"), 1.0, false)
        };
        for (found, expected) in second(&loss)?.iter().zip(&second(&expected)?) {
            assert_close(found, expected, 1e-13, "second gradient")?;
        }
    }
    Ok(())
}

/// The loss is NaN, as 0/0 says; gradients are zeros, as those of the scores are.
#[test]
fn no_row_that_counts_gives_no_gradient() -> Result<()> {
    let device = ternion::cpu()?;
    let ([x, weight, bias], target) = layer(DType::F32, &device)?;
    let ignored = target.detach();
    ignored.fill_(-100)?;
    let empty = x.detach().narrow(0, 0, 0)?.requires_grad()?;
    for (x, target) in [(x, ignored), (empty, target.narrow(0, 0, 0)?)] {
        let inputs = [x, weight.clone(), bias.clone()];
        let (found, expected) = (chunked(&inputs, &target, 2)?, whole(&inputs, &target)?);
        assert!(found.item::<f32>()?.is_nan() && expected.item::<f32>()?.is_nan());
        let (found, expected) = (found.backward()?, expected.backward()?);
        for input in &inputs {
            let [found, expected] = [&found, &expected].map(|of| of.get(input).expect("a gradient"));
            assert_close(found, expected, 0.0, "gradient")?;
        }
    }
    Ok(())
}

/// The most elements of a tensor that an op gave.
fn largest<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    let largest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = largest.clone();
    let note = move |call: &ternion_core::OpCall<'_>| {
        let elements = call.outputs.iter().map(Tensor::elements).max();
        seen.set(elements.unwrap_or(0).max(seen.get()));
        Ok(())
    };
    let found = observe_ops(note, f)?;
    Ok((found, largest.get()))
}

#[test]
fn no_more_scores_are_there_than_those_of_a_chunk() -> Result<()> {
    let device = ternion::cpu()?;
    let ([x, weight, bias], _) = layer(DType::F32, &device)?;
    let x = x.detach().repeat(&[8, 1])?.requires_grad()?;
    let target = Tensor::zeros([56], DType::I64, &device)?;
    let inputs = [x, weight, bias];
    let (_, scores) = largest(|| chunked(&inputs, &target, 4)?.backward())?;
    // The gradient of x is the largest tensor.
    assert_eq!(scores, 56 * 5);
    let (_, scores) = largest(|| whole(&inputs, &target)?.backward())?;
    assert_eq!(scores, 56 * 9);
    Ok(())
}

/// Gradients of f32 parameters are not rounded to half precision on their way, and small ones do not vanish in f16, with and without a loss scale.
#[test]
fn a_loss_in_chunks_of_half_precision() -> Result<()> {
    let device = ternion::cpu()?;
    let (inputs, target) = layer(DType::F32, &device)?;
    let exact = whole(&inputs, &target)?.backward()?;
    for (precision, limit) in [(Precision::Bf16, 2e-2), (Precision::F16, 3e-3)] {
        for scale in [1.0, 65536.0] {
            let loss = with_precision(precision, || chunked(&inputs, &target, 3))?;
            assert_eq!(loss.dtype(), DType::F32);
            let gradients = loss.mul_scalar(scale)?.backward()?;
            for input in &inputs {
                let gradient = gradients.get(input).expect("a gradient").div_scalar(scale)?;
                let expected = exact.get(input).expect("a gradient");
                assert_close(&gradient, expected, limit, &format!("{precision}, scale {scale}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn parameters_that_are_frozen_get_no_gradient_and_changed_ones_are_named() -> Result<()> {
    let device = ternion::cpu()?;
    let ([x, weight, bias], target) = layer(DType::F32, &device)?;
    let frozen = [x.clone(), weight.detach(), bias.detach()];
    let (gradients, expected) =
        (chunked(&frozen, &target, 2)?.backward()?, whole(&frozen, &target)?.backward()?);
    assert_close(gradients.get(&x).expect("one"), expected.get(&x).expect("one"), 1e-6, "input")?;
    let loss = chunked(&[x.detach(), weight.clone(), bias.detach()], &target, 2)?;
    ternion::no_grad(|| weight.fill_(0.0))?;
    let error = loss.backward().err().expect("the weight was changed").to_string();
    assert!(error.starts_with("backward of linear_cross_entropy: input 1"), "{error}");
    assert!(!chunked(&frozen.map(|tensor| tensor.detach()), &target, 2)?.needs_grad());
    Ok(())
}
