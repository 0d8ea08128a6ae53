//! Kernels of the attention ladder.

use super::Source;
use crate::variant::attention_ladder::{AttentionLadderVariant, Mask, Warpgroups};

pub(super) fn source(variant: AttentionLadderVariant) -> Source {
    let AttentionLadderVariant { rung, width, mask } = variant;
    let is_causal = mask == Mask::Causal;
    let source = Source::new(rung.file(), rung.kernels())
        .define_all([("WIDTH", width.into()), ("CAUSAL", is_causal.into())]);
    let source = match rung.warpgroups() {
        Some(Warpgroups { consumers, step, stages }) => {
            source.define_all([("CONSUMERS", consumers), ("STEP", step), ("STAGES", stages)])
        }
        None => source,
    };
    let mask_name = if is_causal { "causal" } else { "full" };
    source.named(&format!("{}: width {width}, {mask_name}", rung.name()))
}
