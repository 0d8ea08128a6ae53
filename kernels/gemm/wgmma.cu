// Matrix products of f16, bf16 and TF32 by warpgroups (wgmma, sm_90a), added up in f32; operands come and results go by the tensor memory
// accelerator (TMA). What is computed, and the macros of what follows the sum, stand in gemm.cuh.
//
//   producer (one thread)              consumers (two warpgroups of 128 threads)
//
//   a ---TMA---> [ stage | stage | stage | stage ] ---wgmma---> sums in registers ---> slabs in shared memory ---TMA---> y
//   b ---TMA--->     ring of STAGES buffers
//
// The grid is as large as the device; a block takes the tiles blockIdx.x, blockIdx.x + gridDim.x, .. one after the other, so that loads of the next
// tile run under the sums of this one. Two schedules:
//
//   PINGPONG 0   both consumers share a tile: each has TILE_M / 2 rows            producer  |tile 0 |tile 1 |tile 2 |
//                (of 16 bits, a tile is stored beside the next one's products:    consumers   |tile 0|out|tile 1|out|
//                wgmma_plain.cuh. Of a block's last tile, the second
//                consumer begins its last PAUSE stages when the first one
//                has begun all of its own, which stores meanwhile)
//   PINGPONG 1   each consumer has tiles of its own, in turn: one multiplies      consumer 0  |tile 0|out|   |tile 2|out|
//                while the other one stores                                       consumer 1         |tile 1|out|   |tile 3|
//
// A stage has 128 bytes of each line of a tile (TILE_K elements), in the 128 byte swizzle: chunk c (16 bytes) of line r is stored at c ^ (r % 8).
//
//   A_INNER 1   lines are rows of a, runs along k:             one box of 128 bytes x TILE_M
//   A_INNER 0   lines are those of k, runs along m:            a slab of 64 rows of a after the other, each a box of 64 x 64
//   B_INNER     the same of columns of b and TILE_N
//
// wgmma reads TF32 from shared memory along k alone. So TF32 has B_INNER 1, and where A_INNER is 0 the consumers read a, in slabs of 32 rows, into
// registers and multiply from there (A_FROM_REGISTERS 1, wgmma_registers.cuh). Where b runs along n and a along k, the host has a and b change
// places, and with them m and n; the kernel multiplies y^T = b^T a^T and stores y (TURNED 1):
//
//   a along k, b along k        A_INNER 1
//   a along m, b along k        A_INNER 0, A_FROM_REGISTERS 1
//   a along k, b along n        A_INNER 0, A_FROM_REGISTERS 1, TURNED 1: p.a is b turned, p.b is a turned, p.m and p.n are n and m
//
// f32 in parts of bf16 (BF16X6 1) has stages of its own (wgmma_bf16x6.cuh).
//
// Tiles (TILE_M, TILE_N, STAGES, PINGPONG), which the host chooses from by predicted time:
//
//   128 256 4 0    large products; 128 sums a thread
//   128 192 4 1    k up to 3072, where a tile's way out takes long beside its sums; 192 sums a thread
//   128 128 6 1    waves that larger tiles do not fill
//   128 128 6 0    in clusters of four, lines that begin beside multiples of 128 bytes
//    64 128 8 1    fewer tiles than multiprocessors; in clusters of two, such lines
//    64  64 8 1    few rows, sums in parts
//
// A cluster has CLUSTER_DOWN x CLUSTER_ACROSS blocks. Those with tiles below each other have the same tile of b, those with tiles side by side the same
// of a: each loads its share of a stage into the shared memory of all that have the same (multicast), and a stage is empty once the consumers of all
// that share with the block have released it. Tiles beyond the result take part as all others do.
//
//                 b 0     b 1            block 0 loads   half of a 0 for blocks 0 and 2, half of b 0 for blocks 0 and 1
//   a 0   block    0       2             block 1         half of a 1              1 and 3,         b 0            0 and 1
//   a 1   block    1       3             block 2         half of a 0              0 and 2,         b 1            2 and 3
//
// With CLUSTER_ACROSS 1 what comes of a needs no other block, and is on its way before those have begun. A block has one tile at least.
//
// Limits: runs begin at multiples of 16 bytes, as do all lines (gemm/mma.cu has products of others); at most two axes of a batch that do not merge;
// TF32 with a along m and b along n at once has no kernel: one of them is copied. k is above 0. Indices below 2^31.
//
// What follows the sum (EPILOGUE; the last three with one matrix, and with sums in one part):
//
//   0  y = activation(alpha * sum + bias), each part if the call asks for it
//   1  z = alpha * sum + bias, rounded and stored, y = ACTIVATED of z: of half precision
//   2  y = ACTIVATION_GRAD of z and d, the rounded alpha * sum: of half precision; z is read beside
//   3  y = alpha * sum + bias + residual, which is read beside: of f32
//
// With SUMS_OF_A 1, for a of 16 bits along m, two warps beside the producer's add up the rows of a over k while its stages are in shared memory
// (wgmma_sums.cuh): the gradient of a bias beside that of the weight. sum_parts follows then, instead of sum_splits.
//
// Launch: blocks of THREADS, as many as there are tiles or fit the device at once, whole clusters, SHARED bytes of shared memory. With splits > 1
// blocks add the parts up (wgmma_parts.cuh). Where there are more units than words for them, y is that of the partial sums, f32 [splits, matrices, m, n],
// alpha is 1 and there is no bias; sum_splits of a variant with the final output follows.

