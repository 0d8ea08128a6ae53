// Layer and RMS normalization of rows, and their gradients.
//
//   norm_rows       y = (x - mean) * r * weight + bias, r = 1 / sqrt(mean (x - mean)^2 + eps)
//                   RMS: mean = 0
//   norm_rows_grad  n = (x - mean) * r, g = dy * weight:  dx = r * (g - mean(g) - n * mean(g * n))
//                   RMS: without mean(g)
//                   dweight = sum over rows of dy * n, dbias = sum over rows of dy
//                   ROW_STORAGE = REGISTERS: dx includes `residual`, if given, which is the
//                   gradient of x from another path; also writes dx rounded to TYPE_DY, if
//                   requested
//
// x, y, dy, dx, residual [rows, columns] of any row stride; weight, bias, dweight, dbias [columns];
// mean, r [rows] in the compute type. A team of threads processes a row, see rows.cuh (MASKED = 0:
// PACK divides columns, all strides and, in elements, all addresses).
//
// norm_rows_grad (ROW_STORAGE = REGISTERS) is persistent: a block loops over rows, and each of its
// threads keeps the sums of its columns in registers, while the next rows are in flight to shared
// memory. The blocks write their sums to `partials` [blocks, SUMS, columns]; column_sums adds these
// in the order of the blocks:
//
//      block 0:  row 0, row G, row 2G, ...   -> partials[0]  \
//      block 1:  row 1, row G + 1, ...       -> partials[1]   > column_sums -> dweight, dbias
//      ...                                                   /
//
// Rows that do not fit in registers: norm_rows_grad with ROW_STORAGE = SHARED or MEMORY computes
// only dx (SUMS = 0), a team per row; norm_rows_parameter_grad computes the partials.
//
// The variance is the mean of the squared differences from the mean, in a second pass over the row
// that the team holds, never a difference of large sums.
//
// Macros: those of rows.cuh
//   TYPE_Y, TYPE_DY  half precision with a TYPE of float, for ROW_STORAGE = REGISTERS; otherwise
//                    TYPE
//   `CENTERED`        1: layer normalization, 0: RMS
//   DWEIGHT, DBIAS   0 or 1: the sums that norm_rows_grad computes
//   STAGES           stages of the ring buffer in shared memory, at least 2:
//                    2 * STAGES * ROWS_PER_ITERATION * PACKS packs per thread
//   ROWS_PER_ITERATION         rows of a team per iteration, see below
//   FORM             FORWARD, GRADIENT or PARAMETERS: which kernels are compiled; PARAMETERS needs
//                    ROW_STORAGE = MEMORY, TEAM above 32, and both sums

#include "lib/launch.cuh"
#include "lib/rows.cuh"
#include "lib/vec.cuh"

#define FORWARD 0
#define GRADIENT 1
#define PARAMETERS 2

#ifdef HOST_SHIM
#define FORM GRADIENT
#endif
#ifndef CENTERED
#define CENTERED 1
#endif
#ifndef TYPE_Y
#define TYPE_Y TYPE
#endif
#ifndef TYPE_DY
#define TYPE_DY TYPE
#endif
#ifndef DWEIGHT
#define DWEIGHT 1
#endif
#ifndef DBIAS
#define DBIAS 1
#endif

// Two stages in flight and one being processed. A fourth gained nothing.
#ifndef STAGES
#define STAGES 3
#endif
// Rows of a team per iteration of its block: 1 or 2. Two rows share the exchange of their sums, and
// hide each other's latencies.
#ifndef ROWS_PER_ITERATION
#define ROWS_PER_ITERATION 1
#endif
constexpr int SUMS = DWEIGHT + DBIAS;
typedef TYPE_Y Y;
typedef TYPE_DY Dy;

