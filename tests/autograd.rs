//! Recording and the backward pass: shared nodes, modes, options, hooks, in-place changes, depth,
//! memory.

#[path = "autograd/drawings.rs"]
mod drawings;
#[path = "autograd/edges.rs"]
mod edges;
#[path = "autograd/fusion.rs"]
mod fusion;
#[path = "autograd/hooks.rs"]
mod hooks;
#[path = "autograd/views.rs"]
mod views;

use ternion::prelude::*;
use ternion_core::autograd::{GradOptions, observe_backward};
use ternion_core::{Error, Gradients, enable_grad, grad, no_grad};

fn leaf(values: &[f64], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(values, [values.len()], device)?.requires_grad()
}

fn message(error: Error) -> String {
    error.to_string()
}

#[test]
fn a_node_reached_by_two_paths_is_visited_once() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[3.0], &device)?;
    let square = x.mul(&x)?;
    let loss = square.add(&square)?.mul(&square)?.sum_all()?;
    let visits = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = visits.clone();
    let gradients = observe_backward(
        move |op, _| {
            seen.borrow_mut().push(op);
            Ok(())
        },
        || loss.backward(),
    )?;
    // loss = 2 x^4, so the gradient is 8 x^3; four ops, each visited once.
    assert_eq!(gradients.get(&x).expect("x has a gradient").to_vec::<f64>()?, [216.0]);
    assert_eq!(*visits.borrow(), ["sum", "mul", "add", "mul"]);
    Ok(())
}

#[test]
fn a_doubling_ladder_costs_one_visit_a_rung() -> Result<()> {
    // 60 rungs have 2^60 paths: a traversal by paths would never end.
    let device = ternion::cpu()?;
    let x = leaf(&[1.0], &device)?;
    let mut y = x.clone();
    for _ in 0..60 {
        y = y.add(&y)?;
    }
    let gradients = y.sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("x has a gradient").to_vec::<f64>()?, [2f64.powi(60)]);
    Ok(())
}

#[test]
fn a_chain_of_a_hundred_thousand_goes_backward_without_overflow() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0], &device)?;
    let mut y = x.clone();
    for _ in 0..100_000 {
        y = y.add(&x)?;
    }
    let gradients = y.sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("x has a gradient").to_vec::<f64>()?, [100_001.0]);
    Ok(())
}

#[test]
fn a_chain_of_a_hundred_thousand_is_dropped_without_backward_or_overflow() -> Result<()> {
    // A thread with a small stack, so that any recursion would be detected.
    let worker = std::thread::Builder::new().stack_size(128 * 1024).spawn(|| -> Result<()> {
        let device = ternion::cpu()?;
        let x = leaf(&[1.0], &device)?;
        for saves_output in [false, true] {
            let mut y = x.clone();
            for _ in 0..100_000 {
                y = if saves_output { y.tanh()? } else { y.mul(&x)? };
            }
            drop(y);
        }
        Ok(())
    });
    worker.expect("a thread can be made").join().expect("no overflow")
}

#[test]
fn nothing_is_recorded_without_a_reason() -> Result<()> {
    let device = ternion::cpu()?;
    let constant = Tensor::ones([2], DType::F64, &device)?;
    assert!(!constant.exp()?.needs_grad());
    let x = leaf(&[1.0, 2.0], &device)?;
    assert!(x.is_leaf() && x.exp()?.needs_grad() && !x.exp()?.is_leaf());
    assert!(!no_grad(|| x.exp())?.needs_grad());
    assert!(no_grad(|| enable_grad(|| x.exp()))?.needs_grad());
    assert!(!x.detach().exp()?.needs_grad());
    assert!(!x.argmax(0)?.needs_grad() && !x.gt_scalar(0.0)?.needs_grad());
    Ok(())
}

#[test]
fn no_grad_ends_with_a_panic_inside_it() -> Result<()> {
    let outcome = std::panic::catch_unwind(|| no_grad(|| panic!("inside")));
    assert!(outcome.is_err());
    assert!(ternion_core::autograd::is_recording());
    Ok(())
}

