//! The checks of a row on a device.

use crate::array::Array;
use crate::case::{Draw, Drawn, arrangements, case_key};
use crate::compare::compare;
use crate::differences::{Gradient, Weighted, directional};
use crate::guarded::{Guarded, Repeat, TraceHandle};
use crate::limits;
use crate::phase::{self, Phase};
use crate::place::{Arrangement, place};
use crate::read::values_of;
use crate::report::{Check, Failure, Outcome};
use crate::rounding::{Grain, Rounding};
use crate::table::{Instance, OpCase};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use ternion_core::decorators::Composed;
use ternion_core::{DType, Device, GradOptions, Tensor, grad, no_grad};

/// Which cases of the table are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Every case.
    #[default]
    All,
    /// Those whose printed key contains this text from the start of a word on: `softmax` is not in `log_softmax`.
    Text(String),
    /// The case with this printed key.
    Key(String),
}

impl Filter {
    /// Whether the case with this key is wanted.
    pub fn wants(&self, key: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Key(wanted) => key == wanted,
            Filter::Text(text) => key.match_indices(text.as_str()).any(|(at, _)| {
                !key[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
            }),
        }
    }
}

/// A device under test, and the one on which float64 arithmetic shows what rounding costs.
#[derive(Clone, Debug)]
pub struct Target {
    /// The device under test.
    pub device: Device,
    /// A device that has f64.
    pub reference: Device,
}

impl Target {
    /// `device`, with the CPU as reference.
    pub fn new(device: Device) -> Target {
        Target { device, reference: ternion_cpu::device() }
    }
}

/// The keys of the cases that `check` makes of `row`.
pub fn keys(row: &OpCase, check: Check) -> Vec<String> {
    match check {
        Check::Rejects => row.rejects.iter().map(|(message, _)| rejects_key(row, message)).collect(),
        Check::Hostile => {
            let of = |(name, inputs): &(&str, Vec<Array>)| {
                let instance: Instance = inputs.iter().map(|input| input.shape.clone()).collect();
                row.float_dtypes()
                    .into_iter()
                    .map(|dtype| hostile_key(row, name, &instance, dtype))
                    .collect::<Vec<_>>()
            };
            row.hostile.iter().flat_map(of).collect()
        }
        _ => {
            let of = |instance: &Instance| {
                let cases = cases(row, check, instance).into_iter();
                cases
                    .map(|(dtype, arrangement)| case_key(row, instance, dtype, arrangement))
                    .collect::<Vec<_>>()
            };
            row.instances.iter().flat_map(of).collect()
        }
    }
}

/// In which dtypes and memory layouts `check` runs an instance of `row`.
fn cases(row: &OpCase, check: Check, instance: &Instance) -> Vec<(DType, Arrangement)> {
    let (dtypes, wanted): (Vec<DType>, &[Arrangement]) = match check {
        Check::Backward => (row.float_dtypes(), &Arrangement::ALL),
        Check::Twice => (row.widest_float(), &[Arrangement::Dense]),
        Check::Composed => (row.dtypes.clone(), &[Arrangement::Dense, Arrangement::Mixed]),
        _ => (row.dtypes.clone(), &Arrangement::ALL),
    };
    let arrangements =
        arrangements(row, instance).into_iter().filter(|arrangement| wanted.contains(arrangement));
    arrangements.flat_map(|arrangement| dtypes.iter().map(move |&dtype| (dtype, arrangement))).collect()
}

fn hostile_key(row: &OpCase, name: &str, instance: &Instance, dtype: DType) -> String {
    format!("{} hostile={name} {dtype} dense", row.key(instance))
}

fn rejects_key(row: &OpCase, message: &str) -> String {
    format!("{} rejects: {message}", row.name())
}

/// What went wrong in a case: the device does not run it, or it is wrong.
enum Trouble {
    Unsupported(String),
    Wrong(String),
}

impl From<String> for Trouble {
    fn from(detail: String) -> Trouble {
        Trouble::Wrong(detail)
    }
}

type Checked = Result<usize, Trouble>;

