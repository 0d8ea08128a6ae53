//! In-place ops whose inputs are identical to the tensor that they change, or share its memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use ternion_core::backend::Meta;
use ternion_core::dispatch::{apply_into, apply_one};
use ternion_core::op::Role;
use ternion_core::{DType, Layout, OpCall, Result, Shape, Tensor, no_grad, observe_ops};
use ternion_testing::OpCase;
use ternion_testing::case::{CaseInputs, InputKind};
use ternion_testing::memory_layout::{MemoryLayout, tensor_with_layout};
use ternion_testing::read::values_of;
use ternion_testing::table::table;

fn from_one(count: usize) -> Tensor {
    Tensor::iota(count, DType::F32, 1.0, 1.0, &ternion_cpu::device()).unwrap()
}

fn backwards(count: i64, like: &Tensor) -> Tensor {
    let indices: Vec<i64> = (0..count).rev().collect();
    Tensor::from_slice(&indices, [indices.len()], like.device()).unwrap()
}

#[test]
fn scatter_reads_a_source_that_it_overwrites() {
    let x = from_one(4);
    x.scatter_(0, &backwards(4, &x), &x).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [4.0, 3.0, 2.0, 1.0]);
    let x = from_one(4);
    x.scatter_add_(0, &backwards(4, &x), &x).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [5.0; 4]);
}

#[test]
fn index_add_reads_a_source_that_it_changes() {
    let x = from_one(4);
    x.index_add_(0, &backwards(4, &x), &x).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [5.0; 4]);
    let x = from_one(6).reshape([3, 2]).unwrap();
    x.index_add_(0, &backwards(3, &x), &x).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [6.0, 8.0, 6.0, 8.0, 6.0, 8.0]);
}

#[test]
fn an_index_that_is_the_destination_is_read_first() {
    let index = backwards(4, &from_one(1));
    let source = Tensor::iota(4, DType::I64, 10, 1, index.device()).unwrap();
    index.scatter_(0, &index, &source).unwrap();
    assert_eq!(index.to_vec::<i64>().unwrap(), [13, 12, 11, 10]);
}

#[test]
fn a_source_that_overlaps_the_destination_is_read_first() {
    let x = from_one(8);
    let part = |start: usize| x.narrow(0, start, 4).unwrap();
    part(0).scatter_(0, &backwards(4, &x), &part(2)).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [6.0, 5.0, 4.0, 3.0, 5.0, 6.0, 7.0, 8.0]);
    let x = from_one(6);
    x.narrow(0, 1, 5).unwrap().copy_(&x.narrow(0, 0, 5).unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let x = from_one(4);
    x.copy_(&x.flip(0).unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [4.0, 3.0, 2.0, 1.0]);
    let x = from_one(4).reshape([2, 2]).unwrap();
    x.add_(&x.transpose(0, 1).unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 5.0, 5.0, 8.0]);
    x.slice_assign_((0, ..), &x.transpose(0, 1).unwrap().i((1, ..)).unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [5.0, 8.0, 5.0, 8.0]);
}

/// Number of comparisons of each op.
type Compared = Rc<RefCell<BTreeMap<&'static str, usize>>>;