// A pack of another element type, with as many elements as a Raw has of T.
template <class E> struct alignas(PACK * sizeof(E)) RawOf {
    typedef typename WordOf<PACK * sizeof(E)>::type Word;
    Word words[PACK * sizeof(E) / sizeof(Word)];

    INLINE C get(int e) const { return unpacked(E(), words, e); }
    INLINE static RawOf of(const C (&values)[PACK]) {
        RawOf raw;
        pack(E(), values, raw.words);
        return raw;
    }
};

#if FORM == FORWARD
struct Norm {
    Y* y;
    C* mean;  // layer normalization only
    C* rstd;
    const T* x;
    const T* weight;  // null: none
    const T* bias;    // null: none
    u64 rows;
    i64 y_stride, x_stride;
    double eps;
    u32 columns;
};

// (x - mean) * reciprocal * weight + bias
INLINE RawOf<Y> normalized(const Raw& x, C mean, C rstd, const T* weight, const T* bias, int column) {
    C values[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) values[e] = (x.get(e) - mean) * rstd;
    if (weight) {
        Raw scale = load_raw(weight + column);
#pragma unroll
        for (int e = 0; e < PACK; ++e) values[e] *= scale.get(e);
    }
    if (bias) {
        Raw shift = load_raw(bias + column);
#pragma unroll
        for (int e = 0; e < PACK; ++e) values[e] += shift.get(e);
    }
    return RawOf<Y>::of(values);
}
INLINE void store_pack(Y* y, const RowPacking& cut, int pack, const RawOf<Y>& raw) {
    if (pack < cut.packs) *reinterpret_cast<RawOf<Y>*>(y + pack * PACK) = raw;
}
INLINE C sum_of_pack(const Raw& x) {
    C sum = 0;
#pragma unroll
    for (int e = 0; e < PACK; ++e) sum += x.get(e);
    return sum;
}
INLINE C squares_of_pack(const Raw& x, C mean) {
    C sum = 0;
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
        C difference = x.get(e) - mean;
        sum += difference * difference;
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS) norm_rows(const __grid_constant__ Norm p) {
    wait_for_earlier_launches();
    u64 row = row_of_thread();
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    Y* y = p.y + i64(row) * p.y_stride;
    RowPacking cut(x, row < p.rows ? p.columns : 0);
    C sum = 0, squares = 0, mean = 0, rstd;
    if (ROW_STORAGE == REGISTERS) {
        Raw raw[PACKS];
        load_row(raw, cut, x, member, C(0));
        if (CENTERED) {
#pragma unroll
            for (int k = 0; k < PACKS; ++k) sum += sum_of_pack(raw[k]);
            mean = team_sum<0>(sum) / C(p.columns);
        }
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
            if (member + k * TEAM < cut.packs) squares += squares_of_pack(raw[k], mean);
        rstd = rstd_of(team_sum<1>(squares) / C(p.columns), p.eps);
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            int pack = member + k * TEAM;
            if (pack < cut.packs)
                store_pack(y, cut, pack, normalized(raw[k], mean, rstd, p.weight, p.bias, pack * PACK));
        }
    } else {
        for_packs_first_pass<1>(cut, member, {{x}, {C(0)}}, [&](int, const Raw(&raw)[UNROLL][1]) {
            C part = 0;
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
                part += CENTERED ? sum_of_pack(raw[u][0]) : squares_of_pack(raw[u][0], C(0));
            sum += part;
        });
        sum = team_sum<0>(sum);
        if (CENTERED) {
            mean = sum / C(p.columns);
            for_packs_second_pass<1>(cut, member, {{x}, {C(0)}},
                                     [&](int, const Raw(&raw)[1]) { squares += squares_of_pack(raw[0], mean); });
            sum = team_sum<1>(squares);
        }
        rstd = rstd_of(sum / C(p.columns), p.eps);
        for_packs_second_pass<1>(cut, member, {{x}, {C(0)}}, [&](int pack, const Raw(&raw)[1]) {
            store_pack(y, cut, pack, normalized(raw[0], mean, rstd, p.weight, p.bias, pack * PACK));
        });
    }
    if (member == 0 && row < p.rows) {
        if (CENTERED) p.mean[row] = mean;
        p.rstd[row] = rstd;
    }
}
#endif

