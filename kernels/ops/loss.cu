// Cross-entropy of rows of logits with one target class each, its gradient, and both in one kernel.
//
//   cross_entropy              log_sum = log sum exp(x - m),
//                              loss = log_sum - (1 - s) * (x[target] - m)
//                                     - s / columns * sum(x - m)
//   cross_entropy_grad         dx = dloss * (exp(x - m - log_sum) - (1 - s) * [column == target]
//                                            - s / columns)
//   cross_entropy_with_grad    all three outputs, for a dloss that is known beforehand: reads the
//                              logits once
//   cross_entropy_grad_update  cross_entropy_grad, except for rows with dloss == computed_for,
//                              where dx is already computed
//
// logits, dx [rows, columns] of any row stride (dx may be exactly the logits); target [rows], i32
// or i64; loss, log_sum, dloss [rows] in the compute type. m is the row's maximum; if that is
// infinite, m is 0 in kernels that compute only the gradient, and the largest element below
// +infinity (0 if there is none) in those that compute the loss. An ignored row has loss 0 and
// gradient 0.
//
// cross_entropy is an online softmax: each thread keeps a running maximum, and a sum of
// exponentials relative to it, which is rescaled when the maximum increases:
//
//      row | pack pack pack pack | pack pack ...     a step: UNROLL packs per thread: first their
//                                                    maximum, then their exponentials
//
// The other kernels keep the row between their two passes (see rows.cuh). cross_entropy_grad_update
// has few blocks, each of which loops over rows with the stride of the grid: if no row is left to
// compute, the launch costs almost nothing.
//
// A target outside 0..columns that is not the ignored one is never used as an index: it is recorded
// in `fault`, the loss is NaN, the gradient 0.
// Macros: those of rows.cuh (ROW_STORAGE matters to all but the first kernel); FORM (LOSS,
// GRADIENT, WITH_GRADIENT or UPDATE: which kernel is compiled); SMOOTHED (0: s = 0;
// cross_entropy_grad and cross_entropy_grad_update take any s).

#include "lib/launch.cuh"
#include "lib/rows.cuh"
#include "ptx/memory.cuh"

#define LOSS 0
#define GRADIENT 1
#define WITH_GRADIENT 2
#define UPDATE 3

#ifdef HOST_SHIM
#define FORM WITH_GRADIENT
#endif

struct alignas(16) Fault {
    u64 index, site;
};

struct CrossEntropy {
    T* dx;       // unused by cross_entropy
    C* loss;     // unused by cross_entropy_grad, .._update
    C* log_sum;  // input of cross_entropy_grad, .._update; otherwise an output
    const T* x;
    const void* target;  // i64 if target_is_long, otherwise i32
    const C* dloss;      // unused by cross_entropy
    // cross_entropy_grad_update: the dloss that dx was computed for.
    const C* computed_for;
    Fault* fault;  // in mapped host memory; keeps the first fault
    u64 site;      // op and call, never 0
    u64 rows;
    // Strides of dloss and computed_for: 1, or 0 if all rows share one value.
    i64 dx_stride, x_stride, dloss_stride, computed_for_stride;
    i64 ignore_index;
    double target_weight;  // 1 - s
    double class_weight;   // s / columns
    u32 columns;
    u32 target_is_long;
};

// The target of a row: a class, ignored, or out of range.
struct Target {
    i64 index;
    bool ignored, inside;
    INLINE Target(const CrossEntropy& p, u64 row) {
        index = p.ignore_index;
        if (row < p.rows)
            index =
                p.target_is_long ? static_cast<const i64*>(p.target)[row] : i64(static_cast<const i32*>(p.target)[row]);
        ignored = index == p.ignore_index;
        inside = !ignored && u64(index) < p.columns;
    }
    INLINE void report(const CrossEntropy& p) const {
        if (ignored || inside) return;
        if (*reinterpret_cast<volatile u64*>(&p.fault->site) != 0) return;
        st_volatile_global_v2(p.fault, u64(index), p.site);
    }
};

#if FORM == LOSS || FORM == WITH_GRADIENT
// The running maximum and sum of exponentials and, only if SMOOTHED, the sum of x - shift(max).
struct Logits {
    Exponentials<true> powers;
    C differences, count;