/// Returns the input that an op may overwrite, if it can run in place.
fn reused(call: &OpCall<'_>) -> Option<usize> {
    let metas: Vec<Meta<'_>> = call.inputs.iter().map(|input| input.view().meta()).collect();
    match call.op.rule().infer(&metas).ok()?.as_slice() {
        [spec] => match spec.role {
            Role::Reuses(index) if is_like(call.inputs[index], &spec.shape, spec.dtype) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

fn is_like(tensor: &Tensor, shape: &ternion_core::Shape, dtype: DType) -> bool {
    tensor.shape() == shape && tensor.dtype() == dtype
}

/// Runs the op of `call` with the destination as each of its other inputs that it fits, then as all
/// of them, and compares the results with those of copies.
fn compare_aliased(call: &OpCall<'_>, compared: &Compared) -> Result<()> {
    let Some(reused) = reused(call) else { return Ok(()) };
    let model = call.inputs[reused];
    let fits = |at: usize| at != reused && is_like(call.inputs[at], model.shape(), model.dtype());
    let indices: Vec<usize> = (0..call.inputs.len()).filter(|&at| fits(at)).collect();
    let mut choices: Vec<Vec<usize>> = indices.iter().map(|&at| vec![at]).collect();
    choices.push(indices);
    for choice in choices {
        let destination = model.copy()?;
        let copies = |at: usize| if at == reused || choice.contains(&at) { model } else { call.inputs[at] };
        let copies: Vec<Tensor> =
            (0..call.inputs.len()).map(|at| copies(at).copy()).collect::<Result<_>>()?;
        // Values that are not valid indices, where an index is the destination, are errors in both
        // cases.
        let Ok(expected) = apply_one(call.op.clone(), &copies.iter().collect::<Vec<_>>()) else { continue };
        let is_destination = |at: usize| at == reused || choice.contains(&at);
        let inputs = copies
            .iter()
            .enumerate()
            .map(|(at, input)| if is_destination(at) { &destination } else { input });
        apply_into(call.op.clone(), &inputs.collect::<Vec<_>>(), &destination)?;
        let (got, want) = (values_of(&destination)?.1, values_of(&expected)?.1);
        let same = got.data.iter().zip(&want.data).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same, "{:?} with inputs {choice:?} and {reused}: {got:?}, expected {want:?}", call.op);
        *compared.borrow_mut().entry(call.op.name()).or_default() += usize::from(!choice.is_empty());
    }
    Ok(())
}

/// Compares every op that a row of the table calls.
fn sweep(row: &OpCase, dtype: DType, compared: &Compared) {
    let (Some(run), device) = (&row.run, ternion_cpu::device()) else { return };
    let is_small = |shape: &Vec<usize>| shape.iter().map(|&size| size as f64).product::<f64>() < 65536.0;
    for instance in row.instances.iter().filter(|shapes| shapes.iter().all(is_small)) {
        let case_inputs = CaseInputs::new(row, instance, InputKind::of(dtype), MemoryLayout::Dense);
        let inputs = row.inputs.iter().zip(&case_inputs.inputs);
        let inputs: Vec<Tensor> = inputs
            .map(|(input, array)| tensor_with_layout(array, input.class.dtype(dtype), None, &device).unwrap())
            .collect();
        let count = compared.clone();
        let watched = || no_grad(|| run(&inputs, &device, dtype));
        observe_ops(move |call| no_grad(|| compare_aliased(call, &count)), watched).unwrap();
    }
}

#[test]
fn every_op_reads_what_it_overwrites() {
    let compared = Compared::default();
    for row in table() {
        for &dtype in row.dtypes.iter().filter(|dtype| matches!(dtype, DType::F32 | DType::I64 | DType::Bool))
        {
            sweep(&row, dtype, &compared);
        }
    }
    let compared = compared.borrow();
    for op in ["scatter_set", "scatter_add", "add", "multiply_add", "scale_add", "softmax_grad"] {
        assert!(compared.get(op).is_some_and(|&times| times > 0), "{op} was not compared: {compared:?}");
    }
}

#[test]
fn diagonals_and_strided_elements_are_views() -> Result<()> {
    let x = Tensor::zeros([2, 3, 4], DType::F32, &ternion_cpu::device())?;
    x.diagonal(1, 1, 2)?.fill_(1)?;
    x.t()?.diagonal(1, -2, -1)?.fill_(2)?;
    x.flip(0)?.diagonal(0, 0, 1)?.fill_(3)?;
    let rows = [[0, 1, 0, 0], [3, 3, 3, 3], [0, 2, 0, 1], [3, 3, 3, 3], [2, 0, 1, 0], [0, 2, 0, 1]];
    assert_eq!(x.to_vec::<f32>()?, rows.concat().into_iter().map(|value| value as f32).collect::<Vec<_>>());
    let x = from_one(7);
    x.narrow(0, 1, 6)?.as_strided(&[2, 2], &[3, 1], 1)?.fill_(0)?;
    assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
    let windows = x.as_strided(&[3, 2], &[1, 1], 0)?;
    assert_eq!(windows.to_vec::<f32>()?, [1.0, 2.0, 2.0, 0.0, 0.0, 0.0]);
    let message = windows.fill_(1).unwrap_err().to_string();
    assert!(message.contains("whose elements share memory"), "{message}");
    // The stride of an axis with one element may be anything.
    assert_eq!(x.as_strided(&[1], &[usize::MAX], 4)?.unfold(0, 1, 3)?.to_vec::<f32>()?, [5.0]);
    assert_eq!(x.as_strided(&[0, 2], &[1, usize::MAX], usize::MAX)?.elements(), 0);
    Ok(())
}

#[test]
fn a_range_is_filled_by_elements_one_after_the_other() -> Result<()> {
    let sizes = [0, 1, 2, 3];
    for (rows, columns) in sizes.iter().flat_map(|&rows| sizes.map(|columns| (rows, columns))) {
        for (far, near) in (-4..5).flat_map(|far| (-4..5).map(move |near| (far, near))) {
            let layout = Layout::new(Shape::new(&[rows, columns])?, &[far, near], 100)?;
            let mut positions: Vec<usize> = layout.positions().collect();
            positions.sort_unstable();
            let range: Vec<usize> = (100..100 + layout.elements()).collect();
            assert_eq!(layout.fills_its_range(), positions == range, "{layout:?}");
        }
    }
    let dense = Layout::row_major(Shape::new(&[3, 2, 4])?);
    assert!(dense.permute(&[2, 0, 1])?.fills_its_range());
    assert!(dense.permute(&[2, 0, 1])?.slice(1, 1, 3, 1)?.fills_its_range());
    assert!(!dense.slice(2, 0, 3, 1)?.fills_its_range());
    Ok(())
}

#[test]
fn an_overlap_is_found_where_there_is_one() -> Result<()> {
    let sizes = [1, 2, 3, 5];
    for (rows, columns) in sizes.iter().flat_map(|&rows| sizes.map(|columns| (rows, columns))) {
        for (far, near) in (-7..8).flat_map(|far| (-7..8).map(move |near| (far, near))) {
            let layout = Layout::new(Shape::new(&[rows, columns])?, &[far, near], 100)?;
            let mut positions: Vec<usize> = layout.positions().collect();
            positions.sort_unstable();
            positions.dedup();
            let overlaps = positions.len() < layout.elements();
            assert_eq!(layout.overlaps_itself(), overlaps, "{layout:?}");
        }
    }
    let of_dense = Layout::row_major(Shape::new(&[3, 2, 4, 3])?);
    let mirrored = of_dense.slice(0, 2, -1, -1)?;
    for (first, second) in (0..4).flat_map(|first| (0..4).map(move |second| (first, second))) {
        for layout in [of_dense, mirrored].map(|layout| layout.diagonal(0, first, second)) {
            assert_eq!(layout.is_err(), first == second);
            assert!(layout.is_err() || !layout?.overlaps_itself());
        }
    }
    Ok(())
}
