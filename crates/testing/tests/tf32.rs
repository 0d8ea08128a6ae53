//! Rows whose products permit TF32 pass on a device that rounds their factors, forward and
//! backward, and fail on a device that does so incorrectly.

use ternion_core::decorators::Checked;
use ternion_core::{Device, MatmulOptions, Result, Tensor};
use ternion_testing::tf32::{Mode, Tf32};
use ternion_testing::{Check, Filter, OpCase, Outcome, Target, check_row, table};

mod broken;
use broken::{Wrong, broken};

const CHECKS: [Check; 4] = [Check::Forward, Check::Backward, Check::Composed, Check::Adversarial];

fn rows() -> Vec<OpCase> {
    let mut rows = table::table();
    rows.retain(|row| row.tf32_factors > 0);
    assert!(["matmul", "conv2d", "conv2d_grad_weight"].iter().all(|op| rows.iter().any(|row| row.op == *op)));
    rows
}

fn outcome(row: &OpCase, check: Check, device: Device) -> Outcome {
    check_row(row, check, &Target::new(device), &Filter::default())
}

#[test]
fn rounded_products_and_their_gradients_pass() {
    let cpu = ternion_cpu::device();
    for row in rows() {
        for check in CHECKS {
            let result = outcome(&row, check, Tf32::device(&cpu, Mode::Nearest));
            assert!(result.failures.is_empty(), "{} {check}: {:?}", row.name(), result.failures);
            if matches!(check, Check::Forward | Check::Backward) {
                assert!(result.compared > 0, "{} {check}", row.name());
                let exact = outcome(&row, check, cpu.clone());
                assert!(
                    result.fingerprint != exact.fingerprint,
                    "{} {check}: nothing was rounded",
                    row.name()
                );
            }
        }
    }
}

#[test]
fn truncated_operands_fail() {
    let cpu = ternion_cpu::device();
    for row in rows() {
        for check in [Check::Forward, Check::Backward] {
            let result = outcome(&row, check, Tf32::device(&cpu, Mode::Truncate));
            assert!(!result.failures.is_empty(), "{} {check}", row.name());
            assert!(
                result.failures.iter().all(|failure| failure.key.contains(" f32 ")),
                "{:?}",
                result.failures
            );
        }
    }
}

#[test]
fn a_wrong_product_of_rounded_factors_fails() {
    for row in rows() {
        let rounding = Tf32::device(&ternion_cpu::device(), Mode::Nearest);
        // The last element of the product that a convolution contains may not correspond to any
        // pixel.
        let wrong = if row.op == "matmul" { Wrong::LastElementOff } else { Wrong::Times(1.001) };
        let result = outcome(&row, Check::Forward, broken(&rounding, "matmul", wrong));
        assert!(result.failures.iter().any(|failure| failure.key.contains(" f32 ")), "{}", row.name());
    }
}

/// Returns a product on a device that rounds in this mode, checked against the CPU.
fn checked(mode: Mode, tf32: bool) -> Result<Tensor> {
    let cpu = ternion_cpu::device();
    let device = Checked::new(Tf32::device(&cpu, mode), cpu);
    device.seed(3);
    let a = Tensor::randn([9, 40], ternion_core::DType::F32, &device)?;
    a.matmul_with(&a.t()?, MatmulOptions { tf32, ..MatmulOptions::default() })
}

#[test]
fn a_checked_device_may_round_what_is_permitted_and_nothing_else() {
    checked(Mode::Nearest, true).expect("rounded as it may be");
    checked(Mode::Truncate, false).expect("nothing is permitted, and nothing rounded");
    let error = checked(Mode::Truncate, true).expect_err("truncated").to_string();
    assert!(error.starts_with("matmul: "), "{error}");
}
