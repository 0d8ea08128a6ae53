//! A backend that does not support a required op fails the op table. If it lacks a dtype, this is
//! reported, and a skipped case does not count as tested.

use ternion_core::{Backend, DType, Device, Meta, Op, Plan, Result, Unsupported};
use ternion_testing::{Check, Filter, OpCase, Outcome, Target, check_row, suite, table};

/// The CPU without the ops for which `is_unsupported` returns true.
#[derive(Debug)]
struct Unsupporting {
    inner: Device,
    is_unsupported: fn(&Op, &[Meta<'_>]) -> bool,
}

fn unsupporting(is_unsupported: fn(&Op, &[Meta<'_>]) -> bool) -> Target {
    Target::new(Device::new(Unsupporting { inner: ternion_cpu::device(), is_unsupported }))
}

fn uses_half_precision(op: &Op, inputs: &[Meta<'_>]) -> bool {
    let outputs = op.rule().infer(inputs).unwrap_or_default();
    inputs
        .iter()
        .map(|input| input.dtype)
        .chain(outputs.iter().map(|output| output.dtype))
        .any(DType::is_half)
}

impl Backend for Unsupporting {
    ternion_core::delegate_backend!(inner: alloc, upload, download, run, synchronize, memory);

    fn name(&self) -> &str {
        "unsupporting"
    }
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        match (self.is_unsupported)(op, inputs) {
            true => Err(Unsupported::because("no such kernel")),
            false => self.inner.backend().plan(op, inputs),
        }
    }
}

fn rows(op: &str) -> Vec<OpCase> {
    let rows: Vec<OpCase> = table::table().into_iter().filter(|row| row.op == op).collect();
    assert!(!rows.is_empty(), "{op} has rows");
    rows
}

fn outcome(op: &str, check: Check, target: &Target) -> Outcome {
    let mut all = Outcome::default();
    rows(op).iter().for_each(|row| all.merge(check_row(row, check, target, &Filter::All)));
    all
}

#[test]
fn an_unsupported_primitive_is_a_failure_that_names_op_dtype_and_reason() {
    let target = unsupporting(|op, _| op.name() == "matmul");
    let outcome = outcome("matmul", Check::Forward, &target);
    let f32 = outcome.failures.iter().find(|failure| failure.key.contains(" f32 ")).expect("f32 fails");
    assert_eq!(
        f32.detail,
        "matmul is a primitive, which the device must run in f32, as it has the dtype; it says: no such kernel"
    );
    for dtype in ["f64", "f16", "bf16", "i32"] {
        assert!(
            outcome.failures.iter().any(|failure| failure.key.contains(&format!(" {dtype} "))),
            "{dtype}"
        );
    }
    assert!(outcome.verdict("").is_err());
    let message = suite::every_op_has_a_row(&rows("matmul"), &target).expect_err("other ops have no row");
    assert!(message.starts_with("no row reaches"), "{message}");
}

#[test]
fn a_primitive_unsupported_in_one_dtype_or_layout_is_a_failure() {
    let in_f16 = unsupporting(|op, inputs| op.name() == "exp" && inputs[0].dtype == DType::F16);
    let outcome = outcome("exp", Check::Forward, &in_f16);
    assert!(!outcome.failures.is_empty() && outcome.failures.iter().all(|f| f.detail.contains("run in f16")));
    let strided = unsupporting(|op, inputs| op.name() == "exp" && !inputs[0].layout.is_contiguous());
    let verdict = self::outcome("exp", Check::Forward, &strided).verdict("");
    assert!(verdict.is_err_and(|text| text.contains("sliced") && text.contains("no such kernel")));
}

#[test]
fn fill_must_be_supported() {
    let target = unsupporting(|op, _| op.name() == "fill");
    assert!(!outcome("fill", Check::Forward, &target).failures.is_empty());
}

#[test]
fn a_dtype_that_the_device_lacks_is_skipped_and_shown() {
    let outcome = outcome("exp", Check::Forward, &unsupporting(uses_half_precision));
    assert!(outcome.failures.is_empty() && outcome.compared > 0);
    let reasons: Vec<&str> = outcome.skipped.keys().map(String::as_str).collect();
    assert!(reasons.contains(&"bf16: the device has no bf16; exp: no such kernel"), "{reasons:?}");
    assert!(reasons.iter().all(|why| why.starts_with("f16:") || why.starts_with("bf16:")), "{reasons:?}");
}

#[test]
fn a_completely_skipped_test_does_not_pass() {
    let nothing = unsupporting(|_, _| true);
    let outcome = outcome("exp", Check::Forward, &nothing);
    let text = outcome.verdict("").expect_err("nothing was compared");
    assert!(text.contains("nothing was compared") && text.contains("the device has no f32"), "{text}");
}

#[test]
fn a_test_that_would_skip_every_case_is_ignored() {
    let ignored = |op: &str, target: &Target| -> Vec<String> {
        let prefix = format!("{op}::");
        suite::ignored(std::slice::from_ref(target), &|name| name.starts_with(&prefix))
    };
    let cpu = Target::new(ternion_cpu::device());
    assert_eq!(ignored("eq", &cpu), [""; 0], "nothing is fused: there is no such test");
    assert_eq!(ignored("softmax", &cpu), [""; 0]);
    let nothing = unsupporting(|_, _| true);
    for name in
        ["exp::forward::unsupporting", "exp::backward::unsupporting", "exp::adversarial::unsupporting"]
    {
        assert!(ignored("exp", &nothing).contains(&name.to_string()), "{name}");
    }
    // The unsupported ops are required: the tests run, and fail.
    assert_eq!(ignored("matmul", &unsupporting(|op, _| op.name() == "matmul")), [""; 0]);
    assert_eq!(ignored("exp", &unsupporting(uses_half_precision)), [""; 0]);
}