/// Runs one check of one row on one device.
pub fn check_row(row: &OpCase, check: Check, target: &Target, filter: &Filter) -> Outcome {
    let knowledge = Knowledge::default();
    let mut session = Session::new(row, check, target, filter, &knowledge);
    match check {
        Check::Forward => session.each_case(Session::forward),
        Check::Hostile => session.hostile(),
        Check::Backward => session.each_case(Session::backward),
        Check::Twice => session.each_case(Session::twice),
        Check::Composed => session.each_case(Session::composed),
        Check::Rejects => session.rejects(),
    }
    session.outcome
}

/// Whether the outputs (or the gradients, if `check` is [`Check::Backward`]) of one case are right, and a fingerprint of their values.
pub(crate) fn check_case(
    row: &OpCase,
    check: Check,
    target: &Target,
    case: Case<'_>,
    knowledge: &Knowledge,
) -> (Result<usize, String>, u64) {
    let filter = Filter::default();
    let session = Session::new(row, check, target, &filter, knowledge);
    let result = guard_panics(|| match check {
        Check::Backward => session.backward(case),
        _ => session.forward(case),
    });
    let result = result.map_err(|trouble| match trouble {
        Trouble::Unsupported(why) | Trouble::Wrong(why) => why,
    });
    (result, session.fingerprint.get())
}

/// What the oracle says of cases, kept for all checks of them.
#[derive(Default)]
pub(crate) struct Knowledge(RefCell<HashMap<(String, DType, bool), Rc<Known>>>);

/// The inputs of a case with what the oracle says of them, formed once for all that share it.
struct Known {
    drawn: Drawn,
    want: Vec<Array>,
    cotangents: Vec<Array>,
    gradients: RefCell<Option<Rc<Vec<Option<Gradient>>>>>,
    stepwise: RefCell<HashMap<(DType, Grain), Option<Rc<Stepwise>>>>,
}

/// Outputs and gradients of the same computation in float64 with every primitive's result rounded.
struct Stepwise {
    outputs: Vec<Array>,
    gradients: Vec<Option<Array>>,
}

pub(crate) type Case<'c> = (&'c Instance, DType, Arrangement);

struct Session<'a> {
    row: &'a OpCase,
    check: Check,
    filter: &'a Filter,
    device: Device,
    composed: Device,
    reference: Device,
    trace: TraceHandle,
    knowledge: &'a Knowledge,
    /// Of all values that were compared with the oracle's.
    fingerprint: Cell<u64>,
    outcome: Outcome,
}

impl OpCase {
    /// The floating dtypes of this row.
    pub fn float_dtypes(&self) -> Vec<DType> {
        self.dtypes.iter().copied().filter(|dtype| dtype.is_float()).collect()
    }

    /// Whether any input has a gradient in any dtype.
    pub fn has_gradient(&self) -> bool {
        self.dtypes.iter().any(|&dtype| !self.differentiable_inputs(dtype).is_empty())
    }

    /// This row on the smallest shapes that hold more than one element, in its first dtype.
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

    fn widest_float(&self) -> Vec<DType> {
        self.float_dtypes().into_iter().max_by_key(|dtype| dtype.size()).into_iter().collect()
    }

    /// Which inputs have a gradient when the row runs in `dtype`.
    pub fn differentiable_inputs(&self, dtype: DType) -> Vec<usize> {
        let has =
            |&at: &usize| self.inputs[at].differentiable && self.inputs[at].class.dtype(dtype).is_float();
        (0..self.inputs.len()).filter(has).collect()
    }
}

