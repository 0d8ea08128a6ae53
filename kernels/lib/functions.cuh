// Functions of one and two elements in the compute type: the device code of the unary, gradient,
// binary and compare families, and of casts. Their names are those of the ops in core. Integers
// wrap. larger and smaller propagate NaN. Integer division by zero gives 0.
//
// Constants of an op (a slope, a bound, a scalar operand) are passed as bits of the compute type.

#pragma once

#include "lib/types.cuh"

struct Constants {
    u64 first, second;
};
template <class C> INLINE C constant(u64 bits);
template <> INLINE double constant<double>(u64 bits) { return __longlong_as_double(i64(bits)); }
template <> INLINE float constant<float>(u64 bits) { return __uint_as_float(u32(bits)); }
template <> INLINE i64 constant<i64>(u64 bits) { return i64(bits); }
template <> INLINE i32 constant<i32>(u64 bits) { return i32(bits); }
template <> INLINE u8 constant<u8>(u64 bits) { return u8(bits); }

// ---------------------------------------------------------------- arithmetic

INLINE bool is_nan(float x) { return x != x; }
INLINE bool is_nan(double x) { return x != x; }
template <class C> INLINE bool is_nan(C) { return false; }

template <class C> INLINE C larger(C a, C b) { return a > b || is_nan(a) ? a : b; }
template <class C> INLINE C smaller(C a, C b) { return a < b || is_nan(a) ? a : b; }

// Signed overflow is undefined in C++: integers are computed as unsigned integers of the same
// width.
template <class C> INLINE C sum_of(C a, C b) { return a + b; }
template <> INLINE i64 sum_of(i64 a, i64 b) { return i64(u64(a) + u64(b)); }
template <> INLINE i32 sum_of(i32 a, i32 b) { return i32(u32(a) + u32(b)); }
template <class C> INLINE C difference_of(C a, C b) { return a - b; }
template <> INLINE i64 difference_of(i64 a, i64 b) { return i64(u64(a) - u64(b)); }
template <> INLINE i32 difference_of(i32 a, i32 b) { return i32(u32(a) - u32(b)); }
template <class C> INLINE C product_of(C a, C b) { return a * b; }
template <> INLINE i64 product_of(i64 a, i64 b) { return i64(u64(a) * u64(b)); }
template <> INLINE i32 product_of(i32 a, i32 b) { return i32(u32(a) * u32(b)); }
template <class C> INLINE C quotient_of(C a, C b) {
    if (b == 0) return 0;
    return b == C(-1) && C(-1) < C(0) ? difference_of(C(0), a) : C(a / b);
}
template <> INLINE float quotient_of(float a, float b) { return a / b; }
template <> INLINE double quotient_of(double a, double b) { return a / b; }

template <class C> INLINE C remainder_of(C a, C b) {
    if (b == 0 || (b == C(-1) && C(-1) < C(0))) return 0;
    C rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? C(rest + b) : rest;
}
// `rest` is the exact remainder with the sign of a; one addition moves it to the sign of b.
INLINE float with_divisor_sign(float rest, float b) { return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest; }
INLINE double with_divisor_sign(double rest, double b) { return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest; }
template <> INLINE float remainder_of(float a, float b) { return with_divisor_sign(fmodf(a, b), b); }
template <> INLINE double remainder_of(double a, double b) { return with_divisor_sign(fmod(a, b), b); }

template <class C> INLINE C power_of(C base, C exponent) {
    if (exponent < C(0)) {
        if (base == C(1)) return 1;
        return base == C(-1) && base < C(0) ? (exponent & 1 ? base : C(1)) : C(0);
    }
    C product = 1;
    for (u64 left = u64(exponent); left > 0; left >>= 1) {
        if (left & 1) product = product_of(product, base);
        base = product_of(base, base);
    }
    return product;
}
// Powers of 2 are exact, as on the CPU: pow and powf may be off by an ulp even there. 2048 is
// beyond the exponents of both types.
template <> INLINE float power_of(float base, float exponent) {
    if (base == 2.0f && exponent == rintf(exponent) && fabsf(exponent) < 2048.0f) return scalbnf(1.0f, int(exponent));
    return powf(base, exponent);
}
template <> INLINE double power_of(double base, double exponent) {
    if (base == 2.0 && exponent == rint(exponent) && fabs(exponent) < 2048.0) return scalbn(1.0, int(exponent));
    return pow(base, exponent);
}

