//! Functions with custom gradients: `with_gradient`.

use ternion::autograd::{Context, Grads, with_gradient};
use ternion::op::Saves;
use ternion::prelude::*;
use ternion_core::autograd::GradOptions;
use ternion_core::{checkpoint, grad, no_grad};

fn leaf(values: &[f64]) -> Result<Tensor> {
    Tensor::from_slice(values, [values.len()], &ternion::cpu()?)?.requires_grad()
}

/// `d exp(x) = exp(x) dx`, as a function of the output.
fn gradient_rule(context: &Context<'_>, grads: &[Option<Tensor>]) -> Result<Grads> {
    let y = context.output(0)?;
    Ok(Grads::from_elem(grads[0].as_ref().map(|grad| grad.mul(y)).transpose()?, 1))
}

/// Returns `exp(x)` with a custom gradient.
fn exponential(x: &Tensor) -> Result<Tensor> {
    let y = no_grad(|| x.exp())?;
    Ok(with_gradient("exponential", &[x], vec![y], Saves::OUTPUTS, gradient_rule)?.remove(0))
}

#[test]
fn custom_gradients_of_every_order_are_used() -> Result<()> {
    let (x, own) = (leaf(&[0.5, -1.0, 2.0])?, leaf(&[0.5, -1.0, 2.0])?);
    let options = GradOptions { create_graph: true, ..Default::default() };
    let mut found = (exponential(&x)?.sum_all()?, own.exp()?.sum_all()?);
    for order in 1..4 {
        let ones = found.0.ones_like()?;
        let one = grad(&[found.0], std::slice::from_ref(&x), std::slice::from_ref(&ones), options)?;
        let two = grad(&[found.1], std::slice::from_ref(&own), &[ones], options)?;
        let (one, two) = (one[0].clone().expect("flows"), two[0].clone().expect("flows"));
        assert_eq!(one.to_vec::<f64>()?, two.to_vec::<f64>()?, "order {order}");
        found = (one.sum_all()?, two.sum_all()?);
    }
    Ok(())
}

#[test]
fn nothing_is_recorded_where_nothing_flows() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    assert!(!exponential(&x.detach())?.needs_grad());
    assert!(!no_grad(|| exponential(&x))?.needs_grad());
    assert!(exponential(&x)?.needs_grad());
    Ok(())
}

#[test]
fn a_checkpointed_segment_may_use_it() -> Result<()> {
    let (x, scale) = (leaf(&[0.5, -1.0])?, leaf(&[2.0, 3.0])?);
    let used = scale.clone();
    let segment = move |inputs: &[Tensor]| Ok(vec![inputs[0].mul(&exponential(&used)?)?]);
    let gradients = checkpoint(segment, &[&x])?[0].sum_all()?.backward()?;
    let expected = [0.5 * 2.0_f64.exp(), -(3.0_f64.exp())];
    let found = gradients.get(&scale).expect("the segment uses it").to_vec::<f64>()?;
    assert_eq!(found, expected);
    Ok(())
}

/// Returns the error message of a backward pass through a function of `[1, 2]` with this gradient.
fn failure(backward: fn(&Context<'_>, &[Option<Tensor>]) -> Result<Grads>, saves: Saves) -> Result<String> {
    let x = leaf(&[1.0, 2.0])?;
    let y = with_gradient("own", &[&x], vec![x.detach()], saves, backward)?.remove(0);
    let message = y.sum_all()?.backward().err().map(|error| error.to_string());
    Ok(message.unwrap_or_default())
}

#[test]
fn mismatched_gradients_are_errors() -> Result<()> {
    let short = failure(|_, grads| Ok(Grads::from_elem(grads[0].clone(), 2)), Saves::NOTHING)?;
    assert!(short.contains("own returned 2 gradients for 1 input"), "{short}");
    let shape = failure(
        |_, grads| Ok(Grads::from_elem(Some(grads[0].as_ref().expect("one").sum_all()?), 1)),
        Saves::NOTHING,
    )?;
    assert!(
        shape.contains("own returned a gradient of shape [] f64 for input 0, which has shape [2] f64"),
        "{shape}"
    );
    let unsaved =
        failure(|context, _| Ok(Grads::from_elem(Some(context.input(0)?.clone()), 1)), Saves::NOTHING)?;
    assert!(unsaved.contains("own did not save its input 0"), "{unsaved}");
    Ok(())
}

#[test]
fn more_than_can_be_named_is_an_error() -> Result<()> {
    let many = vec![leaf(&[1.0])?; 17];
    let inputs: Vec<&Tensor> = many.iter().collect();
    let error = with_gradient("own", &inputs, vec![], Saves::INPUTS, |_, _| Ok(Grads::new()));
    assert_eq!(error.unwrap_err().to_string(), "own: 17 inputs and 0 outputs, expected at most 16");
    Ok(())
}

#[test]
fn changing_a_saved_tensor_in_place_is_an_error() -> Result<()> {
    let x = leaf(&[1.0, 2.0])?;
    let y = exponential(&x)?;
    let loss = y.sum_all()?;
    y.detach().copy_(&Tensor::full([2], 1.0, DType::F64, &ternion::cpu()?)?)?;
    let message = loss.backward().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("exponential") && message.contains("output 0"), "{message}");
    Ok(())
}
