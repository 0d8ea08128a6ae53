// Elementwise ops: y = EXPRESSION(a, b, c), for tensors of any strides.
//
// The host compiles this file once for each op and dtype, with
//   EXPRESSION  over a, b, c (in the compute types of their tensors) and k, the op's constants
//   ARITY       1, 2 or 3: how many of A, B, C there are
//   TYPE_A, TYPE_B, TYPE_C, TYPE_Y  the element types in memory
//
// Three kernels, fastest first; the host takes the first one that fits:
//
//   line     every tensor is one run of elements     [ pack | pack | pack | ... | tail ]   a thread: UNROLL packs
//   rows     the last axis is a run or one repeated element in every tensor, and packs divide it
//   strided  anything else; a thread: PER_THREAD elements, 256 apart
//
// Limits: any number of elements; the output may be exactly an input.

constexpr int THREADS = 256;
// Elements of one access of the widest type: 16 bytes of it.
constexpr int PACK = 16 / largest(sizeof(TYPE_Y), largest(sizeof(TYPE_A), largest(sizeof(TYPE_B), sizeof(TYPE_C))));
// Two accesses of each tensor under way in a thread: one alone leaves a tenth of the bandwidth unused.
constexpr int UNROLL = 2;
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
    Constants k;
    Space<4> space;
};

INLINE Y evaluate(A a_stored, B b_stored, C c_stored, const Constants& k) {
    auto a = widen(a_stored);
    auto b = widen(b_stored);
    auto c = widen(c_stored);
    return narrow<Y>(EXPRESSION);
}

extern "C" __global__ void __launch_bounds__(THREADS) line(const __grid_constant__ Elementwise p) {
    u64 first = (u64(blockIdx.x) * THREADS * UNROLL + threadIdx.x) * PACK;
    Pack<A, PACK> a[UNROLL] = {};
    Pack<B, PACK> b[UNROLL] = {};
    Pack<C, PACK> c[UNROLL] = {};
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        u64 at = first + u64(i) * THREADS * PACK;
        if (at + PACK <= p.count) {
            a[i] = load<A, PACK>(p.a + at);
            if (ARITY > 1) b[i] = load<B, PACK>(p.b + at);
            if (ARITY > 2) c[i] = load<C, PACK>(p.c + at);
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
            for (u64 e = at; e < p.count; ++e)
                p.y[e] = evaluate(p.a[e], ARITY > 1 ? p.b[e] : B(), ARITY > 2 ? p.c[e] : C(), p.k);
        }
    }
}

// A pack at `at`, or one element repeated where the stride is 0.
template <class T> INLINE Pack<T, PACK> load_run(const T* from, i64 stride) {
    if (stride != 0) return load<T, PACK>(from);
    Pack<T, PACK> pack;
    T value = *from;
#pragma unroll
    for (int e = 0; e < PACK; ++e) pack.of[e] = value;
    return pack;
}

// The last axis of the space is `columns` elements long; the others make `count / columns` rows.
extern "C" __global__ void __launch_bounds__(THREADS) rows(const __grid_constant__ Elementwise p) {
    u32 packs = u32(p.count / PACK);
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= packs) return;
    i64 at[4];
    locate(p.space, number * PACK, at);
    const i64* inner[4];
    int last = int(p.space.rank) - 1;
#pragma unroll
    for (int tensor = 0; tensor < 4; ++tensor) inner[tensor] = &p.space.strides[tensor][last];
    Pack<A, PACK> a = load_run(p.a + at[1], *inner[1]);
    Pack<B, PACK> b = {};
    Pack<C, PACK> c = {};
    if (ARITY > 1) b = load_run(p.b + at[2], *inner[2]);
    if (ARITY > 2) c = load_run(p.c + at[3], *inner[3]);
    Pack<Y, PACK> y;
#pragma unroll
    for (int e = 0; e < PACK; ++e) y.of[e] = evaluate(a.of[e], b.of[e], c.of[e], p.k);
    store<Y, PACK>(p.y + at[0], y);
}

template <class Index, int UNROLLED> INLINE void strided_elements(const Elementwise& p) {
    u64 first = u64(blockIdx.x) * (THREADS * PER_THREAD) + threadIdx.x;
#pragma unroll UNROLLED
    for (int i = 0; i < PER_THREAD; ++i) {
        u64 number = first + u64(i) * THREADS;
        if (number >= p.count) return;
        i64 at[4];
        locate(p.space, Index(number), at);
        p.y[at[0]] = evaluate(p.a[at[1]], ARITY > 1 ? p.b[at[2]] : B(), ARITY > 2 ? p.c[at[3]] : C(), p.k);
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) strided(const __grid_constant__ Elementwise p) {
    strided_elements<u32, PER_THREAD>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) strided_long(const __grid_constant__ Elementwise p) {
    strided_elements<u64, 1>(p);
}
