//! Kernels of the attention ladder.

use super::Source;
use crate::variant::attention_ladder::{AttentionLadderVariant, Mask, Warpgroups};

pub(super) fn source(variant: AttentionLadderVariant) -> Source {
    let AttentionLadderVariant { form, width, mask } = variant;
    let is_causal = mask == Mask::Causal;
    let source = Source::new(form.file(), form.kernels())
        .define_all([("WIDTH", width.into()), ("CAUSAL", is_causal.into())]);
    let source = match form.warpgroups() {
        Some(Warpgroups { consumers, step, stages }) => {
            source.define_all([("CONSUMERS", consumers), ("STEP", step), ("STAGES", stages)])
        }
        None => source,
    };
    let seen = if is_causal { "causal" } else { "full" };
    source.named(&format!("{}: width {width}, {seen}", form.name()))
}
