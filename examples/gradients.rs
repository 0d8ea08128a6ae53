//! Gradients in ten minutes: derivatives, higher derivatives, training by hand and with an
//! optimizer, error messages.
//!
//!     cargo run -p examples --example gradients
//!
//! Before: tensors.rs. Next: xor.rs, then mnist.rs.

use ternion::GradOptions;
use ternion::prelude::*;

fn main() -> Result<()> {
    let device = ternion::device(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    // Only what is computed from a tensor that requires a gradient is recorded.
    let x = Tensor::new([1.0f32, 2.0, 3.0], &device)?.requires_grad()?;
    derivatives(&x)?;

    // Fit the line y = 3 x - 1 to noisy points.
    device.seed(7);
    let inputs = Tensor::rand([100, 1], DType::F32, &device)?;
    let noise = (Tensor::randn([100, 1], DType::F32, &device)? * 0.05)?;
    let targets = (((&inputs * 3.0)? - 1.0)? + noise)?;
    train_by_hand(&inputs, &targets, &device)?;
    train_a_layer(&inputs, &targets, &device)?;
    errors(&x, &device)
}

fn derivatives(x: &Tensor) -> Result<()> {
    let y = x.powf(3.0)?.sum(..)?;
    // `backward` returns the gradients: nothing has to be set to zero, and no stale gradient can be
    // used by mistake.
    let gradients = y.backward()?;
    println!("y = sum(x^3) at x = [1, 2, 3]: {}", y.item::<f32>()?);
    println!("dy/dx = 3 x^2 = {:?}", gradients.get(x).expect("y depends on x").to_vec::<f32>()?);

    // `create_graph` records the backward pass, so that it can be differentiated again (double
    // backward).
    let options = GradOptions { create_graph: true, ..Default::default() };
    let one = Tensor::ones((), DType::F32, x.device())?;
    let y = x.powf(3.0)?.sum(..)?;
    let first = grad(&[y], std::slice::from_ref(x), &[one], options)?.swap_remove(0).expect("y depends on x");
    let second = first.sum(..)?.backward()?;
    println!("d2y/dx2 = 6 x = {:?}", second.get(x).expect("dy/dx depends on x").to_vec::<f32>()?);
    Ok(())
}

fn train_by_hand(inputs: &Tensor, targets: &Tensor, device: &Device) -> Result<()> {
    let weight = Tensor::zeros([1], DType::F32, device)?.requires_grad()?;
    let bias = Tensor::zeros([1], DType::F32, device)?.requires_grad()?;
    for _ in 0..300 {
        let loss = ((inputs * &weight)? + &bias)?.mse_loss(targets, Reduction::Mean)?;
        let gradients = loss.backward()?;
        no_grad(|| {
            [&weight, &bias].into_iter().try_for_each(|parameter| {
                let gradient = gradients.get(parameter).expect("the loss depends on both");
                parameter.sub_(&(gradient * 0.5)?).map(|_| ())
            })
        })?;
    }
    println!("by hand:    y = {:.3} x {:+.3}", weight.item::<f32>()?, bias.item::<f32>()?);
    Ok(())
}

fn train_a_layer(inputs: &Tensor, targets: &Tensor, device: &Device) -> Result<()> {
    let line = Linear::new(1, 1, device)?;
    let mut sgd = SGD::new(line.parameters(), SGDConfig { lr: 0.5, ..Default::default() })?;
    for _ in 0..300 {
        let loss = line.forward(inputs)?.mse_loss(targets, Reduction::Mean)?;
        sgd.step(&loss.backward()?)?;
    }
    println!("by a layer:\n{}", model_stats(&line, None)?);
    Ok(())
}

fn errors(x: &Tensor, device: &Device) -> Result<()> {
    let constant = Tensor::ones([3], DType::F32, device)?;
    let y = x.exp()?.sum(..)?;
    y.backward()?;
    for (what, error) in [
        ("nothing requires a gradient", constant.sum(..)?.backward().err()),
        ("three elements have no single gradient", x.backward().err()),
        ("a second backward pass", y.backward().err()),
        ("an in-place change of a leaf", x.add_(&constant).err()),
    ] {
        println!("{what}:\n  {}", error.expect("each of these is an error"));
    }
    Ok(())
}
