// Activations and their gradients for results that are rounded to half precision. Exponentials and
// reciprocals are those of the special function unit. Their relative error is below 2^-16, while
// rounding to f16 adds up to 2^-11 and rounding to bf16 up to 2^-9. Names follow functions.cuh:
// rounded_unary_NAME(x) replaces N values by their results, rounded_grad_NAME(x, dy) replaces N
// gradients dy by those of x. For the gradients of both forms of gelu, the caller bounds x as
// gelu_bounded does.
//
// All N values go through one step before any of them goes through the next, so that no instruction
// waits for the previous result: a warp that is the only one of its scheduler has no other warp to
// fill these gaps.

#pragma once

#include "lib/functions.cuh"
#include "ptx/math.cuh"

#define EACH for (int i = 0; i < N; ++i)

// dy where y is above 0, else 0. y is the result of relu or its argument.
template <int N> INLINE void rounded_grad_relu(const float (&y)[N], float (&dy)[N]) {
#pragma unroll
    EACH dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

// Replaces x by 1 / (1 + 2^x). For large x the quotient is 0, even where the power overflows.
template <int N> INLINE void rounded_logistic_2(float (&x)[N]) {
#pragma unroll
    EACH x[i] = ex2_approx_ftz(x[i]);
#pragma unroll
    EACH x[i] = rcp_approx_ftz(1.0f + x[i]);
}
template <int N> INLINE void rounded_sigmoid(float (&s)[N], const float (&x)[N]) {
#pragma unroll
    EACH s[i] = x[i] * -1.4426950408889634f;
    rounded_logistic_2(s);
}

template <int N> INLINE void rounded_unary_silu(float (&x)[N]) {
    float s[N];
    rounded_sigmoid(s, x);
#pragma unroll
    EACH x[i] *= s[i];
}
// The factor of dy: s + x s (1 - s)
template <int N> INLINE void rounded_grad_silu(const float (&x)[N], float (&dy)[N]) {
    float s[N];
    rounded_sigmoid(s, x);
#pragma unroll
    EACH dy[i] *= fmaf(x[i], fmaf(-s[i], s[i], s[i]), s[i]);
}
// (1 + tanh u) / 2 = 1 / (1 + e^-2u), which is accurate where it is small;
// u = sqrt(2/pi) (x + 0.044715 x^3), here times -2 log2 e.
template <int N> INLINE void rounded_gelu_weight(float (&s)[N], const float (&x)[N]) {
#pragma unroll
    EACH s[i] = x[i] * fmaf(-0.10294324f, x[i] * x[i], -2.3022082f);
    rounded_logistic_2(s);
}
template <int N> INLINE void rounded_unary_gelu_tanh(float (&x)[N]) {
    float s[N];
    rounded_gelu_weight(s, x);
#pragma unroll
    EACH x[i] *= s[i];
}
// The factor of dy: s + x 2u' s (1 - s), 2u' = 2 sqrt(2/pi) (1 + 3 0.044715 x^2)
template <int N> INLINE void rounded_grad_gelu_tanh(const float (&x)[N], float (&dy)[N]) {
    float s[N];
    rounded_gelu_weight(s, x);
#pragma unroll
    EACH {
        float inner = x[i] * fmaf(0.21406445f, x[i] * x[i], 1.5957691f);
        dy[i] *= fmaf(inner, fmaf(-s[i], s[i], s[i]), s[i]);
    }
}
// e^(-x^2 / 2), a multiple of the density of the normal distribution.
template <int N> INLINE void rounded_bell(float (&bell)[N], const float (&x)[N]) {
#pragma unroll
    EACH bell[i] = ex2_approx_ftz(-0.7213475204444817f * x[i] * x[i]);
}
// The standard normal CDF. erfc(z) = e^(-z^2) (c1 t + .. + c7 t^7) with t = 1 / (1 + 0.37 z) and
// z = |x| / sqrt(2).
// The coefficients are fitted for the least relative error, 7e-7 up to z = 9; the constants here
// are half of each.
template <int N> INLINE void rounded_normal_cdf(float (&cdf)[N], const float (&x)[N], const float (&bell)[N]) {
    constexpr float HALVED[] = {0.21853394f, -0.09424355f, 0.159470905f, 0.076018985f, 0.10750458f, 0.104184805f};
    float t[N];
#pragma unroll
    EACH t[i] = rcp_approx_ftz(fmaf(0.2616295090390226f, fabsf(x[i]), 1.0f));
#pragma unroll
    EACH cdf[i] = -0.07146933f;
#pragma unroll
    for (int term = 0; term < 6; ++term)
#pragma unroll
        EACH cdf[i] = fmaf(cdf[i], t[i], HALVED[term]);
#pragma unroll
    EACH {
        float tail = cdf[i] * (t[i] * bell[i]);
        cdf[i] = x[i] < 0 ? tail : 1.0f - tail;
    }
}
template <int N> INLINE void rounded_unary_gelu_erf(float (&x)[N]) {
    float bell[N], cdf[N];
    rounded_bell(bell, x);
    rounded_normal_cdf(cdf, x, bell);
#pragma unroll
    EACH x[i] *= cdf[i];
}
template <int N> INLINE void rounded_grad_gelu_erf(const float (&x)[N], float (&dy)[N]) {
    float bell[N], cdf[N];
    rounded_bell(bell, x);
    rounded_normal_cdf(cdf, x, bell);
#pragma unroll
    EACH dy[i] *= fmaf(x[i] * 0.3989422804014327f, bell[i], cdf[i]);
}

#undef EACH
