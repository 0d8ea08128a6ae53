// Optimizer steps: parameters, gradients and states of many tensors in one launch. Each element is
// read once and written once.
//
//   tensor 0      tensor 1   tensor 2                      a block: CHUNK elements of one tensor
//   [ b0 | b1 ]   [ b2 ]     [ b3 | b4 | b5 ]              first_block = 0, 2, 3, 6
//
// With HALF_COPY (f16 or bf16), each f32 parameter has a copy of that type. The kernel also writes
// the new value to it, rounded as by a cast: 2 more bytes written per element, where a separate
// cast reads 4 and writes 2.
//
// STEP is Sgd, SgdMomentum or Adam. All arithmetic is in the accumulator type. The values that
// change from step to step are read from `hyper` in device memory, so that replays of a captured
// step continue the training. Formulas: step.rs of the core (Sutskever et al. 2013; Kingma and Ba
// 2015; Loshchilov and Hutter 2019).
//
// MAX_TENSORS is the number of tensors that the kernel parameters have room for: 64 in 4 KiB, the
// limit of older drivers, or 512 in 32 KiB. The room for half copies is reserved without HALF_COPY,
// too.
//
// Limits: all tensors of a group are dense, in the same order of axes; at most MAX_TENSORS tensors
// in a launch; fewer than 2^31 blocks.

#include "lib/functions.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"

#ifdef HOST_SHIM
#define STEP Adam
#endif

typedef TYPE E;
typedef Compute<E> C;
#ifdef HALF_COPY
typedef HALF_COPY H;
constexpr bool HAS_COPY = true;
#else
typedef bf16 H;  // placeholder without HALF_COPY
constexpr bool HAS_COPY = false;
#endif
constexpr int THREADS = 256;
constexpr int PACK = 4;  // 16 bytes of f32: for Adam, four loads of this size in flight per thread
constexpr int CHUNK = THREADS * PACK;

struct Target {
    E* parameter;
    const E* gradient;
    const C* hyper;
    C* first;   // velocity, or first moment
    C* second;  // second moment
    H* copy;    // the parameter in half precision
    u64 count;
};

struct Steps {
    u32 tensors;
    u32 nesterov;
    u32 decoupled;
    u32 first_block[MAX_TENSORS];
    i64 hyper_stride;
    double weight_decay, momentum, one_minus_dampening;          // SGD: entering = 1 - dampening
    double beta1, beta2, one_minus_beta1, one_minus_beta2, eps;  // Adam: entering = 1 - beta
    Target of[MAX_TENSORS];
};

INLINE C decayed(C gradient, C parameter, C clip, C decay) {
    C clipped = gradient * clip;
    // Without decay, an infinite parameter must not produce a NaN.
    return decay == C(0) ? clipped : clipped + decay * parameter;
}

// p -= lr * g
struct Sgd {
    static constexpr int STATES = 0;
    C rate, clip, decay;
    INLINE Sgd(const Steps& p, const C* hyper) {
        rate = hyper[0];
        clip = hyper[p.hyper_stride];
        decay = C(p.weight_decay);
    }
    INLINE void change(C& parameter, C gradient, C&, C&) const {
        parameter -= rate * decayed(gradient, parameter, clip, decay);
    }
};
struct SgdMomentum {
    static constexpr int STATES = 1;
    C rate, clip, decay, momentum, one_minus_dampening;
    bool is_first, nesterov;
    INLINE SgdMomentum(const Steps& p, const C* hyper) {
        rate = hyper[0];
        clip = hyper[p.hyper_stride];
        is_first = hyper[2 * p.hyper_stride] != C(0);
        decay = C(p.weight_decay);
        momentum = C(p.momentum);
        one_minus_dampening = C(p.one_minus_dampening);
        nesterov = p.nesterov;
    }
    INLINE void change(C& parameter, C gradient, C& velocity, C&) const {
        C g = decayed(gradient, parameter, clip, decay);
        // The velocity before the first step is ignored, even if it is NaN.
        velocity = is_first ? g : momentum * velocity + one_minus_dampening * g;
        parameter -= rate * (nesterov ? g + momentum * velocity : velocity);
    }
};
struct Adam {
    static constexpr int STATES = 2;
    C rate, clip, coupled, shrink, beta1, beta2, one_minus_beta1, one_minus_beta2, correction2, eps;
    INLINE Adam(const Steps& p, const C* hyper) {
        C lr = hyper[0], decay = C(p.weight_decay);
        clip = hyper[p.hyper_stride];
        rate = lr / hyper[2 * p.hyper_stride];
        correction2 = hyper[3 * p.hyper_stride];
        coupled = p.decoupled ? C(0) : decay;
        shrink = p.decoupled ? C(1) - lr * decay : C(1);
        beta1 = C(p.beta1);
        beta2 = C(p.beta2);
        one_minus_beta1 = C(p.one_minus_beta1);
        one_minus_beta2 = C(p.one_minus_beta2);
        eps = C(p.eps);
    }
    INLINE void change(C& parameter, C gradient, C& m, C& v) const {
        C g = decayed(gradient, parameter, clip, coupled);
        m = beta1 * m + one_minus_beta1 * g;
        v = beta2 * v + one_minus_beta2 * (g * g);
        parameter = parameter * shrink - rate * (m / (sqrt_of(v) / correction2 + eps));
    }
};

