//! The checks of a row on a device.

mod known;
mod rehearsal;
mod run;
mod selection;
mod target;

pub(crate) use known::Knowledge;
pub(crate) use rehearsal::skipped_wholly;
pub(crate) use selection::cases;
pub use selection::{Filter, keys};
pub use target::Target;

use crate::array::Array;
use crate::case::{Drawn, case_key};
use crate::compare::compare;
use crate::differences::{Gradient, Weighted, directional};
use crate::guarded::{Guarded, Repeat, Trace, TraceHandle};
use crate::limits;
use crate::place::Arrangement;
use crate::read::values_of;
use crate::report::{Check, Failure, Outcome};
use crate::rounding::Grain;
use crate::table::{Instance, OpCase};
use known::Known;
use run::run_twice;
use selection::{hostile_key, rejects_key};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use ternion_core::decorators::Composed;
use ternion_core::{DType, Device, Tensor, no_grad};

/// Why a case did not pass: the device does not support it, or the result is wrong.
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

/// The environment variable that disables guarded memory (`TERNION_GUARD=0`): for tools such as
/// compute-sanitizer that check every access themselves.
pub const GUARD: &str = "TERNION_GUARD";

pub(crate) fn is_unwatched() -> bool {
    std::env::var_os(GUARD).is_some_and(|value| value == "0")
}

const NO_GRADIENT: &str = "no input has a gradient";
pub(crate) const NOTHING_FUSED: &str = "nothing is fused: the device runs primitives only";

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
    if row.unordered.is_none() {
        session.outcome.fingerprint = session.fingerprint.get();
    }
    session.outcome
}

/// Checks the outputs of one case (or the gradients, if `check` is [`Check::Backward`]), and
/// returns the result with a fingerprint of the values.
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
    /// Fingerprint of all values that were compared with the oracle.
    fingerprint: Cell<u64>,
    outcome: Outcome,
}

