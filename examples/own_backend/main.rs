//! Trains a small network on the smallest backend: a device that is defined outside core.
//!
//! `cargo run --release -p examples --example own_backend`

// With `path`, `mod primitives` in `backend.rs` resolves to `primitives.rs` in the same folder, as
// it does in the `src/lib.rs` of a crate.
#[path = "backend.rs"]
mod backend;

use ternion::prelude::*;

fn main() -> Result<()> {
    let device = backend::device();
    device.seed(1);
    let model = Mlp::new([4, 8, 3], &device)?;
    let mut optimiser = AdamW::new(model.parameters(), AdamWConfig { lr: 0.05, ..Default::default() })?;
    let images = Tensor::randn([16, 4], DType::F32, &device)?;
    let labels = images.narrow(1, 0, 3)?.argmax(1)?;
    for step in 0..60 {
        let loss = model.forward(&images)?.cross_entropy(&labels)?;
        if step % 20 == 0 {
            println!("step {step}: loss {:.4} on {device}", loss.item_f64()?);
        }
        optimiser.step(&loss.backward()?)?;
    }
    println!("every op above was a plain loop, or composed from plain loops");
    Ok(())
}