#[test]
fn backward_without_a_graph_is_an_error() -> Result<()> {
    let device = ternion::cpu()?;
    let constant = Tensor::ones([1], DType::F64, &device)?;
    let text = message(constant.backward().err().expect("nothing was recorded"));
    assert_eq!(
        text,
        "backward: nothing was recorded: no input of the loss requires a gradient, or it was computed in no_grad"
    );
    let x = leaf(&[1.0, 2.0], &device)?;
    let text = message(x.exp()?.backward().err().expect("two elements"));
    assert_eq!(
        text,
        "backward: of shape [2]: only a single element has a gradient by itself; reduce it, or use grad with cotangents"
    );
    let integers = Tensor::from_slice(&[1i64], [1], &device)?;
    let text = message(integers.requires_grad().expect_err("integers have no gradient"));
    assert_eq!(text, "requires_grad: tensor is i64, expected a floating dtype");
    Ok(())
}

#[test]
fn gradients_are_fresh_each_time_and_accumulate_only_on_request() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[2.0], &device)?;
    let pass = || x.square()?.sum_all()?.backward();
    let first = pass()?;
    let mut second = pass()?;
    assert_eq!(first.get(&x).expect("x").to_vec::<f64>()?, second.get(&x).expect("x").to_vec::<f64>()?);
    second.accumulate(first)?;
    assert_eq!(second.get(&x).expect("x").to_vec::<f64>()?, [8.0]);
    Ok(())
}

#[test]
fn second_order_gradients() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[0.5, -1.5], &device)?;
    let y = x.powf(4.0)?.sum_all()?;
    let options = GradOptions { create_graph: true, ..Default::default() };
    let ones = Tensor::ones((), DType::F64, &device)?;
    let first = grad(&[y], &[x.clone()], &[ones], options)?.remove(0).expect("x is used");
    let second = first.sum_all()?.backward()?;
    let got = second.get(&x).expect("x").to_vec::<f64>()?;
    for (got, x) in got.iter().zip([0.5f64, -1.5]) {
        approx::assert_abs_diff_eq!(*got, 12.0 * x * x, epsilon = 1e-12);
    }
    Ok(())
}

#[test]
fn a_third_derivative() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[0.7], &device)?;
    let mut y = x.tanh()?.sum_all()?;
    for _ in 0..3 {
        let one = Tensor::ones(*y.shape(), DType::F64, &device)?;
        let options = GradOptions { create_graph: true, ..Default::default() };
        y = grad(&[y], &[x.clone()], &[one], options)?.remove(0).expect("x is used").sum_all()?;
    }
    let t = 0.7f64.tanh();
    let want = (1.0 - t * t) * (6.0 * t * t - 2.0);
    approx::assert_abs_diff_eq!(y.item_f64()?, want, epsilon = 1e-12);
    Ok(())
}

#[test]
fn gradients_of_intermediate_tensors() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[3.0], &device)?;
    let middle = x.square()?;
    let y = middle.square()?;
    let one = Tensor::ones([1], DType::F64, &device)?;
    let found = grad(&[y], &[middle, x], &[one], GradOptions::default())?;
    let found: Vec<f64> =
        found.into_iter().map(|grad| grad.expect("used").item_f64()).collect::<Result<_>>()?;
    assert_eq!(found, [18.0, 108.0]);
    Ok(())
}

#[test]
fn an_unused_input_is_an_error_unless_allowed() -> Result<()> {
    let device = ternion::cpu()?;
    let (x, unused) = (leaf(&[1.0], &device)?, leaf(&[1.0], &device)?);
    let one = || Tensor::ones([1], DType::F64, &device);
    let outcome = grad(&[x.exp()?], &[unused.clone()], &[one()?], GradOptions::default());
    let text = message(outcome.expect_err("the input is unused"));
    assert_eq!(
        text,
        "backward: the outputs do not depend on input 0 of shape [1]; allow_unused gives None for it"
    );
    let options = GradOptions { allow_unused: true, ..Default::default() };
    assert!(grad(&[x.exp()?], &[unused], &[one()?], options)?[0].is_none());
    Ok(())
}

#[test]
fn a_cotangent_of_another_shape_is_rejected() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let wrong = Tensor::ones([1], DType::F64, &device)?;
    let text = message(
        grad(&[x.exp()?], &[x.clone()], &[wrong], GradOptions::default()).expect_err("shapes differ"),
    );
    assert_eq!(text, "backward: cotangent 0 is [1] f64, its output [2] f64");
    Ok(())
}