INLINE bool is_packed(const Target& t) {
    u64 wide = u64(t.first) | u64(t.second);
    u64 narrow = u64(t.parameter) | u64(t.gradient);
    if (HAS_COPY && u64(t.copy) % (sizeof(H) * PACK) != 0) return false;
    return wide % 16 == 0 && narrow % (sizeof(E) * PACK > 16 ? 16 : sizeof(E) * PACK) == 0;
}

// Elements per access: at most 16 bytes.
constexpr int ACCESS = sizeof(C) == 8 ? 2 : 4;

extern "C" __global__ void __launch_bounds__(THREADS) step(const __grid_constant__ Steps p) {
    wait_for_earlier_launches();
    u32 low = 0, high = p.tensors;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (p.first_block[middle] <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Target& t = p.of[low];
    STEP rule(p, t.hyper);
    u64 begin = u64(blockIdx.x - p.first_block[low]) * CHUNK;
    C none = C(0);
    if (begin + CHUNK <= t.count && is_packed(t)) {
#pragma unroll
        for (int part = 0; part < PACK / ACCESS; ++part) {
            u64 at = begin + (part * THREADS + threadIdx.x) * ACCESS;
            Pack<E, ACCESS> parameter = load<E, ACCESS>(t.parameter + at), gradient = load<E, ACCESS>(t.gradient + at);
            Pack<C, ACCESS> first = {}, second = {};
            Pack<H, ACCESS> copy;
            if (STEP::STATES > 0) first = load<C, ACCESS>(t.first + at);
            if (STEP::STATES > 1) second = load<C, ACCESS>(t.second + at);
#pragma unroll
            for (int e = 0; e < ACCESS; ++e) {
                C wide = widen(parameter.of[e]);
                rule.change(wide, widen(gradient.of[e]), first.of[e], second.of[e]);
                parameter.of[e] = narrow<E>(wide);
                if constexpr (HAS_COPY) copy.of[e] = narrow<H>(wide);
            }
            store<E, ACCESS>(t.parameter + at, parameter);
            if constexpr (HAS_COPY) store<H, ACCESS>(t.copy + at, copy);
            if (STEP::STATES > 0) store<C, ACCESS>(t.first + at, first);
            if (STEP::STATES > 1) store<C, ACCESS>(t.second + at, second);
        }
        return;
    }
#pragma unroll 1
    for (u64 at = begin + threadIdx.x; at < t.count && at < begin + CHUNK; at += THREADS) {
        C wide = widen(t.parameter[at]);
        C first = STEP::STATES > 0 ? t.first[at] : none, second = STEP::STATES > 1 ? t.second[at] : none;
        rule.change(wide, widen(t.gradient[at]), first, second);
        t.parameter[at] = narrow<E>(wide);
        if constexpr (HAS_COPY) t.copy[at] = narrow<H>(wide);
        if (STEP::STATES > 0) t.first[at] = first;
        if (STEP::STATES > 1) t.second[at] = second;
    }
}
