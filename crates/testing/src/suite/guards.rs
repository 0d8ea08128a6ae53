//! The guards on the table itself: rows are complete, every op has one, and the required devices
//! are present.

use super::{EXPECT, applies};
use crate::check::{Filter, Target, check_row};
use crate::kinds;
use crate::report::Check;
use crate::table::{OpCase, table};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use ternion_core::ops::create::Fill;
use ternion_core::{DType, Scalar, Shape};

/// Creates one trial for each guard.
pub(super) fn guards(targets: &[Target], expected: &str) -> Vec<Trial> {
    let present: Vec<String> = targets.iter().map(|target| target.device.name().to_string()).collect();
    let required = expected.to_string();
    let mut trials = vec![
        Trial::test("table::expected_devices_are_present", move || {
            expected_devices(&required, &present).map_err(Failed::from)
        }),
        Trial::test("table::rows_are_complete", || table_errors(&table()).map_err(Failed::from)),
    ];
    if let Some(target) = targets.first().cloned() {
        trials.push(Trial::test("table::every_op_has_a_row", move || {
            // The op must have its own row: a composition that reaches it does not check it.
            let rows: Vec<OpCase> = table().into_iter().filter(|row| !row.composition).collect();
            every_op_has_a_row(&rows, &target).map_err(Failed::from)
        }));
    }
    trials
}

/// Checks that every device named in `required` (separated by commas) is among `present`, with or
/// without its index.
///
/// # Errors
/// Returns which device is missing.
pub fn expected_devices(required: &str, present: &[String]) -> Result<(), String> {
    for name in required.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let available = present.iter().any(|device| device == name || device.split(':').next() == Some(name));
        if !available {
            return Err(format!("{EXPECT} asks for {name}, present: {}", present.join(", ")));
        }
    }
    Ok(())
}

/// Checks that every row is complete and every key is unique.
///
/// # Errors
/// Returns what is missing, one line for each row.
pub fn table_errors(rows: &[OpCase]) -> Result<(), String> {
    let mut errors = Vec::new();
    let mut keys = BTreeSet::new();
    for row in rows {
        let name = row.name();
        if row.instances.is_empty() && row.rejects.is_empty() {
            errors.push(format!("{name}: runs on no shape"));
        }
        if !row.instances.is_empty() && (row.run.is_none() || row.oracle.is_none()) {
            errors.push(format!("{name}: needs both run and oracle"));
        }
        for instance in &row.instances {
            if instance.len() != row.inputs.len() {
                errors.push(format!("{name}: {} shapes for {} inputs", instance.len(), row.inputs.len()));
            }
            if !keys.insert(row.key(instance)) {
                errors.push(format!("{}: two rows have this key", row.key(instance)));
            }
        }
        for (adversarial, inputs) in &row.adversarial {
            if inputs.len() != row.inputs.len() {
                errors.push(format!(
                    "{name} adversarial={adversarial}: {} arrays for {} inputs",
                    inputs.len(),
                    row.inputs.len()
                ));
            }
        }
        if row.double_backward && (row.forward_only.is_some() || !row.has_gradient()) {
            errors.push(format!("{name}: gradients of gradients are asked of a row without gradients"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// Checks that the rows, run forward and backward on their smallest shapes, request every op of the
/// list from a device, and every variant of each.
///
/// # Errors
/// Returns the ops that no row reaches.
pub fn every_op_has_a_row(rows: &[OpCase], target: &Target) -> Result<(), String> {
    let requested = reached(rows, target);
    let missing: Vec<String> = kinds::every_op()
        .into_iter()
        .filter(|op| !requested.iter().any(|requested| op.matches(requested)))
        .map(|op| op.to_string())
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("no row reaches: {}", missing.join(", "))) }
}

/// Returns whether a device has tensors of `dtype`.
fn has_dtype(target: &Target, dtype: DType) -> bool {
    let fill = Fill { shape: Shape::SCALAR, dtype, value: Scalar::Bool(false) };
    target.device.backend().plan(&fill.into(), &[]).is_ok()
}

/// Returns variant and name of every op that the rows reach, each on its smallest shape in the
/// first dtype that the device has.
pub fn reached(rows: &[OpCase], target: &Target) -> BTreeSet<kinds::OpName> {
    let mut all = BTreeSet::new();
    for row in rows {
        let available =
            row.dtypes.iter().copied().filter(|&dtype| has_dtype(target, dtype)).take(1).collect();
        let smallest = OpCase { dtypes: available, ..row.smallest() };
        for check in [Check::Forward, Check::Backward, Check::Composed] {
            let row = smallest.clone();
            if applies(check, std::slice::from_ref(&row)) && !row.instances.is_empty() {
                let outcome = check_row(&row, check, target, &Filter::default());
                all.extend(outcome.trace.requested);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Values;

    #[test]
    fn incomplete_rows_are_named() {
        let bare = OpCase::new("bare", "").input(Values::Bools).on([&[1], &[2]]);
        let text = table_errors(&[bare.clone(), bare]).unwrap_err();
        for part in ["needs both run and oracle", "2 shapes for 1 inputs", "two rows have this key"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(table_errors(&table()), Ok(()));
    }

    #[test]
    fn an_op_without_a_row_is_named() {
        let target = Target::new(ternion_cpu::device());
        let text = every_op_has_a_row(&[], &target).unwrap_err();
        assert!(text.contains("SoftmaxGrad") && text.contains("relu_grad (UnaryGrad)"), "{text}");
    }
}
