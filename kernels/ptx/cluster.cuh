// Thread block clusters (sm_90): blocks that run at the same time and can access each other's
// shared memory.

#pragma once

#include "lib/base.cuh"
#include "ptx/delay.cuh"
#include "ptx/tma.cuh"

// Not volatile, since the rank never changes: the compiler may read it once.
INLINE u32 read_cluster_ctarank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
INLINE u32 read_cluster_nctarank() {
    u32 ranks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
    return ranks;
}
// The index of the cluster in the grid.
INLINE u32 read_clusterid_x() {
    u32 number;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    return number;
}

// The barrier of all threads of a cluster: writes before the arrival are visible after the wait.
INLINE void barrier_cluster_arrive() {
    delay_at_random();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// An arrival without memory ordering: for data that a fence has already ordered, such as
// fence_mbarrier_init.
INLINE void barrier_cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
INLINE void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Maps `address` of this block's shared memory to the same address in block `rank` of the cluster.
INLINE u32 mapa_shared_cluster(u32 address, u32 rank) {
    u32 mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}
INLINE u32 ld_shared_cluster(u32 from) {
    u32 word;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}
INLINE void ld_shared_cluster_v4(float (&to)[4], u32 from) {
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(from)
                 : "memory");
}

// One arrival at an mbarrier (mbarrier.cuh) of any block of the cluster. mapa_shared_cluster
// returns its address.
INLINE void mbarrier_arrive_cluster(u32 barrier) {
    delay_at_random();
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Waits until the phase with this parity has completed, at an mbarrier at which blocks of the
// cluster arrive. What they wrote before they arrived is visible after the wait.
INLINE void mbarrier_wait_parity_cluster(u32 barrier, u32 parity) {
    delay_at_random();
    u32 ended = 0;
    while (!ended)
        asm volatile(
            "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
            : "=r"(ended)
            : "r"(barrier), "r"(parity)
            : "memory");
}

// Like cp_async_bulk_tensor_2d and _4d (tma.cuh), but multicast to each block whose bit is set in
// `blocks`, at the same shared memory address in each. In each block, the mbarrier at the same
// address as `barrier` counts the bytes that the block receives.
INLINE void cp_async_bulk_tensor_2d_multicast(u32 to, const TensorMap& map, i32 x, i32 y, u32 barrier, u32 blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(u16(blocks))
        : "memory");
}
INLINE void cp_async_bulk_tensor_4d_multicast(u32 to, const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 barrier,
                                              u32 blocks) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "h"(u16(blocks))
        : "memory");
}
