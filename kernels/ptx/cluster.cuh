// Clusters (sm_90): blocks that run at the same time and read each other's shared memory.

#pragma once

#include "lib/base.cuh"

INLINE u32 read_cluster_ctarank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
INLINE u32 read_cluster_nctarank() {
    u32 ranks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
    return ranks;
}

// The barrier of all threads of a cluster: what was written before arriving is seen after waiting.
INLINE void barrier_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
INLINE void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// The address of what block `rank` has at `address` of its shared memory.
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
