//! Tensors in ten minutes: creation, arithmetic, indexing, errors.
//!
//!     cargo run -p examples --example tensors
//!     cargo run -p examples --features cuda --example tensors -- cuda
//!
//! Next: gradients.rs.

use ternion::prelude::*;
use ternion::{Ellipsis, NewAxis, Slice};

fn main() -> Result<()> {
    // Tensors are stored and ops run on a device: `ternion::device("cpu")` selects one by name,
    // "auto" the fastest.
    let device = ternion::device(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    println!("device: {device}");

    title("Creating tensors");
    show("nested arrays: Tensor::new([[1, 2, 3], [4, 5, 6]])", &matrix(&device)?);
    show("a range: Tensor::arange(0, 10, 2)", &Tensor::arange(0, 10, 2, DType::I64, &device)?);
    show("evenly spaced: Tensor::linspace(0, 1, 5)", &Tensor::linspace(0.0, 1.0, 5, DType::F32, &device)?);
    device.seed(42); // the same seed gives the same uniform numbers on every device
    show("uniform random numbers in 0..1: Tensor::rand([2, 4])", &Tensor::rand([2, 4], DType::F32, &device)?);

    title("Computing");
    let x = matrix(&device)?;
    show("operators return a Result: ((&x * 10.0)? + 1.0)?", &((&x * 10.0)? + 1.0)?);
    let row = Tensor::new([100.0f32, 200.0, 300.0], &device)?;
    show("shapes broadcast as in NumPy: [2, 3] + [3]", &(&x + &row)?);
    show("matrix product: x.matmul(&x.t()?)", &x.matmul(&x.t()?)?);
    show("elementwise functions: x.sqrt()", &x.sqrt()?);
    show("reductions along an axis: x.sum(0)", &x.sum(0)?);
    show("over all axes: x.mean(..)", &x.mean(..)?);
    show("softmax along the last axis: x.softmax(-1)", &x.softmax(-1)?);

    title("Indexing");
    show("row 1: x.i(1)", &x.i(1)?);
    show("columns 1 and 2: x.i((.., 1..3))", &x.i((.., 1..3))?);
    show("reversed columns: x.i((.., Slice::new(None, None, -1)))", &x.i((.., Slice::new(None, None, -1)))?);
    show("a new axis: x.i((Ellipsis, NewAxis))", &x.i((Ellipsis, NewAxis))?);
    show("a Boolean mask: x.i(&x.gt_scalar(2.5)?)", &x.i(&x.gt_scalar(2.5)?)?);
    println!("All but the last are views: they share memory with x.\n");

    title("Errors");
    // A wrong call is an error that names the op, what it expected and what it got.
    let left = Tensor::zeros([32, 784], DType::F32, &device)?;
    let right = Tensor::zeros([128, 10], DType::F32, &device)?;
    for error in [left.matmul(&right).err(), x.softmax(3).err(), x.add(&left).err()].into_iter().flatten() {
        println!("  {error}");
    }

    title("Back to Rust");
    println!("x.to_vec::<f32>()  {:?}", x.to_vec::<f32>()?);
    println!("x.sum(..)?.item()  {}", x.sum(..)?.item::<f32>()?);
    println!("x.stats()          {}", x.stats()?);
    Ok(())
}

fn matrix(device: &Device) -> Result<Tensor> {
    Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]], device)
}

fn title(words: &str) {
    println!("\n== {words}\n");
}

fn show(what: &str, tensor: &Tensor) {
    println!("{what}\n{tensor}\n");
}
