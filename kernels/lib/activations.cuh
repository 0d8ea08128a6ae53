// Activations and their gradients for results that are rounded to half precision: exponentials and reciprocals of the special function unit. Their
// relative error is below 2^-16, where a number of f16 is rounded by up to 2^-11 and one of bf16 by up to 2^-9. Names and arguments as in functions.cuh: rounded_unary_NAME(x), rounded_grad_NAME(x, dy).

#pragma once

#include "lib/functions.cuh"
#include "ptx/math.cuh"

// 1 / (1 + e^-x). Of large -x the quotient is 0, also where the exponential overflows.
INLINE float rounded_sigmoid(float x) { return __fdividef(1.0f, 1.0f + ex2_approx_ftz(x * -1.4426950408889634f)); }

INLINE float rounded_unary_silu(float x) { return x * rounded_sigmoid(x); }
INLINE float rounded_grad_silu(float x, float dy) {
    float s = rounded_sigmoid(x);
    return s * (1.0f + x * (1.0f - s)) * dy;
}
// (1 + tanh u) / 2 = sigmoid(2 u), which keeps its digits where it is small.
INLINE float rounded_unary_gelu_tanh(float x) { return x * rounded_sigmoid(2.0f * gelu_inner(x)); }
INLINE float rounded_grad_gelu_tanh(float x, float dy) {
    x = gelu_bounded(x);
    float s = rounded_sigmoid(2.0f * gelu_inner(x));
    float inner = 1.5957691216057308f + (3 * 0.044715f * 1.5957691216057308f) * x * x;
    return (s + x * inner * (s - s * s)) * dy;
}
// e^(-x^2 / 2), which is a multiple of the density of the normal distribution.
INLINE float rounded_bell(float x) { return ex2_approx_ftz(-0.7213475204444817f * x * x); }
// The probability that a standard normal number is below x. erfc(z) = e^(-z^2) (c1 t + .. + c7 t^7) with t = 1 / (1 + 0.37 z), z = |x| / sqrt(2): coefficients fitted for
// the least relative error, 7e-7 up to z = 9.
INLINE float rounded_normal_cdf(float x, float bell) {
    float t = __fdividef(1.0f, 1.0f + 0.2616295090390226f * fabsf(x));
    float sum = -0.14293866f;
    sum = sum * t + 0.43706788f;
    sum = sum * t - 0.1884871f;
    sum = sum * t + 0.31894181f;
    sum = sum * t + 0.15203797f;
    sum = sum * t + 0.21500916f;
    sum = sum * t + 0.20836961f;
    float tail = 0.5f * (sum * t) * bell;
    return x < 0 ? tail : 1.0f - tail;
}
INLINE float rounded_unary_gelu_erf(float x) { return x * rounded_normal_cdf(x, rounded_bell(x)); }
INLINE float rounded_grad_gelu_erf(float x, float dy) {
    x = gelu_bounded(x);
    float bell = rounded_bell(x);
    return (rounded_normal_cdf(x, bell) + x * (0.3989422804014327f * bell)) * dy;
}
