//! Activation checkpointing: the same gradients of every order as without it, and an error if the
//! recomputation differs.

use ternion::prelude::*;
use ternion_core::autograd::GradOptions;
use ternion_core::{checkpoint, grad, no_grad};

fn leaf(values: &[f64], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(values, [values.len()], device)?.requires_grad()
}

type Segment = fn(&Tensor, &[Tensor]) -> Result<Tensor>;

/// Returns `segment(captured, [x])`, checkpointed.
fn checkpointed(segment: Segment, captured: &Tensor, x: &Tensor) -> Result<Tensor> {
    let captured = captured.clone();
    Ok(checkpoint(move |inputs| Ok(vec![segment(&captured, inputs)?]), &[x])?.remove(0))
}

fn message<T>(result: Result<T>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

/// Returns the error message of a backward pass through a segment if `change` makes its
/// recomputation different.
fn changed_between_runs(
    segment: impl Fn(&[Tensor], bool) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    change: impl FnOnce(),
) -> Result<String> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let ran = AtomicBool::new(false);
    let x = leaf(&[1.0, 2.0, 3.0], &ternion::cpu()?)?;
    let outputs = checkpoint(move |inputs| segment(inputs, ran.swap(true, Ordering::Relaxed)), &[&x])?;
    let loss = outputs[0].sum_all()?;
    change();
    Ok(loss.backward().err().map(|error| error.to_string()).unwrap_or_default())
}

#[test]
fn a_checkpoint_whose_parameter_was_replaced_in_between_is_an_error() -> Result<()> {
    use ternion::nn::Param;
    let device = ternion::cpu()?;
    type Change = fn(&Param);
    let changes: [(Change, &str); 3] = [
        (
            |p| p.replace(Tensor::full([3], 5.0, DType::F64, &p.device()).expect("five")).expect("fits"),
            "used a tensor of shape [3] f64 at first and another, of shape [3] f64, when it was run again",
        ),
        (|p| p.freeze(), "used a tensor of shape [3] f64 at first and not when it was run again"),
        (|_| (), ""),
    ];
    for (change, expected) in changes {
        let p = Param::new(&Tensor::full([3], 2.0, DType::F64, &device)?)?;
        let used = p.clone();
        // A view of the parameter is a use of it too.
        let segment = move |x: &[Tensor], _| Ok(vec![x[0].mul(&used.tensor().reshape([3, 1])?.squeeze(1)?)?]);
        let text = changed_between_runs(segment, || change(&p))?;
        assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text:?}");
        assert!(expected.is_empty() || text.starts_with("backward: checkpoint: the segment used"), "{text}");
    }
    Ok(())
}

#[test]
fn a_checkpoint_that_runs_other_ops_or_gives_other_shapes_when_run_again_is_an_error() -> Result<()> {
    let text =
        changed_between_runs(|x, again| Ok(vec![if again { x[0].sin()? } else { x[0].cos()? }]), || ())?;
    assert!(
        text.contains("checkpoint: the segment ran cos (to [3] f64) as its op 0 at first and sin"),
        "{text}"
    );
    let text = changed_between_runs(
        |x, again| Ok(vec![if again { x[0].exp()?.neg()? } else { x[0].exp()? }]),
        || (),
    )?;
    assert!(
        text.contains("checkpoint: the segment ran 1 ops at first and 2 when it was run again"),
        "{text}"
    );
    let text = changed_between_runs(
        |x, again| Ok(vec![if again { x[0].narrow(0, 0, 1)? } else { x[0].clone() }]),
        || (),
    )?;
    assert!(
        text.contains(
            "checkpoint: the segment gave an output 0 of shape [3] f64 at first and of [1] f64 when"
        ),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_checkpoint_of_a_model_that_changed_to_evaluation_mode_is_an_error() -> Result<()> {
    use ternion::nn::{Dropout, Forward, Module};
    let dropout = std::sync::Arc::new(Dropout::new(0.5)?);
    let used = dropout.clone();
    let text = changed_between_runs(move |x, _| Ok(vec![used.forward(&x[0])?.exp()?]), || dropout.eval())?;
    assert!(text.contains("checkpoint: the segment ran dropout"), "{text}");
    Ok(())
}

#[test]
fn a_checkpoint_that_gives_fewer_outputs_when_run_again_is_an_error() -> Result<()> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let device = ternion::cpu()?;
    let x = Tensor::from_slice(&[1.0, 2.0], [2], &device)?.requires_grad()?;
    for (first, second) in [(2, 1), (1, 2)] {
        let runs = AtomicUsize::new(0);
        let outputs = checkpoint(
            move |inputs| {
                let count = if runs.fetch_add(1, Ordering::Relaxed) == 0 { first } else { second };
                (0..count).map(|_| inputs[0].square()).collect()
            },
            &[&x],
        )?;
        let loss = outputs
            .iter()
            .try_fold(Tensor::zeros((), DType::F64, &device)?, |sum, output| sum.add(&output.sum_all()?))?;
        let text = loss.backward().err().map(|error| error.to_string()).unwrap_or_default();
        let expected = format!("gave {first} outputs at first and {second} when it was run again");
        assert!(text.contains(&expected), "{text:?}");
    }
    Ok(())
}

#[test]
fn a_checkpoint_gives_the_same_gradients_for_arguments_and_captured_parameters() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[0.3, -0.7], &device)?;
    let weight = leaf(&[1.5, 0.5], &device)?;
    let segment = |weight: Tensor| {
        move |inputs: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![inputs[0].mul(&weight)?.tanh()?.exp()?]) }
    };
    let plain = segment(weight.clone())(&[x.clone()])?.remove(0).square()?.sum_all()?.backward()?;
    let outputs = checkpoint(segment(weight.clone()), &[&x])?;
    let saved = outputs[0].square()?.sum_all()?.backward()?;
    for tensor in [&x, &weight] {
        assert_eq!(
            plain.get(tensor).expect("plain").to_vec::<f64>()?,
            saved.get(tensor).expect("checkpointed").to_vec::<f64>()?
        );
    }
    Ok(())
}