// ---------------------------------------------------------------- floating-point functions
//
// One name for float and double.

#define REAL(name, float_function, double_function)          \
    INLINE float name(float x) { return float_function(x); } \
    INLINE double name(double x) { return double_function(x); }
REAL(exp_of, expf, exp)
REAL(log_of, logf, log)
REAL(log1p_of, log1pf, log1p)
REAL(expm1_of, expm1f, expm1)
REAL(sqrt_of, sqrtf, sqrt)
REAL(sin_of, sinf, sin)
REAL(cos_of, cosf, cos)
REAL(tanh_of, tanhf, tanh)
REAL(erf_of, erff, erf)
REAL(erfc_of, erfcf, erfc)
REAL(floor_of, floorf, floor)
REAL(ceil_of, ceilf, ceil)
REAL(round_of, rintf, rint)
REAL(abs_of, fabsf, fabs)
#undef REAL
INLINE float atan2_of(float y, float x) { return atan2f(y, x); }
INLINE double atan2_of(double y, double x) { return atan2(y, x); }
INLINE float copy_sign(float size, float sign) { return copysignf(size, sign); }
INLINE double copy_sign(double size, double sign) { return copysign(size, sign); }

template <class C> INLINE C sigmoid_of(C x) { return C(1) / (C(1) + exp_of(-x)); }
// The standard normal CDF, computed by erfc, which is accurate where it is small.
template <class C> INLINE C normal_cdf(C x) { return C(0.5) * erfc_of(x * C(-0.7071067811865476)); }
template <class C> INLINE C normal_pdf(C x) { return C(0.3989422804014327) * exp_of(C(-0.5) * x * x); }
// sqrt(2/pi) * (x + 0.044715 x^3)
template <class C> INLINE C gelu_inner(C x) { return C(0.7978845608028654) * (x + C(0.044715) * (x * x * x)); }
// Beyond +-40 the normal density is 0 and tanh is +-1, also in double: gradients have reached their
// limits, and x^2 must not overflow.
template <class C> INLINE C gelu_bounded(C x) { return smaller(larger(x, C(-40)), C(40)); }

// ---------------------------------------------------------------- unary: unary_NAME(x, constants)

#define UNARY(name, ...) \
    template <class C> INLINE C unary_##name(C x, Constants k) { __VA_ARGS__ }
UNARY(neg, return difference_of(C(0), x);)
template <> INLINE float unary_neg(float x, Constants) { return -x; }
template <> INLINE double unary_neg(double x, Constants) { return -x; }
UNARY(abs, return x < C(0) ? difference_of(C(0), x) : x;)
template <> INLINE u8 unary_abs(u8 x, Constants) { return x; }
template <> INLINE float unary_abs(float x, Constants) { return fabsf(x); }
template <> INLINE double unary_abs(double x, Constants) { return fabs(x); }
UNARY(sign, return C(C(x > C(0)) - C(x < C(0)));)
template <> INLINE float unary_sign(float x, Constants) { return x == 0 || is_nan(x) ? x : copy_sign(1.0f, x); }
template <> INLINE double unary_sign(double x, Constants) { return x == 0 || is_nan(x) ? x : copy_sign(1.0, x); }
UNARY(exp, return exp_of(x);)
UNARY(log, return log_of(x);)
UNARY(log1p, return log1p_of(x);)
UNARY(expm1, return expm1_of(x);)
UNARY(sqrt, return sqrt_of(x);)
UNARY(rsqrt, return C(1) / sqrt_of(x);)
UNARY(sin, return sin_of(x);)
UNARY(cos, return cos_of(x);)
UNARY(tanh, return tanh_of(x);)
UNARY(sigmoid, return sigmoid_of(x);)
UNARY(relu, return larger(x, C(0));)
UNARY(erf, return erf_of(x);)
UNARY(square, return product_of(x, x);)
UNARY(recip, return C(1) / x;)
UNARY(floor, return floor_of(x);)
UNARY(ceil, return ceil_of(x);)
UNARY(round, return round_of(x);)
UNARY(logical_not, return C(x == C(0));)
UNARY(leaky_relu, return x > C(0) ? x : constant<C>(k.first) * x;)
UNARY(elu, return x > C(0) ? x : constant<C>(k.first) * expm1_of(x);)
UNARY(gelu_erf, return x * normal_cdf(x);)
UNARY(gelu_tanh, return C(0.5) * x * (C(1) + tanh_of(gelu_inner(x)));)
UNARY(silu, return x * sigmoid_of(x);)
UNARY(softplus, return larger(x, C(0)) + log1p_of(exp_of(-abs_of(x)));)
UNARY(clamp, return smaller(larger(x, constant<C>(k.first)), constant<C>(k.second));)
#undef UNARY

