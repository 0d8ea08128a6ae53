//! Determines which checks would skip every case of a row on a device, from the device's plans. Ops
//! run only if an error may be due to values that were not computed.

use super::run::run_double_backward;
use super::{Case, CheckError, Filter, NO_GRADIENT, Session, Target, cases};
use crate::array::Array;
use crate::case::case_key;
use crate::differences::FULL_LIMIT;
use crate::guarded::{Guarded, Repeat};
use crate::memory_layout::MemoryLayout;
use crate::report::{Check, Outcome};
use crate::table::{Instance, OpCase};
use std::panic::{AssertUnwindSafe, catch_unwind};
use ternion_core::{DType, Error, Result, Tensor, no_grad};

/// The result of rehearsing a case.
enum Rehearsed {
    Skipped(String),
    Compared,
    /// An error that may only be due to values that the rehearsal did not compute.
    Unclear,
}

/// Returns the skip reasons if `check` would skip every case of `row` that `filter` selects.
/// Returns `None` if it would compare anything, or if that is unknown.
pub(crate) fn skips_all_cases(
    row: &OpCase,
    check: Check,
    target: &Target,
    filter: &Filter,
) -> Option<Outcome> {
    if check == Check::Rejects {
        return None;
    }
    let oracle_cache = super::OracleCache::default();
    let mut session = Session::new(row, check, target, filter, &oracle_cache);
    for (instance, dtype, memory_layout) in selected_cases(row, check, filter) {
        let case = (&instance, dtype, memory_layout);
        let zeros: Vec<Array> = instance.iter().map(|shape| Array::zeros(shape)).collect();
        let mut rehearsed = session.rehearse_on(target, Repeat::Never, case, &zeros);
        if matches!(rehearsed, Rehearsed::Unclear) && check != Check::Adversarial {
            let inputs = session.oracle_results(case).case.inputs.clone();
            rehearsed = session.rehearse_on(target, Repeat::Once, case, &inputs);
        }
        let Rehearsed::Skipped(why) = rehearsed else { return None };
        let trace = session.trace.take();
        session.skip(dtype, &why, &trace);
    }
    Some(session.outcome).filter(|outcome| !outcome.skipped.is_empty())
}

fn selected_cases(row: &OpCase, check: Check, filter: &Filter) -> Vec<(Instance, DType, MemoryLayout)> {
    if check == Check::Adversarial {
        return super::selection::adversarial_cases(row)
            .into_iter()
            .filter(|(key, ..)| filter.selects(key))
            .map(|(_, instance, dtype)| (instance, dtype, MemoryLayout::Dense))
            .collect();
    }
    let cases_of = |instance: &Instance| {
        let cases = cases(row, check, instance).into_iter();
        cases.map(|(dtype, memory_layout)| (instance.clone(), dtype, memory_layout)).collect::<Vec<_>>()
    };
    let all = row.instances.iter().flat_map(cases_of);
    all.filter(|(instance, dtype, memory_layout)| {
        filter.selects(&case_key(row, instance, *dtype, *memory_layout))
    })
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
        if let Some(why) = self.exclusion_reason(case) {
            return Rehearsed::Skipped(why.into());
        }
        let (_, dtype, memory_layout) = case;
        let outputs = match no_grad(|| self.row.call(&self.device, dtype, memory_layout, inputs)) {
            Ok(outputs) => outputs,
            Err(error) => return self.outcome_of_error(error),
        };
        if matches!(self.check, Check::Forward | Check::Adversarial) {
            return Rehearsed::Compared;
        }
        if self.is_differentiable(dtype)
            && let Err(error) = self.rehearse_backward(case, inputs, &outputs)
        {
            return self.outcome_of_error(error);
        }
        if self.check == Check::DoubleBackward
            && let Err(error) = self.rehearse_twice(case)
        {
            return self.outcome_of_error(error);
        }
        match self.check == Check::Composed && self.trace.get().fused.is_empty() {
            true => Rehearsed::Skipped(super::NOTHING_FUSED.into()),
            false => Rehearsed::Compared,
        }
    }

    fn is_differentiable(&self, dtype: DType) -> bool {
        dtype.is_float()
            && self.row.forward_only.is_none()
            && !self.row.differentiable_inputs(dtype).is_empty()
    }

    /// Returns why the check excludes a case on every device.
    fn exclusion_reason(&self, (instance, dtype, _): Case<'_>) -> Option<&'static str> {
        let large = || instance.iter().any(|shape| shape.iter().product::<usize>() > FULL_LIMIT);
        // The check runs such a case, but compares nothing in it.
        let empty = || instance.iter().all(|shape| shape.iter().product::<usize>() == 0);
        match self.check {
            Check::Backward | Check::DoubleBackward if !self.is_differentiable(dtype) => Some(NO_GRADIENT),
            Check::Backward | Check::DoubleBackward if empty() => {
                Some("no elements, and no other case applies")
            }
            Check::DoubleBackward if large() => Some("too large for second differences"),
            _ => None,
        }
    }

    fn rehearse_backward(&self, case: Case<'_>, inputs: &[Array], outputs: &[Tensor]) -> Result<()> {
        let cotangents: Vec<Array> = outputs.iter().map(|output| Array::zeros(output.dims())).collect();
        self.row.run_backward(&self.device, case.1, case.2, inputs, &cotangents).map(|_| ())
    }

    /// Rehearses the double backward, which needs ops that the first backward pass does not, such
    /// as sums of gradients.
    fn rehearse_twice(&self, case: Case<'_>) -> Result<()> {
        let expected = self.oracle_results(case);
        run_double_backward(self.row, &self.device, case.1, case.2, &expected, &expected.case.directions())
            .map(|_| ())
    }

    fn outcome_of_error(&self, error: Error) -> Rehearsed {
        match self.classify(error) {
            CheckError::Unsupported(why) => Rehearsed::Skipped(why),
            // The device does not support a primitive that it must support: the check must run, and
            // fail.
            CheckError::Wrong(_) if !self.trace.get().unsupported.is_empty() => Rehearsed::Compared,
            CheckError::Wrong(_) => Rehearsed::Unclear,
        }
    }
}
