//! Recorded steps on a device that pretends to record: ops run while it records, and replays run
//! only the host work that precedes each replay.

use super::{OPTIMIZERS, gradients_of, grouped, message_of, start, steps};
use ternion::nn::optim::{Adagrad, AdagradConfig};
use ternion::prelude::*;
use ternion_testing::recording;

/// The second run must call the same ops with the same parameters: values that change from step to
/// step are stored on the device.
#[test]
fn every_step_can_be_recorded_and_replays_count() -> Result<()> {
    let device = recording(ternion_cpu::device());
    let target_grads = steps(DType::F32, &device)?.swap_remove(0);
    for (name, create) in OPTIMIZERS {
        let params = start(DType::F32, &device)?;
        let mut optimizer = create(params.clone(), Some(2.0))?;
        let mut step = device.capture(|| optimizer.step(&gradients_of(&params, &target_grads)?))?;
        assert!(step.is_recorded(), "{name}");
        step.replay()?;
        step.replay()?;
        drop(step);
        let state = optimizer.state_dict()?;
        // One step that ran and two replays; the recorded step did not run.
        assert_eq!(state["p1.step"].item::<i64>()?, 3, "{name}");
    }
    Ok(())
}

/// There are as many rows of numbers as when the step was recorded, but those of p1 and p2 are
/// swapped.
#[test]
fn a_recorded_step_is_rejected_after_its_rows_change_owners() -> Result<()> {
    let device = recording(ternion_cpu::device());
    let (params, target_grads) = (start(DType::F32, &device)?, steps(DType::F32, &device)?.swap_remove(0));
    let config = AdagradConfig { allow_missing_gradients: true, ..Default::default() };
    let mut adagrad = Adagrad::with_groups(grouped(params.clone(), 1.0, 0.0), config)?;
    // p1 and p2 are in one group; p1 is one step ahead.
    adagrad.step(&gradients_of(&params[1..2], &target_grads[1..2])?)?;
    let adagrad = std::cell::RefCell::new(adagrad);
    let mut step = device.capture(|| adagrad.borrow_mut().step(&gradients_of(&params, &target_grads)?))?;
    step.replay()?;
    for _ in 0..2 {
        adagrad.borrow_mut().step(&gradients_of(&params[2..], &target_grads[2..])?)?;
    }
    let before = adagrad.borrow().state_dict()?;
    let message = message_of(step.replay().map(drop));
    let expected = "adagrad: some parameters of the recorded step were stepped apart from the others since: record it again";
    assert_eq!(message, expected);
    let after = adagrad.borrow().state_dict()?;
    assert_eq!(before["p2.step"].item::<i64>()?, after["p2.step"].item::<i64>()?);
    Ok(())
}
