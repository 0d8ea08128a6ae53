//! The oracle's results for a case, computed once for all checks that use them.

use super::{Case, Session};
use crate::array::Array;
use crate::case::{CaseInputs, InputKind};
use crate::compare::round_to_tf32;
use crate::differences::{Gradient, Weighted};
use crate::memory_layout::MemoryLayout;
use crate::phase::{self, Phase};
use crate::read::values_of;
use crate::rounding::{Rounding, RoundingStep};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::{DType, Tensor};

/// The oracle's results for cases, cached for all checks of them. The key is that of the row and
/// instance, the dtype, and whether the inputs are repeated for the broadcast layout.
#[derive(Default)]
pub(crate) struct OracleCache(RefCell<HashMap<(String, DType, bool), Rc<OracleResults>>>);

/// The inputs of a case with the oracle's results, computed once for all checks that share them.
pub(super) struct OracleResults {
    pub(super) case: CaseInputs,
    pub(super) want: Vec<Array>,
    pub(super) cotangents: Vec<Array>,
    pub(super) gradients: RefCell<Option<Rc<Vec<Option<Gradient>>>>>,
    pub(super) stepwise: RefCell<HashMap<(DType, RoundingStep), Option<Rc<Stepwise>>>>,
    /// The results for factors rounded to TF32, if the row allows a device to round them in this
    /// dtype.
    pub(super) rounded: Option<Rc<OracleResults>>,
}

impl OracleResults {
    pub(super) fn new(case: CaseInputs, want: Vec<Array>, cotangents: Vec<Array>) -> OracleResults {
        let (gradients, stepwise) = (RefCell::default(), RefCell::default());
        OracleResults { case, want, cotangents, gradients, stepwise, rounded: None }
    }
}

/// Outputs and gradients of the same computation in float64, with the result of every op or
/// primitive rounded: see [`RoundingStep`].
pub(super) struct Stepwise {
    pub(super) outputs: Vec<Array>,
    pub(super) gradients: Vec<Option<Array>>,
}

impl OracleCache {
    /// Clears the cache: the next instance shares nothing with this one.
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Session<'_> {
    pub(super) fn oracle_results(&self, (instance, dtype, memory_layout): Case<'_>) -> Rc<OracleResults> {
        let repeated = memory_layout == MemoryLayout::Broadcast;
        let key = (self.row.key(instance), dtype, repeated);
        if let Some(expected) = self.oracle_cache.0.borrow().get(&key) {
            return expected.clone();
        }
        let case_inputs = CaseInputs::new(self.row, instance, InputKind::of(dtype), memory_layout);
        let want = self.row.oracle_outputs(dtype, &case_inputs.inputs);
        let cotangents = case_inputs.cotangents(&want);
        let mut expected = OracleResults::new(case_inputs, want, cotangents);
        if dtype == DType::F32 && self.row.tf32_factors > 0 {
            expected.rounded = Some(Rc::new(self.rounded(&expected)));
        }
        let expected = Rc::new(expected);
        self.oracle_cache.0.borrow_mut().insert(key, expected.clone());
        expected
    }

    /// Returns the oracle's results with the row's factors and the cotangents rounded to TF32.
    fn rounded(&self, expected: &OracleResults) -> OracleResults {
        let mut case_inputs = expected.case.clone();
        for factor in case_inputs.inputs.iter_mut().take(self.row.tf32_factors) {
            *factor = factor.map(round_to_tf32);
        }
        let want = self.row.oracle_outputs(DType::F32, &case_inputs.inputs);
        let cotangents = expected.cotangents.iter().map(|cotangent| cotangent.map(round_to_tf32)).collect();
        OracleResults::new(case_inputs, want, cotangents)
    }

    /// Returns the gradient of each input by central differences. Dtypes that share inputs share
    /// these gradients.
    pub(super) fn gradients(&self, case: Case<'_>, expected: &OracleResults) -> Rc<Vec<Option<Gradient>>> {
        if let Some(gradients) = &*expected.gradients.borrow() {
            return gradients.clone();
        }
        let (instance, dtype, memory_layout) = case;
        let sibling = self
            .row
            .float_dtypes()
            .into_iter()
            .find(|&other| other != dtype && InputKind::of(other) == InputKind::of(dtype));
        let shared = sibling.and_then(|sibling| {
            let key = (self.row.key(instance), sibling, memory_layout == MemoryLayout::Broadcast);
            self.oracle_cache.0.borrow().get(&key).and_then(|expected| expected.gradients.borrow().clone())
        });
        let gradients = shared.unwrap_or_else(|| self.differences(dtype, expected));
        *expected.gradients.borrow_mut() = Some(gradients.clone());
        gradients
    }

    /// Returns the gradient of each input with factors rounded to TF32.
    pub(super) fn rounded_gradients(
        &self,
        dtype: DType,
        rounded: &OracleResults,
    ) -> Rc<Vec<Option<Gradient>>> {
        rounded.gradients.borrow_mut().get_or_insert_with(|| self.differences(dtype, rounded)).clone()
    }

    /// Computes the gradient of each input by central differences.
    fn differences(&self, dtype: DType, expected: &OracleResults) -> Rc<Vec<Option<Gradient>>> {
        let function = |inputs: &[Array]| self.row.oracle_outputs(dtype, inputs);
        let cotangents = self.row.weights(&expected.cotangents);
        let weighted = Weighted { function: &function, cotangents: &cotangents };
        let differentiable = self.row.differentiable_inputs(dtype);
        let gradient = |position: usize| {
            let mut rng = expected.case.rng(&format!("gradient {position}"));
            differentiable
                .contains(&position)
                .then(|| weighted.gradient(&expected.case.inputs, position, &mut rng))
        };
        Rc::new((0..self.row.inputs.len()).map(gradient).collect())
    }

    /// Runs the same computation in float64 with every result rounded to `dtype`. Returns `None` if
    /// it does not run in float64.
    pub(super) fn stepwise(
        &self,
        expected: &OracleResults,
        dtype: DType,
        rounding_step: RoundingStep,
    ) -> Option<Rc<Stepwise>> {
        if !dtype.is_half() {
            return None;
        }
        if let Some(expected) = expected.stepwise.borrow().get(&(dtype, rounding_step)) {
            return expected.clone();
        }
        let device = Rounding::device(&self.reference, dtype, rounding_step);
        let ran = phase::during(Phase::Reference, || {
            let (inputs, cotangents) = (&expected.case.inputs, &expected.cotangents);
            self.row.run_backward(&device, DType::F64, MemoryLayout::Dense, inputs, cotangents)
        });
        let stepwise = ran.ok().map(|(outputs, gradients)| {
            let array = |tensor: &Tensor| values_of(tensor).map(|(_, array)| array).ok();
            Rc::new(Stepwise {
                outputs: outputs.iter().filter_map(array).collect(),
                gradients: gradients.iter().map(|gradient| gradient.as_ref().and_then(array)).collect(),
            })
        });
        expected.stepwise.borrow_mut().insert((dtype, rounding_step), stepwise.clone());
        stepwise
    }
}