// ---------------------------------------------------------------- gradient of rows

#if FORM != FORWARD
struct NormGrad {
    T* dx;
    C* partials;  // [blocks, SUMS, columns]: the sums of dweight, then those of dbias
    const T* x;
    const Dy* dy;
    const C* mean;  // null: RMS
    const C* rstd;
    const T* weight;    // null: none
    const T* residual;  // null: none
    Dy* rounded;        // null: none; dx rounded to the type of dy
    u64 rows;
    i64 dx_stride, x_stride, dy_stride, residual_stride, rounded_stride;
    u32 columns;
    u32 rows_per_block;  // norm_rows_parameter_grad only
};

#if FORM == GRADIENT
// Adds g and g * n of a pack to `sum` and `dot`.
INLINE void add_gradient_terms(const Raw& x, const Raw& dy, const Raw& weight, C mean, C rstd, C& sum, C& dot) {
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
        C g = dy.get(e) * weight.get(e);
        if (CENTERED) sum += g;
        dot += g * ((x.get(e) - mean) * rstd);
    }
}
// dx of a pack, from the means of g (`sum`) and of g * n (`dot`).
INLINE Raw norm_gradient(const Raw& x, const Raw& dy, const Raw& weight, C mean, C rstd, C sum, C dot) {
    C dx[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
        C g = dy.get(e) * weight.get(e), n = (x.get(e) - mean) * rstd;
        dx[e] = rstd * ((CENTERED ? g - sum : g) - n * dot);
    }
    return Raw::of(dx);
}

// Ring buffer in shared memory for rows in flight. Each thread reads only what it copied itself, so
// that no barrier is needed.
//
//      held: [STAGES][ROWS_PER_ITERATION][x, dy][PACKS][threads]    iteration t: stage t % STAGES
struct Ring {
    const RowPacking& cut;
    int member;

    INLINE Raw* location(int stage, int r, int tensor, int k) const {
        return held + (((stage * ROWS_PER_ITERATION + r) * 2 + tensor) * PACKS + k) * ROW_THREADS + threadIdx.x;
    }
    // The pack of dy, which may be shorter than its slot.
    INLINE RawOf<Dy>& dy(int stage, int r, int k) const {
        return *reinterpret_cast<RawOf<Dy>*>(location(stage, r, 1, k));
    }
    template <class Slot, class E> INLINE void copy(Slot* to, const E* from) const {
        if constexpr (sizeof(Slot) >= 4) {
            cp_async<sizeof(Slot)>(cvta_to_shared(to), from);
        } else {
            *to = *reinterpret_cast<const Slot*>(from);
        }
    }
    // Issues the copies of a row; x and dy point to this thread's first pack of it.
    INLINE void start(const T* x, const Dy* dy, int stage, int r) const {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            if (member + k * TEAM >= cut.packs) continue;
            copy(location(stage, r, 0, k), x + k * TEAM * PACK);
            copy(&this->dy(stage, r, k), dy + k * TEAM * PACK);
        }
    }
    INLINE void commit() const { cp_async_commit_group(); }
    // Waits for all committed iterations except the latest STAGES - 2.
    INLINE void wait() const { cp_async_wait_group<STAGES - 2>(); }
};

// Whether n and g of a row stay in registers, in addition to the sums of its columns. Otherwise
// they are recomputed.
#define IN_REGISTERS (ROWS_PER_ITERATION * PACKS * PACK <= 16)
#define WEIGHTS_IN_REGISTERS (IN_REGISTERS || ROWS_PER_ITERATION > 1)

// A thread's sums of its columns: of dweight, then of dbias.
typedef C ColumnParts[largest(SUMS, 1)][PACKS][PACK];

