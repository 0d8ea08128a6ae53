//! Checks of decorators that need the whole project: every op runs under each of them, and
//! `TERNION_FALLBACK` accepts its name.

use ternion::decorators::{Checked, Composed, Counting, Fallback, known_names};
use ternion::prelude::*;
use ternion_testing::check::{Filter, Target, check_row};
use ternion_testing::kinds::every_op;
use ternion_testing::report::{Check, Outcome};
use ternion_testing::table::table;

#[test]
fn fallback_knows_the_name_of_every_op() {
    let known = known_names();
    for op in every_op().into_iter().filter(|op| !op.name.is_empty()) {
        assert!(known.iter().any(|name| name == op.name), "{op}");
    }
}

/// Runs the table in one dtype and layout. Rows that use a device's random numbers or versions use
/// those of the device inside the decorator.
fn table_runs_on(device: &Device) {
    let target = Target::new(device.clone());
    let filter = Filter::Text("f32 dense".into());
    let mut all = Outcome::default();
    for row in table() {
        for check in [Check::Forward, Check::Backward] {
            let is_requested = check == Check::Forward || (row.forward_only.is_none() && row.has_gradient());
            if is_requested {
                all.merge(check_row(&row, check, &target, &filter));
            }
        }
    }
    assert!(all.compared > 100_000, "{} elements compared", all.compared);
    all.verdict("on a decorated device").unwrap_or_else(|failures| panic!("{}: {failures}", device.name()));
}

#[test]
fn every_op_passes_the_comparison_with_its_composition() {
    let composed = Composed::new(ternion_cpu::device());
    table_runs_on(&Checked::new(ternion_cpu::device(), composed));
}

#[test]
fn every_op_may_run_on_another_device() -> Result<()> {
    let names = known_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    table_runs_on(&Fallback::new(ternion_cpu::device(), ternion_cpu::device(), &names)?);
    Ok(())
}

#[test]
fn every_op_is_counted() {
    table_runs_on(&Counting::new(ternion_cpu::device()).0);
}
