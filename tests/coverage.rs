//! `docs/coverage.md` says what the table finds: support can neither shrink nor grow unseen.

use std::collections::BTreeMap;
use ternion_testing::{coverage, suite};

fn committed() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/coverage.md");
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{path}: {error}; write it with cargo xtask coverage"))
}

#[test]
fn the_page_is_what_a_fresh_run_writes() {
    let page = committed();
    let mut sections: BTreeMap<String, String> = coverage::sections(&page);
    let cpu = coverage::measure(&suite::targets()[0]);
    assert!(cpu.failures.is_empty(), "{}", cpu.failures.join("\n"));
    let lost = coverage::shrunk(&sections["cpu"], &cpu.section());
    assert!(lost.is_empty(), "support was lost:\n{}", lost.join("\n"));
    // Sections of devices that are not here stay as they are.
    sections.insert("cpu".into(), cpu.section());
    let fresh = coverage::page(&sections);
    let differs = page.lines().zip(fresh.lines()).find(|(page, fresh)| page != fresh);
    assert!(page == fresh, "docs/coverage.md is out of date (cargo xtask coverage): {differs:?}");
}

#[test]
fn every_cell_of_the_cpu_runs() {
    let sections = coverage::sections(&committed());
    let cells =
        sections["cpu"].lines().filter(|line| line.starts_with("| ")).flat_map(|line| line.split('|'));
    assert!(
        !cells.into_iter().any(|cell| cell.contains('-') && cell.trim().len() <= 2),
        "the CPU runs every op in every dtype"
    );
}
