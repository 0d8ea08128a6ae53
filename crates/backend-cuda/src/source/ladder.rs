//! Kernels of the ladder.

use super::Source;
use crate::variant::ladder::{LadderVariant, Partition};

pub(super) fn source(LadderVariant { rung, tile }: LadderVariant) -> Source {
    let [m, n, k] = tile.block;
    let source =
        Source::new(rung.file(), &["product"]).define_all([("TILE_M", m), ("TILE_N", n), ("TILE_K", k)]);
    let part = |source: Source, [m, n]: [usize; 2], names: [&'static str; 2]| {
        source.define(names[0], m).define(names[1], n)
    };
    let (thread, warp) = (["THREAD_M", "THREAD_N"], ["WARP_M", "WARP_N"]);
    let source = match tile.partition {
        Partition::Thread(sums) => part(source, sums, thread),
        Partition::Lanes { warp: of_warp, thread: sums } => part(part(source, sums, thread), of_warp, warp),
        Partition::Warp(sums) => part(source, sums, warp).define("STAGES", tile.stages),
        Partition::Warpgroups(consumers) => {
            source.define_all([("STAGES", tile.stages), ("CONSUMERS", consumers)])
        }
    };
    source.named(&format!("{}: {tile}", rung.name()))
}
