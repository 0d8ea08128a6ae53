// Activations and their gradients for results that are rounded to half precision: exponentials and reciprocals of the special function unit. Their
// relative error is below 2^-16, where a number of f16 is rounded by up to 2^-11 and one of bf16 by up to 2^-9. Names as in functions.cuh: rounded_unary_NAME(x) puts the results in
// place of N numbers, rounded_grad_NAME(x, dy) those of N gradients in place of dy; there the x of both forms of gelu is bounded as by gelu_bounded.
//
// N numbers go step by step, all of them through one before any through the next, so that none waits for what it needs: a warp that works alone on its scheduler
// has no other warp to fill these gaps.

#pragma once

#include "lib/functions.cuh"
#include "ptx/math.cuh"

#define EACH for (int i = 0; i < N; ++i)

// 0 where y, relu's result or its argument, is not above 0.
template <int N> INLINE void rounded_grad_relu(const float (&y)[N], float (&dy)[N]) {
#pragma unroll
    EACH dy[i] = y[i] > 0 ? dy[i] : 0.0f;
}

// 1 / (1 + 2^x) in place of x. Of large x the quotient is 0, also where the power overflows.
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
// s + x s (1 - s)
template <int N> INLINE void rounded_grad_silu(const float (&x)[N], float (&dy)[N]) {
    float s[N];
    rounded_sigmoid(s, x);
#pragma unroll
    EACH dy[i] *= fmaf(x[i], fmaf(-s[i], s[i], s[i]), s[i]);
}
// (1 + tanh u) / 2 = 1 / (1 + e^-2u), which keeps its digits where it is small; u = sqrt(2/pi) (x + 0.044715 x^3), here times -2 log2 e.
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
// s + x 2u' s (1 - s), 2u' = 2 sqrt(2/pi) (1 + 3 0.044715 x^2)
template <int N> INLINE void rounded_grad_gelu_tanh(const float (&x)[N], float (&dy)[N]) {
    float s[N];
    rounded_gelu_weight(s, x);
#pragma unroll
    EACH {
        float inner = x[i] * fmaf(0.21406445f, x[i] * x[i], 1.5957691f);
        dy[i] *= fmaf(inner, fmaf(-s[i], s[i], s[i]), s[i]);
    }
}
// e^(-x^2 / 2), which is a multiple of the density of the normal distribution.
template <int N> INLINE void rounded_bell(float (&bell)[N], const float (&x)[N]) {
#pragma unroll
    EACH bell[i] = ex2_approx_ftz(-0.7213475204444817f * x[i] * x[i]);
}
// The probability that a standard normal number is below x. erfc(z) = e^(-z^2) (c1 t + .. + c7 t^7) with t = 1 / (1 + 0.37 z), z = |x| / sqrt(2): coefficients
// fitted for the least relative error, 7e-7 up to z = 9; here half of each.
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
