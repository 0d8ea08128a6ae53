//! Types that may be fields of a module besides layers: containers of fields, and plain data.

use super::{Forward, Module, ModuleField, Visitor};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use ternion_core::{Axes, Axis, AxisSet, DType, Device, Result, Scalar, Shape, Tensor};

macro_rules! pointers {
    ($($pointer:ident),*) => {
        $(impl<M: Module + ?Sized> Module for $pointer<M> {
            fn visit(&self, visitor: &mut Visitor<'_>) { (**self).visit(visitor); }
        }
        impl<M: Forward + ?Sized> Forward for $pointer<M> {
            fn forward(&self, input: &Tensor) -> Result<Tensor> { (**self).forward(input) }
            fn forward_for_products(&self, input: &Tensor) -> Result<Tensor> { (**self).forward_for_products(input) }
        })*
    };
}
pointers!(Box, Arc);

/// Members have their indices as keys.
impl<F: ModuleField> Module for Vec<F> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (position, field) in self.iter().enumerate() {
            visitor.field(position, field);
        }
    }
}

/// Members have their indices as keys.
impl<F: ModuleField, const N: usize> Module for [F; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (position, field) in self.iter().enumerate() {
            visitor.field(position, field);
        }
    }
}

/// The content, if any, has the key of the option.
impl<F: ModuleField> Module for Option<F> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(field) = self {
            field.visit_field(visitor);
        }
    }
}

/// Members have their keys in the map.
impl<F: ModuleField> Module for BTreeMap<String, F> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (name, field) in self {
            visitor.field(name, field);
        }
    }
}

macro_rules! tuples {
    ($(($($field:ident $position:tt),*))*) => {
        $(impl<$($field: ModuleField),*> Module for ($($field,)*) {
            fn visit(&self, visitor: &mut Visitor<'_>) { $(visitor.field($position, &self.$position);)* }
        })*
    };
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

macro_rules! plain {
    ($($data:ty),* $(,)?) => { $(impl ModuleField for $data {})* };
}
plain! {
    (), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64,
    String, &'static str, DType, Device, Shape, Axis, Axes, AxisSet, Scalar,
    std::ops::Range<usize>, std::path::PathBuf, std::time::Duration,
    fn(&Tensor) -> Result<Tensor>,
}

impl<T: ?Sized + Send + Sync> ModuleField for PhantomData<T> {}
