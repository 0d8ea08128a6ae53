//! Momentum that changes between steps.

use super::{device, message_of};
use ternion::nn::Param;
use ternion::nn::optim::{Adagrad, AdagradConfig, Optimizer, SGD, SGDConfig};
use ternion::prelude::*;

fn step(optimizer: &mut dyn Optimizer, param: &Param) -> Result<f64> {
    let loss = param.tensor().sum(..)?;
    optimizer.step(&loss.backward()?)?;
    param.tensor().item_f64()
}

#[test]
fn a_momentum_counts_from_the_next_step_on() -> Result<()> {
    let param = Param::new(&Tensor::zeros([1], DType::F32, &device())?)?;
    let config = SGDConfig { lr: 1.0, momentum: 0.5, ..Default::default() };
    let mut sgd = SGD::new(vec![param.clone()], config)?;
    // Velocities of 1, then 0.5 + 1, then 0.25 * 1.5 + 1; all are exact in f32.
    assert_eq!([step(&mut sgd, &param)?, step(&mut sgd, &param)?], [-1.0, -2.5]);
    sgd.set_momentum(0.25)?;
    assert_eq!(step(&mut sgd, &param)?, -3.875);
    for rejected in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
        let message = message_of(sgd.set_momentum(rejected));
        assert!(message.contains("expected above 0 and below 1"), "{message}");
    }
    Ok(())
}

#[test]
fn an_optimizer_without_momentum_rejects_one() -> Result<()> {
    let param = Param::new(&Tensor::zeros([1], DType::F32, &device())?)?;
    let mut plain = SGD::new(vec![param.clone()], SGDConfig::default())?;
    let mut adagrad = Adagrad::new(vec![param], AdagradConfig::default())?;
    for optimizer in [&mut plain as &mut dyn Optimizer, &mut adagrad] {
        let message = message_of(optimizer.set_momentum(0.5));
        assert!(message.contains("for an optimizer with momentum"), "{message}");
    }
    Ok(())
}
