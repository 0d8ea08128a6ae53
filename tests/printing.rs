//! Formatting of tensors.

use ternion::DType::{BF16, F32, I32};
use ternion::prelude::*;

fn display(tensor: Result<Tensor>) -> String {
    tensor.unwrap().to_string()
}

#[test]
fn columns_are_aligned_and_the_last_line_shows_shape_dtype_and_device() {
    let device = ternion::cpu().unwrap();
    let text = display(Tensor::new([[1.0f32, 2.5], [-3.25, 10.0]], &device));
    assert_eq!(text, "[[ 1.00,  2.50],\n [-3.25, 10.00]]\n[2, 2] f32 on cpu");
    assert_eq!(display(Tensor::new([1.0f32, 2.0], &device)), "[1., 2.]\n[2] f32 on cpu");
    assert_eq!(
        display(Tensor::new([[[true], [false]]], &device)),
        "[[[ true],\n  [false]]]\n[1, 2, 1] bool on cpu"
    );
    assert_eq!(display(Tensor::new([-7i64, 12], &device)), "[-7, 12]\n[2] i64 on cpu");
}

#[test]
fn matrices_are_separated_by_blank_lines() {
    let text = display(Tensor::zeros([2, 1, 2], I32, &ternion::cpu().unwrap()));
    assert_eq!(text, "[[[0, 0]],\n\n [[0, 0]]]\n[2, 1, 2] i32 on cpu");
}

#[test]
fn special_numbers_and_special_shapes() {
    let device = ternion::cpu().unwrap();
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5];
    assert_eq!(display(Tensor::new(special, &device)), "[ nan,  inf, -inf,  0.5]\n[4] f32 on cpu");
    assert_eq!(display(Tensor::new(3.5f64, &device)), "3.5\n[] f64 on cpu");
    assert_eq!(display(Tensor::new(i64::MIN, &device)), "-9223372036854775808\n[] i64 on cpu");
    assert_eq!(display(Tensor::zeros([0, 3], F32, &device)), "[]\n[0, 3] f32 on cpu");
}

#[test]
fn powers_of_ten_where_fixed_digits_would_hide_numbers() {
    let device = ternion::cpu().unwrap();
    assert_eq!(display(Tensor::new([1e-6f32, 1.0], &device)), "[1e-6,  1e0]\n[2] f32 on cpu");
    assert_eq!(display(Tensor::new([0.1f32, 1000.5], &device)), "[   0.1, 1000.5]\n[2] f32 on cpu");
}

#[test]
fn long_axes_are_shortened_to_their_ends() {
    let device = ternion::cpu().unwrap();
    let line = Tensor::arange(0, 1001, 1, I32, &device);
    assert_eq!(display(line), "[   0,    1,    2, ...,  998,  999, 1000]\n[1001] i32 on cpu");
    let matrix = Tensor::arange(0, 1400, 1, I32, &device).and_then(|line| line.reshape([700, 2])?.t());
    let rows = "[[   0,    2,    4, ..., 1394, 1396, 1398],\n [   1,    3,    5, ..., 1395, 1397, 1399]]";
    assert_eq!(display(matrix), format!("{rows}\n[2, 700] i32 on cpu"));
    let column = display(Tensor::zeros([1001, 1], F32, &device));
    assert_eq!(column, "[[0.],\n [0.],\n [0.],\n ...,\n [0.],\n [0.],\n [0.]]\n[1001, 1] f32 on cpu");
}

/// More axes than a single view of both ends can have: the tensor is read row by row.
#[test]
fn many_long_axes() {
    let device = ternion::cpu().unwrap();
    let text = display(Tensor::zeros([7, 7, 7, 7, 7], F32, &device));
    assert_eq!(text.matches("0.").count(), 6usize.pow(5));
    assert!(text.ends_with("]]]]]\n[7, 7, 7, 7, 7] f32 on cpu"), "{text}");
}

#[test]
fn debug_shows_the_metadata_without_reading() {
    let weight = Tensor::zeros([2, 3], BF16, &ternion::cpu().unwrap()).unwrap();
    assert_eq!(format!("{weight:?}"), "Tensor([2, 3] bf16 on cpu)");
    let weight = weight.requires_grad().unwrap();
    assert_eq!(format!("{weight:?}"), "Tensor([2, 3] bf16 on cpu, needs_grad)");
    assert_eq!(weight.to_string(), "[[0., 0., 0.],\n [0., 0., 0.]]\n[2, 3] bf16 on cpu");
}

#[test]
fn precision_is_applied() -> Result<()> {
    let tensor = Tensor::from_slice(&[1.0f32, -2.345, 1e-6], [3], &ternion::cpu()?)?;
    assert_eq!(format!("{tensor:.2}").lines().next(), Some("[ 1.00, -2.35,  0.00]"));
    assert_eq!(format!("{tensor:.1}").lines().next(), Some("[ 1.0, -2.3,  0.0]"));
    Ok(())
}
