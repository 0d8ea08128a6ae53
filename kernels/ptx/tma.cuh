// Copies of boxes of a tensor by the Tensor Memory Accelerator (TMA, sm_90). One thread issues a
// copy; an mbarrier (mbarrier.cuh) counts its bytes.

#pragma once

#include "lib/base.cuh"

// A tensor map as the driver encodes it: address, sizes and strides of a tensor, box and swizzle. A
// kernel receives it as a member of its `const __grid_constant__` parameters, at an offset that is
// a multiple of 64.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

// Loads the box whose first element is (x, y), x along the fastest axis, to a shared memory address
// that is a multiple of 128 bytes. Elements outside the tensor are 0. x times the element size must
// be a multiple of 16 bytes: any other x is an illegal instruction on an H100 (measured, without
// swizzle).
INLINE void cp_async_bulk_tensor_2d(u32 to, const TensorMap& map, i32 x, i32 y, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}
// The same for a tensor map with four axes.
INLINE void cp_async_bulk_tensor_4d(u32 to, const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
        : "memory");
}
// L2 cache policies for the data of a copy.
INLINE u64 createpolicy_evict_first() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
INLINE u64 createpolicy_evict_normal() {
    u64 policy;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
INLINE void cp_async_bulk_tensor_4d_cache_hint(u32 to, const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 barrier,
                                               u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "l"(policy)
        : "memory");
}
// Copies `bytes` contiguous bytes of global memory, without a tensor map. Addresses and `bytes` are
// multiples of 16.
INLINE void cp_async_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
INLINE void prefetch_tensormap(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Stores a box from shared memory to the tensor, except for elements outside the tensor. The copy
// belongs to the bulk group that this thread commits next. It sees earlier stores to shared memory
// if each storing thread has executed fence_proxy_async_shared and then a barrier.
INLINE void cp_async_bulk_tensor_store_4d(const TensorMap& map, i32 x, i32 y, i32 z, i32 w, u32 from) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
                 "r"(x), "r"(y), "r"(z), "r"(w), "r"(from)
                 : "memory");
}
INLINE void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most PENDING of this thread's latest groups have not yet been read from shared
// memory.
template <int PENDING> INLINE void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