impl<'a> Session<'a> {
    fn new(
        row: &'a OpCase,
        check: Check,
        target: &Target,
        filter: &'a Filter,
        knowledge: &'a Knowledge,
    ) -> Session<'a> {
        let repeat = if row.unordered.is_some() { Repeat::Once } else { Repeat::Twice };
        let (device, trace) = Guarded::device(&target.device, repeat);
        Session {
            row,
            check,
            filter,
            reference: target.reference.clone(),
            composed: Composed::new(device.clone()),
            device,
            trace,
            knowledge,
            fingerprint: Cell::new(0),
            outcome: Outcome::default(),
        }
    }

    fn each_case(&mut self, check: impl Fn(&Session<'a>, Case<'_>) -> Checked) {
        for instance in &self.row.instances {
            for (dtype, arrangement) in cases(self.row, self.check, instance) {
                let key = case_key(self.row, instance, dtype, arrangement);
                if self.filter.wants(&key) {
                    let result = guard_panics(|| check(self, (instance, dtype, arrangement)));
                    self.note(key, dtype, result);
                }
            }
            self.knowledge.0.borrow_mut().clear();
        }
        self.explain_nothing();
    }

    /// A check that does not apply to a row says so rather than passing in silence.
    fn explain_nothing(&mut self) {
        if self.outcome.cases == 0
            && self.outcome.failures.is_empty()
            && self.outcome.skipped.is_empty()
            && *self.filter == Filter::All
        {
            let why = format!("{}: no case of this row applies", self.check);
            self.outcome.skip(why);
        }
    }

    fn note(&mut self, key: String, dtype: DType, result: Checked) {
        let trace = self.trace.take();
        match result {
            Ok(elements) => self.outcome.count(dtype, elements),
            Err(Trouble::Unsupported(why)) => self.outcome.skip(format!("{dtype}: {why}")),
            Err(Trouble::Wrong(detail)) => {
                self.outcome.cases += 1;
                let device = self.device.name().to_string();
                self.outcome.failures.push(Failure { key, device, check: self.check, detail });
            }
        }
        self.outcome.trace.merge(trace);
    }

    /// An error of the call under test: the device's own "no" to a primitive is a reason to skip, everything else is wrong.
    fn trouble(&self, error: impl std::fmt::Display) -> Trouble {
        let refused = self.trace.get().refused;
        match refused.iter().next() {
            Some((op, why)) => Trouble::Unsupported(format!("{op}: {why}")),
            None => Trouble::Wrong(format!("error: {error}")),
        }
    }

    fn fingerprint(&self, values: &[f64]) {
        let mixed = values.iter().fold(self.fingerprint.get(), |hash, value| {
            // Zeros are compared as equal, whatever their sign.
            (hash ^ (value + 0.0).to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        self.fingerprint.set(mixed);
    }

    // ---- What the oracle knows

    fn known(&self, (instance, dtype, arrangement): Case<'_>) -> Rc<Known> {
        let repeated = arrangement == Arrangement::Broadcast;
        let key = (self.row.key(instance), dtype, repeated);
        if let Some(known) = self.knowledge.0.borrow().get(&key) {
            return known.clone();
        }
        let drawn = Drawn::new(self.row, instance, Draw::of(dtype), arrangement);
        let want = self.row.answer(dtype, &drawn.inputs);
        let cotangents = drawn.cotangents(&want);
        let known = Rc::new(Known {
            drawn,
            want,
            cotangents,
            gradients: RefCell::default(),
            stepwise: RefCell::default(),
        });
        self.knowledge.0.borrow_mut().insert(key, known.clone());
        known
    }

    /// The gradient of each input by central differences; dtypes that share their inputs share it.
    fn gradients(&self, case: Case<'_>, known: &Known) -> Rc<Vec<Option<Gradient>>> {
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
        let gradients = shared.unwrap_or_else(|| {
            let function = |inputs: &[Array]| self.row.answer(dtype, inputs);
            let cotangents = self.row.weights(&known.cotangents);
            let weighted = Weighted { function: &function, cotangents: &cotangents };
            let wanted = self.row.differentiable_inputs(dtype);
            let gradient = |at: usize| {
                let mut rng = known.drawn.rng(&format!("gradient {at}"));
                wanted.contains(&at).then(|| weighted.gradient(&known.drawn.inputs, at, &mut rng))
            };
            Rc::new((0..self.row.inputs.len()).map(gradient).collect())
        });
        *known.gradients.borrow_mut() = Some(gradients.clone());
        gradients
    }

    /// The same computation in float64, every result rounded to `dtype`; none if it does not run in float64.
    fn stepwise(&self, known: &Known, dtype: DType, grain: Grain) -> Option<Rc<Stepwise>> {
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

    /// A device that composes anything rounds after every primitive of it.
    fn grain(&self) -> Grain {
        let fused = self.check != Check::Composed && self.check != Check::Hostile;
        match fused && self.trace.get().composed.is_empty() {
            true => Grain::Ops,
            false => Grain::Primitives,
        }
    }

    // ---- The checks

    fn forward(&self, case: Case<'_>) -> Checked {
        let known = self.known(case);
        let (_, dtype, arrangement) = case;
        let outputs = no_grad(|| self.row.call(&self.device, dtype, arrangement, &known.drawn.inputs))
            .map_err(|error| self.trouble(error))?;
        let between = if self.row.steps { Between::Steps } else { Between::OneRounding };
        self.compare_outputs(case, &known, &outputs, between)
    }

    /// Compares all outputs with the oracle's.
    fn compare_outputs(
        &self,
        case: Case<'_>,
        known: &Known,
        outputs: &[Tensor],
        between: Between,
    ) -> Checked {
        let dtype = case.1;
        if outputs.len() != known.want.len() {
            return Err(format!("{} outputs, the oracle has {}", outputs.len(), known.want.len()).into());
        }
        let stepwise = match between {
            Between::Steps => self.stepwise(known, dtype, self.grain()),
            Between::OneRounding => None,
        };
        let written = self.row.rounded_answer(dtype, &known.drawn.inputs);
        let mut compared = 0;
        for (index, (output, want)) in outputs.iter().zip(&known.want).enumerate() {
            let (got_dtype, got) = values_of(output).map_err(|error| self.trouble(error))?;
            self.fingerprint(&got.data);
            check_kind(self.row, dtype, index, got_dtype, &got.shape, want)?;
            let steps = match &written {
                Some(written) => written.get(index),
                None => stepwise.as_ref().and_then(|stepwise| stepwise.outputs.get(index)),
            };
            let limits = limits::forward(self.row, dtype, got_dtype, want, steps);
            compared += compare(got_dtype, &want.shape, &got.data, &want.data, |at| limits[at])
                .map_err(|mismatch| format!("output {index}: {mismatch}"))?;
        }
        // An empty output with the right shape and dtype has been compared as far as it can be.
        Ok(compared.max(usize::from(!outputs.is_empty())))
    }

    fn backward(&self, case: Case<'_>) -> Checked {
        let (_, dtype, _) = case;
        if let Some(why) = self.row.forward_only {
            return Err(Trouble::Unsupported(format!("forward only: {why}")));
        }
        if self.row.differentiable_inputs(dtype).is_empty() {
            return Err(Trouble::Unsupported("no input has a gradient".into()));
        }
        self.compare_gradients(case, &self.device)
    }

    fn compare_gradients(&self, case: Case<'_>, device: &Device) -> Checked {
        let (_, dtype, arrangement) = case;
        let known = self.known(case);
        let (_, got) = self
            .row
            .run_backward(device, dtype, arrangement, &known.drawn.inputs, &known.cotangents)
            .map_err(|error| self.trouble(error))?;
        let want = self.gradients(case, &known);
        let stepwise = self.stepwise(&known, dtype, self.grain());
        let mut compared = 0;
        for at in self.row.differentiable_inputs(dtype) {
            let want = want[at].as_ref().ok_or_else(|| format!("input {at}: no differences were formed"))?;
            let steps = stepwise.as_ref().and_then(|stepwise| stepwise.gradients[at].as_ref());
            compared +=
                self.compare_gradient(dtype, at, &known.drawn.inputs[at], got[at].as_ref(), want, steps)?;
        }
        Ok(compared)
    }

    fn compare_gradient(
        &self,
        dtype: DType,
        at: usize,
        input: &Array,
        got: Option<&Tensor>,
        want: &Gradient,
        steps: Option<&Array>,
    ) -> Checked {
        let (got_dtype, got) = match got {
            Some(tensor) => values_of(tensor).map_err(|error| self.trouble(error))?,
            // No influence on the outputs is a gradient of zero.
            None => (self.row.inputs[at].class.dtype(dtype), Array::zeros(&input.shape)),
        };
        self.fingerprint(&got.data);
        match want {
            Gradient::Full(want) => {
                let limits = limits::gradient(self.row, got_dtype, want, steps);
                compare(got_dtype, &want.shape, &got.data, &want.data, |at| limits[at])
                    .map_err(|mismatch| format!("gradient of input {at}: {mismatch}").into())
            }
            Gradient::Along(directions) => {
                let limits = limits::gradient_along(self.row, got_dtype, directions, &got, steps);
                for (number, (direction, want)) in directions.iter().enumerate() {
                    let along = got.dot(direction);
                    // Errors of elements are independent: they add up as the root of squares.
                    let squares = direction.data.iter().zip(&limits).map(|(d, limit)| (d * limit).powi(2));
                    let limit = 4.0 * squares.sum::<f64>().sqrt();
                    let within = (along - want).abs() <= limit;
                    if !within {
                        let detail = format!(
                            "gradient of input {at} along direction {number}: got {along:?}, want {want:?} within {limit:.3e}"
                        );
                        return Err(detail.into());
                    }
                }
                Ok(directions.len())
            }
        }
    }

    fn twice(&self, case: Case<'_>) -> Checked {
        let (instance, dtype, arrangement) = case;
        if !self.row.twice {
            return Err(Trouble::Unsupported("second order is not asked of this row".into()));
        }
        if instance.iter().any(|shape| shape.iter().product::<usize>() > crate::differences::FULL_LIMIT) {
            return Err(Trouble::Unsupported("too large for second differences".into()));
        }
        let known = self.known(case);
        let directions = known.drawn.directions();
        let (got_inputs, got_cotangents) =
            run_twice(self.row, &self.device, dtype, arrangement, &known, &directions)
                .map_err(|error| self.trouble(error))?;
        let wanted = self.row.differentiable_inputs(dtype);
        let directions: Vec<Option<Array>> = directions
            .into_iter()
            .enumerate()
            .map(|(at, direction)| wanted.contains(&at).then_some(direction))
            .collect();
        let function = |inputs: &[Array]| self.row.answer(dtype, inputs);
        let cotangents = self.row.weights(&known.cotangents);
        let weighted = Weighted { function: &function, cotangents: &cotangents };
        // Mixed differences of second order know about 1e-6 where those of first order know 1e-7.
        let tolerance = self.row.grad_tolerances[usize::from(dtype != DType::F64)].times(20.0);
        let mut compared = 0;
        let mut check = |what: String, got: Option<&Tensor>, want: &Array| -> Result<(), Trouble> {
            let got = match got {
                Some(tensor) => values_of(tensor).map_err(|error| self.trouble(error))?.1,
                None => Array::zeros(&want.shape),
            };
            compared +=
                compare(dtype, &want.shape, &got.data, &want.data, |at| tolerance.limit(want.data[at]))
                    .map_err(|mismatch| format!("second order, {what}: {mismatch}"))?;
            Ok(())
        };
        for (&at, got) in wanted.iter().zip(&got_inputs) {
            let want = weighted.second(&known.drawn.inputs, at, &directions);
            check(format!("input {at}"), got.as_ref(), &want)?;
        }
        let slopes = directional(&function, &known.drawn.inputs, &directions);
        let counted = slopes.iter().zip(&cotangents).filter(|(_, cotangent)| cotangent.is_some());
        for (index, ((want, _), got)) in counted.zip(&got_cotangents).enumerate() {
            check(format!("cotangent {index}"), got.as_ref(), want)?;
        }
        Ok(compared)
    }

    /// The same row where no fused op exists: against the oracle, and against the fused ops.
    fn composed(&self, case: Case<'_>) -> Checked {
        let (_, dtype, arrangement) = case;
        let known = self.known(case);
        let call =
            |device: &Device| no_grad(|| self.row.call(device, dtype, arrangement, &known.drawn.inputs));
        let fused = call(&self.device).map_err(|error| self.trouble(error))?;
        let backward = dtype.is_float()
            && self.row.forward_only.is_none()
            && !self.row.differentiable_inputs(dtype).is_empty();
        if backward {
            self.row
                .run_backward(&self.device, dtype, arrangement, &known.drawn.inputs, &known.cotangents)
                .map_err(|error| self.trouble(error))?;
        }
        if self.trace.get().fused.is_empty() {
            return Err(Trouble::Unsupported("nothing is fused: the device runs primitives only".into()));
        }
        let composed = call(&self.composed).map_err(|error| self.trouble(error))?;
        let mut compared = self.compare_outputs(case, &known, &composed, Between::Steps)?;
        compared += self.compare_fused(case, &known, &fused, &composed)?;
        if backward {
            compared += self.compare_gradients(case, &self.composed)?;
        }
        Ok(compared)
    }

    /// Fused and composed outputs may differ by the sum of both limits; what is exact must be equal.
    fn compare_fused(&self, case: Case<'_>, known: &Known, fused: &[Tensor], composed: &[Tensor]) -> Checked {
        let dtype = case.1;
        let stepwise = self.stepwise(known, dtype, Grain::Primitives);
        let mut compared = 0;
        for (index, (fused, composed)) in fused.iter().zip(composed).enumerate() {
            let (got_dtype, got) = values_of(fused).map_err(|error| self.trouble(error))?;
            let (_, want) = values_of(composed).map_err(|error| self.trouble(error))?;
            let steps = stepwise.as_ref().and_then(|stepwise| stepwise.outputs.get(index));
            let one = limits::forward(self.row, dtype, got_dtype, &known.want[index], None);
            let other = limits::forward(self.row, dtype, got_dtype, &known.want[index], steps);
            compared += compare(got_dtype, &want.shape, &got.data, &want.data, |at| one[at] + other[at])
                .map_err(|mismatch| format!("output {index}, fused against composed: {mismatch}"))?;
        }
        Ok(compared)
    }

    fn hostile(&mut self) {
        for (name, inputs) in &self.row.hostile {
            let instance: Instance = inputs.iter().map(|input| input.shape.clone()).collect();
            for dtype in self.row.float_dtypes() {
                let key = hostile_key(self.row, name, &instance, dtype);
                if self.filter.wants(&key) {
                    let result =
                        guard_panics(|| self.hostile_case(inputs, (&instance, dtype, Arrangement::Dense)));
                    self.note(key, dtype, result);
                }
            }
        }
        self.explain_nothing();
    }

    fn hostile_case(&self, inputs: &[Array], case: Case<'_>) -> Checked {
        let dtype = case.1;
        let fitted: Vec<Array> = inputs
            .iter()
            .zip(&self.row.inputs)
            .map(|(array, input)| array.map(|v| crate::compare::round_to(input.class.dtype(dtype), v)))
            .collect();
        let want = self.row.answer(dtype, &fitted);
        let drawn = Drawn::fixed(self.row, case.0, fitted);
        let known = Known {
            drawn,
            cotangents: want.clone(),
            want,
            gradients: RefCell::default(),
            stepwise: RefCell::default(),
        };
        let call = |device: &Device| {
            no_grad(|| self.row.call(device, dtype, case.2, &known.drawn.inputs))
                .map_err(|error| self.trouble(error))
        };
        let between = if self.row.steps { Between::Steps } else { Between::OneRounding };
        let compared = self.compare_outputs(case, &known, &call(&self.device)?, between)?;
        let composed = self.compare_outputs(case, &known, &call(&self.composed)?, Between::Steps);
        let named = |trouble| match trouble {
            Trouble::Wrong(detail) => Trouble::Wrong(format!("composed: {detail}")),
            other => other,
        };
        Ok(compared + composed.map_err(named)?)
    }

    fn rejects(&mut self) {
        for (message, call) in &self.row.rejects {
            let key = rejects_key(self.row, message);
            if !self.filter.wants(&key) {
                continue;
            }
            let result = guard_panics(|| match call(&self.device) {
                Ok(_) => Err(Trouble::Wrong(format!("accepted, expected the error: {message}"))),
                Err(error) if error.to_string() == *message => Ok(1),
                Err(error) => Err(self.rejected_otherwise(&error.to_string(), message)),
            });
            self.note(key, DType::F32, result);
        }
        self.explain_nothing();
    }

    fn rejected_otherwise(&self, got: &str, message: &str) -> Trouble {
        Trouble::Wrong(format!("got the error:  {got}\n        expected error: {message}"))
    }
}

/// Whether the result of a half computation was rounded once or after every primitive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    OneRounding,
    Steps,
}

fn check_kind(
    row: &OpCase,
    dtype: DType,
    index: usize,
    got: DType,
    shape: &[usize],
    want: &Array,
) -> Result<(), String> {
    if shape != want.shape {
        return Err(format!("output {index} has shape {shape:?}, the oracle's has {:?}", want.shape));
    }
    if dtype.is_float() && got.is_float() && got.epsilon() > dtype.epsilon() && !row.casts {
        return Err(format!("output {index} is {got}, less precise than {dtype}"));
    }
    Ok(())
}

fn guard_panics(f: impl FnOnce() -> Checked) -> Checked {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Trouble::Wrong(format!("panicked: {text}")))
    })
}

