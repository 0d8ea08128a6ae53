//! A case: a row of the op table with one instance of its shapes, and random inputs.

use crate::array::Array;
use crate::compare::round_to;
use crate::memory_layout::{MemoryLayout, repeat_first};
use crate::table::{Class, Instance, OpCase};
use crate::values::{Rng, Values};
use ternion_core::DType;

/// Dtypes that share random inputs, so that they also share the oracle's result and its central
/// differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// f64 and f32: values with all bits of an f32.
    Wide,
    /// f16 and bf16: values that both represent exactly.
    Narrow,
    /// An integer dtype, or bool.
    Integer(DType),
}

impl InputKind {
    /// Returns the input kind of rows in this dtype.
    pub fn of(dtype: DType) -> InputKind {
        match dtype {
            DType::F64 | DType::F32 => InputKind::Wide,
            DType::F16 | DType::BF16 => InputKind::Narrow,
            other => InputKind::Integer(other),
        }
    }

    fn name(self) -> &'static str {
        match self {
            InputKind::Wide => "wide",
            InputKind::Narrow => "narrow",
            InputKind::Integer(dtype) => dtype.name(),
        }
    }

    /// Rounds `value` so that every dtype of this kind represents it, in an input of class `class`.
    pub fn fit(self, class: Class, value: f64) -> f64 {
        match (class, self) {
            (Class::Fixed(dtype), _) => fit_dtype(dtype, value),
            (Class::Index, _) => value.round(),
            (Class::Accumulator, InputKind::Wide | InputKind::Narrow) | (Class::Row, InputKind::Wide) => {
                round_to(DType::F32, value)
            }
            (Class::Row, InputKind::Narrow) => round_to(DType::F16, round_to(DType::BF16, value)),
            (Class::Row | Class::Accumulator, InputKind::Integer(dtype)) => fit_dtype(dtype, value),
        }
    }
}

fn fit_dtype(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::U8 => value.round().abs().min(255.0),
        DType::I16 => value.round().clamp(i16::MIN.into(), i16::MAX.into()),
        DType::I8 => value.round().clamp(i8::MIN.into(), i8::MAX.into()),
        DType::U16 => value.round().abs().min(u16::MAX.into()),
        DType::U32 => value.round().abs().min(u32::MAX.into()),
        DType::U64 => value.round().abs(),
        DType::I32 | DType::I64 => value.round(),
        _ => round_to(dtype, value),
    }
}

/// The random inputs of a case.
#[derive(Clone, Debug)]
pub struct CaseInputs {
    /// One array for each input.
    pub inputs: Vec<Array>,
    /// The seed of cotangents and directions.
    seed: String,
    kind: InputKind,
    positive_cotangents: bool,
}

impl CaseInputs {
    /// Generates the inputs of `row` on `instance`. For the broadcast layout they are constant
    /// along an axis where that is possible.
    pub fn new(
        row: &OpCase,
        instance: &Instance,
        kind: InputKind,
        memory_layout: MemoryLayout,
    ) -> CaseInputs {
        let seed = format!("{} {}", row.key(instance), kind.name());
        let mut inputs = Vec::with_capacity(row.inputs.len());
        for (position, input) in row.inputs.iter().enumerate() {
            let mut rng = Rng::seeded(&format!("{seed} input {position}"));
            let mut array = input.values.draw(instance, position, &mut rng).map(|v| kind.fit(input.class, v));
            if memory_layout == MemoryLayout::Broadcast && can_repeat(row, position) {
                array = repeat_first(&array);
            }
            inputs.push(array);
        }
        CaseInputs { inputs, seed, kind, positive_cotangents: row.positive_cotangents }
    }

    /// Creates a case with given inputs instead of random ones.
    pub fn fixed(row: &OpCase, instance: &Instance, inputs: Vec<Array>) -> CaseInputs {
        CaseInputs {
            inputs,
            seed: row.key(instance),
            kind: InputKind::Wide,
            positive_cotangents: row.positive_cotangents,
        }
    }

    /// Returns random weights for outputs of these shapes. They are not close to zero, so that each
    /// element contributes.
    pub fn cotangents(&self, outputs: &[Array]) -> Vec<Array> {
        let mut weights = self.weights("cotangent", outputs);
        if self.positive_cotangents {
            weights.iter_mut().flat_map(|array| &mut array.data).for_each(|weight| *weight = weight.abs());
        }
        weights
    }

    /// Returns random directions in the space of the inputs.
    pub fn directions(&self) -> Vec<Array> {
        self.weights("direction", &self.inputs)
    }

