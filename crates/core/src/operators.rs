//! The operators `+ - * /` and unary `-` on tensors and scalars. Like the methods, each returns a
//! `Result`: `(&a + &b)?`.

use crate::Result;
use crate::tensor::Tensor;
use std::ops::{Add, Div, Mul, Neg, Sub};

macro_rules! tensor_operators {
    ($($operator:ident $method:ident ($left:ty, $right:ty);)*) => {
        $(impl $operator<$right> for $left {
            type Output = Result<Tensor>;
            fn $method(self, other: $right) -> Result<Tensor> {
                Tensor::$method(&self, &other)
            }
        })*
    };
}

tensor_operators! {
    Add add (&Tensor, &Tensor);
    Add add (&Tensor, Tensor);
    Add add (Tensor, &Tensor);
    Add add (Tensor, Tensor);
    Sub sub (&Tensor, &Tensor);
    Sub sub (&Tensor, Tensor);
    Sub sub (Tensor, &Tensor);
    Sub sub (Tensor, Tensor);
    Mul mul (&Tensor, &Tensor);
    Mul mul (&Tensor, Tensor);
    Mul mul (Tensor, &Tensor);
    Mul mul (Tensor, Tensor);
    Div div (&Tensor, &Tensor);
    Div div (&Tensor, Tensor);
    Div div (Tensor, &Tensor);
    Div div (Tensor, Tensor);
}

/// Operators with a scalar on the right, and with one on the left, for a tensor and for a reference
/// to one.
macro_rules! scalar_operators {
    ($($operator:ident $method:ident $tensor:ty: $right:ident $left:ident;)*) => {
        $(impl $operator<f64> for $tensor {
            type Output = Result<Tensor>;
            fn $method(self, number: f64) -> Result<Tensor> {
                self.$right(number)
            }
        }
        impl $operator<$tensor> for f64 {
            type Output = Result<Tensor>;
            fn $method(self, tensor: $tensor) -> Result<Tensor> {
                tensor.$left(self)
            }
        })*
    };
}

scalar_operators! {
    Add add &Tensor: add_scalar add_scalar;
    Add add Tensor: add_scalar add_scalar;
    Sub sub &Tensor: sub_scalar rsub_scalar;
    Sub sub Tensor: sub_scalar rsub_scalar;
    Mul mul &Tensor: mul_scalar mul_scalar;
    Mul mul Tensor: mul_scalar mul_scalar;
    Div div &Tensor: div_scalar rdiv_scalar;
    Div div Tensor: div_scalar rdiv_scalar;
}

impl Neg for &Tensor {
    type Output = Result<Tensor>;
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}