type Gradients = Vec<Option<Tensor>>;

impl OpCase {
    /// The oracle's answer.
    pub fn answer(&self, dtype: DType, inputs: &[Array]) -> Vec<Array> {
        let oracle = self.oracle.as_ref().unwrap_or_else(|| panic!("{}: the row has no oracle", self.name()));
        oracle(dtype, inputs)
    }

    fn rounded_answer(&self, dtype: DType, inputs: &[Array]) -> Option<Vec<Array>> {
        let oracle = self.rounded_oracle.as_ref().filter(|_| dtype.is_half())?;
        Some(oracle(&|value| crate::compare::round_to(dtype, value), inputs))
    }

    /// The cotangents of the outputs that have gradients.
    fn weights(&self, cotangents: &[Array]) -> Vec<Option<Array>> {
        let counted = |(index, cotangent): (usize, &Array)| {
            (index < self.differentiable_outputs).then(|| cotangent.clone())
        };
        cotangents.iter().enumerate().map(counted).collect()
    }

    /// Places the inputs and calls the function under test.
    ///
    /// # Errors
    /// Those of the call.
    pub fn call(
        &self,
        device: &Device,
        dtype: DType,
        arrangement: Arrangement,
        inputs: &[Array],
    ) -> ternion_core::Result<Vec<Tensor>> {
        let inputs = self.place_inputs(device, dtype, arrangement, inputs)?;
        self.call_on(device, dtype, &inputs)
    }

