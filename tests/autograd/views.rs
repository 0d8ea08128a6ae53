//! Views that are recreated from another tensor, and views of a leaf.

use super::leaf;
use ternion::prelude::*;
use ternion_core::{NewAxis, Slice, no_grad};

/// Returns chains of views of a tensor of shape [2, 3, 4]. Together they contain every kind of view
/// that is recorded.
fn chains(x: &Tensor) -> Result<Vec<Tensor>> {
    Ok(vec![
        x.clone(),
        x.reshape([6, 4])?,
        x.permute([2, 0, 1])?.select(0, 1)?,
        x.i((1, Slice::new(None, None, 2)))?.flip(0)?,
        x.split_sizes(2, &[1, 3])?.swap_remove(1).split(1, 2)?.swap_remove(0),
        x.i((.., NewAxis))?.expand([2, 5, 3, 4])?,
        x.unfold(1, 2, 1)?.transpose(0, 1)?.squeeze(..)?,
        x.reshape([4, 6])?.narrow(1, 2, 3)?.reshape([2, 2, 3])?.select(1, 1)?,
    ])
}

#[test]
fn a_view_is_taken_of_another_tensor() -> Result<()> {
    let device = ternion::cpu()?;
    let base = Tensor::iota(24, DType::F64, 0, 1, &device)?.reshape([2, 3, 4])?.requires_grad()?.square()?;
    let other = Tensor::iota(24, DType::I64, 100, 1, &device)?.reshape([2, 3, 4])?;
    let expected = chains(&other)?;
    for (view, expected) in chains(&base)?.iter().zip(&expected) {
        let found = view.same_view_of(&base, &other)?.expect("recorded as a view");
        assert_eq!(found.layout(), expected.layout());
        assert!(found.buffer().is(other.buffer()));
        let same_view = view.same_view_of(&base, &base)?.expect("recorded as a view");
        assert_eq!(same_view.to_vec::<f64>()?, view.to_vec::<f64>()?);
    }
    Ok(())
}

#[test]
fn what_is_no_view_of_the_base_is_none() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let (y, z) = (x.square()?, x.exp()?);
    for other in
        [y.neg()?, z.reshape([2, 1])?, y.neg()?.reshape([2, 1])?, y.detach(), no_grad(|| y.reshape([2, 1]))?]
    {
        assert!(other.same_view_of(&y, &y)?.is_none());
    }
    let wrong = y.reshape([2, 1])?.same_view_of(&y, &leaf(&[1.0], &device)?);
    assert!(wrong.is_err(), "a tensor of another shape has no such view");
    Ok(())
}

#[test]
fn views_of_a_leaf_show_it() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    assert!(x.shows_leaf() && x.reshape([2, 1])?.select(0, 1)?.shows_leaf());
    let y = x.square()?;
    assert!(!y.shows_leaf() && !y.reshape([2, 1])?.shows_leaf() && !x.detach().shows_leaf());
    Ok(())
}
