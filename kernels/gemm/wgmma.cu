// GEMM of f16, bf16 and TF32 with WGMMA (sm_90a), accumulated in f32. TMA loads the operands and
// stores the results. gemm.cuh states what is computed and the macros of the epilogue.
//
//   producer (one thread)                   consumers (two warpgroups of 128 threads)
//
//   a ---TMA---> [ stage | stage | .. ] ---WGMMA---> accumulators ---> slabs ---TMA---> y
//   b ---TMA--->  ring of STAGES stages              in registers      in smem
//
// The grid is persistent. A block processes the work tiles blockIdx.x, blockIdx.x + gridDim.x, ..
// in order (in clusters: by the index of the cluster), so that the loads of the next tile overlap
// the main loop of the current one. Two schedules:
//
//   PINGPONG 0   cooperative: both consumers share     producer    |tile 0 |tile 1 |tile 2 |
//                a tile, each has TILE_M / 2 rows      consumers     |tile 0|out|tile 1|out|
//
//   PINGPONG 1   ping-pong: the consumers alternate    consumer 0  |tile 0|out|   |tile 2|out|
//                between tiles; one multiplies         consumer 1         |tile 1|out|   |tile 3|
//                while the other one stores
//
// Cooperative tiles of 16-bit results are stored during the main loop of the next tile
// (wgmma_plain.cuh). In a block's last tile, the second consumer begins its last LAG_STAGES stages
// when the first one has issued all its stages; the first one stores meanwhile.
//
// A stage has 128 bytes (TILE_K elements) of each line of a tile, in the 128-byte swizzle: 16-byte
// chunk c of line r is stored at chunk c ^ (r % 8).
//
//   A_K_MAJOR 1   K-major: a line is a row of a, contiguous along k. One box of 128 bytes x TILE_M
//   A_K_MAJOR 0   M-major: a line is an index of k, contiguous along m. Consecutive slabs of
//                 64 rows of a, each a box of 64 x 64
//   B_K_MAJOR     the same for columns of b and TILE_N
//
// WGMMA reads TF32 from shared memory only if it is K-major. So TF32 has B_K_MAJOR 1. Where
// A_K_MAJOR is 0, the consumers load a, in slabs of 32 rows, into registers and multiply from there
// (A_FROM_REGISTERS 1, wgmma_registers.cuh). Where b is N-major and a is K-major, the host swaps a
// and b, and with them m and n; the kernel computes y^T = b^T a^T and stores y (`TRANSPOSED 1`):
//
//   a K-major, b K-major   A_K_MAJOR 1
//   a M-major, b K-major   A_K_MAJOR 0, A_FROM_REGISTERS 1
//   a K-major, b N-major   A_K_MAJOR 0, A_FROM_REGISTERS 1, `TRANSPOSED 1`: p.a is b transposed,
//                          p.b is a transposed, p.m is n, p.n is m
//
// f32 as bf16x6 (BF16X6 1: operands are split into three bf16 terms) has a different stage layout
// (wgmma_bf16x6.cuh).
//
// Tiles, from which the host selects by predicted time:
//
//   TILE_M  TILE_N  STAGES  PINGPONG
//      128     256       4         0   large products; 128 accumulators per thread; also in
//                                      clusters of two, for lines that are not aligned to 128 bytes
//      128     192       4         1   k up to 3072, where the epilogue of a tile is long compared
//                                      with its main loop; 192 accumulators per thread
//      128     128       6         1   waves that larger tiles do not fill
//      128     128       6         0   in clusters of four, for lines that are not aligned
//       64     128       8         1   fewer tiles than multiprocessors; also in clusters of two,
//                                      for lines that are not aligned
//       64      64       8         1   few rows, split-K
//
// A cluster has CLUSTER_DOWN x CLUSTER_ACROSS blocks. Blocks in one column of the cluster have the
// same tile of b, blocks in one row the same tile of a. Each block loads its part of a stage into
// the shared memory of all blocks that have the same tile (multicast). A stage is empty once the
// consumers of all blocks that share a tile with the block have released it. Tiles outside the
// result take part like all others.
//
//                 b 0   b 1      block   loads half of   for blocks   and half of   for blocks
//   a 0   block    0     2       0       a 0             0 and 2      b 0           0 and 1
//   a 1   block    1     3       1       a 1             1 and 3      b 0           0 and 1
//                                2       a 0             0 and 2      b 1           2 and 3
//                                3       a 1             1 and 3      b 1           2 and 3
//
// With CLUSTER_ACROSS 1, loads of a need no other block, and are issued before the other blocks
// have started. Every block has at least one tile.
//
// Epilogues (EPILOGUE; the last three for one matrix, without split-K):
//
//   0  y = activation(alpha * sum + bias); alpha, bias and activation are optional
//   1  z = alpha * sum + bias, rounded and stored, y = ACTIVATED of z; half precision
//   2  y = ACTIVATION_GRAD of z and d, where d is alpha * sum, rounded; half precision; z is loaded
//   3  y = alpha * sum + bias + residual; f32; the residual is loaded
//
// With SUMS_OF_A 1, for an M-major a of 16-bit elements, two more warps of the producer's warpgroup
// sum the rows of a over k while its stages are in shared memory (wgmma_sums.cuh): the gradient of
// a bias, computed with the gradient of the weight. Then sum_parts follows instead of sum_splits.
//
// Launch: blocks of THREADS threads, as many as there are tiles or as fit on the device at once
// (clusters of four: as many as there are tiles), in whole clusters, with SHARED bytes of shared
// memory. With splits > 1, the blocks add the partial sums (split-K fixup,
// wgmma_split_k_fixup.cuh). If there are more units than state words, y is the tensor of partial
// sums, f32 [splits, matrices, m, n], alpha is 1 and there is no bias; sum_splits of a variant with
// the final output follows.
//
// Limits: the contiguous axis and all lines begin at multiples of 16 bytes (gemm/mma.cu computes
// other products); at most two batch axes that cannot be merged; TF32 with an M-major a and an
// N-major b has no kernel: one of them is copied. k is above 0. Indices are below 2^31.