#[test]
fn a_checkpoint_repeats_its_random_numbers() -> Result<()> {
    // A separate device: other tests use the shared one at the same time.
    let device = ternion_cpu::device();
    device.seed(5);
    let x = Tensor::ones([64], DType::F32, &device)?.requires_grad()?;
    let outputs = checkpoint(|inputs| Ok(vec![inputs[0].dropout(0.5)?]), &[&x])?;
    Tensor::rand([10], DType::F32, &device)?;
    let position = device.random_position();
    let gradients = outputs[0].sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("x").to_vec::<f32>()?, outputs[0].to_vec::<f32>()?);
    assert_eq!(device.random_position(), position, "backward must not move the stream of random numbers");
    Ok(())
}

#[test]
fn a_checkpoint_keeps_only_its_inputs() -> Result<()> {
    // A separate device: other tests use the shared one at the same time.
    let device = ternion_cpu::device();
    let x = Tensor::ones([1 << 16], DType::F32, &device)?.requires_grad()?;
    let before = device.memory().in_use;
    let outputs = checkpoint(
        |inputs| {
            let mut y = inputs[0].clone();
            for _ in 0..8 {
                y = y.tanh()?;
            }
            Ok(vec![y])
        },
        &[&x],
    )?;
    let kept = device.memory().in_use - before;
    assert!(kept <= 1 << 19, "{kept} bytes kept for one output of 256 KiB");
    assert_eq!(outputs[0].sum_all()?.backward()?.len(), 1);
    Ok(())
}

/// Checks the first and second derivative of `sum(segment(w, f(w)))` with respect to `w`, with and
/// without a checkpoint.
#[test]
fn what_is_captured_may_also_lead_to_the_argument() -> Result<()> {
    let device = ternion::cpu()?;
    let segments: [Segment; 2] = [|w, x| x[0].mul(w), |w, x| x[0].mul(&x[0])?.mul(w)?.mul(w)?.sin()];
    for segment in segments {
        let mut found = Vec::new();
        for with_checkpoint in [false, true] {
            let w = leaf(&[1.0, 0.3], &device)?;
            let h = w.exp()?;
            let y = match with_checkpoint {
                true => checkpointed(segment, &w, &h)?,
                false => segment(&w, &[h])?,
            };
            let options = GradOptions { create_graph: true, ..Default::default() };
            let one = Tensor::ones((), DType::F64, &device)?;
            let first = grad(&[y.sum_all()?], &[w.clone()], &[one], options)?.remove(0).expect("used");
            let second = first.sum_all()?.backward()?.remove(&w).expect("used");
            found.push([first.to_vec::<f64>()?, second.to_vec::<f64>()?]);
        }
        for order in 0..2 {
            for (plain, saved) in found[0][order].iter().zip(&found[1][order]) {
                approx::assert_relative_eq!(plain, saved, max_relative = 1e-13);
            }
        }
    }
    Ok(())
}

