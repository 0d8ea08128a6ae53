//! Compares random numbers of a device with those of the CPU with the same seed, if
//! `TERNION_EXPECT` names wgpu.

use ternion_core::{Device, Result};
use ternion_testing::{normals, suite};

/// Returns the first adapter and the CPU, or `None` if wgpu is not expected.
fn devices() -> Option<[Device; 2]> {
    suite::expects("wgpu").then(|| [ternion_wgpu::device(0).expect("an adapter"), ternion_cpu::device()])
}

#[test]
fn normals_are_those_of_the_cpu() -> Result<()> {
    let Some([wgpu, cpu]) = devices() else { return Ok(()) };
    normals::normals_agree(&wgpu, &cpu)
}

#[test]
fn normals_of_the_smallest_and_largest_words() -> Result<()> {
    let Some([wgpu, cpu]) = devices() else { return Ok(()) };
    normals::extreme_normals_agree(&wgpu, &cpu)
}

#[test]
fn uniforms_and_bits_are_those_of_the_cpu() -> Result<()> {
    let Some([wgpu, cpu]) = devices() else { return Ok(()) };
    normals::uniforms_and_bits_agree(&wgpu, &cpu)
}
