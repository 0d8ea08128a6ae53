//! Kernels of the attention ladder.

use super::Source;
use crate::variant::attention_ladder::{AttentionLadderVariant, Causal, Warpgroups};

pub(super) fn source(variant: AttentionLadderVariant) -> Source {
    let AttentionLadderVariant { form, width, causal } = variant;
    let is_causal = causal == Causal::Yes;
    let source = Source::new(form.file(), form.kernels())
        .define_all([("WIDTH", width.into()), ("CAUSAL", is_causal.into())]);
    let source = match form.warpgroups() {
        Some(Warpgroups { consumers, step, stages }) => {
            source.define_all([("CONSUMERS", consumers), ("STEP", step), ("STAGES", stages)])
        }
        None => source,
    };
    let mask = if is_causal { "causal" } else { "full" };
    source.named(&format!("{}: width {width}, {mask}", form.name()))
}
