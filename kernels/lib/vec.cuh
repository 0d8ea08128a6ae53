// N elements that are read or written in one access, of 16 bytes at most.

#pragma once

#include "lib/launch.cuh"
#include "ptx/memory.cuh"

template <class T, int N> struct alignas(sizeof(T) * N) Pack {
    T of[N];
};

template <class T, int N> INLINE Pack<T, N> load(const T* from) { return *reinterpret_cast<const Pack<T, N>*>(from); }
// The same of 16 bytes that no other thread of the kernel writes and nobody reads again: they are asked for in the order in which they are written
// here, ahead of the arithmetic, with the neighbouring sectors, and not kept in the L1 cache.
template <class T, int N> INLINE Pack<T, N> load_once(const T* from) {
    static_assert(sizeof(T) * N == 16, "one access of the widest kind");
    union {
        u32 words[4];
        Pack<T, N> pack;
    } both;
#if WAITS_FOR_LAUNCHES
    ld_global_no_allocate_v4(both.words, from);
#else
    ld_global_nc_no_allocate_v4(both.words, from);
#endif
    return both.pack;
}
template <class T, int N> INLINE void store(T* to, const Pack<T, N>& pack) {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
}
