// Shared by 05_wgmma.cu, 06_warp_specialized.cu and 07_ping_pong.cu: the shared-memory layout, the
// TMA loads of tiles, and the wgmmas of a step. Operands are bf16, accumulators f32.
//
// A consumer is a warpgroup, four warps, with ROWS = 64 queries, 16 per warp. A tile is divided
// into slabs of 64 columns, lines of 128 bytes, as TMA writes a box. With the 128-byte swizzle,
// chunk c (16 bytes) of line r is stored at c ^ (r % 8):
//
//   q   left operand of q k^T     a line is a query, contiguous along the inner axis    (K-major)
//   k   right operand of q k^T    a line is a key, contiguous along the inner axis      (K-major)
//   v   right operand of p v      a line is a key, the inner axis; contiguous along
//                                 columns                                               (MN-major)
//   p   left operand of p v       in registers, as the softmax leaves it
//
// Shared memory, from an address that is a multiple of 1024 on:
//
//   | q: ROWS of each consumer | k: STAGES tiles of STEP keys | v: STAGES tiles | barriers |
//
//   barriers: q full, k full[], k empty[], v full[], v empty[]; [] has one mbarrier per stage
//
// Macros: CONSUMERS, STEP (64 or 128), STAGES.
//
// Limits: q, k and v are aligned to 16 bytes. TMA reads rows after a head's last token as 0, not
// from the next head.

#pragma once

#if defined(HOST_SHIM) && !defined(CONSUMERS)
#define CONSUMERS 2
#define STEP 128
#define STAGES 2
#endif

#include "attention_ladder/fragments.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

constexpr int WARPGROUP = 128;
constexpr int ROWS = 64;  // queries per consumer
constexpr int QUERIES = CONSUMERS * ROWS;
constexpr int LINE_BYTES = 128;  // bytes
constexpr int SLAB_COLUMNS = 64, SLABS = WIDTH / SLAB_COLUMNS;
constexpr int Q_BYTES = ROWS * SLABS * LINE_BYTES;  // per consumer
constexpr int STEP_BYTES = STEP * SLABS * LINE_BYTES;
constexpr int K_OFFSET = CONSUMERS * Q_BYTES;
constexpr int V_OFFSET = K_OFFSET + STAGES * STEP_BYTES;
constexpr int BARRIERS_OFFSET = V_OFFSET + STAGES * STEP_BYTES;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = BARRIERS_OFFSET + 8 * (1 + 4 * STAGES) + SWIZZLE_ALIGNMENT

struct MappedAttention {
    TensorMap q, k, v;  // axes: column, token, head, 1; boxes: q 64 x ROWS, k and v 64 x STEP
    bf16* y;
    u32 tokens;
    float scale;
};

