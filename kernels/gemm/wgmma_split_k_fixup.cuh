// Split-K fixup of gemm/wgmma.cu: the blocks that compute partial sums also add them. A unit is the
// part of a tile that one consumer has. A chunk is 64 rows and 64 columns of a unit.
//
//   each split   accumulators in registers ---> p.parts; the split arrives at the unit's state word
//   then         splits that know that all have arrived take chunks of the unit in turn:
//
//                p.parts [unit, split, chunk, quad, thread, 4]
//                  ---> p0 + p1 + ... in the order of k ---> epilogue of gemm/wgmma.cu ---> y
//
// Which split adds depends on timing; what is added does not: results are bit-equal to those of
// sum_splits. The last split to arrive takes chunks until none is left and waits for no other
// block, so any number of blocks completes every unit. A split that arrived earlier polls for the
// others only if its block has nothing else to do, and only POLLS times: blocks that have not
// started may be waiting for its multiprocessor.
//
// The state of a unit is one word, to which splits add: how many have arrived (8 bits), how many
// are done with it (8 bits), chunks taken (the other bits). The last split that is done resets it
// to 0. Words are 0 between kernels, which run in order.

#pragma once

#include "gemm/wgmma_tile.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"

constexpr int CHUNK_N = 64, CHUNKS_ACROSS = TILE_N / CHUNK_N, CHUNKS = ATOMS_M * CHUNKS_ACROSS;
constexpr int QUADS = CHUNK_N / 8;  // groups of four accumulators of a thread
constexpr u32 QUAD_SUMS = 4 * WARPGROUP, CHUNK_SUMS = QUADS * QUAD_SUMS;
// Splits of a chunk that are loaded before they are added: 64 KiB are in flight for a warpgroup,
// and 32 KiB where more would spill registers.
constexpr int SPLITS_AT_ONCE = BF16X6 || TRANSPOSED || !MOVES_REGISTERS ? 2 : 4;
// How often a split polls for the others, about a microsecond each time.
constexpr int POLLS = 32;

typedef float Chunk[QUADS][4];

constexpr u32 ARRIVED = 1, DONE = 1 << 8, TAKEN = 1 << 16;
INLINE u32 arrived_of(u32 word) { return word & 0xff; }
INLINE u32 done_of(u32 word) { return word >> 8 & 0xff; }
INLINE u32 taken_of(u32 word) { return word >> 16; }

// One split's partial sums of a unit, from a consumer's registers to y.
struct SplitFixup {
    const TensorMapProduct& p;
    const WorkTile& work;
    u32 row;             // the consumer's first row in the tile
    u32 broadcast_slot;  // four bytes of shared memory: the leading thread broadcasts through them
    u32 unit;

    INLINE SplitFixup(const TensorMapProduct& p, const WorkTile& work, u32 row, u32 consumer, u32 shared)
        : p(p), work(work), row(row), broadcast_slot(turn_barrier(shared, CONSUMERS + STRIP_BARRIERS + consumer)) {
        u32 rows = (p.m + CLUSTER_M - 1) / CLUSTER_M * CLUSTER_DOWN;
        u32 columns = (p.n + CLUSTER_N - 1) / CLUSTER_N * CLUSTER_ACROSS;
        unit = (work.tile.matrix * columns + work.tile.column / TILE_N) * rows + work.tile.row / TILE_M;
        if (!PINGPONG) unit = unit * CONSUMERS + consumer;
    }
    INLINE u32 thread() const { return read_tid_x() % WARPGROUP; }
    INLINE bool leads() const { return thread() == 0; }
    INLINE void sync() const { barrier_sync(1 + read_tid_x() / WARPGROUP, WARPGROUP); }
    INLINE u32* word() const { return p.states + unit; }

    INLINE u32 first_row(u32 chunk) const { return work.tile.row + row + chunk / CHUNKS_ACROSS * 64; }
    INLINE u32 first_column(u32 chunk) const { return work.tile.column + chunk % CHUNKS_ACROSS * CHUNK_N; }
    // Whether the chunk has elements of y in the thread's warp: with few rows, most warps have
    // nothing to store.
    INLINE bool has_rows(u32 chunk) const {
        return first_row(chunk) + accumulator_row(thread() / WARP, 0) < p.m && first_column(chunk) < p.n;
    }
    // The thread's first quad of a split's chunk.
    INLINE float* quads(u32 split, u32 chunk) const {
        return p.parts + ((u64(unit) * p.splits + split) * CHUNKS + chunk) * CHUNK_SUMS + thread() * 4;
    }

