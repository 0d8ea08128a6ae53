//! Checkpointed segments that do something else when they run again are told.

use ternion::prelude::*;
use ternion_core::checkpoint;

fn leaf(values: &[f64], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(values, [values.len()], device)?.requires_grad()
}

/// The message of a backward through a segment that is told, by `change`, to be another when it runs again.
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
fn a_checkpoint_of_a_model_that_went_from_training_to_use_is_an_error() -> Result<()> {
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