#[test]
fn hooks_outside_a_segment_run_once() -> Result<()> {
    let device = ternion::cpu()?;
    for with_checkpoint in [false, true] {
        let (w, x) = (leaf(&[3.0], &device)?, leaf(&[2.0], &device)?);
        for tensor in [&w, &x] {
            tensor.register_hook(|grad| grad.mul_scalar(2.0).map(Some))?;
        }
        let segment: Segment = |w, x| x[0].mul(w);
        let y = match with_checkpoint {
            true => checkpointed(segment, &w, &x)?,
            false => segment(&w, &[x.clone()])?,
        };
        let gradients = y.sum_all()?.backward()?;
        assert_eq!(gradients.get(&w).expect("w").to_vec::<f64>()?, [4.0], "checkpoint: {with_checkpoint}");
        assert_eq!(gradients.get(&x).expect("x").to_vec::<f64>()?, [6.0], "checkpoint: {with_checkpoint}");
    }
    Ok(())
}

#[test]
fn captured_tensors_may_depend_on_each_other() -> Result<()> {
    let device = ternion::cpu()?;
    let (w, x) = (leaf(&[0.5], &device)?, leaf(&[2.0], &device)?);
    let h = w.exp()?;
    let (captured, parameter) = (h.clone(), w.clone());
    let y = checkpoint(move |a| Ok(vec![a[0].mul(&captured)?.add(&a[0].mul(&parameter)?)?]), &[&x])?;
    let gradients = y[0].sum_all()?.backward()?;
    approx::assert_relative_eq!(
        gradients.get(&w).expect("w").item_f64()?,
        2.0 * (0.5f64.exp() + 1.0),
        max_relative = 1e-14
    );
    Ok(())
}

#[test]
fn a_captured_tensor_may_be_an_output() -> Result<()> {
    let device = ternion::cpu()?;
    let (w, x) = (leaf(&[0.5], &device)?, leaf(&[2.0], &device)?);
    let returned = w.clone();
    let y = checkpoint(move |a| Ok(vec![a[0].clone(), returned.clone()]), &[&x])?;
    let gradients = y[0].mul(&y[1])?.sum_all()?.backward()?;
    assert_eq!(gradients.get(&w).expect("w").to_vec::<f64>()?, [2.0]);
    assert_eq!(gradients.get(&x).expect("x").to_vec::<f64>()?, [0.5]);
    Ok(())
}

#[test]
fn segments_nest() -> Result<()> {
    let device = ternion::cpu()?;
    let (w, x) = (leaf(&[0.5, -0.2], &device)?, leaf(&[2.0, 1.0], &device)?);
    let parameter = w.clone();
    let outer = checkpoint(
        move |a| {
            let (middle, inner) = (a[0].mul(&parameter)?, parameter.clone());
            checkpoint(move |b| Ok(vec![b[0].tanh()?.mul(&inner)?]), &[&middle])
        },
        &[&x],
    )?;
    let found = outer[0].sum_all()?.backward()?;
    let plain = x.mul(&w)?.tanh()?.mul(&w)?.sum_all()?.backward()?;
    for tensor in [&w, &x] {
        assert_eq!(
            found.get(tensor).expect("found").to_vec::<f64>()?,
            plain.get(tensor).expect("plain").to_vec::<f64>()?
        );
    }
    Ok(())
}

#[test]
fn whatever_the_segment_reads_may_not_be_changed_in_place() -> Result<()> {
    let device = ternion::cpu()?;
    let segment: Segment = |c, x| x[0].add(c)?.square();
    let captured = [Tensor::ones([1], DType::F64, &device)?, leaf(&[1.0], &device)?];
    for captured in captured {
        let x = leaf(&[2.0], &device)?;
        let y = checkpointed(segment, &captured, &x)?;
        ternion::no_grad(|| captured.add_scalar_(1.0))?;
        let text = message(y.sum_all()?.backward());
        assert!(
            text.starts_with("backward of checkpoint: ") && text.contains("was changed in place"),
            "{text}"
        );
    }
    Ok(())
}

