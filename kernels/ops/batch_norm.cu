// Batch normalization of channels, and its gradient.
//
//   forward   y = (x - mean) * r * weight + bias, r = 1 / sqrt(variance + eps), mean and variance
//             of each channel over batch and space
//   backward  n = (x - mean) * r:  dx = r * (dy - mean(dy) - n * mean(dy * n)) * weight,
//             dweight = sum dy * n, dbias = sum dy
//
// x, y, dy, dx [batch, channels, space], contiguous. Each direction has three kernels: partial
// results of the channels (one of two kernels), their merge, and the elements.
//
//      x: image 0 | channel 0 ... | channel 1 ... |         parts: channel 0 | split 0 | split 1 |
//         image 1 | channel 0 ... | channel 1 ... |                channel 1 | split 0 | split 1 |
//
//      parts -> mean, variance -> y
//
//   channel_parts_of_planes    long space: grid (split, channel); PACK divides space and, in
//                              elements, all addresses
//   channel_parts_of_columns   short space: a thread per pack of the images' columns,
//                              [channels * space], which PACK divides here; grid
//                              (ceil(channels * space / (32 * PACK)), split); the warps of a block
//                              process the images in turn
//   channel_statistics         forward: mean and variance
//   channel_gradients          backward: the two sums, dweight, dbias
//   batch_norm, batch_norm_grad                   the elements, after channel_parts_of_planes
//   batch_norm_columns, batch_norm_grad_columns   the elements, after channel_parts_of_columns,
//                              with its grid; in elements, PACK divides all addresses
//
// Part (o, i) of a channel is parts[o * outer_stride + channel * inner + i], o < outer, i < inner:
//   planes: outer = 1, inner = splits; columns: outer = splits, outer_stride = channels * space,
//   inner = space.
// A forward part is three numbers: count, mean, and the sum of squared differences from the mean. A
// backward part is two: sum dy, sum dy * n.
//
// Macros: TYPE, PACK (and MASKED = 0, TEAM = 32, ROW_STORAGE = 0 for rows.cuh). Limits: channels
// below 2^16 for channel_parts_of_planes, splits below 2^16 for channel_parts_of_columns
// (blockIdx.y). Only y and dx may alias an input: y may be exactly x, dx exactly dy.

#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/rows.cuh"

// Of counts: 2 ulp, far from the limits of __fdividef.
INLINE float ratio(float a, float b) { return __fdividef(a, b); }
INLINE double ratio(double a, double b) { return a / b; }
// 1 / sqrt(variance + eps) in few instructions (2 ulp), as a thread has many channels.
INLINE float fast_rstd(float variance, double eps) { return rsqrtf(variance + float(eps)); }
INLINE double fast_rstd(double variance, double eps) { return 1 / sqrt(variance + eps); }

// Sums are over values minus their channel's pivot, its first element: the differences are as small
// as the spread of the values, and no digits are lost to a large mean.
INLINE C pivot_of(const T* x, u32 channel, u64 batch, u64 space) {
    C first = batch * space > 0 ? widen(x[channel * space]) : C(0);
    return abs_of(first) < infinite() ? first : C(0);
}

struct Moments {
    C count, mean, squares;

    // Merges the moments of both (Chan, Golub and LeVeque 1983).
    INLINE void add(const Moments& other) {
        C total = count + other.count;
        if (other.count == C(0)) return;
        C fraction = ratio(other.count, total), difference = other.mean - mean;
        // An infinite mean stays infinite.
        bool bounded = abs_of(difference) < infinite();
        mean = count == C(0) ? other.mean : (bounded ? mean + difference * fraction : mean + other.mean);
        squares += other.squares;
        if (count != C(0)) squares += difference * difference * (count * fraction);
        count = total;
    }
};
struct Sums {
    C sum_dy, dot;
    INLINE void add(const Sums& other) {
        sum_dy += other.sum_dy;
        dot += other.dot;
    }
};
INLINE Moments shuffled(const Moments& part, int step) {
    return Moments{__shfl_xor_sync(ALL_LANES, part.count, step), __shfl_xor_sync(ALL_LANES, part.mean, step),
                   __shfl_xor_sync(ALL_LANES, part.squares, step)};
}
INLINE Sums shuffled(const Sums& part, int step) {
    return Sums{__shfl_xor_sync(ALL_LANES, part.sum_dy, step), __shfl_xor_sync(ALL_LANES, part.dot, step)};
}
// Adds the parts of all lanes; lane 0 has the total.
template <class Part> INLINE void merge_lanes(Part& part) {
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) part.add(shuffled(part, step));
}