    fn call_on(&self, device: &Device, dtype: DType, inputs: &[Tensor]) -> ternion_core::Result<Vec<Tensor>> {
        let run = self.run.as_ref().unwrap_or_else(|| panic!("{}: the row calls nothing", self.name()));
        device.seed(0);
        phase::during(Phase::Forward, || run(inputs, device, dtype))
    }

    fn place_inputs(
        &self,
        device: &Device,
        dtype: DType,
        arrangement: Arrangement,
        inputs: &[Array],
    ) -> ternion_core::Result<Vec<Tensor>> {
        let place_one = |(at, array): (usize, &Array)| {
            let fits = arrangement != Arrangement::Broadcast || crate::case::can_repeat(self, at);
            let layout = if fits { arrangement.layout(&array.shape, at) } else { None };
            place(array, self.inputs[at].class.dtype(dtype), layout, device)
        };
        inputs.iter().enumerate().map(place_one).collect()
    }

    /// Runs forward with a record, then backward from `cotangents`: the outputs, and the gradient of each input that has one.
    ///
    /// # Errors
    /// Those of the call, or that no gradient was recorded.
    pub fn run_backward(
        &self,
        device: &Device,
        dtype: DType,
        arrangement: Arrangement,
        inputs: &[Array],
        cotangents: &[Array],
    ) -> ternion_core::Result<(Vec<Tensor>, Gradients)> {
        let wanted = self.differentiable_inputs(dtype);
        let mut inputs = self.place_inputs(device, dtype, arrangement, inputs)?;
        for &at in &wanted {
            inputs[at] = inputs[at].requires_grad()?;
        }
        let outputs = self.call_on(device, dtype, &inputs)?;
        let (sources, cotangents) = self.sources(device, arrangement, &outputs, cotangents)?;
        let mut gradients = vec![None; inputs.len()];
        if sources.is_empty() {
            return match self.forward_only {
                Some(_) => Ok((outputs, gradients)),
                None => Err(ternion_core::Error::Autograd(
                    "no output has a gradient; say forward_only, and why".into(),
                )),
            };
        }
        let targets: Vec<Tensor> = wanted.iter().map(|&at| inputs[at].clone()).collect();
        let options = GradOptions { allow_unused: true, ..GradOptions::default() };
        let found = phase::during(Phase::Backward, || grad(&sources, &targets, &cotangents, options))?;
        for (at, gradient) in wanted.into_iter().zip(found) {
            gradients[at] = gradient;
        }
        Ok((outputs, gradients))
    }

