//! Softmax, normalizations and cross-entropy over rows of many lengths and alignments, and
//! index_add of rows. For each op the CUDA backend has a kernel for every range of lengths; the op
//! table tests only the shortest range.

use super::{FLOATS, assert_no_faults, compare, forward_and_backward, tensor};
use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::loss::{CrossEntropyGradUpdate, CrossEntropyWithGrad};
use ternion_core::{CrossEntropyOptions, GradOptions, Reduction, grad};

/// Rows and columns. The lengths are around those at which another kernel is selected, and there
/// are enough rows that a block has several.
const SHAPES: &[[usize; 2]] = &[
    [0, 7],
    [40, 1],
    [40, 5],
    [4500, 16],
    [40, 31],
    [41, 32],
    [3000, 64],
    [40, 100],
    [2200, 129],
    [1200, 256],
    [40, 500],
    [900, 768],
    [37, 1000],
    [300, 1024],
    [9, 1025],
    [300, 2048],
    [9, 2049],
    [70, 4096],
    [9, 4100],
    [9, 8192],
    [9, 8200],
    [9, 16384],
    [9, 16392],
];

/// Rows so long that they are stored in shared memory, read twice, or processed by several blocks.
const LONG: &[[usize; 2]] =
    &[[68, 32768], [68, 33001], [67, 60000], [67, 121_000], [3, 33001], [1, 50257], [2, 131_072]];

/// Calls `check` for contiguous rows, and for unaligned rows with gaps.
fn for_rows(
    shapes: &[[usize; 2]],
    mut check: impl FnMut(&str, DType, [usize; 2], &dyn Fn(&Device, u64) -> Result<Tensor>) -> Result<()>,
) -> Result<()> {
    for dtype in FLOATS {
        for &[rows, columns] in shapes {
            // Rows of this length use the same f64 kernels as shorter ones.
            if rows * columns > 1 << 20 && dtype == DType::F64 {
                continue;
            }
            let dense = |device: &Device, seed: u64| tensor(&[rows, columns], dtype, device, seed);
            check(&format!("[{rows}, {columns}] {dtype:?}"), dtype, [rows, columns], &dense)?;
            if columns > 40_000 {
                continue;
            }
            let unaligned = |device: &Device, seed: u64| {
                tensor(&[rows, columns + 3], dtype, device, seed)?.narrow(1, 1, columns)
            };
            check(&format!("[{rows}, {columns}] {dtype:?} askew"), dtype, [rows, columns], &unaligned)?;
        }
    }
    Ok(())
}

#[test]
fn softmax_of_rows() -> Result<()> {
    let mut faults = String::new();
    for_rows(&[SHAPES, LONG].concat(), |what, _, [_, columns], x| {
        compare(&mut faults, &format!("softmax {what}"), |device| {
            forward_and_backward(&[x(device, 1)?], device, |inputs| inputs[0].softmax(1))
        })?;
        if columns > 60_000 {
            return Ok(());
        }
        compare(&mut faults, &format!("log_softmax {what}"), |device| {
            forward_and_backward(&[x(device, 1)?], device, |inputs| inputs[0].log_softmax(1))
        })
    })?;
    assert_no_faults(&faults);
    Ok(())
}