struct ChannelParts {
    void* parts;  // Moments; backward: Sums
    const T* x;
    const T* dy;  // backward only, like mean and variance
    const C* mean;
    const C* variance;
    double eps;
    u64 batch;
    u64 space;
    u64 batch_per_split;  // times space / PACK below 2^31 for channel_parts_of_planes
    u32 channels;
    u32 backward;
    Divisor plane;  // of space / PACK, for channel_parts_of_planes
};

constexpr int CHANNEL_WARPS = 8;
constexpr int CHANNEL_THREADS = CHANNEL_WARPS * WARP;
// Packs of each tensor in flight per thread.
constexpr int CHANNEL_UNROLL = sizeof(C) == 8 ? 2 : 4;

// The moments of the first `valid` values, whose own mean is computed first.
template <int COUNT> INLINE Moments moments_of(const C (&values)[COUNT], int valid) {
    C sum = 0, squares = 0;
#pragma unroll
    for (int e = 0; e < COUNT; ++e) sum += e < valid ? values[e] : C(0);
    C mean = valid == COUNT ? sum * C(1.0 / COUNT) : ratio(sum, C(valid > 0 ? valid : 1));
#pragma unroll
    for (int e = 0; e < COUNT; ++e) squares += e < valid ? (values[e] - mean) * (values[e] - mean) : C(0);
    return Moments{C(valid), mean, squares};
}

// The origin of a channel's elements: forward its pivot, backward its mean, with the reciprocal
// standard deviation.
struct Origin {
    C mean, rstd;
    INLINE Origin(C mean, C rstd) : mean(mean), rstd(rstd) {}
    INLINE Origin(const ChannelParts& p, u32 channel) : mean(0), rstd(0) {
        if (p.backward) {
            mean = p.mean[channel];
            rstd = fast_rstd(p.variance[channel], p.eps);
        } else {
            mean = pivot_of(p.x, channel, p.batch, p.space);
        }
    }
};
template <int COUNT>
INLINE void add_values(Moments& part, const C (&x)[COUNT], const C (&)[COUNT], int valid, const Origin& origin) {
    C values[COUNT];
#pragma unroll
    for (int e = 0; e < COUNT; ++e) values[e] = x[e] - origin.mean;
    part.add(moments_of(values, valid));
}
template <int COUNT>
INLINE void add_values(Sums& part, const C (&x)[COUNT], const C (&dy)[COUNT], int valid, const Origin& origin) {
    Sums sums = {};
#pragma unroll
    for (int e = 0; e < COUNT; ++e)
        if (e < valid) sums.add(Sums{dy[e], dy[e] * ((x[e] - origin.mean) * origin.rstd)});
    part.add(sums);
}

template <class Part> INLINE void parts_of_planes(const ChannelParts& p) {
    u32 channel = blockIdx.y;
    u64 first = u64(blockIdx.x) * p.batch_per_split, end = first + p.batch_per_split;
    if (end > p.batch) end = p.batch;
    Origin origin(p, channel);
    // Packs are counted through the planes of this channel in all images of this split.
    u32 packs = end > first ? u32((end - first) * p.plane.divisor) : 0;
    Part part = {};
#pragma unroll 1
    for (u32 start = threadIdx.x; start < packs; start += CHANNEL_THREADS * CHANNEL_UNROLL) {
        C x[CHANNEL_UNROLL * PACK], dy[CHANNEL_UNROLL * PACK];
        Raw raw_x[CHANNEL_UNROLL], raw_dy[CHANNEL_UNROLL];
        int valid = 0;
#pragma unroll
        for (int u = 0; u < CHANNEL_UNROLL; ++u) {
            u32 pack = start + u * CHANNEL_THREADS;
            raw_x[u] = raw_dy[u] = Raw::filled(C(0));
            if (pack >= packs) continue;
            u32 image = divide(pack, p.plane);
            u64 at = ((first + image) * p.channels + channel) * p.space + (pack - image * p.plane.divisor) * PACK;
            raw_x[u] = load_raw(p.x + at);
            if (sizeof(Part) == sizeof(Sums)) raw_dy[u] = load_raw(p.dy + at);
            valid += PACK;
        }
#pragma unroll
        for (int u = 0; u < CHANNEL_UNROLL; ++u)
#pragma unroll
            for (int e = 0; e < PACK; ++e) {
                x[u * PACK + e] = raw_x[u].get(e);
                dy[u * PACK + e] = raw_dy[u].get(e);
            }
        add_values(part, x, dy, valid, origin);
    }
    merge_lanes(part);
    __shared__ Part of_warps[CHANNEL_WARPS];
    if (lane() == 0) of_warps[warp_of_block()] = part;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < CHANNEL_WARPS; ++w) part.add(of_warps[w]);
    reinterpret_cast<Part*>(p.parts)[u64(channel) * gridDim.x + blockIdx.x] = part;
}
extern "C" __global__ void __launch_bounds__(CHANNEL_THREADS)
    channel_parts_of_planes(const __grid_constant__ ChannelParts p) {
    wait_for_earlier_launches();
    if (p.backward) parts_of_planes<Sums>(p);
    else parts_of_planes<Moments>(p);
}