    /// The outputs that gradients flow from, with their cotangents laid out as the inputs are.
    fn sources(
        &self,
        device: &Device,
        arrangement: Arrangement,
        outputs: &[Tensor],
        cotangents: &[Array],
    ) -> ternion_core::Result<(Vec<Tensor>, Vec<Tensor>)> {
        let (mut sources, mut weights) = (Vec::new(), Vec::new());
        for (index, output) in outputs.iter().enumerate().take(self.differentiable_outputs) {
            let Some(cotangent) = cotangents.get(index).filter(|_| output.needs_grad()) else { continue };
            if output.dims() != cotangent.shape {
                let detail = format!(
                    "output {index} has shape {:?}, the oracle's has {:?}",
                    output.dims(),
                    cotangent.shape
                );
                return Err(ternion_core::Error::Autograd(detail));
            }
            let layout = match arrangement {
                Arrangement::Broadcast => None,
                other => other.layout(&cotangent.shape, index),
            };
            sources.push(output.clone());
            weights.push(place(cotangent, output.dtype(), layout, device)?);
        }
        Ok((sources, weights))
    }
}

/// The gradients, for inputs and cotangents, of the first gradient weighted by `directions`.
fn run_twice(
    row: &OpCase,
    device: &Device,
    dtype: DType,
    arrangement: Arrangement,
    known: &Known,
    directions: &[Array],
) -> ternion_core::Result<(Gradients, Gradients)> {
    let wanted = row.differentiable_inputs(dtype);
    let mut inputs = row.place_inputs(device, dtype, arrangement, &known.drawn.inputs)?;
    for &at in &wanted {
        inputs[at] = inputs[at].requires_grad()?;
    }
    let outputs = row.call_on(device, dtype, &inputs)?;
    let (sources, cotangents) = row.sources(device, arrangement, &outputs, &known.cotangents)?;
    let cotangents =
        cotangents.iter().map(Tensor::requires_grad).collect::<ternion_core::Result<Vec<_>>>()?;
    let targets: Vec<Tensor> = wanted.iter().map(|&at| inputs[at].clone()).collect();
    let options = GradOptions { create_graph: true, allow_unused: true, ..GradOptions::default() };
    let first = phase::during(Phase::Backward, || grad(&sources, &targets, &cotangents, options))?;
    let (mut gradients, mut weights) = (Vec::new(), Vec::new());
    for (&at, gradient) in wanted.iter().zip(&first) {
        if let Some(gradient) = gradient.as_ref().filter(|gradient| gradient.needs_grad()) {
            weights.push(place(&directions[at], gradient.dtype(), None, device)?);
            gradients.push(gradient.clone());
        }
    }
    let leaves: Vec<Tensor> = targets.iter().chain(&cotangents).cloned().collect();
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let mut second = phase::during(Phase::Backward, || grad(&gradients, &leaves, &weights, options))?;
    let of_cotangents = second.split_off(targets.len());
    Ok((second, of_cotangents))
}