#include "gemm/wgmma_bf16x6.cuh"
#include "gemm/wgmma_fused.cuh"
#include "gemm/wgmma_loop.cuh"
#include "gemm/wgmma_parts.cuh"
#include "gemm/wgmma_plain.cuh"
#include "gemm/wgmma_registers.cuh"
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

// The sums of a tile; its last products may run on, but for those of parts.
INLINE void add_up_tile(Sums& sums, Ring& ring, Out& out, u32 blocks, u32 row, u32 pause = NOBODY) {
#if BF16X6
    add_up_promoted(sums, ring, blocks, row);
#elif A_FROM_REGISTERS
    add_up_from_registers(sums, ring, blocks, row);
#else
    add_up(sums, ring, out.add_up_beside(sums, ring, row), blocks, row, pause);
#endif
}
// With `is_last` the consumer has no other work.
INLINE void store(Sums& sums, Out& out, const Work& work, u32 row, bool is_last) {
#if !EPILOGUE
    if (out.p.parts) return out.store_part(sums, work, row, is_last);
#endif
    out.store(sums, work, row, is_last);
}

// Both consumers have each tile. What is known of the next one is worked out while products run, where fragments leave registers for it.
INLINE void consume_together(const TensorMapProduct& p, Ring& ring, Out& out, u32 row) {
    u32 number = first_number();
    Sums sums;
    Work work(p, number);
#pragma unroll 1
    for (bool is_last = false; !is_last;) {
        out.begin(work, row);
        u32 following = next_number(number);
        is_last = following >= p.tiles.count;
        // Not beside stages that slabs of the tile before go out with.
        bool pauses = PAUSE > 0 && is_last && work.blocks >= SLABS + PAUSE;
        add_up_tile(sums, ring, out, work.blocks, row, pauses && row > 0 ? work.blocks - PAUSE : NOBODY);
        if (pauses && row == 0 && threadIdx.x % WARP == 0) mbarrier_arrive(turn_of(ring.first, 1));
#if A_FROM_REGISTERS
        await_sums(sums, ring, work.blocks);
        store(sums, out, Work(p, opaque(number)), row, is_last);
        work = Work(p, is_last ? number : following);
#else
        Work next(p, is_last ? number : following);
        if (!BF16X6) await_sums(sums, ring, work.blocks);
        store(sums, out, work, row, is_last);
        work = next;
#endif
        number = following;
    }
}

// Each consumer has tiles of its own, in turn.
INLINE void consume_in_turn(const TensorMapProduct& p, Ring& ring, Out& out, u32 shared, u32 consumer) {
    Sums sums;
    u32 turn = consumer ^ 1;  // parity: the first consumer's first turn needs no one
    u32 number = first_number();
    if (consumer == 1 && number < p.tiles.count) {
        ring.skip(Work(p, number).blocks);
        number = next_number(number);
    }
#pragma unroll 1
    while (number < p.tiles.count) {
        Work work(p, opaque(number));
        out.begin(work, 0);
        mbarrier_wait_parity(turn_of(shared, out.consumer()), turn);
        add_up_tile(sums, ring, out, work.blocks, 0);
        // Its last stages were full: the other one may wait for those that follow.
        if (threadIdx.x % WARP == 0) mbarrier_arrive(turn_of(shared, out.consumer() ^ 1));
        await_sums(sums, ring, work.blocks);
        // Worked out again, which takes no registers while sums are added up.
        store(sums, out, Work(p, opaque(number)), 0, next_number(next_number(number)) >= p.tiles.count);
        number = next_number(number);
        turn ^= 1;
        if (number < p.tiles.count) {
            ring.skip(Work(p, opaque(number)).blocks);
            number = next_number(number);
        }
    }
}

INLINE void consume(const TensorMapProduct& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    if (CLUSTER > 1) ring.peer = peer_of_lane();
    Out out(p, shared);
    if constexpr (PINGPONG) consume_in_turn(p, ring, out, shared, consumer);
    else consume_together(p, ring, out, consumer * PART_M);
    // Shared memory stays until it has been read.
    if (out.leads()) cp_async_bulk_wait_group_read<0>();
}

// What the warps of the block but the producer's begin with.
INLINE void prepare(u32 shared, u32 warp) {
    if (warp == PRODUCER_WARP + 1) {
        if (threadIdx.x % WARP == 0) init_barriers(shared);
        __syncwarp();
        announce_barriers();
    }
    if (CLUSTER > 1) {
        barrier_cluster_arrive_relaxed();
        barrier_cluster_wait();
    }
    wait_for_earlier_launches();
}
// The warpgroup of the producer, of which one thread loads: it has loaded `stages` stages.
INLINE void start_producer(const TensorMapProduct& p, u32 shared, u32 stages) {
    if (MOVES_REGISTERS) setmaxnreg_dec<PRODUCER_REGISTERS>();
    if (threadIdx.x % WARPGROUP == 0) {
        prefetch_tensormap(p.y);
        if (EPILOGUE) prefetch_tensormap(p.z);
        produce(p, shared, stages);
    }
#if SUMS_OF_A
    // As the warpgroup's number: of lane 0.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP % 4, 0);
    if (warp > 0 && warp <= SUM_WARPS) add_up_rows_of_a(p, shared, warp - 1);
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
    if (*p.unfit) return;
#endif
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
    // Of lane 0, so that the compiler knows them to be the same in a warp: addresses and descriptors are then worked out once for all lanes.
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
