// Cross-entropy of rows of logits with a class each, its gradient, and both at once.
//
//   cross_entropy              loss = log_sum - (1 - s) * (x[target] - m) - s / columns * sum(x - m),  log_sum = log sum exp(x - m)
//   cross_entropy_grad         dx = dloss * (exp(x - m - log_sum) - (1 - s) * [column == target] - s / columns)
//   cross_entropy_with_grad    all three outputs, given dloss beforehand: logits are read once
//   cross_entropy_grad_update  cross_entropy_grad, but for rows with dloss == formed_for, where dx is there already
//
// logits, dx [rows, columns] of any row stride (dx may be exactly the logits); target [rows], i32 or i64; loss, log_sum, dloss [rows] in the
// compute type. m is the row's maximum, or 0 where that is infinite. An ignored row has loss 0 and gradient 0.
//
// cross_entropy streams: each thread keeps a maximum and a sum by that maximum, which grows as the row passes by:
//
//      row | pack pack pack pack | pack pack ...     a step: UNROLL packs of each thread: their maximum first, then their exponentials
//
// The others hold the row between their two readings (see rows.cuh). cross_entropy_grad_update has few blocks, each for rows a grid apart, so that
// nothing is nearly all there is to launch where nothing is left to do.
//
// A target outside of 0..columns that is not the ignored one reads nothing: it is recorded in `fault`, the loss is NaN, the gradient 0.
// Macros: those of rows.cuh (HOLD matters to all but the first kernel); FORM (LOSS, GRADIENT, WITH_GRADIENT or UPDATE: which kernel is compiled);
// SMOOTHED (0: s = 0; the gradient alone takes any s).

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
    T* dx;       // not cross_entropy
    C* loss;     // not cross_entropy_grad
    C* log_sum;  // cross_entropy_grad reads it
    const T* x;
    const void* target;   // i64 if target_is_long, else i32
    const C* dloss;       // not cross_entropy
    const C* formed_for;  // cross_entropy_grad_update: the dloss that dx was formed for
    Fault* fault;         // in mapped host memory; the first one stays
    u64 site;             // who reports, not 0
    u64 rows;
    i64 dx_stride, x_stride, dloss_stride, formed_stride;  // of dloss, formed_for: 1, or 0 for one number of all rows
    i64 ignore_index;
    double target_share;  // 1 - s
    double each_share;    // s / columns
    u32 columns;
    u32 target_is_long;
};

// Where a row's target lies: in the row, ignored, or nowhere.
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
// The sum of x - shift(max) beside that of the exponentials, if SMOOTHED alone.
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
    template <int COUNT> INLINE void add(const Raw (&raw)[COUNT][1], const Cut& cut, int first) {
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
            // In the same order as the powers below: by the team's maximum.
            C all = team_max<2>(powers.max);
            rescale(all);
            differences = team_sum<3>(differences);
        }
        powers.of_team<0>();
    }
};

INLINE C loss_of(const CrossEntropy& p, const Target& target, const T* x, const Logits& row, C log_sum) {
    if (target.ignored) return 0;
    if (!target.inside) return not_a_number();
    C base = Exponentials<true>::shift(row.powers.max);
    C loss = log_sum - C(p.target_share) * (widen(x[target.index]) - base);
    return SMOOTHED ? loss - C(p.each_share) * row.differences : loss;
}
#endif