// Adds the sums of the block's teams, one team after another. The last team stores the totals.
INLINE void write_partials(const NormGrad& p, const RowPacking& cut, int member, const ColumnParts& sums) {
    C* partials = p.partials + u64(blockIdx.x) * SUMS * p.columns;
    constexpr int WIDEST = TEAMS > 1 ? PACKS * TEAM * PACK : 1;
    // 16-byte stores: single stores would access as many sectors as there are values.
    constexpr int VECTOR = PACK * sizeof(C) <= 16 ? PACK : 16 / sizeof(C);
    __shared__ C of_block[largest(SUMS, 1)][WIDEST];
#pragma unroll 1
    for (int team = 0; team < TEAMS; ++team) {
        if (TEAMS > 1) __syncthreads();
        if (TEAMS > 1 && threadIdx.x / TEAM != team) continue;
#pragma unroll
        for (int s = 0; s < SUMS; ++s)
#pragma unroll
            for (int k = 0; k < PACKS; ++k) {
                int pack = member + k * TEAM;
                if (pack >= cut.packs) continue;
#pragma unroll
                for (int first = 0; first < PACK; first += VECTOR) {
                    Pack<C, VECTOR> value;
#pragma unroll
                    for (int e = 0; e < VECTOR; ++e) {
                        C* location = &of_block[s][TEAMS > 1 ? pack * PACK + first + e : 0];
                        value.of[e] = team > 0 ? *location + sums[s][k][first + e] : sums[s][k][first + e];
                        if (team < TEAMS - 1) *location = value.of[e];
                    }
                    if (team == TEAMS - 1) store<C, VECTOR>(partials + u64(s) * p.columns + pack * PACK + first, value);
                }
            }
    }
}

// Loads mean and r of a team's rows of an iteration, `step` apart; 0 for rows past the end.
INLINE void read_statistics(C (&mean)[ROWS_PER_ITERATION], C (&rstd)[ROWS_PER_ITERATION], const NormGrad& p, u64 row,
                            u64 step) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_ITERATION; ++r) {
        mean[r] = rstd[r] = 0;
        if (row + r * step >= p.rows) continue;
        if (CENTERED) mean[r] = p.mean[row + r * step];
        rstd[r] = p.rstd[row + r * step];
    }
}

// Issues the copies of a team's rows, one iteration per call.
struct RowLoader {
    const Ring& ring;
    u64 row, rows, step;
    // This thread's first pack of the next row.
    const T* x;
    const Dy* dy;
    i64 x_step, dy_step;

    INLINE RowLoader(const NormGrad& p, const Ring& ring, u64 row, u64 step)
        : ring(ring), row(row), rows(p.rows), step(step) {
        x = p.x + i64(row) * p.x_stride + ring.member * PACK;
        dy = p.dy + i64(row) * p.dy_stride + ring.member * PACK;
        x_step = i64(step) * p.x_stride, dy_step = i64(step) * p.dy_stride;
    }
    INLINE void start(int stage) {
#pragma unroll
        for (int r = 0; r < ROWS_PER_ITERATION; ++r) {
            if (row < rows) ring.start(x, dy, stage, r);
            row += step;
            x += x_step;
            dy += dy_step;
        }
        ring.commit();
    }
};

// The weights of a thread's columns, 1 if there is no weight.
struct Weights {
    const NormGrad& p;
    int member;
    int packs;
    Raw kept[PACKS];

    INLINE Weights(const NormGrad& p, const RowPacking& cut, int member) : p(p), member(member), packs(cut.packs) {
        if (WEIGHTS_IN_REGISTERS)
#pragma unroll
            for (int k = 0; k < PACKS; ++k) kept[k] = read(k);
    }
    INLINE Raw read(int k) const {
        return p.weight && member + k * TEAM < packs ? load_raw(p.weight + (member + k * TEAM) * PACK)
                                                     : Raw::filled(C(1));
    }
    INLINE Raw at(int k) const { return WEIGHTS_IN_REGISTERS ? kept[k] : read(k); }
};