    // ------------------------------------------------------------ this split's partial sums

    template <int CHUNK = 0> INLINE void write(const Sums& sums) const {
        if constexpr (CHUNK < CHUNKS) {
            constexpr int BLOCK = CHUNK / CHUNKS_ACROSS, FIRST = CHUNK % CHUNKS_ACROSS * QUADS;
            if (has_rows(CHUNK)) {
                float* to = quads(work.tile.split, CHUNK);
#pragma unroll
                for (int j = 0; j < QUADS; ++j) st_relaxed_gpu_v4(to + j * QUAD_SUMS, sums[BLOCK][FIRST + j]);
            }
            write<CHUNK + 1>(sums);
        }
    }
    // Broadcasts the leading thread's `number` to the consumer.
    INLINE u32 broadcast(u32 number) const {
        if (leads()) st_shared(broadcast_slot, number);
        sync();
        number = ld_shared(broadcast_slot);
        sync();
        return number;
    }
    // Arrives, and returns whether all splits have arrived. If they have not, it polls up to
    // `max_polls` times. If they have, all threads see what the other splits wrote: each split
    // releases the writes of its threads, by the barrier and the leading thread, and acquires what
    // the splits before it released.
    INLINE bool arrive(int max_polls) const {
        sync();
        u32 arrived = 0;
        if (leads()) {
            arrived = arrived_of(atom_add_acq_rel_gpu(word(), ARRIVED)) + 1;
#pragma unroll 1
            for (int i = 0; i < max_polls && arrived < p.splits; ++i) arrived = arrived_of(ld_acquire_gpu(word()));
        }
        return broadcast(arrived) == p.splits;
    }

    // ------------------------------------------------------------ chunks

    // Takes the next chunk that no split has taken; from CHUNKS on, none is left.
    INLINE u32 take() const {
        u32 chunk = 0;
        if (leads()) chunk = taken_of(atom_add_relaxed_gpu(word(), TAKEN));
        return broadcast(chunk);
    }
    // Adds a chunk over all splits.
    INLINE void reduce_splits(Chunk& sums, u32 chunk) const {
#pragma unroll
        for (int i = 0; i < 4 * QUADS; ++i) sums[i / 4][i % 4] = 0;
        if (!has_rows(chunk)) return;
        u32 split = 0;
#pragma unroll 1
        for (; split + SPLITS_AT_ONCE <= p.splits; split += SPLITS_AT_ONCE)
            add_next<SPLITS_AT_ONCE>(sums, split, chunk);
#pragma unroll 1
        for (; split + 2 <= p.splits; split += 2) add_next<2>(sums, split, chunk);
        if (split < p.splits) add_next<1>(sums, split, chunk);
    }
    template <int SPLITS> INLINE void add_next(Chunk& sums, u32 split, u32 chunk) const {
        const float* from = quads(split, chunk);
        Chunk parts[SPLITS];
#pragma unroll
        for (int part = 0; part < SPLITS; ++part)
#pragma unroll
            for (int j = 0; j < QUADS; ++j)
                ld_relaxed_gpu_v4(parts[part][j], from + (u64(part) * CHUNKS * CHUNK_SUMS + j * QUAD_SUMS));
#pragma unroll
        for (int part = 0; part < SPLITS; ++part)
#pragma unroll
            for (int i = 0; i < 4 * QUADS; ++i) sums[i / 4][i % 4] += parts[part][i / 4][i % 4];
    }
    // This split takes no more chunks. The last split to report this resets the word. Accesses in
    // between need no order other than that of the word itself: the next use of the word and of the
    // partial sums is by a later kernel.
    INLINE void end() const {
        if (leads() && done_of(atom_add_relaxed_gpu(word(), DONE)) == p.splits - 1) *word() = 0;
    }
};