#if FORM == LOSS
extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    cross_entropy(const __grid_constant__ CrossEntropy p) {
    wait_for_earlier_launches();
    u64 row = row_of_thread();
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    Cut cut(x, row < p.rows ? p.columns : 0);
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
// dloss * (probability - wanted) of a pack: each class wants each_share, the target target_share more.
INLINE Raw loss_gradient(const Raw& x, C base, C log_sum, C dloss, C each_share, C target_share, int place) {
    C dx[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
        C wanted = e == place ? target_share + each_share : each_share;
        dx[e] = dloss * (exponential((x.get(e) - base) - log_sum) - wanted);
    }
    return Raw::of(dx);
}
#endif

#if FORM == GRADIENT || FORM == UPDATE
// dx of a row; nothing of one that is `formed`.
INLINE void gradient_of_row(const CrossEntropy& p, u64 row, bool formed) {
    int member = member_of_team();
    const T* x = p.x + i64(row) * p.x_stride;
    T* dx = p.dx + i64(row) * p.dx_stride;
    Cut cut(x, row < p.rows && !formed ? p.columns : 0);
    Target target(p, row);
    C dloss = row < p.rows ? p.dloss[i64(row) * p.dloss_stride] : C(0);
    C log_sum = row < p.rows ? p.log_sum[row] : C(0);
    Raw raw[PACKS];
    C max = -infinite();
    if (HOLD == REGISTERS) {
        load_row(raw, cut, x, member, -infinite());
#pragma unroll
        for (int k = 0; k < PACKS; ++k)
#pragma unroll
            for (int e = 0; e < PACK; ++e) max = max_of(max, raw[k].get(e));
    } else {
        for_packs_kept<1>(cut, member, {{x}, {-infinite()}}, [&](int, const Raw(&some)[UNROLL][1]) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
#pragma unroll
                for (int e = 0; e < PACK; ++e) max = max_of(max, some[u][0].get(e));
        });
    }
    max = team_max<0>(max);
    C base = abs_of(max) < infinite() ? max : C(0);
    if (member == 0) target.report(p);
    C each_share = C(p.each_share), target_share = C(p.target_share);
    auto gradient = [&](int pack, const Raw& some) {
        int place = int(target.index) - cut.column(pack);
        return target.inside ? loss_gradient(some, base, log_sum, dloss, each_share, target_share, place)
                             : Raw::filled(C(0));
    };
    if (HOLD == REGISTERS) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) cut.store(dx, member + k * TEAM, gradient(member + k * TEAM, raw[k]));
    } else {
        for_packs_again<1>(cut, member, {{x}, {C(0)}},
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
INLINE bool is_formed(const CrossEntropy& p, u64 row) {
    return row < p.rows && p.dloss[i64(row) * p.dloss_stride] == p.formed_for[i64(row) * p.formed_stride];
}
// Whether dx is there already in all rows of this block, whose threads look at a row each.
INLINE bool all_formed(const CrossEntropy& p) {
    u64 step = u64(gridDim.x) * TEAMS;
    bool formed = true;
#pragma unroll 1
    for (u64 number = threadIdx.x;; number += ROW_THREADS) {
        u64 row = number / TEAMS * step + u64(blockIdx.x) * TEAMS + number % TEAMS;
        if (row >= p.rows) break;
        formed = formed && is_formed(p, row);
    }
    return __syncthreads_and(formed);
}
extern "C" __global__ void __launch_bounds__(ROW_THREADS, MIN_BLOCKS)
    cross_entropy_grad_update(const __grid_constant__ CrossEntropy p) {
    wait_for_earlier_launches();
    if (all_formed(p)) return;
    u64 step = u64(gridDim.x) * TEAMS;
#pragma unroll 1
    for (u64 first = u64(blockIdx.x) * TEAMS; first < p.rows; first += step) {
        u64 row = first + row_of_thread() - u64(blockIdx.x) * TEAMS;
        gradient_of_row(p, row, is_formed(p, row));
        // What the block has in shared memory is written again.
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
    Cut cut(x, row < p.rows ? p.columns : 0);
    Target target(p, row);
    C dloss = row < p.rows ? p.dloss[i64(row) * p.dloss_stride] : C(0);
    Logits logits;
    Raw raw[PACKS][1];
    if (HOLD == REGISTERS) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) raw[k][0] = cut.load(x, member + k * TEAM, -infinite());
        logits.add(raw, cut, member);
    } else {
        for_packs_kept<1>(cut, member, {{x}, {-infinite()}},
                          [&](int first, const Raw(&some)[UNROLL][1]) { logits.add(some, cut, first); });
    }
    logits.of_team();
    C log_sum = log_of(logits.powers.sum);
    // dx may be the logits: the target's is read before any of them is written.
    C loss = member == 0 && row < p.rows ? loss_of(p, target, x, logits, log_sum) : C(0);
    if (TEAM_WARPS > 1) __syncthreads();
    else __syncwarp();
    if (member == 0 && row < p.rows) {
        p.log_sum[row] = log_sum;
        p.loss[row] = loss;
        target.report(p);
    }
    C base = Exponentials<true>::shift(logits.powers.max);
    C each_share = SMOOTHED ? C(p.each_share) : C(0), target_share = C(p.target_share);
    auto gradient = [&](int pack, const Raw& some) {
        int place = int(target.index) - cut.column(pack);
        return target.inside ? loss_gradient(some, base, log_sum, dloss, each_share, target_share, place)
                             : Raw::filled(C(0));
    };
    if (HOLD == REGISTERS) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) cut.store(dx, member + k * TEAM, gradient(member + k * TEAM, raw[k][0]));
    } else {
        for_packs_again<1>(cut, member, {{x}, {C(0)}},
                           [&](int pack, const Raw(&some)[1]) { cut.store(dx, pack, gradient(pack, some[0])); });
    }
}
#endif