/// Running statistics: every run writes them, and its result does not depend on them.
#[test]
fn a_segment_may_change_its_own_state() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[2.0], &device)?;
    let state = Tensor::zeros([1], DType::F64, &device)?;
    let run = || {
        let state = state.clone();
        checkpoint(
            move |a| {
                ternion::no_grad(|| state.mul_scalar_(0.9).and_then(|()| state.add_(&a[0].detach())))?;
                Ok(vec![a[0].square()?])
            },
            &[&x],
        )
    };
    let loss = run()?[0].add(&run()?[0])?;
    assert_eq!(loss.sum_all()?.backward()?.get(&x).expect("x").to_vec::<f64>()?, [8.0]);
    Ok(())
}

#[test]
fn other_settings_and_other_tensors_in_the_second_run_are_an_error() -> Result<()> {
    use std::sync::atomic::{AtomicBool, Ordering};
    type Segment = fn(&[Tensor], bool) -> Result<Tensor>;
    let segments: [(&str, Segment); 4] = [
        ("sub", |a, again| if again { a[1].sub(&a[0]) } else { a[0].sub(&a[1]) }),
        ("mul_scalar", |a, again| a[0].mul_scalar(if again { 3.0 } else { 2.0 })),
        ("softmax", |a, again| a[0].softmax(usize::from(again))),
        ("matmul", |a, again| if again { a[0].t()?.matmul(&a[0]) } else { a[0].matmul(&a[0]) }),
    ];
    let device = ternion::cpu()?;
    for (op, segment) in segments {
        let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 5.0], [2, 2], &device)?.requires_grad()?;
        let z = Tensor::ones([2, 2], DType::F64, &device)?.requires_grad()?;
        let ran = AtomicBool::new(false);
        let y = checkpoint(move |a| Ok(vec![segment(a, ran.swap(true, Ordering::Relaxed))?]), &[&x, &z])?;
        let text = message(y[0].sum_all()?.backward());
        let expected =
            format!("checkpoint: the segment ran {op} (to [2, 2] f64) as its op 0 with other settings");
        assert!(text.contains(&expected), "{text}");
    }
    Ok(())
}

#[test]
fn an_argument_that_is_read_by_no_op_may_not_change_either() -> Result<()> {
    let device = ternion::cpu()?;
    let (x, c) = (leaf(&[2.0], &device)?, Tensor::ones([1], DType::F64, &device)?);
    let y = checkpoint(|a| Ok(vec![a[0].mul_scalar(a[1].item_f64()?)?]), &[&x, &c])?;
    c.add_scalar_(4.0)?;
    let text = message(y[0].sum_all()?.backward());
    assert!(
        text.starts_with("backward of checkpoint: input 1 with shape [1] was changed in place"),
        "{text}"
    );
    Ok(())
}

/// An in-place change of an outside tensor by a segment happens once. It is distinguished from
/// changes of buffers that an op allocates, from a view of a tensor that was changed earlier, and
/// from changes of the segment's own tensors.
#[test]
fn tensors_from_outside_that_a_segment_changes_in_place_change_once() -> Result<()> {
    let device = ternion::cpu()?;
    let running = Tensor::zeros([2], DType::F64, &device)?;
    let weight = leaf(&[2.0, 3.0], &device)?;
    // The weight was changed before, as by an optimizer's step: taking a view of it is not a
    // change.
    no_grad(|| weight.mul_scalar_(1.0))?;
    let (counted, used, x) = (running.clone(), weight.clone(), leaf(&[1.0, 2.0], &device)?);
    let segment = move |inputs: &[Tensor]| {
        no_grad(|| {
            counted.mul_scalar_(0.5)?;
            counted.add_(&inputs[0].detach())?;
            // A buffer that the segment allocates.
            let own = inputs[0].detach().mul_scalar(2.0)?;
            own.add_scalar_(1.0)
        })?;
        Ok(vec![inputs[0].mul(&used.reshape([2])?)?])
    };
    let loss = checkpoint(segment, &[&x])?.remove(0).sum_all()?;
    assert_eq!(running.to_vec::<f64>()?, [1.0, 2.0]);
    let gradients = loss.backward()?;
    assert_eq!(running.to_vec::<f64>()?, [1.0, 2.0], "the second run is undone");
    assert_eq!(gradients.get(&x).expect("of x").to_vec::<f64>()?, [2.0, 3.0]);
    assert_eq!(gradients.get(&weight).expect("of the weight").to_vec::<f64>()?, [1.0, 2.0]);
    Ok(())
}
