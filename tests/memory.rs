//! Memory does not grow with the number of steps.

use ternion::prelude::*;

/// Returns the number of steps of the test; `TERNION_MEMORY_STEPS` sets another number (a million
/// takes a few minutes).
fn steps() -> usize {
    std::env::var("TERNION_MEMORY_STEPS")
        .ok()
        .map_or(20_000, |text| text.parse().expect("TERNION_MEMORY_STEPS is a number"))
}

/// Returns the resident memory of this process in bytes, if the system reports it.
fn resident() -> Option<usize> {
    let statistics = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statistics.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

#[test]
fn training_steps_end_within_a_mebibyte_of_the_first_thousand() -> Result<()> {
    let device = ternion::cpu()?;
    device.seed(1);
    let model = Mlp::new([4, 8, 2], &device)?;
    let mut optimiser = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let x = Tensor::randn([8, 4], DType::F32, &device)?;
    let labels = Tensor::from_slice(&[0i64, 1, 0, 1, 0, 1, 0, 1], [8], &device)?;
    let mut step = || -> Result<()> {
        let loss = model.forward(&x)?.cross_entropy(&labels)?;
        optimiser.step(&loss.backward()?)
    };
    for _ in 0..1000 {
        step()?;
    }
    let (resident_before, pool) = (resident(), device.memory());
    for _ in 0..steps() {
        step()?;
    }
    let after = device.memory();
    assert_eq!(after.in_use, pool.in_use, "live buffers");
    assert!(after.cached <= pool.cached + (1 << 20), "cached: {} after {}", after.cached, pool.cached);
    if let (Some(before), Some(after)) = (resident_before, resident()) {
        assert!(after <= before + (1 << 20), "resident: {after} after {before}");
    }
    Ok(())
}
