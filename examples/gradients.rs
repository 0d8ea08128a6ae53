//! Gradients in ten minutes: what is recorded, how to walk back, how to train. Prints what it does.
//!
//!     cargo run --example gradients
//!
//! Before: tensors.rs. Next: xor.rs, then mnist.rs.

#[path = "support/chosen.rs"]
mod chosen;
#[path = "support/say.rs"]
mod say;

use say::say;
use ternion::GradOptions;
use ternion::prelude::*;

/// The program.
pub fn main() -> Result<()> {
    let device = chosen::device()?;
    // Only what is computed from a tensor that requires a gradient is recorded.
    let x = Tensor::new([1.0f32, 2.0, 3.0], &device)?.requires_grad()?;
    first_derivative(&x)?;
    second_derivative(&x, &device)?;
    compare_with_differences()?;

    title("Training by hand");
    // Find the line y = 3 x - 1 from noisy points: forward, backward, a step against the gradient.
    device.seed(7);
    let inputs = Tensor::rand([100, 1], DType::F32, &device)?;
    let noise = (Tensor::randn([100, 1], DType::F32, &device)? * 0.05)?;
    let targets = (((&inputs * 3.0)? - 1.0)? + noise)?;
    train_by_hand(&inputs, &targets, &device)?;
    let line = train_a_layer(&inputs, &targets, &device)?;
    show_errors(&x, &line.forward(&inputs)?, &device)
}

fn first_derivative(x: &Tensor) -> Result<()> {
    title("A derivative");
    let y = x.powf(3.0)?.sum(..)?;
    // `backward` returns the gradients: there is nothing to set to zero, and no old gradient can be
    // used by mistake.
    let gradients = y.backward()?;
    say!("y = sum(x^3) at x = [1, 2, 3] is {}", y.item::<f32>()?);
    say!("dy/dx = 3 x^2 = {:?}", gradients.get(x).expect("y depends on x").to_vec::<f32>()?);
    Ok(())
}

fn second_derivative(x: &Tensor, device: &Device) -> Result<()> {
    title("A derivative of a derivative");
    let options = GradOptions { create_graph: true, ..Default::default() };
    let y = x.powf(3.0)?.sum(..)?;
    let one = Tensor::ones((), DType::F32, device)?;
    let first = grad(&[y], std::slice::from_ref(x), &[one], options)?.swap_remove(0).expect("y depends on x");
    let second = first.sum(..)?.backward()?;
    say!("d2y/dx2 = 6 x = {:?}", second.get(x).expect("so does its derivative").to_vec::<f32>()?);
    Ok(())
}

fn compare_with_differences() -> Result<()> {
    title("Is it right?");
    // A gradient can be checked by moving the input a little: in f64, which has precision to spare and
    // which the CPU always supports.
    let cpu = ternion::device("cpu")?;
    let at = |value: f64| -> Result<f64> { Tensor::new(value, &cpu)?.gelu()?.item::<f64>() };
    let point = Tensor::new(0.5f64, &cpu)?.requires_grad()?;
    let gradients = point.gelu()?.backward()?;
    let gradient = gradients.get(&point).expect("gelu depends on it").item::<f64>()?;
    say!("gelu'(0.5) by the tape     {gradient:.9}");
    say!("gelu'(0.5) by differences  {:.9}", (at(0.5 + 1e-5)? - at(0.5 - 1e-5)?) / 2e-5);
    Ok(())
}

fn train_by_hand(inputs: &Tensor, targets: &Tensor, device: &Device) -> Result<()> {
    let slope = Tensor::zeros([1], DType::F32, device)?.requires_grad()?;
    let offset = Tensor::zeros([1], DType::F32, device)?.requires_grad()?;
    for step in 0..=300 {
        let loss = ((inputs * &slope)? + &offset)?.mse_loss(targets, Reduction::Mean)?;
        let gradients = loss.backward()?;
        if step % 100 == 0 {
            say!("step {step:3}: loss {:.5}", loss.item::<f32>()?);
        }
        no_grad(|| -> Result<()> {
            for parameter in [&slope, &offset] {
                let gradient = gradients.get(parameter).expect("the loss depends on both");
                parameter.sub_(&(gradient * 0.5)?)?;
            }
            Ok(())
        })?;
    }
    say!("y = {:.3} x {:+.3}", slope.item::<f32>()?, offset.item::<f32>()?);
    Ok(())
}

fn train_a_layer(inputs: &Tensor, targets: &Tensor, device: &Device) -> Result<Linear> {
    title("The same with a layer and an optimiser");
    let line = Linear::new(1, 1, device)?;
    let mut sgd = SGD::new(line.parameters(), SGDConfig { lr: 0.5, ..Default::default() })?;
    for _ in 0..=300 {
        let loss = line.forward(inputs)?.mse_loss(targets, Reduction::Mean)?;
        sgd.step(&loss.backward()?)?;
    }
    say!("{}", model_stats(&line, None)?);
    Ok(line)
}

/// `output` depends on the parameters of another layer than the one that is stepped here.
fn show_errors(x: &Tensor, output: &Tensor, device: &Device) -> Result<()> {
    title("What is said when something is wrong");
    let frozen = Tensor::ones([2], DType::F32, device)?;
    let unrelated = Linear::new(1, 1, device)?;
    let mut sgd = SGD::new(unrelated.parameters(), SGDConfig::default())?;
    let elsewhere = output.sum(..)?.backward()?;
    let walked = x.exp()?.sum(..)?;
    walked.backward()?;
    for error in [
        frozen.sum(..)?.backward().err(), // nothing requires a gradient
        x.backward().err(),               // three elements have no one gradient
        walked.backward().err(),          // what was saved is freed
        x.add_(&frozen).err(),            // a change in place would lose the gradient
        sgd.step(&elsewhere).err(),       // a parameter without a gradient
    ]
    .into_iter()
    .flatten()
    {
        say!("  {error}");
    }
    Ok(())
}

fn title(words: &str) {
    say!("\n== {words}\n");
}
