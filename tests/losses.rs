//! Losses whose gradient is computed in the forward pass, for a predicted output gradient.

use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyWithGrad};
use ternion_core::ops::matmul::LinearParameters;
use ternion_core::{
    CrossEntropyOptions, Error, GradOptions, LinearCrossEntropyOptions, Precision, grad, observe_ops,
    with_precision,
};

/// Cross-entropy with its gradient computed in the forward pass equals plain cross-entropy, for any
/// output gradient and for repeated backward passes.
#[test]
fn a_precomputed_gradient_is_correct_for_an_unpredicted_output_gradient() -> Result<()> {
    let device = ternion::cpu()?;
    device.seed(4);
    let logits = Tensor::randn([5, 7], DType::F64, &device)?;
    let target = Tensor::from_slice(&[0i64, 6, -100, 3, 3], [5], &device)?;
    let foreseen = Tensor::full([5], 0.25, DType::F64, &device)?;
    let (ignore_index, label_smoothing) = (-100, 0.1);
    let losses = |x: &Tensor, beforehand: bool| {
        let mut outputs = match beforehand {
            true => apply(
                CrossEntropyWithGrad { ignore_index, label_smoothing, in_place: false },
                &[x, &target, &foreseen],
            )?,
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
        // The first gradients are as predicted in all rows except one, so that a second backward
        // pass finds the stored gradient consumed. The second are as predicted in no row. The third
        // have their own graph.
        for scale in [[0.25, 0.25, 0.25, 2.0, 0.25], [0.25; 5], [1.0, 2.0, 3.0, 4.0, 5.0]] {
            all.push(gradient(scale, false)?.to_vec::<f64>()?);
        }
        let gradient_of_loss = gradient([0.25; 5], true)?;
        let curvature = gradient_of_loss.square()?.sum_all()?.backward()?;
        all.push(gradient_of_loss.to_vec::<f64>()?);
        all.push(curvature.get(&x).expect("a second gradient").to_vec::<f64>()?);
        Ok(all)
    };
    for (at, (precomputed, plain)) in found(true)?.iter().zip(&found(false)?).enumerate() {
        for (precomputed, plain) in precomputed.iter().zip(plain) {
            assert!((precomputed - plain).abs() <= 1e-14, "gradient {at}: {precomputed} instead of {plain}");
        }
    }
    Ok(())
}

/// Returns x, weight and bias of a layer, which require gradients, and classes.
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

/// A loss in chunks equals the loss of all scores for any output gradient and for repeated backward
/// passes; also second-order gradients.
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
        for (pass, seed) in [1.0, 0.3, -2.0].into_iter().enumerate() {
            let pairs = gradients(&loss, seed, false)?.into_iter().zip(gradients(&expected, seed, false)?);
            for (index, (found, expected)) in pairs.enumerate() {
                assert_close(&found, &expected, 1e-14, &format!("{rows} rows, walk {pass}, input {index}"))?;
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

/// The loss is NaN (0/0); gradients are zeros, like those of the scores.
#[test]
fn only_ignored_rows_give_a_gradient_of_zeros() -> Result<()> {
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

/// Returns the largest number of elements of an op's output.
fn largest_output<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    let largest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = largest.clone();
    let observer = move |call: &ternion_core::OpCall<'_>| {
        let elements = call.outputs.iter().map(Tensor::elements).max();
        seen.set(elements.unwrap_or(0).max(seen.get()));
        Ok(())
    };
    let found = observe_ops(observer, f)?;
    Ok((found, largest.get()))
}

#[test]
fn only_the_scores_of_one_chunk_exist_at_a_time() -> Result<()> {
    let device = ternion::cpu()?;
    let ([x, weight, bias], _) = layer(DType::F32, &device)?;
    let x = x.detach().repeat(&[8, 1])?.requires_grad()?;
    let target = Tensor::zeros([56], DType::I64, &device)?;
    let inputs = [x, weight, bias];
    let (_, scores) = largest_output(|| chunked(&inputs, &target, 4)?.backward())?;
    // The gradient of x is the largest tensor.
    assert_eq!(scores, 56 * 5);
    let (_, scores) = largest_output(|| whole(&inputs, &target)?.backward())?;
    assert_eq!(scores, 56 * 9);
    Ok(())
}

/// Gradients of f32 parameters are not rounded to half precision in between, and small ones do not
/// underflow in f16, with and without a loss scale.
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

/// Returns a layer whose rows of scores are not a multiple of 16 bytes. There are enough rows that
/// they are padded, and some of them are ignored.
fn odd_layer(dtype: DType, device: &Device) -> Result<([Tensor; 3], Tensor)> {
    device.seed(12);
    let normal = |shape: &[usize]| Tensor::randn(shape, dtype, device)?.requires_grad();
    let classes = Tensor::randint(0, 13, [300], DType::I64, device)?;
    let ignored = Tensor::rand([300], DType::F32, device)?.lt_scalar(0.2)?;
    Ok(([normal(&[300, 6])?, normal(&[13, 6])?, normal(&[13])?], classes.masked_fill(&ignored, -100)?))
}

#[test]
fn padding_changes_no_number() -> Result<()> {
    let device = ternion::cpu()?;
    let (inputs, target) = odd_layer(DType::F64, &device)?;
    let expected = whole(&inputs, &target)?;
    let of = expected.backward()?;
    for rows in [127, 128, 150, 300] {
        let loss = chunked(&inputs, &target, rows)?;
        assert_close(&loss, &expected, 1e-14, "loss")?;
        let gradients = loss.backward()?;
        for (index, input) in inputs.iter().enumerate() {
            let [found, expected] = [&gradients, &of].map(|of| of.get(input).expect("a gradient"));
            assert!(found.is_contiguous());
            assert_close(found, expected, 1e-14, &format!("{rows} rows, input {index}"))?;
        }
        let without = chunked(&inputs.clone().map(|tensor| tensor.detach()), &target, rows)?;
        assert_close(&without, &expected, 1e-14, "loss without gradients")?;
    }
    Ok(())
}

/// An ignored row of NaN and infinities, such as that of a token that attends to nothing, gets no
/// gradient.
#[test]
fn padding_separates_ignored_rows() -> Result<()> {
    let device = ternion::cpu()?;
    let ([x, weight, bias], target) = odd_layer(DType::F32, &device)?;
    let odd = x.detach();
    odd.narrow(0, 3, 1)?.fill_(f64::NAN)?;
    odd.narrow(0, 5, 1)?.fill_(f64::INFINITY)?;
    target.narrow(0, 3, 3)?.fill_(-100)?;
    let inputs = [odd.requires_grad()?, weight.detach(), bias.detach()];
    let found = chunked(&inputs, &target, 200)?.backward()?;
    let gradient = found.get(&inputs[0]).expect("a gradient");
    assert_eq!(gradient.narrow(0, 3, 3)?.to_vec::<f32>()?, vec![0.0; 18]);
    assert_close(gradient, whole(&inputs, &target)?.backward()?.get(&inputs[0]).expect("one"), 1e-6, "x")
}

/// Returns the row stride and the start offset, in bytes, of every contiguous matrix of every
/// product of `f`.
fn lines_of_products<T>(f: impl FnOnce() -> Result<T>) -> Result<Vec<(usize, usize)>> {
    let found = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = found.clone();
    let observer = move |call: &ternion_core::OpCall<'_>| {
        if !matches!(call.op, ternion_core::Op::Matmul(_)) {
            return Ok(());
        }
        for tensor in call.inputs.iter().copied().chain(call.outputs).filter(|tensor| tensor.rank() == 2) {
            let (strides, size) = (tensor.layout().strides(), tensor.dtype().size());
            let across = usize::from(strides[0] == 1);
            assert_eq!(strides[1 - across], 1, "{tensor:?} has no neighbors");
            let [line, first] = [strides[across].unsigned_abs(), tensor.layout().offset()];
            seen.borrow_mut().push((line * size, first * size));
        }
        Ok(())
    };
    observe_ops(observer, f)?;
    Ok(found.take())
}

#[test]
fn rows_of_scores_begin_at_multiples_of_16_bytes() -> Result<()> {
    let device = ternion::cpu()?;
    let (inputs, target) = odd_layer(DType::F32, &device)?;
    // The inner size of a product depends on the caller.
    let wide = |tensor: &Tensor| tensor.detach().repeat(&[1, 4])?.requires_grad();
    let inputs = [wide(&inputs[0])?, wide(&inputs[1])?, inputs[2].clone()];
    for precision in [Precision::F32, Precision::Bf16] {
        let step = |rows| with_precision(precision, || chunked(&inputs, &target, rows)?.backward());
        let lines = lines_of_products(|| step(150))?;
        // Two chunks of three products, with a, b and y each; the gradient of the weight in the
        // second chunk also has a sum.
        assert!(lines.len() >= 18, "{lines:?}");
        assert!(lines.iter().all(|(line, first)| line % 16 == 0 && first % 16 == 0), "{lines:?}");
        // With fewer rows the weight is not copied.
        let lines = lines_of_products(|| step(100))?;
        assert!(lines.iter().any(|(line, _)| line % 16 != 0), "{lines:?}");
    }
    Ok(())
}

/// The gradient of the scores overwrites them, whatever their strides.
#[test]
fn a_gradient_in_the_memory_of_its_logits() -> Result<()> {
    let device = ternion::cpu()?;
    let target = Tensor::from_slice(&[2i64, -100, 0], [3], &device)?;
    for (dtype, smoothing) in [(DType::F32, 0.0), (DType::F64, 0.1), (DType::BF16, 0.1)] {
        device.seed(2);
        let buffer = Tensor::randn([3, 8], dtype, &device)?;
        let logits = buffer.narrow(1, 1, 5)?;
        let around = buffer.to_vec_f64()?;
        let dloss = Tensor::from_slice(&[0.5f64, 1.0, 2.0], [3], &device)?.to_dtype(dtype.accumulator())?;
        let op = |in_place| CrossEntropyWithGrad { ignore_index: -100, label_smoothing: smoothing, in_place };
        let unfused = apply(op(false), &[&logits, &target, &dloss])?;
        let expected: Vec<Vec<f64>> = unfused.iter().map(Tensor::to_vec_f64).collect::<Result<_>>()?;
        let found = apply(op(true), &[&logits, &target, &dloss])?;
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(&found.to_vec_f64()?, expected, "{dtype}");
        }
        assert_eq!(logits.to_vec_f64()?, expected[2]);
        for (at, (now, before)) in buffer.to_vec_f64()?.iter().zip(&around).enumerate() {
            assert!((1..6).contains(&(at % 8)) || now == before, "{dtype}: element {at} was changed");
        }
        let leaf = logits.detach().requires_grad()?;
        assert!(apply(op(true), &[&leaf, &target, &dloss]).is_err(), "its gradient would be lost");
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
