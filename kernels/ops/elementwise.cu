// Elementwise ops: y = EXPRESSION(a, b, c), for tensors of any strides.
//
// The host compiles this file once for each op and dtype, with
//   EXPRESSION  over a, b, c (in the compute types of their tensors) and k, the op's constants; or
//   STORED      the same, already in the type of y
//   ARITY       1, 2 or 3: the number of inputs among A, B, C
//   TYPE_A, TYPE_B, TYPE_C, TYPE_Y  the element types in memory
//   PACK_OF     elements per access: 16 bytes of the widest type that is read or written
//   MIN_BLOCKS  blocks of `line` per multiprocessor for which the compiler limits registers
//
// Kernels, fastest first; the host launches the first one that fits:
//
//   line     each tensor is one contiguous run       [ pack | pack | pack | ... | tail ]
//            a thread: UNROLL packs
//   rows     in each tensor the last axis is contiguous or one broadcast element, and its length is
//            a multiple of PACK
//   strided  any strides; a thread: PER_THREAD elements, 256 apart (strided_long: 2^31 elements or
//            more)
//
// A null pointer for a, b or c stands for the constant `scalar` in all elements. Fills and ops with
// a scalar operand use this.
//
// Limits: any number of elements; the output may be exactly an input. line and rows need pointers
// aligned to a pack; rows needs fewer than 2^31 elements.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"

#ifdef HOST_SHIM
#define MIN_BLOCKS 1
#endif

constexpr int THREADS = 256;
constexpr int PACK = PACK_OF;
// Accesses of each tensor in flight per thread. With only one, a tenth of the bandwidth is unused.
// In double, where functions take many registers and are slower than the memory, one is enough.
constexpr int UNROLL = sizeof(TYPE_Y) == 8 ? 1 : 2;
constexpr int PER_THREAD = 4;

typedef TYPE_A A;
typedef TYPE_B B;
typedef TYPE_C C;
typedef TYPE_Y Y;

struct Elementwise {
    Y* y;
    const A* a;
    const B* b;
    const C* c;
    u64 count;
    u64 scalar;  // the bits of an element, as in memory
    Constants k;
    Space<4> space;
};

template <class T> INLINE T from_bits(u64 bits) {
    union {
        u64 bits;
        T value;
    } both;
    both.bits = bits;
    return both.value;
}

INLINE Y evaluate(A a_stored, B b_stored, C c_stored, const Constants& k) {
    auto a = widen(a_stored);
    auto b = widen(b_stored);
    auto c = widen(c_stored);
#ifdef STORED
    return STORED;
#else
    return narrow<Y>(EXPRESSION);
#endif
}

template <class T> INLINE Pack<T, PACK> repeated(T value) {
    Pack<T, PACK> pack;
#pragma unroll
    for (int e = 0; e < PACK; ++e) pack.of[e] = value;
    return pack;
}
template <class T> INLINE Pack<T, PACK> load_or(const T* from, u64 at, T scalar) {
    return from ? load<T, PACK>(from + at) : repeated(scalar);
}
template <class T> INLINE T element_or(const T* from, i64 at, T scalar) { return from ? from[at] : scalar; }

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) line(const __grid_constant__ Elementwise p) {
    wait_for_earlier_launches();
    u64 first = (u64(blockIdx.x) * THREADS * UNROLL + threadIdx.x) * PACK;
    A a_scalar = from_bits<A>(p.scalar);
    B b_scalar = from_bits<B>(p.scalar);
    C c_scalar = from_bits<C>(p.scalar);
    Pack<A, PACK> a[UNROLL] = {};
    Pack<B, PACK> b[UNROLL] = {};
    Pack<C, PACK> c[UNROLL] = {};
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        u64 at = first + u64(i) * THREADS * PACK;
        if (at + PACK <= p.count) {
            a[i] = load_or(p.a, at, a_scalar);
            if (ARITY > 1) b[i] = load_or(p.b, at, b_scalar);
            if (ARITY > 2) c[i] = load_or(p.c, at, c_scalar);
        }
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        u64 at = first + u64(i) * THREADS * PACK;
        if (at + PACK <= p.count) {
            Pack<Y, PACK> y;
#pragma unroll
            for (int e = 0; e < PACK; ++e) y.of[e] = evaluate(a[i].of[e], b[i].of[e], c[i].of[e], p.k);
            store<Y, PACK>(p.y + at, y);
        } else {
#pragma unroll 1
            for (u64 e = at; e < p.count; ++e)
                p.y[e] = evaluate(element_or(p.a, e, a_scalar), ARITY > 1 ? element_or(p.b, e, b_scalar) : B(),
                                  ARITY > 2 ? element_or(p.c, e, c_scalar) : C(), p.k);
        }
    }
}

// A pack at `from`, or one element repeated if the stride is 0.
template <class T> INLINE Pack<T, PACK> load_run(const T* from, i64 at, i64 stride, T scalar) {
    if (!from) return repeated(scalar);
    return stride != 0 ? load<T, PACK>(from + at) : repeated(from[at]);
}

// The length of the last axis of the space is a multiple of PACK.
extern "C" __global__ void __launch_bounds__(THREADS) rows(const __grid_constant__ Elementwise p) {
    wait_for_earlier_launches();
    u32 packs = u32(p.count / PACK);
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= packs) return;
    i64 at[4];
    locate(p.space, number * PACK, at);
    int last = int(p.space.rank) - 1;
    Pack<A, PACK> a = load_run(p.a, at[1], p.space.strides[1][last], from_bits<A>(p.scalar));
    Pack<B, PACK> b = {};
    Pack<C, PACK> c = {};
    if (ARITY > 1) b = load_run(p.b, at[2], p.space.strides[2][last], from_bits<B>(p.scalar));
    if (ARITY > 2) c = load_run(p.c, at[3], p.space.strides[3][last], from_bits<C>(p.scalar));
    Pack<Y, PACK> y;
#pragma unroll
    for (int e = 0; e < PACK; ++e) y.of[e] = evaluate(a.of[e], b.of[e], c.of[e], p.k);
    store<Y, PACK>(p.y + at[0], y);
}

// Not unrolled: the latency is that of a thread's chain of index divisions, and other warps hide
// it. Four copies of the chain would only take longer to compile.
template <class Index> INLINE void strided_elements(const Elementwise& p) {
    u64 first = u64(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < PER_THREAD; ++i) {
        u64 number = first + u64(i) * THREADS;
        if (number >= p.count) return;
        i64 at[4];
        locate(p.space, Index(number), at);
        p.y[at[0]] = evaluate(element_or(p.a, at[1], from_bits<A>(p.scalar)),
                              ARITY > 1 ? element_or(p.b, at[2], from_bits<B>(p.scalar)) : B(),
                              ARITY > 2 ? element_or(p.c, at[3], from_bits<C>(p.scalar)) : C(), p.k);
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) strided(const __grid_constant__ Elementwise p) {
    wait_for_earlier_launches();
    strided_elements<u32>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) strided_long(const __grid_constant__ Elementwise p) {
    wait_for_earlier_launches();
    strided_elements<u64>(p);
}
