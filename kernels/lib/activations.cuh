// Activations and their gradients for results that are rounded to half precision: exponentials and reciprocals of the special function unit. Their
// relative error is below 2^-16, where a number of f16 is rounded by up to 2^-11 and one of bf16 by up to 2^-9. Names and arguments as in functions.cuh: rounded_unary_NAME(x), rounded_grad_NAME(x, dy), where the x of
// both forms of gelu is bounded as by gelu_bounded.

#pragma once

#include "lib/functions.cuh"
#include "ptx/math.cuh"

// 1 / (1 + 2^x). Of large x the quotient is 0, also where the power overflows.
INLINE float rounded_logistic_2(float x) { return rcp_approx_ftz(1.0f + ex2_approx_ftz(x)); }
INLINE float rounded_sigmoid(float x) { return rounded_logistic_2(x * -1.4426950408889634f); }

INLINE float rounded_unary_silu(float x) { return x * rounded_sigmoid(x); }
// s + x s (1 - s)
INLINE float rounded_grad_silu(float x, float dy) {
    float s = rounded_sigmoid(x);
    return fmaf(x, fmaf(-s, s, s), s) * dy;
}
// (1 + tanh u) / 2 = 1 / (1 + e^-2u), which keeps its digits where it is small; u = sqrt(2/pi) (x + 0.044715 x^3), here times -2 log2 e.
INLINE float rounded_gelu_inner(float x, float square) { return x * fmaf(-0.10294324f, square, -2.3022082f); }
INLINE float rounded_unary_gelu_tanh(float x) { return x * rounded_logistic_2(rounded_gelu_inner(x, x * x)); }
// s + x 2u' s (1 - s), 2u' = 2 sqrt(2/pi) (1 + 3 0.044715 x^2)
INLINE float rounded_grad_gelu_tanh(float x, float dy) {
    float square = x * x, s = rounded_logistic_2(rounded_gelu_inner(x, square));
    float inner = x * fmaf(0.21406445f, square, 1.5957691f);
    return fmaf(inner, fmaf(-s, s, s), s) * dy;
}
// e^(-x^2 / 2), which is a multiple of the density of the normal distribution.
INLINE float rounded_bell(float x) { return ex2_approx_ftz(-0.7213475204444817f * x * x); }
// The probability that a standard normal number is below x. erfc(z) = e^(-z^2) (c1 t + .. + c7 t^7) with t = 1 / (1 + 0.37 z), z = |x| / sqrt(2): coefficients fitted for
// the least relative error, 7e-7 up to z = 9; here half of each.
INLINE float rounded_normal_cdf(float x, float bell) {
    float t = rcp_approx_ftz(fmaf(0.2616295090390226f, fabsf(x), 1.0f));
    float sum = -0.07146933f;
    sum = fmaf(sum, t, 0.21853394f);
    sum = fmaf(sum, t, -0.09424355f);
    sum = fmaf(sum, t, 0.159470905f);
    sum = fmaf(sum, t, 0.076018985f);
    sum = fmaf(sum, t, 0.10750458f);
    sum = fmaf(sum, t, 0.104184805f);
    float tail = sum * (t * bell);
    return x < 0 ? tail : 1.0f - tail;
}
INLINE float rounded_unary_gelu_erf(float x) { return x * rounded_normal_cdf(x, rounded_bell(x)); }
INLINE float rounded_grad_gelu_erf(float x, float dy) {
    float bell = rounded_bell(x);
    return fmaf(x * 0.3989422804014327f, bell, rounded_normal_cdf(x, bell)) * dy;
}