// Sets the statistics of this iteration's rows, and `offset`: n = x * r + offset.
INLINE void take_statistics(C (&mean)[ROWS_PER_ITERATION], C (&rstd)[ROWS_PER_ITERATION],
                            C (&offset)[ROWS_PER_ITERATION], const C (&next_mean)[ROWS_PER_ITERATION],
                            const C (&next_rstd)[ROWS_PER_ITERATION], u32 columns) {
    // A single column is its own mean: n and the gradients are exactly 0, not the rounding errors
    // of x * r and r * g.
    const bool is_single = CENTERED && PACK == 1 && columns == 1;
#pragma unroll
    for (int r = 0; r < ROWS_PER_ITERATION; ++r) {
        rstd[r] = is_single ? C(0) : next_rstd[r], mean[r] = next_mean[r];
        offset[r] = -mean[r] * rstd[r];
    }
}

// n of x. For half precision, one instruction less: the rounding to half precision is far coarser.
INLINE C normal_of(C x, C mean, C rstd, C offset) { return sizeof(T) == 2 ? x * rstd + offset : (x - mean) * rstd; }

// This thread's first pack of the next row to store, and the residual of the rows of one iteration.
struct RowWriter {
    const NormGrad& p;
    T* dx;
    const T* residual;
    Dy* rounded;
    i64 step;
    Raw added[ROWS_PER_ITERATION][PACKS];

    INLINE RowWriter(const NormGrad& p, u64 row, u64 step, int member) : p(p), step(step) {
        dx = p.dx + i64(row) * p.dx_stride + member * PACK;
        residual = p.residual + i64(row) * p.residual_stride + member * PACK;
        rounded = p.rounded + i64(row) * p.rounded_stride + member * PACK;
    }
    // Called before the exchange of an iteration's sums, so that the loads overlap with it.
    template <class Missing> INLINE void load_residual(const Missing& is_missing) {
        if (!p.residual) return;
#pragma unroll
        for (int r = 0; r < ROWS_PER_ITERATION; ++r) {
#pragma unroll
            for (int k = 0; k < PACKS; ++k)
                if (!is_missing(r, k)) added[r][k] = load_raw(residual + k * TEAM * PACK);
            residual += step * p.residual_stride;
        }
    }
    INLINE void store(int r, int k, C (&values)[PACK]) const {
        if (p.residual)
#pragma unroll
            for (int e = 0; e < PACK; ++e) values[e] += added[r][k].get(e);
        store_raw(dx + k * TEAM * PACK, Raw::of(values));
        if (sizeof(Dy) != sizeof(T) && p.rounded)
            *reinterpret_cast<RawOf<Dy>*>(rounded + k * TEAM * PACK) = RawOf<Dy>::of(values);
    }
    INLINE void advance() {
        dx += step * p.dx_stride;
        rounded += step * p.rounded_stride;
    }
};

INLINE void rows_grad_in_registers(const NormGrad& p) {
    int member = member_of_team();
    u64 step = u64(gridDim.x) * TEAMS;
    RowPacking whole(p.x, p.columns);
    Ring ring{whole, member};
    u64 row = row_of_thread();
    RowLoader loader(p, ring, row, step);
    RowWriter out(p, row, step, member);
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) loader.start(stage);
    Weights weights(p, whole, member);
    C sums[largest(SUMS, 1)][PACKS][PACK] = {};
    C next_mean[ROWS_PER_ITERATION], next_rstd[ROWS_PER_ITERATION];
    read_statistics(next_mean, next_rstd, p, row, step);
    C inverse_columns = C(1) / C(p.columns);
    int parity = 0, stage = 0;
    // All teams of a block loop as often as its first one, because all take part in exchanges.