// ---------------------------------------------------------------- gradients
//
// grad_NAME(saved, dy, constants); saved is y if the gradient is a function of y, else x.

#define GRAD(name, ...) \
    template <class C> INLINE C grad_##name(C s, C d, Constants k) { __VA_ARGS__ }
GRAD(neg, return -d;)
GRAD(abs, return unary_sign(s, k) * d;)
GRAD(sign, return C(0);)
GRAD(exp, return s * d;)
GRAD(log, return d / s;)
GRAD(log1p, return d / (s + C(1));)
GRAD(expm1, return (s + C(1)) * d;)
GRAD(sqrt, return C(0.5) * d / s;)
GRAD(rsqrt, return C(-0.5) * (s * s * s) * d;)
GRAD(sin, return cos_of(s) * d;)
GRAD(cos, return -sin_of(s) * d;)
GRAD(tanh, return (C(1) - s * s) * d;)
GRAD(sigmoid, return s * (C(1) - s) * d;)
GRAD(relu, return s > C(0) ? d : C(0);)
GRAD(erf, return C(1.1283791670955126) * exp_of(-(s * s)) * d;)
GRAD(square, return C(2) * (s * d);)
GRAD(recip, return -(s * s) * d;)
GRAD(floor, return C(0);)
GRAD(ceil, return C(0);)
GRAD(round, return C(0);)
GRAD(leaky_relu, return s > C(0) ? d : constant<C>(k.first) * d;)
GRAD(elu, return s > C(0) ? d : constant<C>(k.first) * exp_of(s) * d;)
GRAD(gelu_erf, C x = gelu_bounded(s); return (normal_cdf(x) + x * normal_pdf(x)) * d;)
GRAD(gelu_tanh, C x = gelu_bounded(s); C t = tanh_of(gelu_inner(x));
     C inner = C(0.7978845608028654) * (C(1) + C(3 * 0.044715) * x * x);
     return (C(0.5) * (C(1) + t) + C(0.5) * x * ((C(1) - t * t) * inner)) * d;)
GRAD(silu, C g = sigmoid_of(s); return g * (C(1) + s * (C(1) - g)) * d;)
GRAD(softplus, return sigmoid_of(s) * d;)
GRAD(clamp, return s >= constant<C>(k.first) && s <= constant<C>(k.second) ? d : C(0);)
#undef GRAD

// ---------------------------------------------------------------- binary: binary_NAME(a, b)

#define BINARY(name, ...) \
    template <class C> INLINE C binary_##name(C a, C b) { __VA_ARGS__ }
