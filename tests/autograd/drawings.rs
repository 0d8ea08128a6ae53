//! Graphs in DOT format, by `to_dot`.

use super::{leaf, message};
use ternion::prelude::*;
use ternion_core::autograd::DotOptions;

#[test]
fn dot_shows_ops_shapes_dtypes_and_statistics() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let loss = x.exp()?.sum_all()?;
    let dot = loss.to_dot()?;
    for part in ["digraph", "exp", "sum", "leaf", "[2] f64", "result"] {
        assert!(dot.contains(part), "{part} in\n{dot}");
    }
    let detailed = loss.to_dot_with(DotOptions { statistics: true, ..DotOptions::default() })?;
    assert!(detailed.contains("mean"), "{detailed}");
    let text = message(loss.detach().to_dot().expect_err("no graph"));
    assert_eq!(text, "backward: to_dot: nothing was recorded for this tensor");
    Ok(())
}

#[test]
fn a_drawing_distinguishes_leaves_by_shape_and_name() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?.reshape([1, 2])?;
    let (first, second) = (leaf(&[1.0; 6], &device)?, leaf(&[1.0; 6], &device)?);
    let hidden = x.matmul(&first.reshape([2, 3])?)?;
    let loss = hidden.mul(&second.reshape([2, 3])?)?.sum_all()?;
    let dot = loss.to_dot()?;
    assert!(dot.contains("[label=\"leaf\\n[6] f64\""), "{dot}");
    assert!(dot.contains("[label=\"matmul\\n[1, 3] f64\""), "an op shows what comes out:\n{dot}");
    let names = [("first.weight".to_string(), first), ("second\"".to_string(), second), ("h".into(), hidden)];
    let dot = loss.to_dot_with(DotOptions { names: &names, ..DotOptions::default() })?;
    for label in [
        "leaf\\nfirst.weight [6] f64",
        "leaf\\nsecond\\\" [6] f64",
        "matmul\\nh [1, 3] f64",
        "leaf\\n[2] f64",
    ] {
        assert!(dot.contains(&format!("[label=\"{label}\"")), "{label} in\n{dot}");
    }
    Ok(())
}

#[test]
fn a_drawing_shows_the_available_values() -> Result<()> {
    let device = ternion::cpu()?;
    let options = DotOptions { statistics: true, ..DotOptions::default() };
    let x = leaf(&[1.0, f64::NAN], &device)?;
    let loss = x.add_scalar(1.0)?.sum_all()?;
    let dot = loss.to_dot_with(options)?;
    // Neither op saves a tensor: the graph shows values only of the leaf and the result.
    let lines: Vec<&str> = dot.lines().filter(|line| line.contains("values: ")).collect();
    assert_eq!(lines.len(), 2, "{dot}");
    let of_leaf = lines.iter().find(|line| line.contains("leaf")).expect("the leaf's line");
    assert!(of_leaf.contains("nan 1 ") && of_leaf.contains("of 2"), "{of_leaf}");
    assert!(!dot.contains("freed"), "{dot}");
    loss.backward()?;
    assert!(loss.to_dot_with(options)?.contains("freed"));
    // The graph does not keep the memory of a leaf alive.
    drop(x);
    let dot = loss.to_dot_with(options)?;
    assert_eq!(dot.matches("values: ").count(), 1, "{dot}");
    Ok(())
}
