//! Arithmetic, reductions and statistics from the core's `functions`. The functions of
//! `ternion/_functions/arithmetic.py` and `reductions.py` call them and define the default values.

use super::TensorArgument;
use super::reduce::{apply_along, check_has_extremes};
use crate::arguments::{AxesArgument, Real, axes};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, WithOp};
use crate::extract::of;
use crate::gil::{run, wait};
use crate::promote::{promote_pair, promote_three, to_floating};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{Axes, Result, Tensor, linalg};

type PairOutcome = Outcome<(PyTensor, PyTensor)>;

/// Converts three tensors to their common floating dtype.
fn promote_three_to_floats(a: &Tensor, b: &Tensor, c: &Tensor) -> Result<[Tensor; 3]> {
    let [a, b, c] = promote_three(a, b, c)?;
    Ok([to_floating(&a)?, to_floating(&b)?, to_floating(&c)?])
}

/// Runs a function with two results.
fn map_pair(
    slf: &PyTensor,
    py: Python<'_>,
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)> + Send,
) -> PairOutcome {
    let x = slf.tensor();
    run(py, x.elements(), || f(&x)).map(|(first, second)| (PyTensor::new(first), PyTensor::new(second)))
}

/// Methods of two tensors, which are converted to their common floating dtype.
macro_rules! of_two_floats {
    ($($name:ident => $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, py: Python<'_>, other: TensorArgument<'_, '_>) -> Outcome<PyTensor> {
                    let other = other.get().tensor();
                    self.map(py, |x| {
                        let (x, other) = promote_pair(x, &other)?;
                        to_floating(&x)?.$method(&to_floating(&other)?)
                    })
                }
            )*
        }
    };
}

of_two_floats! {
    _copysign => copysign;
    _hypot => hypot;
    _prelu => prelu;
}

macro_rules! of_two {
    ($($name:ident => $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, py: Python<'_>, other: TensorArgument<'_, '_>) -> Outcome<PyTensor> {
                    let other = other.get().tensor();
                    self.map(py, |x| x.$method(&other))
                }
            )*
        }
    };
}

of_two! {
    _float_power => float_power;
    _heaviside => heaviside;
    _ldexp => ldexp;
}

macro_rules! of_one {
    ($($name:ident => $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self, py: Python<'_>) -> Outcome<PyTensor> {
                    self.map(py, Tensor::$method)
                }
            )*
        }
    };
}

of_one! {
    _corrcoef => corrcoef;
    _deg2rad => deg2rad;
    _frac => frac;
    _isneginf => isneginf;
    _isposinf => isposinf;
    _msort => msort;
    _rad2deg => rad2deg;
    _signbit => signbit;
}

#[pymethods]
impl PyTensor {
    fn _lerp(&self, py: Python<'_>, end: TensorArgument<'_, '_>, weight: Real) -> Outcome<PyTensor> {
        let end = end.get().tensor();
        self.map(py, |x| {
            let (x, end) = promote_pair(x, &end)?;
            to_floating(&x)?.lerp(&to_floating(&end)?, weight.0)
        })
    }

    fn _lerp_tensor(
        &self,
        py: Python<'_>,
        end: TensorArgument<'_, '_>,
        weight: TensorArgument<'_, '_>,
    ) -> Outcome<PyTensor> {
        let (end, weight) = (end.get().tensor(), weight.get().tensor());
        self.map(py, |x| {
            let [x, end, weight] = promote_three_to_floats(x, &end, &weight)?;
            x.lerp_tensor(&end, &weight).with_op("lerp")
        })
    }

    fn _addcdiv(
        &self,
        py: Python<'_>,
        tensor1: TensorArgument<'_, '_>,
        tensor2: TensorArgument<'_, '_>,
        value: Real,
    ) -> Outcome<PyTensor> {
        let (dividend, divisor) = (tensor1.get().tensor(), tensor2.get().tensor());
        self.map(py, |x| {
            let [x, dividend, divisor] = promote_three_to_floats(x, &dividend, &divisor)?;
            x.addcdiv(&dividend, &divisor, value.0)
        })
    }

    fn _frexp(&self, py: Python<'_>) -> PairOutcome {
        map_pair(self, py, Tensor::frexp)
    }

    fn _nan_to_num(
        &self,
        py: Python<'_>,
        nan: Real,
        posinf: Option<Real>,
        neginf: Option<Real>,
    ) -> Outcome<PyTensor> {
        self.map(py, |x| x.nan_to_num(nan.0, posinf.map(f64::from), neginf.map(f64::from)))
    }

    fn _round(&self, py: Python<'_>, decimals: i32) -> Outcome<PyTensor> {
        self.map(py, |x| x.round_decimals(decimals).with_op("round"))
    }

