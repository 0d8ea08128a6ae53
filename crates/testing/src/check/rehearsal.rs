//! Determines which checks would skip every case of a row on a device, from the device's plans and
//! without running any op.

use super::run::run_twice;
use super::{Case, Filter, NO_GRADIENT, Session, Target, Trouble, cases};
use crate::array::Array;
use crate::case::case_key;
use crate::differences::FULL_LIMIT;
use crate::guarded::{Guarded, Repeat};
use crate::place::Arrangement;
use crate::report::{Check, Outcome};
use crate::table::{Instance, OpCase};
use std::panic::{AssertUnwindSafe, catch_unwind};
use ternion_core::{DType, Error, Result, Tensor, no_grad};

/// The result of rehearsing a case.
enum Rehearsed {
    Skipped(String),
    Compared,
    /// Values that were never computed caused an error.
    Unclear,
}

/// Returns the skip reasons if `check` would skip every case of `row` that `filter` selects.
/// Returns `None` if it would compare anything, or if that is unknown.
pub(crate) fn skipped_wholly(
    row: &OpCase,
    check: Check,
    target: &Target,
    filter: &Filter,
) -> Option<Outcome> {
    if check == Check::Rejects {
        return None;
    }
    let knowledge = super::Knowledge::default();
    let mut session = Session::new(row, check, target, filter, &knowledge);
    for (instance, dtype, arrangement) in wanted_cases(row, check, filter) {
        let case = (&instance, dtype, arrangement);
        let zeros: Vec<Array> = instance.iter().map(|shape| Array::zeros(shape)).collect();
        let mut rehearsed = session.rehearse_on(target, Repeat::Never, case, &zeros);
        if matches!(rehearsed, Rehearsed::Unclear) && check != Check::Hostile {
            let drawn = session.known(case).drawn.inputs.clone();
            rehearsed = session.rehearse_on(target, Repeat::Once, case, &drawn);
        }
        let Rehearsed::Skipped(why) = rehearsed else { return None };
        let trace = session.trace.take();
        session.skip(dtype, &why, &trace);
    }
    Some(session.outcome).filter(|outcome| !outcome.skipped.is_empty())
}

fn wanted_cases(row: &OpCase, check: Check, filter: &Filter) -> Vec<(Instance, DType, Arrangement)> {
    if check == Check::Hostile {
        return super::selection::hostile_cases(row)
            .into_iter()
            .filter(|(key, ..)| filter.wants(key))
            .map(|(_, instance, dtype)| (instance, dtype, Arrangement::Dense))
            .collect();
    }
    let of = |instance: &Instance| {
        let cases = cases(row, check, instance).into_iter();
        cases.map(|(dtype, arrangement)| (instance.clone(), dtype, arrangement)).collect::<Vec<_>>()
    };
    let all = row.instances.iter().flat_map(of);
    all.filter(|(instance, dtype, arrangement)| filter.wants(&case_key(row, instance, *dtype, *arrangement)))
        .collect()
}

impl Session<'_> {
    /// Rehearses a case on a device that runs ops as `repeat` specifies.
    fn rehearse_on(
        &mut self,
        target: &Target,
        repeat: Repeat,
        case: Case<'_>,
        inputs: &[Array],
    ) -> Rehearsed {
        (self.device, self.trace) = Guarded::device(&target.device, repeat);
        catch_unwind(AssertUnwindSafe(|| self.rehearse(case, inputs))).unwrap_or(Rehearsed::Unclear)
    }

    fn rehearse(&self, case: Case<'_>, inputs: &[Array]) -> Rehearsed {
        if let Some(why) = self.out_of_question(case) {
            return Rehearsed::Skipped(why.into());
        }
        let (_, dtype, arrangement) = case;
        let outputs = match no_grad(|| self.row.call(&self.device, dtype, arrangement, inputs)) {
            Ok(outputs) => outputs,
            Err(error) => return self.after(error),
        };
        if matches!(self.check, Check::Forward | Check::Hostile) {
            return Rehearsed::Compared;
        }
        if self.differentiable(dtype)
            && let Err(error) = self.rehearse_backward(case, inputs, &outputs)
        {
            return self.after(error);
        }
        if self.check == Check::Twice
            && let Err(error) = self.rehearse_twice(case)
        {
            return self.after(error);
        }
        match self.check == Check::Composed && self.trace.get().fused.is_empty() {
            true => Rehearsed::Skipped(super::NOTHING_FUSED.into()),
            false => Rehearsed::Compared,
        }
    }

    fn differentiable(&self, dtype: DType) -> bool {
        dtype.is_float()
            && self.row.forward_only.is_none()
            && !self.row.differentiable_inputs(dtype).is_empty()
    }

    /// Returns why the check excludes a case on every device.
    fn out_of_question(&self, (instance, dtype, _): Case<'_>) -> Option<&'static str> {
        let large = || instance.iter().any(|shape| shape.iter().product::<usize>() > FULL_LIMIT);
        // Such a case is run, but by itself it compares nothing.
        let empty = || instance.iter().all(|shape| shape.iter().product::<usize>() == 0);
        match self.check {
            Check::Backward | Check::Twice if !self.differentiable(dtype) => Some(NO_GRADIENT),
            Check::Backward | Check::Twice if empty() => Some("no elements, and no other case applies"),
            Check::Twice if large() => Some("too large for second differences"),
            _ => None,
        }
    }

    fn rehearse_backward(&self, case: Case<'_>, inputs: &[Array], outputs: &[Tensor]) -> Result<()> {
        let cotangents: Vec<Array> = outputs.iter().map(|output| Array::zeros(output.dims())).collect();
        self.row.run_backward(&self.device, case.1, case.2, inputs, &cotangents).map(|_| ())
    }

    /// The second backward pass needs ops that the first does not, such as sums of gradients.
    fn rehearse_twice(&self, case: Case<'_>) -> Result<()> {
        let known = self.known(case);
        run_twice(self.row, &self.device, case.1, case.2, &known, &known.drawn.directions()).map(|_| ())
    }

    fn after(&self, error: Error) -> Rehearsed {
        match self.trouble(error) {
            Trouble::Unsupported(why) => Rehearsed::Skipped(why),
            // The device does not support a primitive that it must support: the check runs, and
            // fails.
            Trouble::Wrong(_) if !self.trace.get().refused.is_empty() => Rehearsed::Compared,
            Trouble::Wrong(_) => Rehearsed::Unclear,
        }
    }
}
