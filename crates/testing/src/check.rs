//! The checks of a row on a device.

mod oracle_cache;
mod rehearsal;
mod run;
mod selection;
mod target;

pub(crate) use oracle_cache::OracleCache;
pub(crate) use rehearsal::skips_all_cases;
pub(crate) use selection::cases;
pub use selection::{Filter, keys};
pub use target::Target;

use crate::array::Array;
use crate::case::{CaseInputs, case_key};
use crate::compare::compare;
use crate::differences::{Gradient, Weighted, directional};
use crate::guarded::{Guarded, Repeat, Trace, TraceHandle};
use crate::limits;
use crate::memory_layout::MemoryLayout;
use crate::read::values_of;
use crate::report::{Check, Failure, Outcome};
use crate::rounding::RoundingStep;
use crate::table::{Instance, OpCase};
use oracle_cache::OracleResults;
use run::run_double_backward;
use selection::{adversarial_key, rejects_key};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use ternion_core::decorators::Composed;
use ternion_core::{DType, Device, Tensor, no_grad};

/// Why a case did not pass: the device does not support it, or the result is wrong.
enum CheckError {
    Unsupported(String),
    Wrong(String),
}

impl From<String> for CheckError {
    fn from(detail: String) -> CheckError {
        CheckError::Wrong(detail)
    }
}

type CheckResult = Result<usize, CheckError>;

/// The environment variable that disables guarded memory (`TERNION_GUARD=0`): for tools such as
/// compute-sanitizer that check every access themselves.
pub const GUARD: &str = "TERNION_GUARD";

pub(crate) fn is_unguarded() -> bool {
    std::env::var_os(GUARD).is_some_and(|value| value == "0")
}

const NO_GRADIENT: &str = "no input has a gradient";
pub(crate) const NOTHING_FUSED: &str = "nothing is fused: the device runs primitives only";

/// Runs one check of one row on one device.
pub fn check_row(row: &OpCase, check: Check, target: &Target, filter: &Filter) -> Outcome {
    let oracle_cache = OracleCache::default();
    let mut session = Session::new(row, check, target, filter, &oracle_cache);
    match check {
        Check::Forward => session.each_case(Session::forward),
        Check::Adversarial => session.adversarial(),
        Check::Backward => session.each_case(Session::backward),
        Check::DoubleBackward => session.each_case(Session::double_backward),
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
    oracle_cache: &OracleCache,
) -> (Result<usize, String>, u64) {
    let filter = Filter::default();
    let session = Session::new(row, check, target, &filter, oracle_cache);
    let result = guard_panics(|| match check {
        Check::Backward => session.backward(case),
        _ => session.forward(case),
    });
    let result = result.map_err(|error| match error {
        CheckError::Unsupported(why) | CheckError::Wrong(why) => why,
    });
    (result, session.fingerprint.get())
}

pub(crate) type Case<'c> = (&'c Instance, DType, MemoryLayout);

