// Loads and stores with state spaces, widths and memory orders that C++ cannot express. Addresses
// of shared memory are 32 bits wide.

#pragma once

#include "lib/base.cuh"

INLINE u32 cvta_to_shared(const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); }

// ---------------------------------------------------------------- shared memory

INLINE u32 ld_shared(u32 from) {
    u32 word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
    return word;
}
INLINE float2 ld_shared_v2_f32(u32 from) {
    float2 pair;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(from) : "memory");
    return pair;
}
INLINE uint4 ld_shared_v4(u32 from) {
    uint4 words;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from)
                 : "memory");
    return words;
}
// Loads without the "memory" clobber, so that the compiler may move other accesses across them: for
// operand fragments, which are read after a barrier.
INLINE void ld_shared_v2_unordered(u32 (&to)[2], u32 from) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from));
}
INLINE void ld_shared_v4_unordered(u32 (&to)[4], u32 from) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}
INLINE void st_shared(u32 to, u32 word) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory"); }
INLINE void st_shared_v2_f32(u32 to, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}
INLINE void st_shared_v4(u32 to, const u32 (&words)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
}

// ---------------------------------------------------------------- global memory

// Loads 16 bytes that no thread writes while the kernel runs: not allocated in L1, with an L2
// prefetch of the surrounding 256 bytes.
INLINE void ld_global_nc_no_allocate_v4(u32 (&to)[4], const void* from) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
}
// The same for data that earlier launches may still write after this kernel has begun
// (lib/launch.cuh). That rules out ".nc": such loads may move ahead of the wait and read what a
// cache held before it.
INLINE void ld_global_no_allocate_v4(u32 (&to)[4], const void* from) {
    asm volatile("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
}
INLINE void st_global_v2_f32(float* to, float x, float y) {
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
}
INLINE void st_global_v4(void* to, uint4 words) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
                 : "memory");
}
// Stores both values in one access.
INLINE void st_volatile_global_v2(void* to, u64 first, u64 second) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}
// Increments the value at `at`, with wraparound from `last` to 0, and returns the old value.
// Releases this thread's writes and acquires what others released.
INLINE u32 atom_acq_rel_gpu_inc(u32* at, u32 last) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(last) : "memory");
    return before;
}

// Adds `number` to the value at `at` and returns the old value. Releases this thread's writes and
// acquires what others released.
INLINE u32 atom_add_acq_rel_gpu(u32* at, u32 number) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(number) : "memory");
    return before;
}

// The same without memory ordering.
INLINE u32 atom_add_relaxed_gpu(u32* at, u32 number) {
    u32 before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(number) : "memory");
    return before;
}

// f32 sums that several blocks add to in a fixed order (DqSemaphore in
// attention/grad_scheduler.cuh) or exchange for split-K (gemm/wgmma_split_k_fixup.cuh). These
// accesses bypass the L1 cache, which stores of other blocks do not reach. The address is a
// multiple of 16 bytes.
INLINE void ld_relaxed_gpu_v4(float (&to)[4], const float* from) {
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "l"(from)
                 : "memory");
}
INLINE void st_relaxed_gpu_v4(float* to, const float (&x)[4]) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
                 "f"(x[3])
                 : "memory");
}
// Adds four values to four consecutive ones, each by a separate reduction (sm_90). Subnormal
// numbers are flushed to 0.
INLINE void red_relaxed_gpu_add_v4(float* to, const float (&x)[4]) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
                 "f"(x[3])
                 : "memory");
}
// Loads the value and acquires all that was written before the store that released it.
INLINE u32 ld_acquire_gpu(const u32* from) {
    u32 word;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
    return word;
}
// Releases this thread's writes, and those of other threads of the block that are visible to it.
INLINE void st_release_gpu(u32* to, u32 word) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}