#include "gemm/wgmma_bf16x6.cuh"
#include "gemm/wgmma_fused.cuh"
#include "gemm/wgmma_loop.cuh"
#include "gemm/wgmma_plain.cuh"
#include "gemm/wgmma_registers.cuh"
#include "gemm/wgmma_split_k_fixup.cuh"
#include "gemm/wgmma_sums.cuh"
#include "gemm/wgmma_tile.cuh"
#include "lib/launch.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"

#if EPILOGUE
typedef FusedOut Out;
#else
typedef PlainOut Out;
#endif

// The main loop of a tile. Its last WGMMAs may still be in flight, except with BF16X6.
INLINE void mainloop_tile(Sums& sums, Ring& ring, Out& out, u32 k_tiles, u32 row, u32 pause = NONE) {
#if BF16X6
    mainloop_bf16x6(sums, ring, k_tiles, row);
#elif A_FROM_REGISTERS
    mainloop_rs(sums, ring, k_tiles, row);
#else
    mainloop(sums, ring, out.store_pending_slabs(sums, ring, row), k_tiles, row, pause);
#endif
}
// `is_last`: the consumer has no further work tile.
INLINE void store(Sums& sums, Out& out, const WorkTile& work, u32 row, bool is_last) {
#if !EPILOGUE
    if (out.p.parts) return out.store_part(sums, work, row, is_last);
#endif
    out.store(sums, work, row, is_last);
}

// PINGPONG 0: both consumers process every tile. The next work tile is computed while WGMMAs run,
// unless fragments of a leave no registers for it.
INLINE void consume_cooperative(const TensorMapProduct& p, Ring& ring, Out& out, u32 row) {
    u32 tile_index = first_tile_index();
    Sums sums;
    WorkTile work(p, tile_index);
#pragma unroll 1
    for (bool is_last = false; !is_last;) {
        out.begin(work, row);
        u32 following = next_tile_index(tile_index);
        is_last = following >= p.tiles.count;
        // Not in stages during which slabs of the previous tile are stored.
        bool pauses = LAG_STAGES > 0 && is_last && work.k_tiles >= SLABS + LAG_STAGES;
        mainloop_tile(sums, ring, out, work.k_tiles, row, pauses && row > 0 ? work.k_tiles - LAG_STAGES : NONE);
        if (pauses && row == 0 && threadIdx.x % WARP == 0) mbarrier_arrive(turn_barrier(ring.shared, 1));
#if A_FROM_REGISTERS
        await_sums(sums, ring, work.k_tiles);
        store(sums, out, WorkTile(p, opaque(tile_index)), row, is_last);
        work = WorkTile(p, is_last ? tile_index : following);
#else
        WorkTile next(p, is_last ? tile_index : following);
        if (!BF16X6) await_sums(sums, ring, work.k_tiles);
        store(sums, out, work, row, is_last);
        work = next;
#endif
        tile_index = following;
    }
}

