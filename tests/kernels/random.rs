//! Random numbers equal those of the CPU backend with the same seed. Each test opens a separate
//! device: another test would use the same stream.

use crate::shared_device;
use ternion::prelude::*;
use ternion_testing::normals;

#[test]
fn normals_are_those_of_the_cpu() -> Result<()> {
    let Some((_shared, gpu)) = shared_device() else { return Ok(()) };
    normals::normals_agree(&gpu, &ternion::cpu()?)
}

#[test]
fn normals_of_the_smallest_and_largest_words() -> Result<()> {
    let Some((_shared, gpu)) = shared_device() else { return Ok(()) };
    normals::extreme_normals_agree(&gpu, &ternion::cpu()?)
}

#[test]
fn uniforms_and_bits_are_those_of_the_cpu() -> Result<()> {
    let Some((_shared, gpu)) = shared_device() else { return Ok(()) };
    normals::uniforms_and_bits_agree(&gpu, &ternion::cpu()?)
}