// The pack of columns, in an image's [channels * space], that a thread of the column kernels
// processes, and the images of its warp.
struct Columns {
    u64 width, column, first, end;
    INLINE Columns(u64 channels, u64 space, u64 batch, u64 batch_per_split) {
        width = channels * space;
        column = (u64(blockIdx.x) * WARP + lane()) * PACK;
        first = u64(blockIdx.y) * batch_per_split;
        end = first + batch_per_split < batch ? first + batch_per_split : batch;
        if (column >= width) end = 0;
        first += warp_of_block();
    }
    INLINE u32 channel(int e, u64 space) const { return u32((column < width ? column + e : 0) / space); }
};

template <class Part> INLINE void parts_of_columns(const ChannelParts& p) {
    Columns at(p.channels, p.space, p.batch, p.batch_per_split);
    Part parts[PACK] = {};
    C means[PACK], rstds[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
        Origin origin(p, at.channel(e, p.space));
        means[e] = origin.mean;
        rstds[e] = origin.rstd;
    }
    // Several images at a time, because an update of the moments costs a division.
    constexpr int IMAGES_PER_ITERATION = PACK < 4 ? 8 : 4;
#pragma unroll 1
    for (u64 image = at.first; image < at.end; image += CHANNEL_WARPS * IMAGES_PER_ITERATION) {
        Raw x[IMAGES_PER_ITERATION], dy[IMAGES_PER_ITERATION];
        int valid = 0;
#pragma unroll
        for (int u = 0; u < IMAGES_PER_ITERATION; ++u) {
            x[u] = dy[u] = Raw::filled(C(0));
            if (image + u * CHANNEL_WARPS >= at.end) continue;
            u64 offset = (image + u * CHANNEL_WARPS) * at.width + at.column;
            x[u] = load_raw(p.x + offset);
            if (sizeof(Part) == sizeof(Sums)) dy[u] = load_raw(p.dy + offset);
            ++valid;
        }
#pragma unroll
        for (int e = 0; e < PACK; ++e) {
            C values[IMAGES_PER_ITERATION], gradients[IMAGES_PER_ITERATION];
#pragma unroll
            for (int u = 0; u < IMAGES_PER_ITERATION; ++u) values[u] = x[u].get(e), gradients[u] = dy[u].get(e);
            add_values(parts[e], values, gradients, valid, Origin(means[e], rstds[e]));
        }
    }
    __shared__ Part of_warps[CHANNEL_WARPS][WARP * PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) of_warps[warp_of_block()][lane() * PACK + e] = parts[e];
    __syncthreads();
    if (threadIdx.x >= WARP * PACK) return;
    u64 column = u64(blockIdx.x) * WARP * PACK + threadIdx.x;
    if (column >= at.width) return;
    Part part = of_warps[0][threadIdx.x];
    for (int w = 1; w < CHANNEL_WARPS; ++w) part.add(of_warps[w][threadIdx.x]);
    reinterpret_cast<Part*>(p.parts)[u64(blockIdx.y) * at.width + column] = part;
}
// Blocks per multiprocessor: as many as fit. Without this bound the assembler spills registers to
// fit a fourth block, on compute capability 10.0.
constexpr int COLUMN_BLOCKS = PACK == 8 || sizeof(C) == 8 ? 2 : 3;
extern "C" __global__ void __launch_bounds__(CHANNEL_THREADS, COLUMN_BLOCKS)
    channel_parts_of_columns(const __grid_constant__ ChannelParts p) {
    wait_for_earlier_launches();
    if (p.backward) parts_of_columns<Sums>(p);
    else parts_of_columns<Moments>(p);
}