// PINGPONG 1: the consumers alternate between tiles.
INLINE void consume_pingpong(const TensorMapProduct& p, Ring& ring, Out& out, u32 shared, u32 consumer) {
    Sums sums;
    u32 turn = consumer ^ 1;  // parity: the first consumer's first turn waits for no arrival
    u32 tile_index = first_tile_index();
    if (consumer == 1 && tile_index < p.tiles.count) {
        ring.skip(WorkTile(p, tile_index).k_tiles);
        tile_index = next_tile_index(tile_index);
    }
#pragma unroll 1
    while (tile_index < p.tiles.count) {
        WorkTile work(p, opaque(tile_index));
        out.begin(work, 0);
        mbarrier_wait_parity(turn_barrier(shared, out.consumer()), turn);
        mainloop_tile(sums, ring, out, work.k_tiles, 0);
        // Its last stages have been full: the other consumer may wait for those that follow.
        if (threadIdx.x % WARP == 0) mbarrier_arrive(turn_barrier(shared, out.consumer() ^ 1));
        await_sums(sums, ring, work.k_tiles);
        // Recomputed, so that it takes no registers during the main loop.
        store(sums, out, WorkTile(p, opaque(tile_index)), 0,
              next_tile_index(next_tile_index(tile_index)) >= p.tiles.count);
        tile_index = next_tile_index(tile_index);
        turn ^= 1;
        if (tile_index < p.tiles.count) {
            ring.skip(WorkTile(p, opaque(tile_index)).k_tiles);
            tile_index = next_tile_index(tile_index);
        }
    }
}

INLINE void consume(const TensorMapProduct& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    if (CLUSTER > 1) ring.peer = peer_of_lane();
    Out out(p, shared);
    if constexpr (PINGPONG) consume_pingpong(p, ring, out, shared, consumer);
    else consume_cooperative(p, ring, out, consumer * CONSUMER_M);
    // Shared memory must stay allocated until TMA stores have read it.
    if (out.leads()) cp_async_bulk_wait_group_read<0>();
}

// The prologue of all warps except the producer's.
INLINE void prepare(u32 shared, u32 warp) {
    if (warp == PRODUCER_WARP + 1) {
        if (threadIdx.x % WARP == 0) init_barriers(shared);
        __syncwarp();
        arrive_barriers_ready();
    }
    if (CLUSTER > 1) {
        barrier_cluster_arrive_relaxed();
        barrier_cluster_wait();
    }
    wait_for_earlier_launches();
}
// The producer's warpgroup, of which one thread issues loads. It has issued those of the first
// `stages` stages.
INLINE void start_producer(const TensorMapProduct& p, u32 shared, u32 stages) {
    if (MOVES_REGISTERS) setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (threadIdx.x % WARPGROUP == 0) {
        prefetch_tensormap(p.y);
        if (EPILOGUE) prefetch_tensormap(p.z);
        producer_loop(p, shared, stages);
    }
#if SUMS_OF_A
    // From lane 0, as the warpgroup's index is.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP % 4, 0);
    if (warp > 0 && warp <= SUM_WARPS) sum_rows_of_a(p, shared, warp - 1);
#endif
}

#if CLUSTER_DOWN * CLUSTER_ACROSS > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTER_DIMS
#endif
extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, 1)
    product(const __grid_constant__ TensorMapProduct p) {
#if BF16X6
    wait_for_earlier_launches();
    if (*p.not_splittable) return;
#endif
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
    // From lane 0, so that the compiler knows that they are warp-uniform. It then computes
    // addresses and descriptors once for all lanes.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0), warpgroup = warp / (WARPGROUP / WARP), stages = 0;
    if (warp == PRODUCER_WARP) stages = load_first_stages(p, shared);
    else prepare(shared, warp);
    __syncthreads();
    if (warpgroup == CONSUMERS) {
        start_producer(p, shared, stages);
    } else {
        if (MOVES_REGISTERS) setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(p, shared, warpgroup);
    }
}