BINARY(add, return sum_of(a, b);)
BINARY(sub, return difference_of(a, b);)
BINARY(mul, return product_of(a, b);)
BINARY(div, return quotient_of(a, b);)
BINARY(pow, return power_of(a, b);)
BINARY(maximum, return larger(a, b);)
BINARY(minimum, return smaller(a, b);)
BINARY(atan2, return atan2_of(a, b);)
BINARY(remainder, return remainder_of(a, b);)
BINARY(logical_and, return C(a != C(0) && b != C(0));)
BINARY(logical_or, return C(a != C(0) || b != C(0));)
BINARY(logical_xor, return C((a != C(0)) != (b != C(0)));)
#undef BINARY

#define COMPARE(name, operation) \
    template <class C> INLINE u8 compare_##name(C a, C b) { return u8(a operation b); }
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)
#undef COMPARE

// ---------------------------------------------------------------- casts: Cast<Y>::of(x)
//
// Rounded once. Float to integer truncates and saturates, and NaN gives 0. Integer to integer keeps
// the low bits. Anything to Truth is x != 0.

INLINE float to_float_odd(double x) {
    float toward_zero = __double2float_rz(x);
    bool inexact = double(toward_zero) != x && x == x;
    return __uint_as_float(__float_as_uint(toward_zero) | u32(inexact));
}
// From a magnitude of 2^53 on, the low 12 bits are below the 24 bits that a float keeps. They can
// only break ties when 16-bit types are rounded: one sticky bit (bit 12) replaces them, and the
// conversion to double is exact.
INLINE float to_float_odd(i64 x) {
    u64 size = x < 0 ? 0 - u64(x) : u64(x);
    if (size >> 53) size = (size & ~u64(0xfff)) | u64((size & 0xfff) != 0) << 12;
    return to_float_odd(x < 0 ? -double(size) : double(size));
}
INLINE float to_float_odd(float x) { return x; }
INLINE float to_float_odd(i32 x) { return to_float_odd(i64(x)); }
INLINE float to_float_odd(u8 x) { return float(x); }
// Unsigned integers need one bit more: x is halved, and its two lowest bits become one sticky bit.
INLINE float to_float_odd(u64 x) { return x >> 63 ? 2.0f * to_float_odd(i64(x >> 1 | (x & 1))) : to_float_odd(i64(x)); }
INLINE float to_float_odd(u32 x) { return to_float_odd(i64(x)); }

template <class Y> struct Cast;
template <> struct Cast<double> {
    template <class C> static INLINE double of(C x) { return double(x); }
};
template <> struct Cast<float> {
    template <class C> static INLINE float of(C x) { return float(x); }
};
template <> struct Cast<f16> {
    template <class C> static INLINE f16 of(C x) { return to_f16(to_float_odd(x)); }
    static INLINE f16 of(double x) { return to_f16(x); }
};
template <> struct Cast<bf16> {
    template <class C> static INLINE bf16 of(C x) { return to_bf16(to_float_odd(x)); }
};
// The instructions saturate, but convert NaN to the least 64-bit integer.
template <> struct Cast<i64> {
    template <class C> static INLINE i64 of(C x) { return i64(x); }
    static INLINE i64 of(float x) { return is_nan(x) ? 0 : __float2ll_rz(x); }
    static INLINE i64 of(double x) { return is_nan(x) ? 0 : __double2ll_rz(x); }
};
template <> struct Cast<i32> {
    template <class C> static INLINE i32 of(C x) { return i32(x); }
    static INLINE i32 of(float x) { return is_nan(x) ? 0 : __float2int_rz(x); }
    static INLINE i32 of(double x) { return is_nan(x) ? 0 : __double2int_rz(x); }
};
template <> struct Cast<u8> {
    template <class C> static INLINE u8 of(C x) { return u8(x); }
    static INLINE u8 of(float x) { return u8(smaller(larger(Cast<i32>::of(x), 0), 255)); }
    static INLINE u8 of(double x) { return u8(smaller(larger(Cast<i32>::of(x), 0), 255)); }
};
template <> struct Cast<Bool> {
    template <class C> static INLINE Bool of(C x) { return Bool{u8(x != C(0))}; }
};

#if NARROW_INTEGERS
#include "lib/narrow.cuh"
#endif
