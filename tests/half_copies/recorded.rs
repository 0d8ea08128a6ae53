//! Recorded steps read the copies that the previous replay wrote, and recompute copies of
//! parameters that changed otherwise.

use super::{adamw, bits, devices, loss, mark_copies_outdated, mlp, numbers, support, watched};
use std::cell::RefCell;
use ternion::nn::Mlp;
use ternion::prelude::*;
use ternion_testing::recording;

const BF16: Precision = Precision::Bf16;
const STEPS: usize = 7;

/// Runs before step `number`, in addition to the step.
type Between = fn(usize, &Mlp, &RefCell<AdamW>, &Tensor) -> Result<()>;

/// Returns the losses and parameters of several steps; with `capture` all steps except the first
/// are replays.
fn run(
    device: &Device,
    capture: bool,
    is_spoiled: bool,
    between: Between,
) -> Result<(Vec<f32>, Vec<Vec<u8>>)> {
    let (model, x) = (mlp(device)?, numbers(&[5, 6], device)?);
    let adam = RefCell::new(adamw(model.parameters())?);
    let first = RefCell::new(None);
    let step = || -> Result<Tensor> {
        let loss = loss(&model, &x, BF16)?;
        adam.borrow_mut().step(&loss.backward()?)?;
        if !ternion::capture::is_recording_step() {
            first.borrow_mut().get_or_insert(loss.item::<f32>()?);
        }
        Ok(loss.detach())
    };
    let mut losses = Vec::new();
    let mut recorded = None;
    for number in 0..STEPS {
        between(number, &model, &adam, &x)?;
        if is_spoiled {
            mark_copies_outdated(&model.parameters());
        }
        match (&mut recorded, capture) {
            (_, false) => losses.push(step()?.item::<f32>()?),
            (Some(step), true) => {
                let step: &mut ternion::capture::CapturedStep<'_, Tensor> = step;
                losses.push(step.replay()?.item::<f32>()?);
            }
            (None, true) => {
                recorded = Some(device.capture(&step)?);
                losses.extend(first.take());
            }
        }
    }
    drop(recorded);
    Ok((losses, bits(&model.parameters())?))
}

fn nothing(_: usize, _: &Mlp, _: &RefCell<AdamW>, _: &Tensor) -> Result<()> {
    Ok(())
}

/// Loads other values into all parameters.
fn loads(number: usize, model: &Mlp, _: &RefCell<AdamW>, x: &Tensor) -> Result<()> {
    if number % 3 == 2 {
        model.load_state_dict(&mlp(x.device())?.state_dict()?)?;
    }
    Ok(())
}

/// Runs eager steps. One of them uses no copies, so that the copies are dropped.
fn steps_by_hand(number: usize, model: &Mlp, adam: &RefCell<AdamW>, x: &Tensor) -> Result<()> {
    let precisions: &[Precision] = match number {
        3 => &[BF16],
        5 => &[Precision::F32, BF16, Precision::F16],
        _ => &[],
    };
    precisions
        .iter()
        .try_for_each(|&precision| adam.borrow_mut().step(&loss(model, x, precision)?.backward()?))
}

/// Runs a forward pass between two steps, which uses the copies that the replay wrote.
fn evaluates(_: usize, model: &Mlp, _: &RefCell<AdamW>, x: &Tensor) -> Result<()> {
    let fresh = mlp(x.device())?;
    fresh.load_state_dict(&model.state_dict()?)?;
    let [got, want] = [model, &fresh].map(|model| no_grad(|| loss(model, x, BF16)));
    assert_eq!(got?.to_bytes()?, want?.to_bytes()?);
    Ok(())
}

#[test]
fn replays_train_like_eager_steps_whatever_changes_parameters_in_between() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let all: [(&str, Between); 4] =
            [("nothing", nothing), ("loads", loads), ("by hand", steps_by_hand), ("evaluates", evaluates)];
        for (name, between) in all {
            let casting = run(&device, false, true, between)?;
            let eager = run(&device, false, false, between)?;
            assert_eq!(eager, casting, "{device}: {name}");
            // A device that does not support recording runs the step once more when it is captured.
            if device.backend().capture().is_some() {
                assert_eq!(run(&device, true, false, between)?, eager, "{device}: {name}");
                assert_eq!(run(&device, true, true, between)?, eager, "{device}: {name}, spoiled");
            }
        }
    }
    Ok(())
}

/// The backward pass is recorded, the optimizer steps are not. Replays count as uses, so the copies
/// are kept and current.
#[test]
fn a_recorded_backward_pass_reads_the_copies_of_eager_steps() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let mut ended = Vec::new();
        for capture in [false, true] {
            let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
            let (mut adam, params) = (adamw(model.parameters())?, model.parameters());
            let backward = || loss(&model, &x, BF16)?.backward();
            adam.step(&backward()?)?;
            let mut recorded = capture.then(|| device.capture(backward)).transpose()?;
            for number in 0..5 {
                if number == 3 {
                    no_grad(|| params[0].tensor().mul_scalar_(0.5))?;
                }
                match &mut recorded {
                    Some(recorded) => adam.step(recorded.replay()?)?,
                    None => adam.step(&backward()?)?,
                }
            }
            // Also after the optimizer, and its copies with it, are dropped.
            drop(adam);
            no_grad(|| params[1].tensor().add_scalar_(0.25))?;
            let last = match &mut recorded {
                Some(recorded) => recorded.replay()?.get(&params[2].tensor()).map(Tensor::to_bytes),
                None => backward()?.get(&params[2].tensor()).map(Tensor::to_bytes),
            };
            ended.push((bits(&params)?, last.transpose()?));
        }
        assert!(ended[0].1.is_some());
        assert_eq!(ended[0], ended[1], "{device}");
    }
    Ok(())
}

#[test]
fn a_recorded_step_casts_no_parameter() -> Result<()> {
    let (inner, casts) = watched(ternion_cpu::device());
    // It pretends to record, and runs the ops that it records.
    let device = recording(inner);
    let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
    let (params, mut adam) = (model.parameters(), adamw(model.parameters())?);
    let mut counts = Vec::new();
    let step = device.capture(|| {
        casts.copies_used(&params);
        adam.step(&loss(&model, &x, BF16)?.backward()?)?;
        counts.push(casts.copies_used(&params));
        Ok(())
    })?;
    assert!(step.is_recorded());
    drop(step);
    assert_eq!(counts, [4, 0], "the first run casts, what is recorded does not");
    Ok(())
}
