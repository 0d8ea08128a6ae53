//! Exclusive or, the smallest problem that needs a hidden layer.
//!
//!     cargo run --release -p examples --example xor

use ternion::prelude::*;

fn main() -> Result<()> {
    let device = ternion::device(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    device.seed(1);
    let inputs = Tensor::new([[0.0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], &device)?;
    let targets = Tensor::new([[0.0f32], [1.0], [1.0], [0.0]], &device)?;

    let model =
        Sequential::new().with(Linear::new(2, 8, &device)?).with(Tanh).with(Linear::new(8, 1, &device)?);
    println!("a network with {} parameters learns exclusive or on {device}\n", model.parameter_count());

    let mut adam = Adam::new(model.parameters(), AdamConfig { lr: 0.05, ..Default::default() })?;
    for step in 0..=300 {
        let logits = model.forward(&inputs)?;
        let loss = logits.bce_with_logits(&targets, Reduction::Mean)?;
        if step % 50 == 0 {
            println!("step {step:3}: loss {:.5}", loss.item::<f32>()?);
        }
        adam.step(&loss.backward()?)?;
    }

    let outputs = model.forward(&inputs)?.sigmoid()?.to_vec::<f32>()?;
    println!();
    for (pair, output) in inputs.to_vec::<f32>()?.chunks(2).zip(outputs) {
        println!("{} xor {} = {output:.3}", pair[0], pair[1]);
    }
    println!("\nthe parameters, one line each:\n{}", model_stats(&model, None)?);
    Ok(())
}
