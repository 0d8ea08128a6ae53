//! Every kernel that the CUDA backend can ask for exists in the machine code that its source gives, for every op and dtype, and waits there for the launches ahead of it.
//! Needs NVRTC but no GPU.

#[path = "symbols/waits.rs"]
mod waits;

use std::io::Write;
use ternion_core::UnaryOp;
use ternion_core::ops::{binary::BinaryOp, compare::CompareOp};
use ternion_cuda::{
    Architecture, ListedFunction, Variant, machine_code, nvrtc, variants, variants_beside_ops,
};

/// The architectures of `cargo xtask kernels`. The code that is looked at is that for the first of
/// them that a variant is for.
const ARCHITECTURES: [&str; 3] = ["sm_90a", "sm_100a", "sm_80"];

fn architectures() -> [Architecture; 3] {
    ARCHITECTURES.map(|name| name.parse().expect("an architecture"))
}

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
    let (mut kernels, mut early) = (0, Vec::new());
    for variant in variants().into_iter().chain(variants_beside_ops()) {
        let source = variant.source();
        let architecture = architectures().into_iter().find(|&one| variant.is_for(one));
        let architecture =
            architecture.unwrap_or_else(|| panic!("{variant:?} is for none of {ARCHITECTURES:?}"));
        let image =
            machine_code(&source, &architecture.to_string()).unwrap_or_else(|error| panic!("{error}"));
        for kernel in source.kernels {
            assert!(has_kernel(&image, kernel), "{}: no kernel {kernel}", source.name);
            kernels += 1;
        }
        if variant.is_dependent() && architecture == architectures()[0] {
            let faults = source.kernels.iter().filter_map(|kernel| {
                waits::fault(&image, kernel).map(|fault| format!("{}: {kernel}: {fault}", source.name))
            });
            early.extend(faults);
        }
        assert!(!has_kernel(&image, "no_such_kernel"), "the search finds anything");
    }
    assert!(kernels > 1000, "{kernels} kernels: the list is not whole");
    assert!(
        early.is_empty(),
        "kernels that may begin early and do not wait as they must:\n{}",
        early.join("\n")
    );
}

#[test]
fn every_function_of_elements_has_variants() {
    let listed: Vec<ListedFunction> = variants().iter().filter_map(Variant::listed_function).collect();
    let has = |function: ListedFunction| assert!(listed.contains(&function), "no variant of {function:?}");
    UnaryOp::ALL.iter().for_each(|&op| has(ListedFunction::Unary(op)));
    BinaryOp::ALL.iter().for_each(|&op| has(ListedFunction::Binary(op)));
    CompareOp::ALL.iter().for_each(|&op| has(ListedFunction::Compare(op)));
}

#[test]
fn no_variant_is_listed_twice() {
    let variants = variants();
    let mut seen = std::collections::HashSet::new();
    assert!(variants.iter().all(|variant| seen.insert(*variant)));
}

/// Of each variant: the kernels for one architecture may stand beside those for another, and no device is
/// without a form of any op.
#[test]
fn variants_are_for_all_architectures_but_those_of_instructions_that_one_has() {
    let [hopper, blackwell, oldest] = architectures();
    for variant in variants() {
        let of_one = !variant.is_for(oldest);
        assert!(of_one || (variant.is_for(hopper) && variant.is_for(blackwell)), "{variant:?}");
    }
    // Beside those that core's lists of functions give.
    let count = variants().iter().filter(|variant| variant.listed_function().is_none()).count();
    assert_eq!(count, 1515, "a new variant is one more kernel to compile: change this number");
    let of_hopper = variants().iter().filter(|variant| !variant.is_for(oldest)).count();
    // Of wgmma. Attention: two widths, five reaches, two dtypes, both ways, and
    // forward by TMA and the gradient in one walk of two reaches, one of them in two orders. Products: eight tiles, four orders of operands, two dtypes, two outputs; and
    // four tiles of TF32, three orders.
    // Parts of bf16: two tiles in four orders, and the kernel that splits operands.
    // Split-K in clusters: two tiles in two orders and one in four, two dtypes, two outputs.
    // Fused: three tiles of two dtypes, three activations and their gradients, residuals in three layouts.
    // With sums of the rows of a: three tiles, two dtypes, two outputs.
    let fused = 3 * 2 * (3 + 3 + 3) + 3 * 2 * 2;
    let attention = 40 + 2 * (2 * 2 * 2) + 2;
    assert_eq!(of_hopper, attention + 8 * 4 * 2 * 2 + 4 * 3 + (2 * 4 + 1) + (2 * 2 + 4) * 2 * 2 + fused);
    assert!(Variant::PROBE.is_for(hopper) && !Variant::PROBE.is_for(oldest));
}