struct Channels {
    const void* parts;
    const T* x;  // forward only
    C* first;    // mean; backward: sum dy
    C* second;   // variance; backward: sum dy * n
    T* dweight;  // null: not requested
    T* dbias;    // null: not requested
    u64 outer, outer_stride, inner;
    u64 batch, space;
    u32 channels;
};
// Merges the parts of a channel. A warp per channel.
template <class Part> INLINE bool merge_parts(const Channels& p, u32 channel, Part& part) {
    if (channel >= p.channels) return false;
    const Part* parts = reinterpret_cast<const Part*>(p.parts) + u64(channel) * p.inner;
    part = {};
    for (u64 at = lane(); at < p.outer * p.inner; at += WARP)
        part.add(parts[at / p.inner * p.outer_stride + at % p.inner]);
    merge_lanes(part);
    return lane() == 0;
}
INLINE u32 channel_of_warp() { return blockIdx.x * CHANNEL_WARPS + warp_of_block(); }

extern "C" __global__ void __launch_bounds__(CHANNEL_THREADS) channel_statistics(const __grid_constant__ Channels p) {
    wait_for_earlier_launches();
    Moments part;
    u32 channel = channel_of_warp();
    if (!merge_parts(p, channel, part)) return;
    // The variance is 0 / 0 = NaN if there are no elements.
    p.first[channel] = part.count == C(0) ? quiet_nan() : pivot_of(p.x, channel, p.batch, p.space) + part.mean;
    p.second[channel] = part.squares / part.count;
}
extern "C" __global__ void __launch_bounds__(CHANNEL_THREADS) channel_gradients(const __grid_constant__ Channels p) {
    wait_for_earlier_launches();
    Sums part;
    u32 channel = channel_of_warp();
    if (!merge_parts(p, channel, part)) return;
    p.first[channel] = part.sum_dy;
    p.second[channel] = part.dot;
    if (p.dweight) p.dweight[channel] = narrow<T>(part.dot);
    if (p.dbias) p.dbias[channel] = narrow<T>(part.sum_dy);
}

struct BatchNorm {
    T* y;  // gradient: dx
    const T* x;
    const T* dy;  // gradient only
    const C* mean;
    const C* variance;
    const C* sum_dy;  // gradient only: the sums of channel_gradients
    const C* dot;
    const T* weight;  // null: none
    const T* bias;    // null: none
    double eps;
    double inverse_count;  // 1 / (batch * space)
    u64 packs;             // batch * channels * space / PACK
    u64 packs_of_plane;    // space / PACK
    u32 channels;
    // 1: packs is below 2^31, and the divisors are those of packs_of_plane and channels.
    u32 narrow;
    Divisor plane, channel;
    u64 batch, space, batch_per_split;  // column kernels only
};

INLINE u32 channel_of_pack(const BatchNorm& p, u64 pack) {
    if (!p.narrow) return u32(pack / p.packs_of_plane % p.channels);
    u32 plane = divide(u32(pack), p.plane);
    return plane - divide(plane, p.channel) * p.channels;
}
constexpr int BATCH_NORM_THREADS = 256;
// Packs of each tensor in flight per thread. 64-bit numbers leave registers for only two.
constexpr int BATCH_NORM_UNROLL = sizeof(C) == 8 ? 2 : 4;
// Index of pack `u` of this thread.
INLINE u64 pack_of_thread(int u) {
    return (u64(blockIdx.x) * BATCH_NORM_UNROLL + u) * BATCH_NORM_THREADS + threadIdx.x;
}

