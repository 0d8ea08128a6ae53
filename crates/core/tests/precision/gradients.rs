//! Gradients of results that were computed in a precision scope: their dtypes, and the dtype in
//! which they are added.

use super::*;

#[test]
fn gradients_have_the_dtype_of_their_parameters() -> Result<()> {
    let device = device();
    let (x, target) = (numbers(&[6, 4], &device), numbers(&[6, 2], &device));
    let parameters =
        [leaf(&[3, 4], &device)?, leaf(&[3], &device)?, leaf(&[3], &device)?, leaf(&[2, 3], &device)?];
    let [first, bias, norm, second] = &parameters;
    for precision in Precision::ALL {
        let loss = with_precision(precision, || {
            let hidden = x.linear(first, Some(bias))?.layer_norm(Some(norm), None, 1e-5)?.gelu()?;
            hidden.linear(second, None)?.mse_loss(&target, Reduction::Mean)
        })?;
        let gradients = loss.backward()?;
        for parameter in &parameters {
            assert_eq!(gradients.get(parameter).map(Tensor::dtype), Some(F32), "{precision}");
        }
    }
    Ok(())
}

#[test]
fn the_gradient_of_a_weight_is_not_rounded_to_half_precision() -> Result<()> {
    let device = device();
    let (x, w) = (leaf(&[7, 8], &device)?, leaf(&[6, 8], &device)?);
    let cotangent = numbers(&[7, 6], &device).to_dtype(BF16)?;
    let y = with_precision(Precision::Bf16, || x.linear(&w, None))?;
    let found =
        grad(&[y], &[x.clone(), w.clone()], std::slice::from_ref(&cotangent), GradOptions::default())?;
    let wide = |tensor: &Tensor| tensor.to_dtype(BF16)?.to_dtype(F32);
    let (dy, x, w) = (cotangent.to_dtype(F32)?, wide(&x.detach())?, wide(&w.detach())?);
    for (found, expected) in found.iter().flatten().zip([dy.matmul(&w)?, dy.t()?.matmul(&x)?]) {
        let (found, expected) = (found.to_vec::<f32>()?, expected.to_vec::<f32>()?);
        for (found, expected) in found.iter().zip(&expected) {
            // Products of half-precision values are exact in f32: only the order of at most 8
            // additions may differ.
            assert!((found - expected).abs() <= 8.0 * f32::EPSILON * 8.0, "{found} {expected}");
        }
    }
    Ok(())
}

#[test]
fn gradients_of_many_uses_are_added_in_f32() -> Result<()> {
    let device = device();
    let w = Tensor::ones([1, 1], F32, &device)?.requires_grad()?;
    let x = Tensor::ones([1, 1], F32, &device)?;
    let sum = with_precision(Precision::Bf16, || -> Result<Tensor> {
        let mut sum = Tensor::zeros([1, 1], F32, &device)?;
        for _ in 0..300 {
            sum = sum.add(&x.linear(&w, None)?)?;
        }
        sum.sum(..)
    })?;
    // A sum of ones in bf16 would stop increasing at 256.
    let gradients = sum.backward()?;
    assert_eq!(gradients.get(&w).map(Tensor::to_vec::<f32>).transpose()?, Some(vec![300.0]));
    Ok(())
}

#[test]
fn mixed_uses_of_one_cast_are_added_in_f32() -> Result<()> {
    let device = device();
    let w = leaf(&[2, 2], &device)?;
    let (x, half) = (numbers(&[3, 2], &device).to_dtype(BF16)?, w.to_dtype(BF16)?);
    // A product, whose gradient is f32, and an elementwise use, whose gradient is not.
    let loss =
        x.matmul(&half)?.to_dtype(F32)?.sum(..)?.add(&half.mul_scalar(3.0)?.to_dtype(F32)?.sum(..)?)?;
    let gradients = loss.backward()?;
    let found = gradients.get(&w).expect("a gradient").to_vec::<f32>()?;
    let sums = x.to_dtype(F32)?.sum(0)?.to_vec::<f32>()?;
    for (row, sum) in sums.iter().enumerate() {
        for column in 0..2 {
            assert!((found[2 * row + column] - (sum + 3.0)).abs() <= 1e-6, "{found:?} {sums:?}");
        }
    }
    Ok(())
}

#[test]
fn a_hook_and_a_chosen_tensor_see_gradients_of_their_own_dtype() -> Result<()> {
    let device = device();
    let (w, x) = (leaf(&[2, 2], &device)?, numbers(&[3, 2], &device).to_dtype(BF16)?);
    let half = w.to_dtype(BF16)?;
    let chosen = x.matmul(&half)?.to_dtype(F32)?.sum(..)?;
    let one = Tensor::ones((), F32, &device)?;
    let found = grad(&[chosen], std::slice::from_ref(&half), &[one], GradOptions::default())?;
    assert_eq!(found[0].as_ref().map(Tensor::dtype), Some(BF16));
    let half = w.to_dtype(BF16)?;
    half.register_hook(|grad| {
        assert_eq!(grad.dtype(), BF16);
        grad.mul_scalar(2.0).map(Some)
    })?;
    let gradients = x.matmul(&half)?.to_dtype(F32)?.sum(..)?.backward()?;
    assert_eq!(gradients.get(&w).map(Tensor::dtype), Some(F32));
    Ok(())
}

#[test]
fn backward_does_not_depend_on_the_scope_around_it() -> Result<()> {
    let device = device();
    let (x, w) = (numbers(&[4, 3], &device), leaf(&[2, 3], &device)?);
    let loss =
        || with_precision(Precision::Bf16, || x.linear(&w, None)?.gelu()?.softmax(1)?.square()?.sum(..));
    let outside = loss()?.backward()?;
    for scope in Precision::ALL {
        let recorded = loss()?;
        let inside = with_precision(scope, || recorded.backward())?;
        assert_eq!(
            inside.get(&w).map(bits).transpose()?,
            outside.get(&w).map(bits).transpose()?,
            "in {scope}"
        );
    }
    Ok(())
}

#[test]
fn gradients_of_gradients_pass_casts() -> Result<()> {
    let device = device();
    let (x, w) = (leaf(&[4, 3], &device)?, leaf(&[2, 3], &device)?);
    let loss = with_precision(Precision::Bf16, || x.linear(&w, None)?.square()?.sum(..))?;
    let one = Tensor::ones((), F32, &device)?;
    let options = GradOptions { create_graph: true, ..Default::default() };
    let first = grad(&[loss], std::slice::from_ref(&w), &[one], options)?;
    let squared = first[0].as_ref().expect("a gradient").square()?.sum(..)?;
    let second = squared.backward()?;
    for parameter in [&x, &w] {
        let second = second.get(parameter).expect("a second gradient");
        assert_eq!(second.dtype(), F32);
        assert!(second.abs()?.sum(..)?.item::<f32>()? > 0.0);
    }
    Ok(())
}