#[test]
fn a_second_backward_needs_retain_graph() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[2.0], &device)?;
    let loss = x.square()?.sum_all()?;
    loss.backward_with(GradOptions { retain_graph: true, ..Default::default() })?;
    loss.backward()?;
    let text = message(loss.backward().err().expect("the tensors are gone"));
    assert!(text.contains("were freed by an earlier backward; ask that one for retain_graph"), "{text}");
    Ok(())
}

#[test]
fn saved_tensors_are_freed_during_backward() -> Result<()> {
    // A separate device: other tests use the shared one at the same time.
    let device = ternion_cpu::device();
    let x = Tensor::ones([1 << 16], DType::F32, &device)?.requires_grad()?;
    let mut y = x.clone();
    for _ in 0..8 {
        y = y.tanh()?;
    }
    let loss = y.sum_all()?;
    drop(y);
    let before = device.memory().in_use;
    let gradients = loss.backward()?;
    let after = device.memory().in_use;
    // Eight saved outputs of 256 KiB are freed although the loss still exists; one gradient of that
    // size was added.
    assert!(before >= 9 << 18, "{before}");
    assert!(after <= 3 << 18, "{after}");
    drop((loss, gradients));
    Ok(())
}

#[test]
fn a_saved_tensor_changed_in_place_is_an_error_that_names_the_op() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0], &device)?;
    let weight = Tensor::full([1], 2.0, DType::F64, &device)?;
    let loss = x.mul(&weight)?.sum_all()?;
    weight.fill_(5.0)?;
    let text = message(loss.backward().err().expect("mul saved the weight"));
    assert_eq!(
        text,
        "backward of mul: input 1 with shape [1] was changed in place after it was saved (version 0, now 1)"
    );
    Ok(())
}

#[test]
fn a_saved_output_changed_through_a_view_is_an_error() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let y = x.exp()?;
    let loss = y.sum_all()?;
    no_grad(|| y.narrow(0, 0, 1)?.fill_(0.0))?;
    let text = message(loss.backward().err().expect("exp saved its output"));
    assert!(text.starts_with("backward of exp: output 0 with shape [2] was changed in place"), "{text}");
    Ok(())
}

#[test]
fn changing_a_recorded_tensor_in_place_is_rejected() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0], &device)?;
    let plain = Tensor::ones([1], DType::F64, &device)?;
    for outcome in [x.fill_(0.0), plain.copy_(&x)] {
        let text = message(outcome.expect_err("a gradient would be lost"));
        assert!(
            text.ends_with(
                "a gradient would be lost; use the form that returns a new tensor, detach, or no_grad"
            ),
            "{text}"
        );
    }
    no_grad(|| x.fill_(7.0))?;
    assert_eq!(x.to_vec::<f64>()?, [7.0]);
    Ok(())
}

#[test]
fn gradients_stay_on_their_device() -> Result<()> {
    let (device, other) = (ternion::cpu()?, ternion_cpu::device());
    let x = leaf(&[1.0], &device)?;
    let one = Tensor::ones([1], DType::F64, &other)?;
    let text = message(
        grad(&[x.square()?], &[x.clone()], &[one], GradOptions::default()).expect_err("a far cotangent"),
    );
    assert_eq!(text, "backward: tensors on cpu and cpu; move one of them with to_device");
    x.register_hook(move |grad| grad.to_device(&other).map(Some))?;
    let text = message(x.square()?.sum_all()?.backward().err().expect("a far gradient"));
    assert_eq!(text, "backward: a hook moved a gradient from cpu to cpu");
    Ok(())
}

#[test]
fn gradients_flow_between_devices() -> Result<()> {
    let (device, other) = (ternion::cpu()?, ternion_cpu::device());
    let x = leaf(&[3.0], &device)?;
    let y = x.to_device(&other)?.square()?.to_device(&device)?;
    let gradients = y.sum_all()?.backward()?;
    let gradient = gradients.get(&x).expect("x");
    assert!(gradient.device().is(&device));
    assert_eq!(gradient.to_vec::<f64>()?, [6.0]);
    let text = message(x.add(&Tensor::ones([1], DType::F64, &other)?).expect_err("two devices"));
    assert_eq!(text, format!("add: tensors on {device} and {other}; move one of them with to_device"));
    Ok(())
}

