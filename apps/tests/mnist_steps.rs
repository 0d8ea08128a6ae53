//! The steps of `apps/src/mnist`: padding has no influence, and a captured step trains
//! bit-identically to an eager one.

#[path = "../../tests/support/cuda.rs"]
pub(crate) mod support;

use std::cell::RefCell;
use ternion::prelude::*;
use ternion_apps::mnist::step::Step;
use ternion_apps::support::digits::DigitSet;

/// 70 digits are two batches of 32, and one of 6 that is padded.
const COUNT: usize = 70;
const BATCH: usize = 32;
const EPOCHS: u64 = 3;

/// The CPU, and the first CUDA device if there is one.
fn devices() -> Vec<Device> {
    [ternion_cpu::device()].into_iter().chain(support::cuda()).collect()
}

fn split() -> Result<Split> {
    Ok(Mnist::load(DataSource::Synthetic { train: COUNT, test: 10, seed: 5 })?.train().clone())
}

/// The results of a run: the mean loss and the hits of each step, and all parameters.
#[derive(Debug, PartialEq)]
struct Run {
    steps: Vec<[f32; 2]>,
    parameters: Vec<f32>,
}

fn model(device: &Device) -> Result<(Mlp, RefCell<AdamW>)> {
    device.seed(2);
    let model = Mlp::new([784, 16, 10], device)?;
    let adam = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-2, ..Default::default() })?;
    Ok((model, RefCell::new(adam)))
}

fn parameters(model: &Mlp) -> Result<Vec<f32>> {
    let values: Vec<Vec<f32>> =
        model.parameters().iter().map(|param| param.tensor().to_vec()).collect::<Result<_>>()?;
    Ok(values.concat())
}

fn distance(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(left, right)| (left - right).powi(2)).sum::<f32>().sqrt()
}

fn learning_rate(number: usize) -> f64 {
    1e-2 / (1 + number) as f64
}

/// Trains on full batches that are gathered on the device.
fn filled(device: &Device, capture: bool) -> Result<Run> {
    let split = split()?;
    let digits = DigitSet::new(&split, device)?;
    let (model, adam) = model(device)?;
    let step = Step::new(&model, &adam, &digits, BATCH)?;
    let mut step = if capture { step.captured() } else { step };
    let mut steps = Vec::new();
    for epoch in 0..EPOCHS {
        let rows = digits.batches(&split.shuffled(1).order(epoch), BATCH)?;
        for position in 0..rows.dims()[0] {
            adam.borrow_mut().set_lr(learning_rate(steps.len()))?;
            let result = step.run(&rows.select(0, position)?)?.to_vec::<f32>()?;
            steps.push([result[0], result[1]]);
        }
    }
    assert_eq!(step.is_recorded(), capture && device.backend().capture().is_some());
    drop(step);
    Ok(Run { steps, parameters: parameters(&model)? })
}

/// Trains on the same batches, but the last one of each epoch is smaller than the others.
fn ragged(device: &Device) -> Result<Run> {
    let (model, adam) = model(device)?;
    let batches = split()?.shuffled(1).batches(BATCH, device).normalize(0.1307, 0.3081)?;
    let mut steps = Vec::new();
    for epoch in 0..EPOCHS {
        for batch in batches.epoch(epoch) {
            let batch = batch?;
            adam.borrow_mut().set_lr(learning_rate(steps.len()))?;
            let logits = model.forward(&batch.images)?;
            let loss = logits.cross_entropy(&batch.labels)?;
            adam.borrow_mut().step(&loss.backward()?)?;
            let hits = logits.accuracy(&batch.labels)?.item::<f32>()? * batch.size as f32;
            steps.push([loss.item::<f32>()?, hits]);
        }
    }
    Ok(Run { steps, parameters: parameters(&model)? })
}

#[test]
fn a_captured_run_leaves_what_an_eager_one_leaves() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let eager = filled(&device, false)?;
        assert_eq!(filled(&device, true)?, eager, "{device}");
        let (untrained, _) = model(&device)?;
        assert_ne!(parameters(&untrained)?, eager.parameters, "{device}: nothing was trained");
    }
    Ok(())
}

#[test]
fn a_batch_that_is_filled_up_trains_as_the_smaller_one() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let (filled, ragged) = (filled(&device, false)?, ragged(&device)?);
        assert_eq!(filled.steps.len(), 9);
        for (number, (got, want)) in filled.steps.iter().zip(&ragged.steps).enumerate() {
            let close = (got[0] - want[0]).abs() <= 1e-3 * want[0];
            assert!(close, "{device}, step {number}: loss {}, with a smaller batch {}", got[0], want[0]);
            assert!((got[1] - want[1]).abs() <= 1.0, "{device}, step {number}: {} hits, {}", got[1], want[1]);
        }
        // Compared as a whole: Adam turns a gradient that is only rounding error into a step of any
        // size.
        let start = parameters(&model(&device)?.0)?;
        let way = distance(&start, &ragged.parameters);
        let apart = distance(&filled.parameters, &ragged.parameters);
        assert!(apart <= 1e-2 * way, "{device}: {apart} apart after a way of {way}");
    }
    Ok(())
}

#[test]
fn images_are_those_of_the_set_without_the_filling() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let split = split()?;
        let digits = DigitSet::new(&split, &device)?;
        let last = digits.images(64, 1000)?;
        assert_eq!((digits.count(), last.dims()), (COUNT, &[6, 1, 28, 28][..]));
        let pixels = last.select(0, 5)?.to_vec::<f32>()?;
        for (got, &pixel) in pixels.iter().zip(split.image(69).expect("the last image")) {
            let want = (f32::from(pixel) / 255.0 - 0.1307) / 0.3081;
            assert!((got - want).abs() <= 1e-6, "{device}: {got}, want {want}");
        }
    }
    Ok(())
}
