//! `docs/coverage.md` matches the measured coverage of the table: a gain or loss of support fails
//! this test.

use std::path::Path;
use ternion_testing::coverage::{self, Coverage};
use ternion_testing::suite;

fn docs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs"))
}

/// Returns the committed coverage of each device, the CPU first.
fn committed() -> Vec<Coverage> {
    let found = coverage::read_folder(docs()).unwrap_or_else(|error| panic!("{error}; cargo xtask coverage"));
    assert!(
        found.first().is_some_and(|first| first.device == "cpu"),
        "cargo xtask coverage writes the CPU's"
    );
    found
}

#[test]
fn a_new_run_matches_the_committed_coverage() {
    let (before, fresh) = (&committed()[0], coverage::measure(&suite::targets()[0]));
    assert!(fresh.failures.is_empty(), "{}", fresh.failures.join("\n"));
    let lost = fresh.lost(before);
    assert!(lost.is_empty(), "support was lost:\n{}", lost.join("\n"));
    let (before, fresh) = (before.to_json(), fresh.to_json());
    let differs = before.lines().zip(fresh.lines()).find(|(before, fresh)| before != fresh);
    assert!(before == fresh, "docs/coverage-cpu.json is out of date (cargo xtask coverage): {differs:?}");
}

#[test]
fn the_page_matches_the_committed_coverage() {
    let path = docs().join("coverage.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let fresh = coverage::page(&committed());
    let differs = page.lines().zip(fresh.lines()).find(|(page, fresh)| page != fresh);
    assert!(page == fresh, "docs/coverage.md is out of date (cargo xtask coverage): {differs:?}");
}

/// The CPU supports everything; other devices support everything in the dtypes in which networks
/// are trained.
#[test]
fn required_ops_are_supported() {
    for found in committed() {
        let must = |dtype: &str| found.device == "cpu" || ["f32", "f16", "bf16"].contains(&dtype);
        let cells = found.cells().filter(|(_, dtype, cell)| must(dtype) && cell.mark().contains('-'));
        let unsupported: Vec<String> = cells.map(|(op, dtype, _)| format!("{op} {dtype}")).collect();
        assert!(unsupported.is_empty(), "{} rejects {unsupported:?}", found.device);
        assert!(
            found.cells().any(|(op, _, cell)| op == "softmax" && cell.mark() == "FB"),
            "{}",
            found.device
        );
    }
}