#[test]
fn views_pass_gradients_through_every_layout() -> Result<()> {
    let device = ternion::cpu()?;
    let x = Tensor::from_vec((0..24).map(f64::from).collect(), [2, 3, 4], &device)?.requires_grad()?;
    let y =
        x.permute([2, 0, 1])?.slice_axis(0, 3, -1, -2)?.reshape([2, 6])?.unsqueeze(0)?.expand([5, 2, 6])?;
    let weights = Tensor::from_vec((0..60).map(f64::from).collect(), [5, 2, 6], &device)?;
    let gradients = y.mul(&weights)?.sum_all()?.backward()?;
    let got = gradients.get(&x).expect("x").to_vec::<f64>()?;
    for (position, got) in got.into_iter().enumerate() {
        let (batch, row, column) = (position / 12, position / 4 % 3, position % 4);
        let want = match column {
            3 | 1 => (0..5).map(|copy| (copy * 12 + (3 - column) / 2 * 6 + batch * 3 + row) as f64).sum(),
            _ => 0.0,
        };
        assert_eq!(got, want, "element {position}");
    }
    Ok(())
}

#[test]
fn an_unfolded_window_adds_where_it_overlaps() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0, 3.0, 4.0, 5.0], &device)?;
    let gradients = x.unfold(0, 3, 1)?.sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("x").to_vec::<f64>()?, [1.0, 2.0, 3.0, 2.0, 1.0]);
    Ok(())
}

#[test]
fn gradients_can_be_replaced_but_not_with_another_shape() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0], &device)?;
    let mut gradients: Gradients = x.exp()?.sum_all()?.backward()?;
    gradients.insert(&x, Tensor::full([1], 9.0, DType::F64, &device)?)?;
    assert_eq!(gradients.remove(&x).expect("x").to_vec::<f64>()?, [9.0]);
    assert!(gradients.is_empty());
    let outcome = gradients.insert(&x, Tensor::ones([2], DType::F64, &device)?);
    assert_eq!(
        message(outcome.expect_err("another shape")),
        "gradients: gradient has shape [2], expected [1]"
    );
    Ok(())
}

#[test]
fn threads_record_separately_and_share_tensors() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[2.0], &device)?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|factor| {
                let x = x.clone();
                scope.spawn(move || -> Result<f64> {
                    let mut last = 0.0;
                    for _ in 0..200 {
                        let loss = x.square()?.mul_scalar(f64::from(factor))?.sum_all()?;
                        last = loss.backward()?.get(&x).expect("x").item_f64()?;
                    }
                    Ok(last)
                })
            })
            .collect();
        for (factor, worker) in workers.into_iter().enumerate() {
            assert_eq!(worker.join().expect("no panic")?, 4.0 * factor as f64);
        }
        Ok(())
    })
}

#[test]
fn requiring_a_gradient_again_changes_nothing() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[3.0], &device)?;
    let y = x.square()?.requires_grad()?;
    assert!(!y.is_leaf(), "a computed tensor keeps its history");
    let gradients = y.sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("through y").to_vec::<f64>()?, [6.0]);
    assert_eq!(x.requires_grad()?.id(), x.id());
    assert!(y.detach().requires_grad()?.is_leaf());
    Ok(())
}

#[test]
fn a_gradient_of_another_kind_is_not_taken() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let mut gradients = x.sum_all()?.backward()?;
    let text = message(gradients.insert(&x, Tensor::ones([3], DType::F64, &device)?).expect_err("shape"));
    assert_eq!(text, "gradients: gradient has shape [3], expected [2]");
    let text = message(gradients.insert(&x, Tensor::ones([2], DType::F32, &device)?).expect_err("dtype"));
    assert_eq!(text, "gradients: gradient is f32, expected f64");
    let elsewhere = Tensor::ones([2], DType::F64, &ternion_cpu::device())?;
    assert!(matches!(gradients.insert(&x, elsewhere), Err(Error::DeviceMismatch { .. })));
    gradients.insert(&x, Tensor::full([2], 5.0, DType::F64, &device)?)?;
    assert_eq!(gradients.get(&x).expect("put there").to_vec::<f64>()?, [5.0, 5.0]);
    Ok(())
}

#[test]
fn item_names_itself() -> Result<()> {
    let device = ternion::cpu()?;
    let text = message(Tensor::ones([1], DType::F32, &device)?.item::<f64>().expect_err("a dtype"));
    assert_eq!(text, "item: tensor is f32, expected f64");
    Ok(())
}
