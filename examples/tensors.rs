//! Tensors in ten minutes: making them, computing with them, looking at parts of them. Prints what it does.
//!
//!     cargo run --example tensors
//!
//! Next: gradients.rs.

#[path = "support/chosen.rs"]
mod chosen;
#[path = "support/say.rs"]
mod say;

use say::say;
use ternion::prelude::*;
use ternion::{Ellipsis, NewAxis, Slice};

/// The program.
pub fn main() -> Result<()> {
    // A device is where tensors live and ops run. `ternion::best()` takes the fastest one there is, `ternion::device("cpu")` one by name: that of `--device` here.
    let device = chosen::device()?;
    say!("device: {device}");

    title("Making tensors");
    show("nested arrays: Tensor::new([[1, 2, 3], [4, 5, 6]])", &matrix(&device)?);
    show("numbers in a row: Tensor::arange(0, 10, 2)", &Tensor::arange(0, 10, 2, DType::I64, &device)?);
    show("evenly spaced: Tensor::linspace(0, 1, 5)", &Tensor::linspace(0.0, 1.0, 5, DType::F32, &device)?);
    device.seed(42); // the same seed gives the same numbers on every device
    show("random, even over 0..1: Tensor::rand([2, 4])", &Tensor::rand([2, 4], DType::F32, &device)?);

    title("Computing");
    let x = matrix(&device)?;
    show("operators give a Result: ((&x * 10.0)? + 1.0)?", &((&x * 10.0)? + 1.0)?);
    let row = Tensor::new([100.0f32, 200.0, 300.0], &device)?;
    show("shapes broadcast as in NumPy: [2, 3] + [3]", &(&x + &row)?);
    show("matrix product: x.matmul(&x.t()?)", &x.matmul(&x.t()?)?);
    show("functions of each element: x.sqrt()", &x.sqrt()?);
    show("sums over an axis: x.sum(0)", &x.sum(0)?);
    show("over all: x.mean(..)", &x.mean(..)?);
    show("weights that sum to 1 along the last axis: x.softmax(-1)", &x.softmax(-1)?);

    title("Looking at parts");
    show("row 1: x.i(1)", &x.i(1)?);
    show("columns 1 and 2: x.i((.., 1..3))", &x.i((.., 1..3))?);
    show("backwards: x.i((.., Slice::new(None, None, -1)))", &x.i((.., Slice::new(None, None, -1)))?);
    show("a new axis: x.i((Ellipsis, NewAxis))", &x.i((Ellipsis, NewAxis))?);
    show("where a condition holds: x.i(&x.gt_scalar(2.5)?)", &x.i(&x.gt_scalar(2.5)?)?);
    say!("None of these but the last copied a number: views share memory with their source.\n");

    title("Errors");
    // Whatever a caller can get wrong is an error that says what was expected and what came.
    let left = Tensor::zeros([32, 784], DType::F32, &device)?;
    let right = Tensor::zeros([128, 10], DType::F32, &device)?;
    for error in [left.matmul(&right).err(), x.softmax(3).err(), x.add(&left).err()].into_iter().flatten() {
        say!("  {error}");
    }

    title("Back to Rust");
    say!("x.to_vec::<f32>()  {:?}", x.to_vec::<f32>()?);
    say!("x.sum(..)?.item()  {}", x.sum(..)?.item::<f32>()?);
    say!("x.stats()          {}", x.stats()?);
    Ok(())
}

fn matrix(device: &Device) -> Result<Tensor> {
    Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]], device)
}

fn title(words: &str) {
    say!("\n== {words}\n");
}

fn show(what: &str, tensor: &Tensor) {
    say!("{what}\n{tensor}\n");
}
