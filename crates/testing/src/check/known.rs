//! The oracle's results for a case, computed once for all checks that use them.

use super::{Case, Session};
use crate::array::Array;
use crate::case::{Draw, Drawn};
use crate::compare::round_to_tf32;
use crate::differences::{Gradient, Weighted};
use crate::phase::{self, Phase};
use crate::place::Arrangement;
use crate::read::values_of;
use crate::rounding::{Grain, Rounding};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::{DType, Tensor};

/// The oracle's results for cases, cached for all checks of them.
#[derive(Default)]
pub(crate) struct Knowledge(RefCell<HashMap<(String, DType, bool), Rc<Known>>>);

/// The inputs of a case with the oracle's results, computed once for all checks that share them.
pub(super) struct Known {
    pub(super) drawn: Drawn,
    pub(super) want: Vec<Array>,
    pub(super) cotangents: Vec<Array>,
    pub(super) gradients: RefCell<Option<Rc<Vec<Option<Gradient>>>>>,
    pub(super) stepwise: RefCell<HashMap<(DType, Grain), Option<Rc<Stepwise>>>>,
    /// The same with factors rounded to TF32, if the row allows a device to do that in this dtype.
    pub(super) rounded: Option<Rc<Known>>,
}

impl Known {
    pub(super) fn new(drawn: Drawn, want: Vec<Array>, cotangents: Vec<Array>) -> Known {
        let (gradients, stepwise) = (RefCell::default(), RefCell::default());
        Known { drawn, want, cotangents, gradients, stepwise, rounded: None }
    }
}

/// Outputs and gradients of the same computation in float64, with every primitive's result rounded.
pub(super) struct Stepwise {
    pub(super) outputs: Vec<Array>,
    pub(super) gradients: Vec<Option<Array>>,
}

impl Knowledge {
    /// Clears the cache: the next instance shares nothing with this one.
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Session<'_> {
    pub(super) fn known(&self, (instance, dtype, arrangement): Case<'_>) -> Rc<Known> {
        let repeated = arrangement == Arrangement::Broadcast;
        let key = (self.row.key(instance), dtype, repeated);
        if let Some(known) = self.knowledge.0.borrow().get(&key) {
            return known.clone();
        }
        let drawn = Drawn::new(self.row, instance, Draw::of(dtype), arrangement);
        let want = self.row.answer(dtype, &drawn.inputs);
        let cotangents = drawn.cotangents(&want);
        let mut known = Known::new(drawn, want, cotangents);
        if dtype == DType::F32 && self.row.tf32_factors > 0 {
            known.rounded = Some(Rc::new(self.rounded(&known)));
        }
        let known = Rc::new(known);
        self.knowledge.0.borrow_mut().insert(key, known.clone());
        known
    }

    /// Returns the oracle's results with the row's factors and the cotangents rounded to TF32.
    fn rounded(&self, known: &Known) -> Known {
        let mut drawn = known.drawn.clone();
        for factor in drawn.inputs.iter_mut().take(self.row.tf32_factors) {
            *factor = factor.map(round_to_tf32);
        }
        let want = self.row.answer(DType::F32, &drawn.inputs);
        let cotangents = known.cotangents.iter().map(|cotangent| cotangent.map(round_to_tf32)).collect();
        Known::new(drawn, want, cotangents)
    }

    /// Returns the gradient of each input by central differences. Dtypes that share their inputs
    /// share it.
    pub(super) fn gradients(&self, case: Case<'_>, known: &Known) -> Rc<Vec<Option<Gradient>>> {
        if let Some(gradients) = &*known.gradients.borrow() {
            return gradients.clone();
        }
        let (instance, dtype, arrangement) = case;
        let twin = self
            .row
            .float_dtypes()
            .into_iter()
            .find(|&other| other != dtype && Draw::of(other) == Draw::of(dtype));
        let shared = twin.and_then(|twin| {
            let key = (self.row.key(instance), twin, arrangement == Arrangement::Broadcast);
            self.knowledge.0.borrow().get(&key).and_then(|known| known.gradients.borrow().clone())
        });
        let gradients = shared.unwrap_or_else(|| self.differences(dtype, known));
        *known.gradients.borrow_mut() = Some(gradients.clone());
        gradients
    }

    /// Returns the gradient of each input with factors rounded to TF32.
    pub(super) fn rounded_gradients(&self, dtype: DType, rounded: &Known) -> Rc<Vec<Option<Gradient>>> {
        rounded.gradients.borrow_mut().get_or_insert_with(|| self.differences(dtype, rounded)).clone()
    }

    fn differences(&self, dtype: DType, known: &Known) -> Rc<Vec<Option<Gradient>>> {
        let function = |inputs: &[Array]| self.row.answer(dtype, inputs);
        let cotangents = self.row.weights(&known.cotangents);
        let weighted = Weighted { function: &function, cotangents: &cotangents };
        let wanted = self.row.differentiable_inputs(dtype);
        let gradient = |at: usize| {
            let mut rng = known.drawn.rng(&format!("gradient {at}"));
            wanted.contains(&at).then(|| weighted.gradient(&known.drawn.inputs, at, &mut rng))
        };
        Rc::new((0..self.row.inputs.len()).map(gradient).collect())
    }

    /// Runs the same computation in float64 with every result rounded to `dtype`. Returns `None` if
    /// it does not run in float64.
    pub(super) fn stepwise(&self, known: &Known, dtype: DType, grain: Grain) -> Option<Rc<Stepwise>> {
        if !dtype.is_half() {
            return None;
        }
        if let Some(known) = known.stepwise.borrow().get(&(dtype, grain)) {
            return known.clone();
        }
        let device = Rounding::device(&self.reference, dtype, grain);
        let ran = phase::during(Phase::Reference, || {
            let (inputs, cotangents) = (&known.drawn.inputs, &known.cotangents);
            self.row.run_backward(&device, DType::F64, Arrangement::Dense, inputs, cotangents)
        });
        let stepwise = ran.ok().map(|(outputs, gradients)| {
            let array = |tensor: &Tensor| values_of(tensor).map(|(_, array)| array).ok();
            Rc::new(Stepwise {
                outputs: outputs.iter().filter_map(array).collect(),
                gradients: gradients.iter().map(|gradient| gradient.as_ref().and_then(array)).collect(),
            })
        });
        known.stepwise.borrow_mut().insert((dtype, grain), stepwise.clone());
        stepwise
    }
}