    INLINE Logits() : differences(0), count(0) {}
    INLINE void rescale(C larger_max) {
        if (SMOOTHED && powers.max != larger_max && count > C(0)) {
            C shift = Exponentials<true>::shift(powers.max) - Exponentials<true>::shift(larger_max);
            differences += count * shift;
        }
        powers.rescale(larger_max);
    }
    template <int COUNT> INLINE void add(const Raw (&raw)[COUNT][1], const RowPacking& cut, int first) {
        if (!SMOOTHED) return powers.add(raw);
        C old_max = powers.max;
        powers.add(raw);
        C base = Exponentials<true>::shift(powers.max), part = 0;
        if (count > C(0)) differences += count * (Exponentials<true>::shift(old_max) - base);
        int counted = 0;
#pragma unroll
        for (int u = 0; u < COUNT; ++u)
#pragma unroll
            for (int e = 0; e < PACK; ++e) {
                int pack = first + u * TEAM;
                if (pack >= cut.packs || !cut.inside(cut.column(pack) + e)) continue;
                part += raw[u][0].get(e) - base;
                ++counted;
            }
        differences += part;
        count += C(counted);
    }
    INLINE void of_team() {
        if (SMOOTHED) {
            // In the order of the exponentials below: relative to the team's maximum.
            C all = team_max<2>(powers.max);
            rescale(all);
            differences = team_sum<3>(differences);
        }
        powers.of_team<0>();
    }
};

INLINE C loss_of(const CrossEntropy& p, const Target& target, const T* x, const Logits& row, C log_sum) {
    if (target.ignored) return 0;
    if (!target.inside) return quiet_nan();
    C base = Exponentials<true>::shift(row.powers.max);
    C loss = log_sum - C(p.target_weight) * (widen(x[target.index]) - base);
    return SMOOTHED ? loss - C(p.class_weight) * row.differences : loss;
}
#endif

#if FORM == LOSS
extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    cross_entropy(const __grid_constant__ CrossEntropy p) {
    wait_for_earlier_launches();
    u64 row = row_of_thread();
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    RowPacking cut(x, row < p.rows ? p.columns : 0);
    Target target(p, row);
    Logits logits;
    for_packs<1>(cut, member, {{x}, {-infinite()}},
                 [&](int first, const Raw(&raw)[UNROLL][1]) { logits.add(raw, cut, first); });
    logits.of_team();
    if (member != 0 || row >= p.rows) return;
    C log_sum = log_of(logits.powers.sum);
    p.log_sum[row] = log_sum;
    p.loss[row] = loss_of(p, target, x, logits, log_sum);
    target.report(p);
}
#endif

#if FORM != LOSS
// dloss * (probability - wanted) of a pack. `wanted`, the smoothed target distribution, is
// class_weight per class, and target_weight more for the target.
INLINE Raw loss_gradient(const Raw& x, C base, C log_sum, C dloss, C class_weight, C target_weight, int target_offset) {
    C dx[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
        C wanted = e == target_offset ? target_weight + class_weight : class_weight;
        dx[e] = dloss * (exponential((x.get(e) - base) - log_sum) - wanted);
    }
    return Raw::of(dx);
}
#endif

#if FORM == GRADIENT || FORM == UPDATE
// Computes dx of a row, unless it is `computed` (already computed).
INLINE void gradient_of_row(const CrossEntropy& p, u64 row, bool computed) {
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    T* dx = p.dx + i64(row) * p.dx_stride;
    RowPacking cut(x, row < p.rows && !computed ? p.columns : 0);
    Target target(p, row);
    C dloss = row < p.rows ? p.dloss[i64(row) * p.dloss_stride] : C(0);
    C log_sum = row < p.rows ? p.log_sum[row] : C(0);
    Raw raw[PACKS];
    C max = -infinite();
    if (ROW_STORAGE == REGISTERS) {
        load_row(raw, cut, x, member, -infinite());
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
#pragma unroll
            for (int e = 0; e < PACK; ++e) max = max_of(max, raw[k].get(e));
    } else {
        for_packs_first_pass<1>(cut, member, {{x}, {-infinite()}}, [&](int, const Raw(&some)[UNROLL][1]) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int e = 0; e < PACK; ++e) max = max_of(max, some[u][0].get(e));
        });
    }
    max = team_max<0>(max);
    C base = abs_of(max) < infinite() ? max : C(0);
    if (member == 0) target.report(p);
    C class_weight = C(p.class_weight), target_weight = C(p.target_weight);
    auto gradient = [&](int pack, const Raw& some) {
        int target_offset = int(target.index) - cut.column(pack);
        return target.inside ? loss_gradient(some, base, log_sum, dloss, class_weight, target_weight, target_offset)
                             : Raw::filled(C(0));
    };
    if (ROW_STORAGE == REGISTERS) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) cut.store(dx, member + k * TEAM, gradient(member + k * TEAM, raw[k]));
    } else {
        for_packs_second_pass<1>(cut, member, {{x}, {C(0)}},
                                 [&](int pack, const Raw(&some)[1]) { cut.store(dx, pack, gradient(pack, some[0])); });
    }
}
#endif

