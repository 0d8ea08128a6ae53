//! Gradients at the edges of a function's domain: they match PyTorch's, and the graph stays
//! connected.

use ternion::prelude::*;
use ternion_core::{Axis, GridMode, GridPadding, Interpolation};

fn leaf(values: &[f64], shape: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(values, shape, &ternion::cpu()?)?.requires_grad()
}

#[test]
fn a_quantile_that_is_nan_has_the_gradient_of_the_nan() -> Result<()> {
    let share = Tensor::from_slice(&[0.5f64], &[][..], &ternion::cpu()?)?;
    for interpolation in [
        Interpolation::Linear,
        Interpolation::Lower,
        Interpolation::Higher,
        Interpolation::Nearest,
        Interpolation::Midpoint,
    ] {
        let x = leaf(&[1.0, f64::NAN, 3.0, 4.0, 5.0, 7.0], &[2, 3])?;
        let y = x.quantile(&share, Some(Axis(1)), false, interpolation)?;
        let values = y.to_vec::<f64>()?;
        assert!(values[0].is_nan() && values[1] == 5.0, "{interpolation:?}: {values:?}");
        let gradient = y.sum(..)?.backward()?.get(&x).expect("it flows").to_vec::<f64>()?;
        assert_eq!(gradient, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0], "{interpolation:?}");
    }
    Ok(())
}

#[test]
fn the_grid_of_the_nearest_elements_has_a_gradient_of_zeros() -> Result<()> {
    let image = leaf(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
        let grid = leaf(&[-0.5, 0.5, 0.0, f64::NAN, 3.0, -0.7], &[1, 1, 3, 2])?;
        let y = image.grid_sample(&grid, GridMode::Nearest, padding, false)?;
        let plain = image.grid_sample(&grid.detach(), GridMode::Nearest, padding, false)?;
        assert_eq!(y.to_vec::<f64>()?, plain.to_vec::<f64>()?, "{padding:?}");
        let gradients = y.sum(..)?.backward()?;
        assert_eq!(gradients.get(&grid).expect("it flows").to_vec::<f64>()?, [0.0; 6], "{padding:?}");
        let counts = gradients.get(&image).expect("it flows").to_vec::<f64>()?;
        let expected = plain.sum(..)?.backward()?.get(&image).expect("it flows").to_vec::<f64>()?;
        assert_eq!(counts, expected, "{padding:?}");
    }
    Ok(())
}

#[test]
fn an_ignored_summand_has_a_gradient_of_zeros() -> Result<()> {
    let (a, b) = (leaf(&[1.0, 2.0], &[1, 2])?, leaf(&[3.0, 4.0], &[2, 1])?);
    let summand = leaf(&[f64::NAN], &[1, 1])?;
    let y = summand.addmm(&a, &b, 0.0, 1.0)?;
    assert_eq!(y.to_vec::<f64>()?, [11.0]);
    let gradients = y.sum(..)?.backward()?;
    assert_eq!(gradients.get(&summand).expect("it flows").to_vec::<f64>()?, [0.0]);
    assert_eq!(gradients.get(&a).expect("it flows").to_vec::<f64>()?, [3.0, 4.0]);
    Ok(())
}
