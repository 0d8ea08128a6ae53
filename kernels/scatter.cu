// Putting and adding along an axis, after index.cu has told the place of each source and sort.cu has brought sources of one place together, in
// their own order: keys[..] rises, numbers[..] are those of the sources.
//
//   keys     3 3 3 | 5 | 8 8 | nowhere ...      a run: one place of y
//   scatter  the thread of a run's first key puts the last source, or adds all of them to what is there, rounded once
//   add_rows the same for rows: the block of a run's first key, threads along the row, LANES sources side by side
//
// TYPE is the element type (for putting, a type of its size). Limits: fewer than 2^31 sources.

typedef TYPE E;
constexpr int THREADS = 256;

struct Scatter {
    E* y;
    const E* source;
    const u32* keys;
    const u32* numbers;
    u32 count;
    u32 nowhere;    // the key of sources that go nowhere
    Space<1> places;   // of y, in row-major order of its shape
    Space<1> sources;  // of source, likewise
};

extern "C" __global__ void __launch_bounds__(THREADS) scatter(const __grid_constant__ Scatter p) {
    u32 first = blockIdx.x * THREADS + threadIdx.x;
    if (first >= p.count) return;
    u32 key = p.keys[first];
    if (key == p.nowhere || (first > 0 && p.keys[first - 1] == key)) return;
    i64 place[1], at[1];
    locate(p.places, u64(key), place);
#ifdef ADDS
    auto sum = widen(p.y[place[0]]);
    for (u32 number = first; number < p.count && p.keys[number] == key; ++number) {
        locate(p.sources, p.numbers[number], at);
        sum = sum_of(sum, widen(p.source[at[0]]));
    }
    p.y[place[0]] = narrow<E>(sum);
#else
    u32 last = first;
    while (last + 1 < p.count && p.keys[last + 1] == key) ++last;
    locate(p.sources, p.numbers[last], at);
    p.y[place[0]] = p.source[at[0]];
#endif
}

#ifdef ADDS
// y[outer, key, column] += sum of source[outer, number, column] over the run of `key`.
struct AddRows {
    E* y;
    const E* source;
    const u32* keys;
    const u32* numbers;
    u32 count;
    u32 nowhere;
    u32 columns;
    i64 y_outer, y_row, y_column;
    i64 source_outer, source_row, source_column;
};

constexpr int COLUMNS = 32;                 // threads side by side along the row
constexpr int LANES = THREADS / COLUMNS;    // sources added side by side

extern "C" __global__ void __launch_bounds__(THREADS) add_rows(const __grid_constant__ AddRows p) {
    typedef Compute<E> C;
    __shared__ C tile[LANES][COLUMNS];
    u32 first = blockIdx.x;
    u32 key = p.keys[first];
    if (key == p.nowhere || (first > 0 && p.keys[first - 1] == key)) return;
    u32 column = blockIdx.y * COLUMNS + threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    const E* source = p.source + i64(blockIdx.z) * p.source_outer + i64(column) * p.source_column;
    C sum = C(0);
    if (column < p.columns) {
#pragma unroll 4
        for (u32 number = first + lane; number < p.count && p.keys[number] == key; number += LANES)
            sum = sum_of(sum, widen(source[i64(p.numbers[number]) * p.source_row]));
    }
    tile[lane][threadIdx.x % COLUMNS] = sum;
    __syncthreads();
    if (lane > 0 || column >= p.columns) return;
    E* y = p.y + i64(blockIdx.z) * p.y_outer + i64(key) * p.y_row + i64(column) * p.y_column;
    C total = widen(*y);
#pragma unroll
    for (int other = 0; other < LANES; ++other) total = sum_of(total, tile[other][threadIdx.x]);
    *y = narrow<E>(total);
}
#endif