    /// Returns a random generator for any other purpose of a check of this case.
    pub fn rng(&self, purpose: &str) -> Rng {
        Rng::seeded(&format!("{} {purpose}", self.seed))
    }

    fn weights(&self, purpose: &str, like: &[Array]) -> Vec<Array> {
        let kind = if matches!(self.kind, InputKind::Integer(_)) { InputKind::Wide } else { self.kind };
        like.iter()
            .enumerate()
            .map(|(position, array)| {
                let mut rng = self.rng(&format!("{purpose} {position}"));
                Array::from_fn(&array.shape, |_| kind.fit(Class::Row, rng.sign() * rng.uniform(0.25, 1.25)))
            })
            .collect()
    }
}

/// Returns whether an input may be repeated along an axis: not if this would cause ties that the
/// row avoids, or duplicate indices.
pub fn can_repeat(row: &OpCase, position: usize) -> bool {
    let input = &row.inputs[position];
    let is_repeatable = matches!(
        input.values,
        Values::Uniform(..) | Values::AwayFrom(_) | Values::Integers(..) | Values::Bools
    );
    is_repeatable && !matches!(input.class, Class::Index)
}

/// Returns the memory layouts for the inputs of a case: dense, and every layout in which some
/// input is not dense.
pub fn memory_layouts(row: &OpCase, instance: &Instance) -> Vec<MemoryLayout> {
    let applies = |memory_layout: MemoryLayout| match memory_layout {
        MemoryLayout::Dense => true,
        _ if row.dense_only.is_some() => false,
        MemoryLayout::Broadcast => (0..instance.len()).any(|position| {
            can_repeat(row, position) && memory_layout.layout(&instance[position], position).is_some()
        }),
        // With one input, `Mixed` only permutes the axes, as `Transposed` does.
        MemoryLayout::Mixed if instance.len() == 1 => {
            instance[0].len() > 2 && memory_layout.layout(&instance[0], 0).is_some()
        }
        _ => {
            (0..instance.len()).any(|position| memory_layout.layout(&instance[position], position).is_some())
        }
    };
    MemoryLayout::ALL.into_iter().filter(|&memory_layout| applies(memory_layout)).collect()
}

/// Returns the printed key of a case.
pub fn case_key(row: &OpCase, instance: &Instance, dtype: DType, memory_layout: MemoryLayout) -> String {
    format!("{} {dtype} {memory_layout}", row.key(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_values_fit_both_half_dtypes() {
        let row = OpCase::new("op", "").input(Values::Uniform(-9.0, 9.0)).shapes([&[100]]);
        let case_inputs = CaseInputs::new(&row, &row.instances[0], InputKind::Narrow, MemoryLayout::Dense);
        for &v in &case_inputs.inputs[0].data {
            assert_eq!((round_to(DType::F16, v), round_to(DType::BF16, v)), (v, v));
        }
    }

    #[test]
    fn memory_layouts_apply_where_they_differ_from_dense() {
        let row = OpCase::new("op", "").input(Values::Uniform(0.0, 1.0)).shapes([&[3, 4], &[], &[0, 2]]);
        assert_eq!(memory_layouts(&row, &row.instances[0]).len(), 5);
        assert_eq!(memory_layouts(&row, &row.instances[1]), [MemoryLayout::Dense, MemoryLayout::Sliced]);
        assert_eq!(memory_layouts(&row, &row.instances[2]), [MemoryLayout::Dense]);
        let distinct = OpCase::new("op", "").input(Values::Distinct).shapes([&[3, 4]]);
        assert!(!memory_layouts(&distinct, &distinct.instances[0]).contains(&MemoryLayout::Broadcast));
    }

    #[test]
    fn integers_are_rounded_and_in_range() {
        assert_eq!(InputKind::Integer(DType::U8).fit(Class::Row, -2.6), 3.0);
        assert_eq!(InputKind::Integer(DType::I8).fit(Class::Row, -200.0), -128.0);
        assert_eq!(InputKind::Integer(DType::I16).fit(Class::Row, 4e4), 32767.0);
        assert_eq!(InputKind::Integer(DType::I32).fit(Class::Row, -2.6), -3.0);
        assert_eq!(InputKind::Integer(DType::Bool).fit(Class::Row, -2.6), 1.0);
        assert_eq!(InputKind::Narrow.fit(Class::Fixed(DType::F32), 0.1), f64::from(0.1f32));
    }
}
