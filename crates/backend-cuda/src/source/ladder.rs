//! Kernels of the ladder.

use super::Source;
use crate::variant::ladder::{LadderVariant, Partition};

pub(super) fn source(LadderVariant { rung, tile }: LadderVariant) -> Source {
    let [m, n, k] = tile.block;
    let source =
        Source::new(rung.file(), &["product"]).define_all([("TILE_M", m), ("TILE_N", n), ("TILE_K", k)]);
    // Adds the rows and columns of a part of the tile.
    let part = |source: Source, [m, n]: [usize; 2], names: [&'static str; 2]| {
        source.define(names[0], m).define(names[1], n)
    };
    let (thread, warp) = (["THREAD_M", "THREAD_N"], ["WARP_M", "WARP_N"]);
    let source = match tile.partition {
        Partition::Thread(sizes) => part(source, sizes, thread),
        Partition::Lanes { warp: warp_sizes, thread: sizes } => {
            part(part(source, sizes, thread), warp_sizes, warp)
        }
        Partition::Warp(sizes) => part(source, sizes, warp).define("STAGES", tile.stages),
        Partition::Warpgroups(consumers) => {
            source.define_all([("STAGES", tile.stages), ("CONSUMERS", consumers)])
        }
    };
    source.named(&format!("{}: {tile}", rung.name()))
}