#if FORM == GRADIENT
extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    cross_entropy_grad(const __grid_constant__ CrossEntropy p) {
    wait_for_earlier_launches();
    gradient_of_row(p, row_of_thread(), false);
}
#endif

#if FORM == UPDATE
INLINE bool is_computed(const CrossEntropy& p, u64 row) {
    return row < p.rows && p.dloss[i64(row) * p.dloss_stride] == p.computed_for[i64(row) * p.computed_for_stride];
}
// Whether dx is already computed in all rows of this block. Each thread checks one row at a time.
INLINE bool are_all_computed(const CrossEntropy& p) {
    u64 step = u64(gridDim.x) * TEAMS;
    bool computed = true;
#pragma unroll 1
    for (u64 number = threadIdx.x;; number += ROW_THREADS) {
        u64 row = number / TEAMS * step + u64(blockIdx.x) * TEAMS + number % TEAMS;
        if (row >= p.rows) break;
        computed = computed && is_computed(p, row);
    }
    return __syncthreads_and(computed);
}
extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    cross_entropy_grad_update(const __grid_constant__ CrossEntropy p) {
    wait_for_earlier_launches();
    if (are_all_computed(p)) return;
    u64 step = u64(gridDim.x) * TEAMS;
#pragma unroll 1
    for (u64 first = u64(blockIdx.x) * TEAMS; first < p.rows; first += step) {
        u64 row = first + row_of_thread() - u64(blockIdx.x) * TEAMS;
        gradient_of_row(p, row, is_computed(p, row));
        // The next row overwrites the block's shared memory.
        __syncthreads();
    }
}
#endif

#if FORM == WITH_GRADIENT
extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    cross_entropy_with_grad(const __grid_constant__ CrossEntropy p) {
    wait_for_earlier_launches();
    u64 row = row_of_thread();
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    T* dx = p.dx + i64(row) * p.dx_stride;
    RowPacking cut(x, row < p.rows ? p.columns : 0);
    Target target(p, row);
    C dloss = row < p.rows ? p.dloss[i64(row) * p.dloss_stride] : C(0);
    Logits logits;
    Raw raw[PACKS][1];
    if (ROW_STORAGE == REGISTERS) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) raw[k][0] = cut.load(x, member + k * TEAM, -infinite());
        logits.add(raw, cut, member);
    } else {
        for_packs_first_pass<1>(cut, member, {{x}, {-infinite()}},
                                [&](int first, const Raw(&some)[UNROLL][1]) { logits.add(some, cut, first); });
    }
    logits.of_team();
    C log_sum = log_of(logits.powers.sum);
    // dx may be the logits: the target's logit is read before any of them is overwritten.
    C loss = member == 0 && row < p.rows ? loss_of(p, target, x, logits, log_sum) : C(0);
    if (TEAM_WARPS > 1) __syncthreads();
    else __syncwarp();
    if (member == 0 && row < p.rows) {
        p.log_sum[row] = log_sum;
        p.loss[row] = loss;
        target.report(p);
    }
    C base = Exponentials<true>::shift(logits.powers.max);
    C class_weight = SMOOTHED ? C(p.class_weight) : C(0), target_weight = C(p.target_weight);
    auto gradient = [&](int pack, const Raw& some) {
        int target_offset = int(target.index) - cut.column(pack);
        return target.inside ? loss_gradient(some, base, log_sum, dloss, class_weight, target_weight, target_offset)
                             : Raw::filled(C(0));
    };
    if (ROW_STORAGE == REGISTERS) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) cut.store(dx, member + k * TEAM, gradient(member + k * TEAM, raw[k][0]));
    } else {
        for_packs_second_pass<1>(cut, member, {{x}, {C(0)}},
                                 [&](int pack, const Raw(&some)[1]) { cut.store(dx, pack, gradient(pack, some[0])); });
    }
}
#endif
