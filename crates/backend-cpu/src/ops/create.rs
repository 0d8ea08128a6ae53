//! Fill and iota.

use crate::access::Locked;
use crate::select::Variant;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::create::Fill;
use ternion_core::{Element, Error, Op, Result};

/// Fill runs in every dtype.
pub(crate) fn select_fill(_: &Fill, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_fill })
}

fn run_fill(op: &Op, _: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Fill(fill) = op else { return Err(Error::invalid(op.name(), "is not fill")) };
    // One example of dtype dispatch; the rest of this family follows it.
    match fill.dtype {
        ternion_core::DType::F32 => {
            let value = f32::from_scalar(fill.value);
            if let Some(slice) = outputs[0].output::<f32>().as_mut_slice() {
                slice.fill(value);
            }
            Ok(())
        }
        _ => Err(Error::invalid("fill", "not written yet")),
    }
}