    fn _inner(&self, py: Python<'_>, other: TensorArgument<'_, '_>) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            x.inner(&other)
        })
    }

    fn _tensordot(
        &self,
        py: Python<'_>,
        other: TensorArgument<'_, '_>,
        dims: Vec<isize>,
        other_dims: Vec<isize>,
    ) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            x.tensordot(&other, &dims, &other_dims)
        })
    }

    fn _nansum(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::nansum)] dim: Option<AxesArgument>,
        keepdim: bool,
        dtype: Option<DTypeArgument>,
    ) -> Outcome<PyTensor> {
        let axes = axes(dim);
        self.map_along(py, axes.clone(), |x| match dtype {
            None => x.nansum(axes, keepdim),
            Some(dtype) => x.to_dtype(dtype.0)?.nansum(axes, keepdim)?.to_dtype(dtype.0),
        })
    }

    fn _nanmean(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::nanmean)] dim: Option<AxesArgument>,
        keepdim: bool,
    ) -> Outcome<PyTensor> {
        let axes = axes(dim);
        self.map_along(py, axes.clone(), |x| x.nanmean(axes, keepdim))
    }

    fn _count_nonzero(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::count_nonzero)] dim: Option<AxesArgument>,
    ) -> Outcome<PyTensor> {
        let axes = axes(dim);
        self.map_along(py, axes.clone(), |x| x.count_nonzero(axes, false))
    }

    fn _var_mean(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::var_mean)] dim: Option<AxesArgument>,
        correction: Real,
        keepdim: bool,
        is_root: bool,
    ) -> PairOutcome {
        let axes = axes(dim);
        map_pair(self, py, |x| {
            apply_along_axes(x, &axes, |x| match is_root {
                true => x.std_mean(axes.clone(), correction.0, keepdim).with_op("std_mean"),
                false => x.var_mean(axes.clone(), correction.0, keepdim).with_op("var_mean"),
            })
        })
    }

    fn _aminmax(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::aminmax)] dim: Option<AxesArgument>,
        keepdim: bool,
    ) -> PairOutcome {
        let axes = axes(dim);
        map_pair(self, py, |x| {
            apply_along_axes(x, &axes, |x| {
                check_has_extremes("amin", x, &axes)?;
                x.aminmax(axes.clone(), keepdim)
            })
            .with_op("aminmax")
        })
    }

    fn _cumprod(&self, py: Python<'_>, dim: isize, dtype: Option<DTypeArgument>) -> Outcome<PyTensor> {
        self.map_along(py, dim, |x| match dtype {
            None => x.cumprod(dim),
            Some(dtype) => x.to_dtype(dtype.0)?.cumprod(dim)?.to_dtype(dtype.0),
        })
    }

    fn _diff(
        &self,
        py: Python<'_>,
        n: usize,
        dim: isize,
        prepend: Option<Bound<'_, PyTensor>>,
        append: Option<Bound<'_, PyTensor>>,
    ) -> Outcome<PyTensor> {
        let [prepend, append] = [prepend, append].map(|tensor| tensor.map(|tensor| tensor.get().tensor()));
        self.map(py, |x| {
            let (mut x, mut parts) = (x.clone(), [prepend, append]);
            for part in parts.iter_mut().flatten() {
                (x, *part) = promote_pair(&x, part)?;
            }
            // The second promotion may have changed the dtype.
            let parts = parts.map(|part| part.map(|part| part.to_dtype(x.dtype())).transpose());
            let [prepend, append] = parts;
            x.diff(n, dim, prepend?.as_ref(), append?.as_ref())
        })
    }

    fn _cov(
        &self,
        py: Python<'_>,
        correction: Real,
        fweights: Option<Bound<'_, PyTensor>>,
        aweights: Option<Bound<'_, PyTensor>>,
    ) -> Outcome<PyTensor> {
        let x = self.tensor();
        let [fweights, aweights] =
            [fweights, aweights].map(|tensor| tensor.map(|tensor| tensor.get().tensor()));
        wait(py, || x.cov(correction.0, fweights.as_ref(), aweights.as_ref())).map(PyTensor::new)
    }

    fn _dist(&self, py: Python<'_>, other: TensorArgument<'_, '_>, p: Real) -> Outcome<PyTensor> {
        let other = other.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            linalg::dist(&to_floating(&x)?, &to_floating(&other)?, p.0)
        })
    }
}

/// Same as `apply_along` for any axes.
fn apply_along_axes(
    x: &Tensor,
    axes: &Axes,
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<(Tensor, Tensor)> {
    match axes {
        Axes::List(list) if list.len() == 1 => apply_along(x, list[0], f),
        _ => f(x),
    }
}
