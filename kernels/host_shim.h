// What NVRTC declares without a header, so that clangd and other C++ tools can read the kernels. No
// kernel includes this file: compile_flags.txt passes it to these tools. The end defines examples
// of the macros that the host passes for a variant, for files that need some.

#pragma once
#define HOST_SHIM 1

#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
uint2 make_uint2(unsigned, unsigned);
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
extern const uint3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
int __syncthreads_and(int);
void __syncwarp(unsigned = ~0u);
int __any_sync(unsigned, int);
unsigned __ballot_sync(unsigned, int);
unsigned __match_any_sync(unsigned, unsigned);
unsigned __match_any_sync(unsigned, unsigned long long);
template <class T> T __shfl_sync(unsigned, T, int, int = 32);
template <class T> T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T> T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T> T __shfl_down_sync(unsigned, T, unsigned, int = 32);
unsigned long long __cvta_generic_to_shared(const void*);

int __float_as_int(float);
unsigned __float_as_uint(float);
float __int_as_float(int);
float __uint_as_float(unsigned);
long long __double_as_longlong(double);
double __longlong_as_double(long long);
double __hiloint2double(int, int);
int __double2loint(double);
int __double2hiint(double);
float __double2float_rz(double);
int __double2int_rz(double);
unsigned __double2uint_rz(double);
long long __double2ll_rz(double);
unsigned long long __double2ull_rz(double);
int __float2int_rz(float);
unsigned __float2uint_rz(float);
unsigned long long __float2ull_rz(float);
long long __float2ll_rz(float);
float __fmul_rn(float, float);
float __fdividef(float, float);
double __dadd_rn(double, double);
double __dmul_rn(double, double);
unsigned __umulhi(unsigned, unsigned);
int __popc(unsigned);
int __ffs(int);
unsigned atomicAdd(unsigned*, unsigned);
unsigned atomicInc(unsigned*, unsigned);
template <class A, class B> constexpr auto min(A a, B b) -> decltype(a + b);
template <class A, class B> constexpr auto max(A a, B b) -> decltype(a + b);

extern "C" {
#define OF_REAL(name)     \
    float name##f(float); \
    double name(double);
OF_REAL(exp)
OF_REAL(exp2)
OF_REAL(log)
OF_REAL(log1p)
OF_REAL(expm1)
OF_REAL(sqrt)
OF_REAL(rsqrt)
OF_REAL(sin)
OF_REAL(cos)
OF_REAL(tanh)
OF_REAL(erf)
OF_REAL(erfc)
OF_REAL(floor)
OF_REAL(ceil)
OF_REAL(rint)
OF_REAL(fabs)
#undef OF_REAL
#define OF_TWO(name)             \
    float name##f(float, float); \
    double name(double, double);
OF_TWO(pow)
OF_TWO(fmod)
OF_TWO(fmin)
OF_TWO(fmax)
OF_TWO(atan2)
OF_TWO(copysign)
#undef OF_TWO
float scalbnf(float, int);
double scalbn(double, int);
void sincospif(float, float*, float*);
void sincospi(double, double*, double*);
float fmaf(float, float, float);
double fma(double, double, double);
}

#define REAL_NUMBERS 1
#define TYPE float
#define TYPE_A float
#define TYPE_B float
#define TYPE_C float
#define TYPE_Y float
#define EXPRESSION (a + b * c)
#define ARITY 3
#define PACK_OF 4
#define INDEX long long
#define REDUCER Sum
#define SCATTER_ADD 1
#define MAX_TENSORS 64
#define SMOOTHED 1
#define HEAD_DIM 64
#define VALUE_DIM 64
#define BAND 1
#define MASK 2
#define DROPOUT 1
#define VARLEN 1
#define Q_ROW_TILES 1
#define Q_STEP 64
#define Q_WARPS 4
#define Q_BLOCKS 2
#define K_ROW_TILES 1
#define K_STEP 64
#define K_WARPS 4
#define K_BLOCKS 2
#define K_SPLIT 1
