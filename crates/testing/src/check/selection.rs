//! The cases of a row in each check, by their printed keys, and their selection by a filter.

use crate::array::Array;
use crate::case::{case_key, memory_layouts};
use crate::memory_layout::MemoryLayout;
use crate::report::Check;
use crate::table::{Instance, OpCase};
use ternion_core::DType;

/// A selection of cases of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Every case.
    #[default]
    All,
    /// The cases whose printed key contains this text, starting at a word: `softmax` does not match
    /// `log_softmax`.
    Text(String),
    /// The case with this printed key.
    Key(String),
}

impl Filter {
    /// Returns whether the case with this key is selected.
    pub fn selects(&self, key: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Key(selected) => key == selected,
            Filter::Text(text) => key.match_indices(text.as_str()).any(|(start, _)| {
                !key[..start].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            }),
        }
    }
}

/// Returns the keys of the cases of `row` in `check`.
pub fn keys(row: &OpCase, check: Check) -> Vec<String> {
    match check {
        Check::Rejects => row.rejects.iter().map(|(message, _)| rejects_key(row, message)).collect(),
        Check::Adversarial => adversarial_cases(row).into_iter().map(|(key, ..)| key).collect(),
        _ => {
            let keys_of = |instance: &Instance| {
                let cases = cases(row, check, instance).into_iter();
                cases
                    .map(|(dtype, memory_layout)| case_key(row, instance, dtype, memory_layout))
                    .collect::<Vec<_>>()
            };
            row.instances.iter().flat_map(keys_of).collect()
        }
    }
}

/// The memory layouts of the integer dtypes other than i64, i32 and u8, which run in all layouts.
/// All integer dtypes index memory with the same code, and each additional pair of layouts would
/// make the table a tenth longer.
const OTHER_INTEGER_LAYOUTS: [MemoryLayout; 2] = [MemoryLayout::Dense, MemoryLayout::Sliced];

fn runs_in(dtype: DType, memory_layout: MemoryLayout) -> bool {
    let is_other_integer = matches!(dtype, DType::I16 | DType::I8 | DType::U64 | DType::U32 | DType::U16);
    !is_other_integer || OTHER_INTEGER_LAYOUTS.contains(&memory_layout)
}

/// Returns the dtypes and memory layouts in which `check` runs an instance of `row`.
pub(crate) fn cases(row: &OpCase, check: Check, instance: &Instance) -> Vec<(DType, MemoryLayout)> {
    let (dtypes, selected): (Vec<DType>, &[MemoryLayout]) = match check {
        Check::Backward => (row.float_dtypes(), &MemoryLayout::ALL),
        Check::DoubleBackward => (row.widest_float(), &[MemoryLayout::Dense]),
        Check::Composed => (row.dtypes.clone(), &[MemoryLayout::Dense, MemoryLayout::Mixed]),
        _ => (row.dtypes.clone(), &MemoryLayout::ALL),
    };
    let memory_layouts =
        memory_layouts(row, instance).into_iter().filter(|memory_layout| selected.contains(memory_layout));
    memory_layouts
        .flat_map(|memory_layout| dtypes.iter().map(move |&dtype| (dtype, memory_layout)))
        .filter(|&(dtype, memory_layout)| runs_in(dtype, memory_layout))
        .collect()
}

/// Returns key, shapes and dtype of each case of adversarial inputs.
pub(super) fn adversarial_cases(row: &OpCase) -> Vec<(String, Instance, DType)> {
    let cases_of = |(name, inputs): &(&str, Vec<Array>)| {
        let instance: Instance = inputs.iter().map(|input| input.shape.clone()).collect();
        let case = |dtype| (adversarial_key(row, name, &instance, dtype), instance.clone(), dtype);
        row.float_dtypes().into_iter().map(case).collect::<Vec<_>>()
    };
    row.adversarial.iter().flat_map(cases_of).collect()
}

pub(super) fn adversarial_key(row: &OpCase, name: &str, instance: &Instance, dtype: DType) -> String {
    format!("{} adversarial={name} {dtype} dense", row.key(instance))
}

pub(super) fn rejects_key(row: &OpCase, message: &str) -> String {
    format!("{} rejects: {message}", row.name())
}

impl OpCase {
    /// Returns the floating dtypes of this row.
    pub fn float_dtypes(&self) -> Vec<DType> {
        self.dtypes.iter().copied().filter(|dtype| dtype.is_float()).collect()
    }

    /// Returns whether any input has a gradient in any dtype.
    pub fn has_gradient(&self) -> bool {
        self.dtypes.iter().any(|&dtype| !self.differentiable_inputs(dtype).is_empty())
    }

    /// Returns this row on the smallest shapes with more than one element, in its first dtype.
    pub fn smallest(&self) -> OpCase {
        let size = |instance: &&Instance| {
            instance.iter().map(|shape| shape.iter().product::<usize>()).sum::<usize>()
        };
        let instances: Vec<&Instance> = self.instances.iter().filter(|instance| size(instance) > 1).collect();
        let smallest = instances.into_iter().min_by_key(size).or(self.instances.first()).cloned();
        OpCase {
            instances: smallest.into_iter().collect(),
            dtypes: self.dtypes.iter().take(1).copied().collect(),
            ..self.clone()
        }
    }

    /// Returns a reduced version of this row, for devices on which a full check of compositions
    /// takes too long: its smallest shapes in dense memory, in f64 and f32 or, if the row has
    /// neither, in i32. The ops that the row is composed of run in every layout and dtype in their
    /// own rows.
    pub(crate) fn reduced(&self) -> OpCase {
        let intersection = |selected: &[DType]| -> Vec<DType> {
            self.dtypes.iter().copied().filter(|dtype| selected.contains(dtype)).collect()
        };
        let candidates =
            [intersection(&[DType::F64, DType::F32]), intersection(&[DType::I32]), self.dtypes.clone()];
        OpCase {
            dtypes: candidates.into_iter().find(|dtypes| !dtypes.is_empty()).unwrap_or_default(),
            dense_only: self
                .dense_only
                .or(Some("the ops of a composition run in every layout by their own rows")),
            ..self.smallest()
        }
    }

    fn widest_float(&self) -> Vec<DType> {
        self.float_dtypes().into_iter().max_by_key(|dtype| dtype.size()).into_iter().collect()
    }

    /// Returns which inputs have a gradient when the row runs in `dtype`.
    pub fn differentiable_inputs(&self, dtype: DType) -> Vec<usize> {
        let has_gradient = |&position: &usize| {
            self.inputs[position].differentiable && self.inputs[position].class.dtype(dtype).is_float()
        };
        (0..self.inputs.len()).filter(has_gradient).collect()
    }
}
