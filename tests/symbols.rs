//! Every kernel that the CUDA backend can ask for exists in the machine code that its source gives, for every op and dtype. Needs NVRTC but no GPU.

use std::io::Write;
use ternion_core::UnaryOp;
use ternion_core::ops::{binary::BinaryOp, compare::CompareOp};
use ternion_cuda::{machine_code, nvrtc, sources};

/// The architecture whose code is looked at; `cargo xtask kernels` compiles for the others too.
const ARCHITECTURE: &str = "sm_90a";

/// Whether the image has a function of that name: its code stands in a section that is called so.
fn has_kernel(image: &[u8], name: &str) -> bool {
    let section = format!("\0.text.{name}\0");
    image.windows(section.len()).any(|window| window == section.as_bytes())
}

#[test]
fn every_kernel_that_can_be_asked_for_exists() {
    match nvrtc::version() {
        Ok(_) => {}
        Err(error) if std::env::var_os("TERNION_NVRTC").is_some() => panic!("{error}"),
        Err(error) => {
            // Past the test harness, which keeps what passing tests print to itself.
            let _ = writeln!(std::io::stderr(), "not tested: {error}");
            return;
        }
    }
    let mut kernels = 0;
    for unit in sources::units() {
        let source = unit.source();
        let image = machine_code(&source, ARCHITECTURE).unwrap_or_else(|error| panic!("{error}"));
        for kernel in source.kernels {
            assert!(has_kernel(&image, kernel), "{}: no kernel {kernel}", source.name);
            kernels += 1;
        }
        assert!(!has_kernel(&image, "no_such_kernel"), "the search finds anything");
    }
    assert!(kernels > 1000, "{kernels} kernels: the list is not whole");
}

#[test]
fn every_function_of_elements_has_units() {
    let listed: Vec<String> = sources::units().iter().map(|unit| format!("{unit:?}")).collect();
    let has = |family: &str, name: &str| {
        let wanted = format!("family: {family}, name: {name:?},");
        assert!(listed.iter().any(|unit| unit.contains(&wanted)), "no unit of {family} {name}");
    };
    UnaryOp::ALL.iter().for_each(|op| has("Unary", op.name()));
    BinaryOp::ALL.iter().for_each(|op| has("Binary", op.name()));
    CompareOp::ALL.iter().for_each(|op| has("Compare", op.name()));
}

#[test]
fn no_unit_is_listed_twice() {
    let units = sources::units();
    let mut seen = std::collections::HashSet::new();
    assert!(units.iter().all(|unit| seen.insert(*unit)));
}