// The per-channel coefficients of an element.
struct Forward {
    C mean, rstd, weight, bias;
    INLINE Forward() {}
    INLINE Forward(const BatchNorm& p, u32 channel) {
        mean = p.mean[channel];
        rstd = fast_rstd(p.variance[channel], p.eps);
        weight = p.weight ? widen(p.weight[channel]) : C(1);
        bias = p.bias ? widen(p.bias[channel]) : C(0);
    }
    INLINE C element(C x, C) const { return (x - mean) * rstd * weight + bias; }
};
struct Backward {
    C mean, rstd, weight, sum, dot;
    INLINE Backward() {}
    INLINE Backward(const BatchNorm& p, u32 channel) {
        mean = p.mean[channel];
        rstd = fast_rstd(p.variance[channel], p.eps);
        weight = p.weight ? widen(p.weight[channel]) : C(1);
        sum = p.sum_dy[channel] * C(p.inverse_count);
        dot = p.dot[channel] * C(p.inverse_count);
    }
    INLINE C element(C x, C dy) const { return rstd * ((dy - sum) - (x - mean) * rstd * dot) * weight; }
};
// The raw pack of dy in the backward pass.
template <class Way> INLINE Raw gradient_of(const BatchNorm& p, u64 at) {
    return sizeof(Way) == sizeof(Backward) ? load_raw(p.dy + at) : Raw::filled(C(0));
}

template <class Way> INLINE void elements_of_planes(const BatchNorm& p) {
    Raw x[BATCH_NORM_UNROLL], dy[BATCH_NORM_UNROLL];
#pragma unroll
    for (int u = 0; u < BATCH_NORM_UNROLL; ++u)
        if (pack_of_thread(u) < p.packs) {
            x[u] = load_raw(p.x + pack_of_thread(u) * PACK);
            dy[u] = gradient_of<Way>(p, pack_of_thread(u) * PACK);
        }
#pragma unroll
    for (int u = 0; u < BATCH_NORM_UNROLL; ++u) {
        u64 pack = pack_of_thread(u);
        if (pack >= p.packs) return;
        Way channel(p, channel_of_pack(p, pack));
        C values[PACK];
#pragma unroll
        for (int e = 0; e < PACK; ++e) values[e] = channel.element(x[u].get(e), dy[u].get(e));
        store_raw(p.y + pack * PACK, Raw::of(values));
    }
}
template <class Way> INLINE void elements_of_columns(const BatchNorm& p) {
    Columns at(p.channels, p.space, p.batch, p.batch_per_split);
    Way channels[PACK];
    if (at.first >= at.end) return;
#pragma unroll
    for (int e = 0; e < PACK; ++e) channels[e] = Way(p, at.channel(e, p.space));
#pragma unroll 1
    for (u64 image = at.first; image < at.end; image += CHANNEL_WARPS * BATCH_NORM_UNROLL) {
        Raw x[BATCH_NORM_UNROLL], dy[BATCH_NORM_UNROLL];
#pragma unroll
        for (int u = 0; u < BATCH_NORM_UNROLL; ++u)
            if (image + u * CHANNEL_WARPS < at.end) {
                u64 offset = (image + u * CHANNEL_WARPS) * at.width + at.column;
                x[u] = load_raw(p.x + offset);
                dy[u] = gradient_of<Way>(p, offset);
            }
#pragma unroll
        for (int u = 0; u < BATCH_NORM_UNROLL; ++u)
            if (image + u * CHANNEL_WARPS < at.end) {
                C values[PACK];
#pragma unroll
                for (int e = 0; e < PACK; ++e) values[e] = channels[e].element(x[u].get(e), dy[u].get(e));
                store_raw(p.y + (image + u * CHANNEL_WARPS) * at.width + at.column, Raw::of(values));
            }
    }
}

extern "C" __global__ void __launch_bounds__(BATCH_NORM_THREADS) batch_norm(const __grid_constant__ BatchNorm p) {
    wait_for_earlier_launches();
    elements_of_planes<Forward>(p);
}
extern "C" __global__ void __launch_bounds__(BATCH_NORM_THREADS, 2)
    batch_norm_grad(const __grid_constant__ BatchNorm p) {
    wait_for_earlier_launches();
    elements_of_planes<Backward>(p);
}
extern "C" __global__ void __launch_bounds__(CHANNEL_THREADS) batch_norm_columns(const __grid_constant__ BatchNorm p) {
    wait_for_earlier_launches();
    elements_of_columns<Forward>(p);
}
extern "C" __global__ void __launch_bounds__(CHANNEL_THREADS)
    batch_norm_grad_columns(const __grid_constant__ BatchNorm p) {
    wait_for_earlier_launches();
    elements_of_columns<Backward>(p);
}