impl<'a> Session<'a> {
    fn new(
        row: &'a OpCase,
        check: Check,
        target: &Target,
        filter: &'a Filter,
        knowledge: &'a Knowledge,
    ) -> Session<'a> {
        let repeat = match row.unordered {
            _ if is_unwatched() => Repeat::Unwatched,
            Some(_) => Repeat::Once,
            None => Repeat::Twice,
        };
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
            self.knowledge.clear();
        }
        self.explain_nothing();
    }

    /// Records a reason if the check does not apply to the row, so that it does not pass silently.
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
            Ok(elements) => {
                self.outcome.count(dtype, elements);
                if !trace.composed.is_empty() {
                    self.outcome.count_composed(dtype);
                }
            }
            Err(Trouble::Unsupported(why)) => self.skip(dtype, &why, &trace),
            Err(Trouble::Wrong(detail)) => {
                self.outcome.cases += 1;
                let device = self.device.name().to_string();
                self.outcome.failures.push(Failure { key, device, check: self.check, detail });
            }
        }
        self.outcome.trace.merge(trace);
    }

    /// Records a case that did not run, because the device does not support it or the check does
    /// not apply to it.
    fn skip(&mut self, dtype: DType, why: &str, trace: &Trace) {
        let why = format!("{dtype}: {why}");
        let lacks_itself = trace.refused.values().any(|refusal| refusal.lacking.contains(dtype.name()));
        match trace.refused.is_empty() {
            true => self.outcome.skip(why),
            false => self.outcome.refuse(dtype, lacks_itself, why),
        }
    }

    /// Classifies an error of the call under test. If the device does not support the dtype at all,
    /// the case is skipped; any other error is a failure.
    fn trouble(&self, error: impl std::fmt::Display) -> Trouble {
        let list = |dtypes: &BTreeSet<&'static str>| dtypes.iter().copied().collect::<Vec<_>>().join(", ");
        let refused = self.trace.get().refused;
        match refused.iter().min_by_key(|(_, refusal)| !refusal.lacking.is_empty()) {
            Some((op, refusal)) if refusal.lacking.is_empty() => Trouble::Wrong(format!(
                "{op} is a primitive, which the device must run in {}, as it has the dtype; it says: {}",
                list(&refusal.dtypes),
                refusal.why
            )),
            Some((op, refusal)) => Trouble::Unsupported(format!(
                "the device has no {}; {op}: {}",
                list(&refusal.lacking),
                refusal.why
            )),
            None => Trouble::Wrong(format!("error: {error}")),
        }
    }

    fn fingerprint(&self, values: &[f64]) {
        let mixed = values.iter().fold(self.fingerprint.get(), |hash, value| {
            // Zeros compare as equal, whatever their sign.
            (hash ^ (value + 0.0).to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        self.fingerprint.set(mixed);
    }

    /// A device that runs a composition rounds after every primitive of it.
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

    /// Compares all outputs with the oracle.
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
            let is_right = |want: &Array, steps: Option<&Array>| {
                let limits = limits::forward(self.row, dtype, got_dtype, want, steps);
                compare(got_dtype, &want.shape, &got.data, &want.data, |at| limits[at])
            };
            let rounded = known.rounded.as_ref().and_then(|rounded| rounded.want.get(index));
            compared += is_right(want, steps)
                .or_else(|mismatch| {
                    rounded.map_or(Err(()), |want| is_right(want, None).map_err(drop)).map_err(|()| mismatch)
                })
                .map_err(|mismatch| format!("output {index}: {mismatch}"))?;
        }
        // For an empty output, shape and dtype are all that can be compared; it counts as compared.
        Ok(compared.max(usize::from(!outputs.is_empty())))
    }

    fn backward(&self, case: Case<'_>) -> Checked {
        let (_, dtype, _) = case;
        if let Some(why) = self.row.forward_only {
            return Err(Trouble::Unsupported(format!("forward only: {why}")));
        }
        if self.row.differentiable_inputs(dtype).is_empty() {
            return Err(Trouble::Unsupported(NO_GRADIENT.into()));
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
        let rounded = self.row.rounded_gradients_of(dtype, &known.drawn.inputs, &known.cotangents);
        let mut compared = 0;
        for at in self.row.differentiable_inputs(dtype) {
            let want = want[at].as_ref().ok_or_else(|| format!("input {at}: no differences were formed"))?;
            let steps = stepwise.as_ref().and_then(|stepwise| stepwise.gradients[at].as_ref());
            let steps: Vec<&Array> = steps.into_iter().chain(rounded.get(at)).collect();
            let is_right = |want: &Gradient| {
                self.compare_gradient(dtype, at, &known.drawn.inputs[at], got[at].as_ref(), want, &steps)
            };
            compared += is_right(want).or_else(|trouble| {
                let Some(rounded) = &known.rounded else { return Err(trouble) };
                let want = self.rounded_gradients(dtype, rounded);
                want[at].as_ref().and_then(|want| is_right(want).ok()).ok_or(trouble)
            })?;
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
        steps: &[&Array],
    ) -> Checked {
        let (got_dtype, got) = match got {
            Some(tensor) => values_of(tensor).map_err(|error| self.trouble(error))?,
            // An output that does not depend on the input has a gradient of zero.
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
                    // Errors of elements are independent, so their squares add up.
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
        // Mixed second-order differences are accurate to about 1e-6, first-order differences to
        // 1e-7.
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

    /// Checks the same row with every fused op composed: against the oracle, and against the fused
    /// ops.
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
            return Err(Trouble::Unsupported(NOTHING_FUSED.into()));
        }
        let composed = call(&self.composed).map_err(|error| self.trouble(error))?;
        let mut compared = self.compare_outputs(case, &known, &composed, Between::Steps)?;
        compared += self.compare_fused(case, &known, &fused, &composed)?;
        if backward {
            compared += self.compare_gradients(case, &self.composed)?;
        }
        Ok(compared)
    }

    /// Compares fused and composed outputs, which may differ by the sum of both limits. Exact
    /// outputs must be equal.
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
        let cotangents = want.clone();
        let known = Known::new(drawn, want, cotangents);
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
            // An asynchronous device reports errors that depend on the data at the next
            // synchronization.
            let waited = |device: &Device| call(device).and_then(|_| device.synchronize());
            let result = guard_panics(|| match waited(&self.device) {
                Ok(()) => Err(Trouble::Wrong(format!("accepted, expected the error: {message}"))),
                Err(error) if error.to_string() == *message => Ok(1),
                Err(error) => Err(self.rejected_otherwise(&error.to_string(), message)),
            });
            self.note(key, DType::F32, result);
        }
        self.explain_nothing();
    }

    fn rejected_otherwise(&self, got: &str, message: &str) -> Trouble {
        match self.trouble(got) {
            lacking @ Trouble::Unsupported(_) => lacking,
            Trouble::Wrong(_) => {
                Trouble::Wrong(format!("got the error:  {got}\n        expected error: {message}"))
            }
        }
    }
}

/// Whether the result of a half-precision computation was rounded once or after every primitive.
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