#pragma unroll 1
    for (u64 first = u64(blockIdx.x) * TEAMS; first < p.rows;
         first += ROWS_PER_ITERATION * step, row += ROWS_PER_ITERATION * step, parity ^= 1) {
        C rstd[ROWS_PER_ITERATION], mean[ROWS_PER_ITERATION], offset[ROWS_PER_ITERATION];
        take_statistics(mean, rstd, offset, next_mean, next_rstd, p.columns);
        read_statistics(next_mean, next_rstd, p, row + ROWS_PER_ITERATION * step, step);
        auto is_missing = [&](int r, int k) {
            return ((TEAMS > 1 || r > 0) && row + r * step >= p.rows) || member + k * TEAM >= whole.packs;
        };
        out.load_residual(is_missing);
        ring.wait();
        C normal[ROWS_PER_ITERATION][PACKS][PACK], grad[ROWS_PER_ITERATION][PACKS][PACK];
        C totals[2 * ROWS_PER_ITERATION] = {};  // for each row: the sum of g, then that of g * n
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            Raw weight = weights.at(k);
#pragma unroll
            for (int r = 0; r < ROWS_PER_ITERATION; ++r) {
                if (is_missing(r, k)) continue;
                Raw x = *ring.location(stage, r, 0, k);
                RawOf<Dy> dy = ring.dy(stage, r, k);
#pragma unroll
                for (int e = 0; e < PACK; ++e) {
                    C n = normal_of(x.get(e), mean[r], rstd[r], offset[r]), g = dy.get(e);
                    if (DWEIGHT) sums[0][k][e] += g * n;
                    if (DBIAS) sums[SUMS - 1][k][e] += g;
                    g *= weight.get(e);
                    if (CENTERED) totals[2 * r] += g;
                    totals[2 * r + 1] += g * n;
                    if (IN_REGISTERS) normal[r][k][e] = n, grad[r][k][e] = g;
                }
            }
        }
        // Refills the stage that was read in the previous iteration.
        loader.start(stage == 0 ? STAGES - 1 : stage - 1);
        team_sums<0>(totals, parity);
#pragma unroll
        for (int r = 0; r < ROWS_PER_ITERATION; ++r) {
            // dx = r * g - r * mean(g) - n * (r * mean(g * n)): two instructions per element.
            C mean_part = CENTERED ? rstd[r] * (totals[2 * r] * inverse_columns) : C(0);
            C along_part = rstd[r] * (totals[2 * r + 1] * inverse_columns);
#pragma unroll
            for (int k = 0; k < PACKS; ++k) {
                if (is_missing(r, k)) continue;
                Raw x, weight;
                RawOf<Dy> dy;
                if (!IN_REGISTERS)
                    x = *ring.location(stage, r, 0, k), dy = ring.dy(stage, r, k), weight = weights.at(k);
                C values[PACK];
#pragma unroll
                for (int e = 0; e < PACK; ++e) {
                    C n = IN_REGISTERS ? normal[r][k][e] : normal_of(x.get(e), mean[r], rstd[r], offset[r]);
                    C g = IN_REGISTERS ? grad[r][k][e] : dy.get(e) * weight.get(e);
                    values[e] = (g * rstd[r] - mean_part) - n * along_part;
                }
                out.store(r, k, values);
            }
            out.advance();
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    if (SUMS > 0) write_partials(p, whole, member, sums);
}

