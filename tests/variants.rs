//! The list of the CUDA backend's kernels, which `cargo xtask kernels` compiles: no kernel is
//! missing or listed twice.

use ternion_core::UnaryOp;
use ternion_core::ops::{binary::BinaryOp, compare::CompareOp};
use ternion_cuda::{Architecture, ListedFunction, Variant, variants};

/// The architectures of `cargo xtask kernels`.
const ARCHITECTURES: [&str; 3] = ["sm_90a", "sm_100a", "sm_80"];

fn architectures() -> [Architecture; 3] {
    ARCHITECTURES.map(|name| name.parse().expect("an architecture"))
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

/// Variants for one architecture may be listed with those for another, and no device lacks a kernel
/// for any op.
#[test]
fn variants_support_all_architectures_unless_they_use_specific_instructions() {
    let [hopper, blackwell, oldest] = architectures();
    for variant in variants() {
        let of_one = !variant.is_for(oldest);
        assert!(of_one || (variant.is_for(hopper) && variant.is_for(blackwell)), "{variant:?}");
    }
    // These kernels are in addition to those for core's lists of functions.
    let count = variants().iter().filter(|variant| variant.listed_function().is_none()).count();
    assert_eq!(count, 1915, "a new variant is one more kernel to compile: change this number");
    let of_hopper = variants().iter().filter(|variant| !variant.is_for(oldest)).count();
    // WGMMA kernels. Attention: seven mask modes and two dtypes with four head dims forward and
    // three backward; four mask modes forward by bf16x6; two mask modes forward by TMA with four
    // head dims, two of them with tiles for few keys and for many; the gradient in a single pass
    // with four, one of them with and without a lag; the gradient of a mask with three head dims;
    // dropout forward by TMA with four head dims, one of them with both tiles, and the kernel that
    // generates the keep bits; and in a single pass with four head dims, one of them with and
    // without a lag. Products: eight tiles, four orders of operands, two dtypes, two output dtypes;
    // and four TF32 tiles, three orders. bf16x6: two tiles in four orders, and the kernel that
    // splits operands. Split-K in clusters: two tiles in two orders and one in four, two dtypes,
    // two output dtypes. Fused: three tiles of two dtypes, three activations with their
    // pre-activation, four gradients of activations, residuals in three layouts. With row sums of
    // a: three tiles, two dtypes, two output dtypes.
    let fused = 3 * 2 * (3 + 4 + 3) + 3 * 2 * 2;
    let attention = 7 * 2 * (4 + 3) + 4 * 2 * 4 + 2 * 2 * (4 + 2 + 4) + 2 + 2 * 3 + 2 * 5 + 1 + 2 * 5;
    assert_eq!(of_hopper, attention + 8 * 4 * 2 * 2 + 4 * 3 + (2 * 4 + 1) + (2 * 2 + 4) * 2 * 2 + fused);
    assert!(Variant::PROBE.is_for(hopper) && !Variant::PROBE.is_for(oldest));
}