struct Session<'a> {
    row: &'a OpCase,
    check: Check,
    filter: &'a Filter,
    /// The device under test, with guarded memory.
    device: Device,
    /// The same device with every fused op composed of primitives.
    composed: Device,
    /// The device that runs the same computation in float64 (see `Stepwise`).
    reference: Device,
    /// The ops that ran on the device under test.
    trace: TraceHandle,
    oracle_cache: &'a OracleCache,
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
        oracle_cache: &'a OracleCache,
    ) -> Session<'a> {
        let repeat = match row.unordered {
            _ if is_unguarded() => Repeat::Unguarded,
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
            oracle_cache,
            fingerprint: Cell::new(0),
            outcome: Outcome::default(),
        }
    }

    fn each_case(&mut self, check: impl Fn(&Session<'a>, Case<'_>) -> CheckResult) {
        for instance in &self.row.instances {
            for (dtype, memory_layout) in cases(self.row, self.check, instance) {
                let key = case_key(self.row, instance, dtype, memory_layout);
                if self.filter.selects(&key) {
                    let result = guard_panics(|| check(self, (instance, dtype, memory_layout)));
                    self.record(key, dtype, result);
                }
            }
            self.oracle_cache.clear();
        }
        self.explain_no_cases();
    }

    /// Records a reason if the check does not apply to the row, so that it does not pass silently.
    fn explain_no_cases(&mut self) {
        if self.outcome.cases == 0
            && self.outcome.failures.is_empty()
            && self.outcome.skipped.is_empty()
            && *self.filter == Filter::All
        {
            let why = format!("{}: no case of this row applies", self.check);
            self.outcome.skip(why);
        }
    }

    fn record(&mut self, key: String, dtype: DType, result: CheckResult) {
        let trace = self.trace.take();
        match result {
            Ok(elements) => {
                self.outcome.count(dtype, elements);
                if !trace.composed.is_empty() {
                    self.outcome.count_composed(dtype);
                }
            }
            Err(CheckError::Unsupported(why)) => self.skip(dtype, &why, &trace),
            Err(CheckError::Wrong(detail)) => {
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
        let lacks_dtype = trace.unsupported.values().any(|op_error| op_error.lacking.contains(dtype.name()));
        match trace.unsupported.is_empty() {
            true => self.outcome.skip(why),
            false => self.outcome.record_unsupported(dtype, lacks_dtype, why),
        }
    }

    /// Classifies an error of the call under test. If the device does not support the dtype at all,
    /// the case is skipped; any other error is a failure.
    fn classify(&self, error: impl std::fmt::Display) -> CheckError {
        let list = |dtypes: &BTreeSet<&'static str>| dtypes.iter().copied().collect::<Vec<_>>().join(", ");
        let unsupported = self.trace.get().unsupported;
        match unsupported.iter().min_by_key(|(_, op_error)| !op_error.lacking.is_empty()) {
            Some((op, op_error)) if op_error.lacking.is_empty() => CheckError::Wrong(format!(
                "{op} is a primitive, which the device must run in {}, as it has the dtype; it says: {}",
                list(&op_error.dtypes),
                op_error.why
            )),
            Some((op, op_error)) => CheckError::Unsupported(format!(
                "the device has no {}; {op}: {}",
                list(&op_error.lacking),
                op_error.why
            )),
            None => CheckError::Wrong(format!("error: {error}")),
        }
    }

    fn fingerprint(&self, values: &[f64]) {
        let mixed = values.iter().fold(self.fingerprint.get(), |hash, value| {
            // Zeros compare as equal, whatever their sign.
            (hash ^ (value + 0.0).to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        self.fingerprint.set(mixed);
    }

    /// Returns when results are rounded: after every primitive if the device composes ops,
    /// otherwise after every op.
    fn rounding_step(&self) -> RoundingStep {
        let fused = self.check != Check::Composed && self.check != Check::Adversarial;
        match fused && self.trace.get().composed.is_empty() {
            true => RoundingStep::Ops,
            false => RoundingStep::Primitives,
        }
    }

    // ---- The checks

    fn forward(&self, case: Case<'_>) -> CheckResult {
        let expected = self.oracle_results(case);
        let (_, dtype, memory_layout) = case;
        let outputs = no_grad(|| self.row.call(&self.device, dtype, memory_layout, &expected.case.inputs))
            .map_err(|error| self.classify(error))?;
        let result_rounding =
            if self.row.steps { ResultRounding::PerPrimitive } else { ResultRounding::Once };
        self.compare_outputs(case, &expected, &outputs, result_rounding)
    }

    /// Compares all outputs with the oracle.
    fn compare_outputs(
        &self,
        case: Case<'_>,
        expected: &OracleResults,
        outputs: &[Tensor],
        result_rounding: ResultRounding,
    ) -> CheckResult {
        let dtype = case.1;
        if outputs.len() != expected.want.len() {
            return Err(format!("{} outputs, the oracle has {}", outputs.len(), expected.want.len()).into());
        }
        let stepwise = match result_rounding {
            ResultRounding::PerPrimitive => self.stepwise(expected, dtype, self.rounding_step()),
            ResultRounding::Once => None,
        };
        let rounded_outputs = self.row.rounded_outputs(dtype, &expected.case.inputs);
        let mut compared = 0;
        for (index, (output, want)) in outputs.iter().zip(&expected.want).enumerate() {
            let (got_dtype, got) = values_of(output).map_err(|error| self.classify(error))?;
            self.fingerprint(&got.data);
            check_shape_and_dtype(self.row, dtype, index, got_dtype, &got.shape, want)?;
            let steps = match &rounded_outputs {
                Some(rounded_outputs) => rounded_outputs.get(index),
                None => stepwise.as_ref().and_then(|stepwise| stepwise.outputs.get(index)),
            };
            let compare_to = |want: &Array, steps: Option<&Array>| {
                let limits = limits::forward(self.row, dtype, got_dtype, want, steps);
                compare(got_dtype, &want.shape, &got.data, &want.data, |element| limits[element])
            };
            let rounded = expected.rounded.as_ref().and_then(|rounded| rounded.want.get(index));
            compared += compare_to(want, steps)
                .or_else(|mismatch| {
                    rounded
                        .map_or(Err(()), |want| compare_to(want, None).map_err(drop))
                        .map_err(|()| mismatch)
                })
                .map_err(|mismatch| format!("output {index}: {mismatch}"))?;
        }
        // An empty output has only a shape and a dtype to compare; it counts as one comparison.
        Ok(compared.max(usize::from(!outputs.is_empty())))
    }

    fn backward(&self, case: Case<'_>) -> CheckResult {
        let (_, dtype, _) = case;
        if let Some(why) = self.row.forward_only {
            return Err(CheckError::Unsupported(format!("forward only: {why}")));
        }
        if self.row.differentiable_inputs(dtype).is_empty() {
            return Err(CheckError::Unsupported(NO_GRADIENT.into()));
        }
        self.compare_gradients(case, &self.device)
    }

    fn compare_gradients(&self, case: Case<'_>, device: &Device) -> CheckResult {
        let (_, dtype, memory_layout) = case;
        let expected = self.oracle_results(case);
        let (_, got) = self
            .row
            .run_backward(device, dtype, memory_layout, &expected.case.inputs, &expected.cotangents)
            .map_err(|error| self.classify(error))?;
        let want = self.gradients(case, &expected);
        let stepwise = self.stepwise(&expected, dtype, self.rounding_step());
        let rounded = self.row.rounded_gradients_of(dtype, &expected.case.inputs, &expected.cotangents);
        let mut compared = 0;
        for position in self.row.differentiable_inputs(dtype) {
            let want = want[position]
                .as_ref()
                .ok_or_else(|| format!("input {position}: no differences were computed"))?;
            let steps = stepwise.as_ref().and_then(|stepwise| stepwise.gradients[position].as_ref());
            let steps: Vec<&Array> = steps.into_iter().chain(rounded.get(position)).collect();
            let compare_to = |want: &Gradient| {
                self.compare_gradient(
                    dtype,
                    position,
                    &expected.case.inputs[position],
                    got[position].as_ref(),
                    want,
                    &steps,
                )
            };
            compared += compare_to(want).or_else(|error| {
                let Some(rounded) = &expected.rounded else { return Err(error) };
                let want = self.rounded_gradients(dtype, rounded);
                want[position].as_ref().and_then(|want| compare_to(want).ok()).ok_or(error)
            })?;
        }
        Ok(compared)
    }

    fn compare_gradient(
        &self,
        dtype: DType,
        position: usize,
        input: &Array,
        got: Option<&Tensor>,
        want: &Gradient,
        steps: &[&Array],
    ) -> CheckResult {
        let (got_dtype, got) = match got {
            Some(tensor) => values_of(tensor).map_err(|error| self.classify(error))?,
            // An output that does not depend on the input has a gradient of zero.
            None => (self.row.inputs[position].class.dtype(dtype), Array::zeros(&input.shape)),
        };
        self.fingerprint(&got.data);
        match want {
            Gradient::Full(want) => {
                let limits = limits::gradient(self.row, got_dtype, want, steps);
                compare(got_dtype, &want.shape, &got.data, &want.data, |element| limits[element])
                    .map_err(|mismatch| format!("gradient of input {position}: {mismatch}").into())
            }
            Gradient::Along(directions) => {
                let limits = limits::gradient_along(self.row, got_dtype, directions, &got, steps);
                for (number, (direction, want)) in directions.iter().enumerate() {
                    let got_along = got.dot(direction);
                    // Errors of elements are independent, so their squares add up.
                    let squares = direction.data.iter().zip(&limits).map(|(d, limit)| (d * limit).powi(2));
                    let limit = 4.0 * squares.sum::<f64>().sqrt();
                    let is_within = (got_along - want).abs() <= limit;
                    if !is_within {
                        let detail = format!(
                            "gradient of input {position} along direction {number}: got {got_along:?}, want {want:?} within {limit:.3e}"
                        );
                        return Err(detail.into());
                    }
                }
                Ok(directions.len())
            }
        }
    }

    fn double_backward(&self, case: Case<'_>) -> CheckResult {
        let (instance, dtype, memory_layout) = case;
        if !self.row.double_backward {
            return Err(CheckError::Unsupported("second order is not asked of this row".into()));
        }
        if instance.iter().any(|shape| shape.iter().product::<usize>() > crate::differences::FULL_LIMIT) {
            return Err(CheckError::Unsupported("too large for second differences".into()));
        }
        let expected = self.oracle_results(case);
        let directions = expected.case.directions();
        let (got_inputs, got_cotangents) =
            run_double_backward(self.row, &self.device, dtype, memory_layout, &expected, &directions)
                .map_err(|error| self.classify(error))?;
        let differentiable = self.row.differentiable_inputs(dtype);
        let directions: Vec<Option<Array>> = directions
            .into_iter()
            .enumerate()
            .map(|(position, direction)| differentiable.contains(&position).then_some(direction))
            .collect();
        let function = |inputs: &[Array]| self.row.oracle_outputs(dtype, inputs);
        let cotangents = self.row.weights(&expected.cotangents);
        let weighted = Weighted { function: &function, cotangents: &cotangents };
        // Mixed second-order differences are accurate to about 1e-6, first-order differences to
        // 1e-7.
        let tolerance = self.row.grad_tolerances[usize::from(dtype != DType::F64)].times(20.0);
        let mut compared = 0;
        let mut check = |what: String, got: Option<&Tensor>, want: &Array| -> Result<(), CheckError> {
            let got = match got {
                Some(tensor) => values_of(tensor).map_err(|error| self.classify(error))?.1,
                None => Array::zeros(&want.shape),
            };
            compared += compare(dtype, &want.shape, &got.data, &want.data, |i| tolerance.limit(want.data[i]))
                .map_err(|mismatch| format!("second order, {what}: {mismatch}"))?;
            Ok(())
        };
        for (&position, got) in differentiable.iter().zip(&got_inputs) {
            let want = weighted.second(&expected.case.inputs, position, &directions);
            check(format!("input {position}"), got.as_ref(), &want)?;
        }
        let derivatives = directional(&function, &expected.case.inputs, &directions);
        let with_cotangent = derivatives.iter().zip(&cotangents).filter(|(_, cotangent)| cotangent.is_some());
        for (index, ((want, _), got)) in with_cotangent.zip(&got_cotangents).enumerate() {
            check(format!("cotangent {index}"), got.as_ref(), want)?;
        }
        Ok(compared)
    }

    /// Checks the same row with every fused op composed: against the oracle, and against the fused
    /// ops.
    fn composed(&self, case: Case<'_>) -> CheckResult {
        let (_, dtype, memory_layout) = case;
        let expected = self.oracle_results(case);
        let call =
            |device: &Device| no_grad(|| self.row.call(device, dtype, memory_layout, &expected.case.inputs));
        let fused = call(&self.device).map_err(|error| self.classify(error))?;
        let has_backward = dtype.is_float()
            && self.row.forward_only.is_none()
            && !self.row.differentiable_inputs(dtype).is_empty();
        if has_backward {
            self.row
                .run_backward(&self.device, dtype, memory_layout, &expected.case.inputs, &expected.cotangents)
                .map_err(|error| self.classify(error))?;
        }
        if self.trace.get().fused.is_empty() {
            return Err(CheckError::Unsupported(NOTHING_FUSED.into()));
        }
        let composed = call(&self.composed).map_err(|error| self.classify(error))?;
        let mut compared = self.compare_outputs(case, &expected, &composed, ResultRounding::PerPrimitive)?;
        compared += self.compare_fused(case, &expected, &fused, &composed)?;
        if has_backward {
            compared += self.compare_gradients(case, &self.composed)?;
        }
        Ok(compared)
    }

    /// Compares fused and composed outputs, which may differ by the sum of both limits. Exact
    /// outputs must be equal.
    fn compare_fused(
        &self,
        case: Case<'_>,
        expected: &OracleResults,
        fused: &[Tensor],
        composed: &[Tensor],
    ) -> CheckResult {
        let dtype = case.1;
        let stepwise = self.stepwise(expected, dtype, RoundingStep::Primitives);
        let mut compared = 0;
        for (index, (fused, composed)) in fused.iter().zip(composed).enumerate() {
            let (got_dtype, got) = values_of(fused).map_err(|error| self.classify(error))?;
            let (_, want) = values_of(composed).map_err(|error| self.classify(error))?;
            let steps = stepwise.as_ref().and_then(|stepwise| stepwise.outputs.get(index));
            let fused_limits = limits::forward(self.row, dtype, got_dtype, &expected.want[index], None);
            let composed_limits = limits::forward(self.row, dtype, got_dtype, &expected.want[index], steps);
            compared += compare(got_dtype, &want.shape, &got.data, &want.data, |element| {
                fused_limits[element] + composed_limits[element]
            })
            .map_err(|mismatch| format!("output {index}, fused against composed: {mismatch}"))?;
        }
        Ok(compared)
    }

    fn adversarial(&mut self) {
        for (name, inputs) in &self.row.adversarial {
            let instance: Instance = inputs.iter().map(|input| input.shape.clone()).collect();
            for dtype in self.row.float_dtypes() {
                let key = adversarial_key(self.row, name, &instance, dtype);
                if self.filter.selects(&key) {
                    let result = guard_panics(|| {
                        self.adversarial_case(inputs, (&instance, dtype, MemoryLayout::Dense))
                    });
                    self.record(key, dtype, result);
                }
            }
        }
        self.explain_no_cases();
    }

    fn adversarial_case(&self, inputs: &[Array], case: Case<'_>) -> CheckResult {
        let dtype = case.1;
        let fitted: Vec<Array> = inputs
            .iter()
            .zip(&self.row.inputs)
            .map(|(array, input)| array.map(|v| crate::compare::round_to(input.class.dtype(dtype), v)))
            .collect();
        let want = self.row.oracle_outputs(dtype, &fitted);
        let case_inputs = CaseInputs::fixed(self.row, case.0, fitted);
        let cotangents = want.clone();
        let expected = OracleResults::new(case_inputs, want, cotangents);
        let call = |device: &Device| {
            no_grad(|| self.row.call(device, dtype, case.2, &expected.case.inputs))
                .map_err(|error| self.classify(error))
        };
        let result_rounding =
            if self.row.steps { ResultRounding::PerPrimitive } else { ResultRounding::Once };
        let compared = self.compare_outputs(case, &expected, &call(&self.device)?, result_rounding)?;
        let composed =
            self.compare_outputs(case, &expected, &call(&self.composed)?, ResultRounding::PerPrimitive);
        let with_prefix = |error| match error {
            CheckError::Wrong(detail) => CheckError::Wrong(format!("composed: {detail}")),
            other => other,
        };
        Ok(compared + composed.map_err(with_prefix)?)
    }

    fn rejects(&mut self) {
        for (message, call) in &self.row.rejects {
            let key = rejects_key(self.row, message);
            if !self.filter.selects(&key) {
                continue;
            }
            // An asynchronous device reports errors that depend on the data at the next
            // synchronization.
            let call_and_wait = |device: &Device| call(device).and_then(|_| device.synchronize());
            let result = guard_panics(|| match call_and_wait(&self.device) {
                Ok(()) => Err(CheckError::Wrong(format!("accepted, expected the error: {message}"))),
                Err(error) if error.to_string() == *message => Ok(1),
                Err(error) => Err(self.wrong_rejection(&error.to_string(), message)),
            });
            self.record(key, DType::F32, result);
        }
        self.explain_no_cases();
    }

    fn wrong_rejection(&self, got: &str, message: &str) -> CheckError {
        match self.classify(got) {
            lacking @ CheckError::Unsupported(_) => lacking,
            CheckError::Wrong(_) => {
                CheckError::Wrong(format!("got the error:  {got}\n        expected error: {message}"))
            }
        }
    }
}

/// Whether the result of a half-precision computation was rounded once or after every primitive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultRounding {
    Once,
    PerPrimitive,
}

fn check_shape_and_dtype(
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

fn guard_panics(f: impl FnOnce() -> CheckResult) -> CheckResult {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(CheckError::Wrong(format!("panicked: {text}")))
    })
}