// Returns the aligned start of the tiles in dynamic shared memory, which may start anywhere.
INLINE u32 aligned_shared(const u8* memory) {
    return (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
}

// The work tile of a block: its queries, and the steps over all keys that any of them attends to.
// With a causal mask the last query tiles have the most keys: they are scheduled first.
struct WorkTile {
    u32 head, first_query, steps;

    INLINE static WorkTile of_block(u32 tokens) {
        u32 tile = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x, first = tile * QUERIES;
        return WorkTile{blockIdx.y, first, (key_count(first + QUERIES - 1, tokens) + STEP - 1) / STEP};
    }
};

// ---------------------------------------------------------------- barriers and copies

// A position in the ring buffer of k or of v: the current stage and the parity of its mbarrier
// phase. full: the bytes of the stage have arrived; empty: no consumer still reads it.
struct PipelineState {
    u32 tiles, barriers;
    u32 stage = 0, parity = 0;

    INLINE PipelineState(u32 tiles, u32 barriers) : tiles(tiles), barriers(barriers) {}
    INLINE static PipelineState of_keys(u32 shared) {
        return PipelineState(shared + K_OFFSET, shared + BARRIERS_OFFSET + 8);
    }
    INLINE static PipelineState of_values(u32 shared) {
        return PipelineState(shared + V_OFFSET, shared + BARRIERS_OFFSET + 8 + 16 * STAGES);
    }
    INLINE u32 tile() const { return tiles + stage * STEP_BYTES; }
    INLINE u32 full() const { return barriers + stage * 8; }
    INLINE u32 empty() const { return barriers + (STAGES + stage) * 8; }
    INLINE void wait_full() const { mbarrier_wait_parity(full(), parity); }
    // In the first pass over the ring all stages are empty: this is the parity of the phase before
    // the first, so the wait returns at once.
    INLINE void wait_empty() const { mbarrier_wait_parity(empty(), parity ^ 1); }
    // Releases the stage. One lane of each warp arrives, since a warp waits only for its own
    // wgmmas.
    INLINE void release() const {
        if (threadIdx.x % WARP == 0) mbarrier_arrive(empty());
    }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

INLINE u32 q_full_barrier(u32 shared) { return shared + BARRIERS_OFFSET; }

// Initializes all mbarriers of the block and synchronizes its threads.
INLINE void init_barriers(u32 shared) {
    if (threadIdx.x == 0) {
        mbarrier_init(q_full_barrier(shared), 1);
        PipelineState keys = PipelineState::of_keys(shared), values = PipelineState::of_values(shared);
        for (int stage = 0; stage < STAGES; ++stage, keys.advance(), values.advance()) {
            mbarrier_init(keys.full(), 1);
            mbarrier_init(keys.empty(), CONSUMERS * WARPGROUP / WARP);
            mbarrier_init(values.full(), 1);
            mbarrier_init(values.empty(), CONSUMERS * WARPGROUP / WARP);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
}

// Issues the TMA loads of the block's queries: one box per consumer and slab.
INLINE void load_queries(const MappedAttention& p, u32 shared, const WorkTile& work_tile) {
    mbarrier_arrive_expect_tx(q_full_barrier(shared), CONSUMERS * Q_BYTES);
#pragma unroll
    for (int box = 0; box < CONSUMERS * SLABS; ++box)
        cp_async_bulk_tensor_4d(shared + box * ROWS * LINE_BYTES, p.q, box % SLABS * SLAB_COLUMNS,
                                work_tile.first_query + box / SLABS * ROWS, work_tile.head, 0, q_full_barrier(shared));
}
// Issues the TMA loads of the keys or values of a step into the ring's current stage, which is
// empty.
INLINE void load_step(const PipelineState& ring, const TensorMap& map, u32 step, u32 head) {
    mbarrier_arrive_expect_tx(ring.full(), STEP_BYTES);
#pragma unroll
    for (int slab = 0; slab < SLABS; ++slab)
        cp_async_bulk_tensor_4d(ring.tile() + slab * STEP * LINE_BYTES, map, slab * SLAB_COLUMNS, step * STEP, head, 0,
                                ring.full());
}

// ---------------------------------------------------------------- wgmma

typedef float Scores[STEP / 8][4];
typedef float Outputs[WIDTH / 8][4];
typedef u32 Weights[STEP / 16][4];

// Issues s = q k^T of a consumer's queries and a step. 16 of the inner axis are 32 bytes of a line.
INLINE void issue_scores(Scores& s, u32 q_rows, u32 k_tile) {
    wgmma_fence();
#pragma unroll
    for (int inner = 0; inner < WIDTH / 16; ++inner) {
        u32 slab = inner / 4, line_offset = inner % 4 * 32;
        wgmma_ss(s, smem_descriptor(q_rows + slab * ROWS * LINE_BYTES + line_offset, 16, 8 * LINE_BYTES),
                 smem_descriptor(k_tile + slab * STEP * LINE_BYTES + line_offset, 16, 8 * LINE_BYTES), inner > 0,
                 bf16());
    }
    wgmma_commit_group();
}
// Issues y += p v of a step. 16 of the inner axis are 16 lines.
INLINE void issue_values(Outputs& y, const Weights& weights, u32 v_tile) {
    wgmma_fence();
#pragma unroll
    for (int inner = 0; inner < STEP / 16; ++inner)
        wgmma_rs_trans(y, weights[inner],
                       smem_descriptor(v_tile + inner * 16 * LINE_BYTES, STEP * LINE_BYTES, 8 * LINE_BYTES), bf16());
    wgmma_commit_group();
}
// Keeps the compiler from moving uses of an accumulator across the wait for its wgmmas.
template <int BLOCKS> INLINE void fence_accumulator(float (&c)[BLOCKS][4]) {
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) wgmma_fence_operand(c[j][e]);
}
// Waits until at most PENDING of the most recent wgmma groups are in flight: after this `c`, of an
// earlier group, may be read.
template <int PENDING, int BLOCKS> INLINE void warpgroup_wait(float (&c)[BLOCKS][4]) {
    wgmma_wait_group<PENDING>();
    fence_accumulator(c);
}