INLINE void rows_grad_in_two_readings(const NormGrad& p) {
    u64 row = row_of_thread();
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    // dy has type T unless ROW_STORAGE = REGISTERS.
    const T* dy = reinterpret_cast<const T*>(p.dy) + i64(row) * p.dy_stride;
    T* dx = p.dx + i64(row) * p.dx_stride;
    RowPacking cut(x, row < p.rows ? p.columns : 0);
    C mean = CENTERED && row < p.rows ? p.mean[row] : C(0);
    C rstd = row < p.rows ? p.rstd[row] : C(0);
    auto weight = [&](int pack) {
        return p.weight && pack < cut.packs ? load_raw(p.weight + pack * PACK) : Raw::filled(C(1));
    };
    C sum = 0, dot = 0;
    for_packs_first_pass<2>(cut, member, {{x, dy}, {C(0), C(0)}}, [&](int first, const Raw(&raw)[UNROLL][2]) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            if (first + u * TEAM < cut.packs)
                add_gradient_terms(raw[u][0], raw[u][1], weight(first + u * TEAM), mean, rstd, sum, dot);
    });
    Pair total = team_sums<0>(sum, dot);
    total.first /= C(p.columns);
    total.second /= C(p.columns);
    for_packs_second_pass<2>(cut, member, {{x, dy}, {C(0), C(0)}}, [&](int pack, const Raw(&raw)[2]) {
        cut.store(dx, pack, norm_gradient(raw[0], raw[1], weight(pack), mean, rstd, total.first, total.second));
    });
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    norm_rows_grad(const __grid_constant__ NormGrad p) {
    wait_for_earlier_launches();
    if (ROW_STORAGE == REGISTERS) rows_grad_in_registers(p);
    else rows_grad_in_two_readings(p);
}
#endif

#if FORM == PARAMETERS
// Computes the partials of the rows from blockIdx.y * rows_per_block. A lane has a pack of columns;
// the warps process the rows in turn.
// Grid: (ceil(columns / (32 * PACK)), ceil(rows / rows_per_block)).
constexpr int PARAMETER_WARPS = 8;
extern "C" __global__ void __launch_bounds__(PARAMETER_WARPS* WARP)
    norm_rows_parameter_grad(const __grid_constant__ NormGrad p) {
    wait_for_earlier_launches();
    u64 column = (u64(blockIdx.x) * WARP + lane()) * PACK;
    u64 first = u64(blockIdx.y) * p.rows_per_block, end = first + p.rows_per_block;
    if (end > p.rows) end = p.rows;
    if (column >= p.columns) end = 0;
    C sums[2][PACK] = {};
#pragma unroll 1
    for (u64 start = first + warp_of_block(); start < end; start += PARAMETER_WARPS * UNROLL) {
        Raw x[UNROLL], dy[UNROLL];
        C mean[UNROLL], rstd[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            u64 row = start + u * PARAMETER_WARPS;
            x[u] = dy[u] = Raw::filled(C(0));
            mean[u] = rstd[u] = 0;
            if (row >= end) continue;
            x[u] = load_raw(p.x + i64(row) * p.x_stride + column);
            dy[u] = load_raw(p.dy + i64(row) * p.dy_stride + column);
            if (p.mean) mean[u] = p.mean[row];
            rstd[u] = p.rstd[row];
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int e = 0; e < PACK; ++e) {
                sums[0][e] += dy[u].get(e) * ((x[u].get(e) - mean[u]) * rstd[u]);
                sums[1][e] += dy[u].get(e);
            }
    }
    __shared__ C of_warps[2][PARAMETER_WARPS][WARP * PACK];
#pragma unroll
    for (int s = 0; s < 2; ++s)
#pragma unroll
        for (int e = 0; e < PACK; ++e) of_warps[s][warp_of_block()][lane() * PACK + e] = sums[s][e];
    __syncthreads();
    u64 location = u64(blockIdx.x) * WARP * PACK + threadIdx.x;
    if (threadIdx.x >= WARP * PACK || location >= p.columns) return;
    C* partials = p.partials + u64(blockIdx.y) * SUMS * p.columns + location;
    for (int s = DWEIGHT ? 0 : 1; s < (DBIAS ? 2 : 1); ++s) {
        C sum = of_warps[s][0][threadIdx.x];
        for (int w = 1; w < PARAMETER_WARPS; ++w) sum += of_warps[s][w][threadIdx.x];
        *partials = sum;
        partials += p.columns;
    }
}

#include "ops/column_sums.cuh"
#endif
#endif