/// Norms in a residual block, whose gradient is added to theirs; in f32 the result is also rounded
/// to half precision.
#[test]
fn normalizations_in_residual_blocks() -> Result<()> {
    let mut faults = String::new();
    for_rows(&[SHAPES, &[[5, 33001], [200, 20000], [700, 768]]].concat(), |what, dtype, [_, columns], x| {
        let vector = |device: &Device, seed| tensor(&[columns], dtype, device, seed);
        let half_outputs = [DType::F16, DType::BF16].map(Some);
        let out_dtypes = [None].into_iter().chain(half_outputs.into_iter().filter(|_| dtype == DType::F32));
        for out_dtype in out_dtypes {
            compare(&mut faults, &format!("layer_norm {what} as {out_dtype:?} with a residual"), |device| {
                let inputs = [x(device, 1)?, vector(device, 2)?, vector(device, 3)?];
                forward_and_backward(&inputs, device, |inputs| {
                    let normal =
                        inputs[0].layer_norm_as(out_dtype, Some(&inputs[1]), Some(&inputs[2]), 1e-5)?;
                    inputs[0]
                        .add(&normal.mul_scalar(0.5)?.to_dtype(dtype)?)?
                        .to_dtype(out_dtype.unwrap_or(dtype))
                })
            })?;
            if columns == 1 {
                continue;
            }
            compare(&mut faults, &format!("rms_norm {what} as {out_dtype:?} with a residual"), |device| {
                let inputs = [x(device, 1)?, vector(device, 2)?];
                forward_and_backward(&inputs, device, |inputs| {
                    let normal = inputs[0].rms_norm_as(out_dtype, Some(&inputs[1]), 1e-5)?;
                    inputs[0]
                        .add(&normal.mul_scalar(0.5)?.to_dtype(dtype)?)?
                        .to_dtype(out_dtype.unwrap_or(dtype))
                })
            })?;
        }
        Ok(())
    })?;
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn softmax_of_columns() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        for shape in
            [[3, 10, 64], [2, 200, 33], [2, 129, 256], [5, 7, 1000], [1, 3000, 40], [70, 2, 3], [2, 500, 1]]
        {
            compare(&mut faults, &format!("softmax axis 1 {shape:?} {dtype:?}"), |device| {
                let x = tensor(&shape, dtype, device, 1)?;
                forward_and_backward(&[x], device, |inputs| inputs[0].softmax(1))
            })?;
            compare(&mut faults, &format!("log_softmax axis 0 {shape:?} {dtype:?}"), |device| {
                let x = tensor(&shape, dtype, device, 1)?.transpose(0, 1)?;
                forward_and_backward(&[x], device, |inputs| inputs[0].log_softmax(0))
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn normalizations_of_rows() -> Result<()> {
    let mut faults = String::new();
    for_rows(&[SHAPES, &[[5, 33001], [200, 20000]]].concat(), |what, dtype, [_, columns], x| {
        let vector = |device: &Device, seed| tensor(&[columns], dtype, device, seed);
        compare(&mut faults, &format!("layer_norm {what}"), |device| {
            let inputs = [x(device, 1)?, vector(device, 2)?, vector(device, 3)?];
            forward_and_backward(&inputs, device, |inputs| {
                inputs[0].layer_norm(Some(&inputs[1]), Some(&inputs[2]), 1e-5)
            })
        })?;
        compare(&mut faults, &format!("layer_norm {what}, bias only"), |device| {
            let inputs = [x(device, 1)?, vector(device, 3)?];
            forward_and_backward(&inputs, device, |inputs| inputs[0].layer_norm(None, Some(&inputs[1]), 1e-5))
        })?;
        compare(&mut faults, &format!("layer_norm {what}, plain"), |device| {
            forward_and_backward(&[x(device, 1)?], device, |inputs| inputs[0].layer_norm(None, None, 1e-5))
        })?;
        // A single column is its own mean, and layer_norm's gradient is exactly 0; rms_norm's
        // gradient is the rounding error of terms that cancel.
        if columns == 1 {
            return Ok(());
        }
        compare(&mut faults, &format!("rms_norm {what}"), |device| {
            let inputs = [x(device, 1)?, vector(device, 2)?];
            forward_and_backward(&inputs, device, |inputs| inputs[0].rms_norm(Some(&inputs[1]), 1e-5))
        })
    })?;
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn cross_entropy_of_rows() -> Result<()> {
    let mut faults = String::new();
    for_rows(&[SHAPES, LONG].concat(), |what, _, [rows, columns], x| {
        for label_smoothing in [0.0, 0.1] {
            let options = CrossEntropyOptions {
                label_smoothing,
                ignore_index: 0,
                reduction: Reduction::None,
                weight: None,
            };
            compare(&mut faults, &format!("cross_entropy {what}, smoothing {label_smoothing}"), |device| {
                let classes: Vec<i64> = (0..rows).map(|row| (row * 7919 % columns) as i64).collect();
                let target = Tensor::from_vec(classes, [rows], device)?;
                let target = if rows % 2 == 0 { target } else { target.to_dtype(DType::I32)? };
                forward_and_backward(&[x(device, 1)?], device, |inputs| {
                    inputs[0].cross_entropy_with(&target, options)
                })
            })?;
        }
        Ok(())
    })?;
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn cross_entropy_with_its_gradient() -> Result<()> {
    let mut faults = String::new();
    for_rows(&[SHAPES, LONG].concat(), |what, _, [rows, columns], x| {
        for label_smoothing in [0.0, 0.1] {
            compare(
                &mut faults,
                &format!("cross_entropy_with_grad {what}, smoothing {label_smoothing}"),
                |device| {
                    let classes: Vec<i64> = (0..rows).map(|row| (row * 7919 % columns) as i64).collect();
                    let (logits, target) = (x(device, 1)?, Tensor::from_vec(classes, [rows], device)?);
                    let accumulator = logits.dtype().accumulator();
                    let dloss = tensor(&[rows], accumulator, device, 5)?;
                    let both = |in_place| CrossEntropyWithGrad { ignore_index: 0, label_smoothing, in_place };
                    let mut outputs = apply(both(false), &[&logits, &target, &dloss])?.into_vec();
                    // Rows whose output gradient has the predicted value, and rows where it does
                    // not.
                    let as_foreseen = (0..rows).map(|row| row % 3 != 1 || row > 600).collect::<Vec<_>>();
                    let as_foreseen = Tensor::from_vec(as_foreseen, [rows], device)?;
                    let came = as_foreseen.where_(&dloss, &dloss.mul_scalar(3.0)?)?;
                    let update = CrossEntropyGradUpdate { ignore_index: 0, label_smoothing };
                    let updated = outputs[2].copy()?;
                    let inputs = [&logits, &target, &outputs[1], &came, &dloss, &updated];
                    apply(update, &inputs)?;
                    outputs.push(updated);
                    // The gradient overwrites the logits. Further elements follow each row of
                    // logits, and must not change.
                    let padding = columns.next_multiple_of(8) + 8 - columns;
                    let padding = tensor(&[rows, padding], logits.dtype(), device, 6)?;
                    let wide = Tensor::concat(&[&logits, &padding], 1)?;
                    let inputs = [&wide.narrow(1, 0, columns)?, &target, &dloss];
                    outputs.extend(apply(both(true), &inputs)?);
                    outputs.push(wide);
                    Ok(outputs)
                },
            )?;
        }
        Ok(())
    })?;
    assert_no_faults(&faults);
    Ok(())
}

/// The gradient equals that of the CPU, which does not compute it in the forward pass, for any
/// output gradient and repeated backward passes.
#[test]
fn cross_entropy_with_an_unpredicted_output_gradient() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        for reduction in [Reduction::Mean, Reduction::Sum] {
            compare(&mut faults, &format!("cross_entropy {reduction:?} {dtype:?}"), |device| {
                let x = tensor(&[300, 1024], dtype, device, 1)?.requires_grad()?;
                let target = Tensor::from_vec((0..300).collect::<Vec<i64>>(), [300], device)?;
                let options = CrossEntropyOptions { reduction, ignore_index: 7, ..Default::default() };
                let loss = x.cross_entropy_with(&target, options)?;
                let gradient = |scale: f64, create_graph: bool| {
                    let options = GradOptions { retain_graph: true, create_graph, ..Default::default() };
                    let seed = loss.ones_like()?.mul_scalar(scale)?;
                    let found = grad(&[loss.clone()], &[x.clone()], &[seed], options)?.swap_remove(0);
                    found.ok_or_else(|| ternion::Error::autograd("no gradient"))
                };
                let (first, second, third) =
                    (gradient(1.0, false)?, gradient(1.0, false)?, gradient(0.5, false)?);
                let gradient_of_loss = gradient(2.0, true)?;
                let curved = gradient_of_loss.square()?.sum(..)?.backward()?.get(&x).cloned();
                let other =
                    x.cross_entropy_with(&target, options)?.mul_scalar(3.0)?.backward()?.get(&x).cloned();
                let mut all = vec![loss.detach(), first, second, third, gradient_of_loss.detach()];
                all.extend(curved.into_iter().chain(other));
                assert_eq!(all.len(), 7, "a gradient is missing");
                Ok(all)
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn batch_normalization() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        for shape in [
            [5, 3, 7, 7],
            [64, 20, 14, 14],
            [3, 2, 64, 65],
            [300, 33, 1, 1],
            [2, 70, 3, 3],
            [33, 1, 100, 100],
        ] {
            compare(&mut faults, &format!("batch_norm {shape:?} {dtype:?}"), |device| {
                let vector = |seed| tensor(&[shape[1]], dtype, device, seed);
                let inputs = [tensor(&shape, dtype, device, 1)?, vector(2)?, vector(3)?];
                forward_and_backward(&inputs, device, |inputs| {
                    Ok(inputs[0].batch_norm_train(Some(&inputs[1]), Some(&inputs[2]), 1e-5)?.0)
                })
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// index_add of rows: few rows for each index, all rows to one index, and so many that several
/// blocks share an index. The number of columns is a multiple of a pack or not, and some cases have
/// a leading axis.
#[test]
fn rows_that_are_added_at_indices() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        for [count, table_rows, columns] in [
            [3000, 1, 64],
            [3000, 4, 768],
            [500, 700, 5],
            [31, 1, 8],
            [33, 3, 40],
            [4096, 50, 129],
            [5000, 20_000, 16],
            [70, 2, 1],
        ] {
            let index = |device: &Device| {
                let part = tensor(&[count], DType::F32, device, 7)?
                    .add_scalar(3.0)?
                    .mul_scalar(table_rows as f64 / 6.001)?;
                part.to_dtype(DType::I32)
            };
            compare(
                &mut faults,
                &format!("index_select [{count}, {table_rows}, {columns}] {dtype:?}"),
                |device| {
                    let table = tensor(&[table_rows, columns], dtype, device, 1)?;
                    forward_and_backward(&[table], device, |inputs| {
                        inputs[0].index_select(0, &index(device)?)
                    })
                },
            )?;
            compare(
                &mut faults,
                &format!("index_add axis 1 [3, {count}, {table_rows}, {columns}] {dtype:?}"),
                |device| {
                    let base =
                        tensor(&[3, table_rows, columns + 1], dtype, device, 1)?.narrow(2, 0, columns)?;
                    let source = tensor(&[3, count, columns], dtype, device, 2)?;
                    Ok(vec![base.index_add(1, &index(device)?, &source)?])
                },
            )?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}
