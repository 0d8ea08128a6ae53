// Tiles of halves in shared memory and products of them by warpgroups (wgmma), for the attention kernels of f16 and bf16 on sm_90a: the
// counterpart of attention_mma.cuh, for widths of 64 and 128.
//
// A tile is cut into slabs of 64 columns, which are rows of 128 bytes. Chunk c (16 bytes) of row r of a slab lies at place c ^ (r % 8): the
// layout that wgmma calls the 128 byte swizzle. Four warps multiply together; each holds 16 rows of the result, lane for lane as with mma.sync.

#pragma once

#include "attention/half.cuh"

static_assert(HEAD_DIM % 64 == 0 && VALUE_DIM % 64 == 0, "whole slabs");

// Rows that are multiplied together: all of them take part in a product, or none.
INLINE constexpr int team_rows(int) { return 64; }

// Products run on while other instructions follow, until they are awaited.
#define PRODUCTS_RUN_ON 1

template <int ROWS, int WIDTH> struct Tile {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr int SLAB_BYTES = ROWS * 128;
    INLINE static u32 at(u32 row, u32 chunk) { return chunk / 8 * SLAB_BYTES + row * 128 + (((chunk ^ row) & 7) << 4); }
};

// What copies and stores have put into shared memory is for wgmma to read after the next barrier.
INLINE void publish_copies() {
    await_copies<0>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

INLINE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INLINE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> INLINE void await_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
// Keeps the compiler from moving accumulators across a wait.
template <int OVER> INLINE void hold(float (&c)[1][OVER][4]) {
#pragma unroll
    for (int j = 0; j < OVER; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(c[0][j][e])::"memory");
}

// A matrix in shared memory. Along its rows (K-major) 8 rows are `down` bytes apart from the next 8; along its columns (MN-major) slabs of
// 64 columns are `over` bytes apart as well.
INLINE u64 matrix_at(u32 address, u32 over, u32 down) {
    return u64((address >> 4) & 0x3fff) | u64(over >> 4) << 16 | u64(down >> 4) << 32 | u64(1) << 62;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define FOUR(j) "+f"(c[0][j][0]), "+f"(c[0][j][1]), "+f"(c[0][j][2]), "+f"(c[0][j][3])
#define SIXTEEN(j) FOUR(j), FOUR(j + 1), FOUR(j + 2), FOUR(j + 3)

// One step of 16: c (+)= a b^T from shared memory, both along their rows.
INLINE void multiply_rows(float (&c)[1][8][4], u64 a, u64 b, u32 add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." TEXT(TYPE) "." TEXT(TYPE) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, add, 1, 1, 0, 0;}"
        : SIXTEEN(0), SIXTEEN(4)
        : "l"(a), "l"(b), "r"(add));
}
// One step of 16: c += a b, a from registers, b along its columns.
INLINE void multiply_columns(float (&c)[1][8][4], const u32 (&a)[4], u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TEXT(TYPE) "." TEXT(TYPE) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
        : SIXTEEN(0), SIXTEEN(4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// One step of 16: c (+)= a b^T from shared memory, both along their rows.
INLINE void multiply_rows(float (&c)[1][16][4], u64 a, u64 b, u32 add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." TEXT(TYPE) "." TEXT(TYPE) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1, 0, 0;}"
        : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12)
        : "l"(a), "l"(b), "r"(add));
}
// One step of 16: c += a b, a from registers, b along its columns.
INLINE void multiply_columns(float (&c)[1][16][4], const u32 (&a)[4], u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." TEXT(TYPE) "." TEXT(TYPE) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// The same with a from registers.
INLINE void multiply_rows(float (&c)[1][8][4], const u32 (&a)[4], u64 b, u32 add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." TEXT(TYPE) "." TEXT(TYPE) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, 0;}"
        : SIXTEEN(0), SIXTEEN(4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
INLINE void multiply_rows(float (&c)[1][16][4], const u32 (&a)[4], u64 b, u32 add) {
    asm volatile(
        "{.reg .pred add; setp.ne.b32 add, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." TEXT(TYPE) "." TEXT(TYPE) " "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, 0;}"
        : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
#undef SIXTEEN
#undef FOUR

// c = a b^T over WIDTH columns, begun: the 64 rows from `row` on of a tile of A_ROWS, and all rows of a tile of OVER * 8.
template <int A_ROWS, int WIDTH, int OVER> INLINE void product_of_rows(float (&c)[1][OVER][4], u32 a, u32 row, u32 b) {
    row = row / 64 * 64;
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
        multiply_rows(c, matrix_at(a + step / 4 * Tile<A_ROWS, WIDTH>::SLAB_BYTES + row * 128 + step % 4 * 32, 16, 1024),
                      matrix_at(b + step / 4 * Tile<OVER * 8, WIDTH>::SLAB_BYTES + step % 4 * 32, 16, 1024), step > 0);
}

// A warp's 16 rows of a tile as left operands.
template <int A_ROWS, int WIDTH> INLINE void hold_rows(u32 (&held)[WIDTH / 16][4], u32 a, u32 row) {
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(held[step][0]), "=r"(held[step][1]), "=r"(held[step][2]), "=r"(held[step][3])
                     : "r"(a + Tile<A_ROWS, WIDTH>::at(row + lane % 16, step * 2 + lane / 16))
                     : "memory");
}
// c = a b^T of held rows, begun.
template <int WIDTH, int OVER> INLINE void product_of_held_rows(float (&c)[1][OVER][4], const u32 (&held)[WIDTH / 16][4], u32 b) {
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
        multiply_rows(c, held[step], matrix_at(b + step / 4 * Tile<OVER * 8, WIDTH>::SLAB_BYTES + step % 4 * 32, 16, 1024), step > 0);
}

// c += a b, begun: b is a tile of STEPS * 16 rows and WIDTH columns.
template <int WIDTH, int STEPS> INLINE void add_product(float (&c)[1][WIDTH / 8][4], const u32 (&a)[1][STEPS][4], u32 b) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
        multiply_columns(c, a[0][step], matrix_at(b + step * 16 * 128, Tile<STEPS * 16, WIDTH>::SLAB_BYTES, 1024));
}
