// The reductions of ternion-bench with CUB, as it is part of the toolkit:
//   nvcc -O3 -std=c++17 -arch=sm_90 cub_reduce.cu -o cub_reduce
//
//   reduce/sum_all, reduce/sum_squares_all, reduce/max_abs_all
//       cub::DeviceReduce::TransformReduce over all of [8192, 4096]
//   reduce/sum_last, reduce/max_last
//       cub::DeviceSegmentedReduce::Reduce, a segment per row
//
// bf16 is converted to f32 and summed in f32, as in Ternion and PyTorch; each result is stored as
// f32. Bytes: each input is read once.

#include "clock.cuh"

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

constexpr size_t ELEMENTS = size_t(ROWS) * COLUMNS;

__device__ inline float widened(float x) { return x; }
__device__ inline float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

struct Widen {
    template <typename T>
    __device__ float operator()(T x) const { return widened(x); }
};
struct Square {
    template <typename T>
    __device__ float operator()(T x) const { return widened(x) * widened(x); }
};
struct Magnitude {
    template <typename T>
    __device__ float operator()(T x) const { return fabsf(widened(x)); }
};
struct Add {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct RowBegin {
    __host__ __device__ int64_t operator()(int64_t row) const { return row * COLUMNS; }
};

// A call of CUB: the first call returns how much memory it needs, the second one runs with that
// memory.
template <typename Call>
void time(const Clock& clock, const std::string& name, size_t bytes, Call call) {
    size_t scratch_bytes = 0;
    CHECK(call(nullptr, scratch_bytes));
    DeviceArray<char> scratch(scratch_bytes);
    double milliseconds = clock.median([&] { CHECK(call(scratch.data, scratch_bytes)); });
    emit(name, "cub", milliseconds, double(bytes));
}

template <typename T>
struct Cases {
    const Clock& clock;
    const char* dtype;
    int count;
    char** arguments;
    DeviceArray<T> input{ELEMENTS};
    DeviceArray<float> output{size_t(ROWS)};

    Cases(const Clock& clock, const char* dtype, int count, char** arguments)
        : clock(clock), dtype(dtype), count(count), arguments(arguments) {
        randomize(input);
    }

    template <typename Merge, typename Transform>
    void all(const char* op, Merge merge, Transform transform) {
        std::string name = std::string("reduce/") + op + "/" + dtype;
        if (!is_wanted(name, count, arguments)) return;
        time(clock, name, ELEMENTS * sizeof(T), [&](void* scratch, size_t& bytes) {
            return cub::DeviceReduce::TransformReduce(scratch, bytes, input.data, output.data, int(ELEMENTS), merge, transform, 0.0f);
        });
    }

    template <typename Merge>
    void rows(const char* op, Merge merge, float first) {
        std::string name = std::string("reduce/") + op + "/" + dtype;
        if (!is_wanted(name, count, arguments)) return;
        auto begins = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), RowBegin{});
        auto values = thrust::make_transform_iterator(input.data, Widen{});
        time(clock, name, ELEMENTS * sizeof(T), [&](void* scratch, size_t& bytes) {
            return cub::DeviceSegmentedReduce::Reduce(scratch, bytes, values, output.data, int(ROWS), begins, begins + 1, merge, first);
        });
    }

    void run() {
        all("sum_all", Add{}, Widen{});
        all("sum_squares_all", Add{}, Square{});
        all("max_abs_all", Larger{}, Magnitude{});
        rows("sum_last", Add{}, 0.0f);
        rows("max_last", Larger{}, -INFINITY);
    }
};

int main(int count, char** arguments) {
    Clock clock;
    Cases<float>(clock, "f32", count, arguments).run();
    Cases<__nv_bfloat16>(clock, "bf16", count, arguments).run();
}
