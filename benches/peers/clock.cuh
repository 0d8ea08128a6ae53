// How a peer in CUDA C++ times its cases and prints their lines: the method of ternion-bench and of
// torch_cases.py.
//
// Events around one call, before each a kernel that writes 256 MiB so that the L2 cache contains
// none of its inputs, 10 warm-ups, median of the calls that fit into 60 milliseconds (at least 20,
// at most 400), random inputs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <functional>
#include <string>
#include <vector>

constexpr size_t FLUSHED_BYTES = size_t(256) << 20;
constexpr int64_t ROWS = 8192;
constexpr int64_t COLUMNS = 4096;

// Ends the program with CUDA's error: later results would be meaningless.
#define CHECK(call)                                                                            \
    do {                                                                                       \
        cudaError_t code_ = (call);                                                            \
        if (code_ != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code_)); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

template <typename T>
struct DeviceArray {
    T* data = nullptr;
    size_t count = 0;
    explicit DeviceArray(size_t count) : count(count) { CHECK(cudaMalloc(&data, count * sizeof(T))); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { cudaFree(data); }
};

__device__ inline void assign(float& to, float value) { to = value; }
__device__ inline void assign(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }

// Pseudorandom values between -1 and 1: the bits of a multiplicative hash of the index.
template <typename T>
__global__ void fill_random(T* data, size_t count) {
    for (size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x; at < count; at += size_t(gridDim.x) * blockDim.x) {
        uint32_t bits = uint32_t(at) * 2654435761u;
        bits = (bits ^ (bits >> 15)) * 2246822519u;
        assign(data[at], float(bits >> 8) / float(1 << 23) - 1.0f);
    }
}

template <typename T>
void randomize(DeviceArray<T>& array) {
    fill_random<<<1024, 256>>>(array.data, array.count);
    CHECK(cudaGetLastError());
}

__global__ void fill_zeros(uint4* data, size_t count) {
    for (size_t at = blockIdx.x * size_t(blockDim.x) + threadIdx.x; at < count; at += size_t(gridDim.x) * blockDim.x) {
        data[at] = make_uint4(0, 0, 0, 0);
    }
}

struct Clock {
    DeviceArray<uint4> flushed{FLUSHED_BYTES / sizeof(uint4)};
    cudaEvent_t begin, end;
    Clock() {
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
    }
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;
    ~Clock() {
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
    }

    // Fills the L2 cache with data that no case reads. A kernel does this, as in ternion-bench and
    // in PyTorch's script: work after a copy would begin later.
    void flush() const {
        fill_zeros<<<4096, 256>>>(flushed.data, flushed.count);
        CHECK(cudaGetLastError());
    }

    // Median milliseconds of `call` with a cold cache.
    double median(const std::function<void()>& call) const {
        for (int warm_up = 0; warm_up < 10; warm_up++) call();
        CHECK(cudaDeviceSynchronize());
        std::vector<float> times;
        double total = 0;
        while ((total < 60.0 || times.size() < 20) && times.size() < 400) {
            flush();
            CHECK(cudaEventRecord(begin));
            call();
            CHECK(cudaEventRecord(end));
            CHECK(cudaEventSynchronize(end));
            float milliseconds = 0;
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            times.push_back(milliseconds);
            total += milliseconds;
            // Rests without sleeping, as in ternion-bench and in PyTorch's script: the clock of a
            // device at its power limit depends on how long it rests.
            auto until = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(std::max(2.0 * milliseconds, 0.3));
            while (std::chrono::steady_clock::now() < until) {}
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2];
    }
};

// Whether the command line selects this case: by one of the prefixes after --only, or all cases
// without them.
inline bool is_wanted(const std::string& name, int count, char** arguments) {
    if (count < 3 || strcmp(arguments[1], "--only") != 0) return true;
    for (int at = 2; at < count; at++) {
        if (name.compare(0, strlen(arguments[at]), arguments[at]) == 0) return true;
    }
    return false;
}

// Prints the line of a case that moves `bytes` bytes.
inline void emit(const std::string& name, const char* impl, double milliseconds, double bytes) {
    printf("{\"case\": \"%s\", \"impl\": \"%s\", \"ms\": %.5f, \"value\": %.3f, \"unit\": \"GB/s\"}\n", name.c_str(), impl,
           milliseconds, bytes / milliseconds / 1e6);
    fflush(stdout);
}
