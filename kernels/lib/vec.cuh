// N elements that are read or written in one access of at most 16 bytes.

#pragma once

#include "lib/launch.cuh"
#include "ptx/memory.cuh"

template <class T, int N> struct alignas(sizeof(T) * N) Pack {
    T of[N];
};

template <class T, int N> INLINE Pack<T, N> load(const T* from) { return *reinterpret_cast<const Pack<T, N>*>(from); }
// The same for 16 bytes that no other thread of the kernel writes and that are not read again. The
// loads are issued in program order, ahead of the arithmetic, with an L2 prefetch of the
// surrounding 256 bytes, and do not allocate in L1.
template <class T, int N> INLINE Pack<T, N> load_once(const T* from) {
    static_assert(sizeof(T) * N == 16, "one 16-byte access");
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
