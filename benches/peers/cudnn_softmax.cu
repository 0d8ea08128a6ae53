// Softmax over rows of [8192, 4096] with cuDNN, forward and backward:
//   nvcc -O3 -std=c++17 -arch=sm_90 -I$CUDNN/include cudnn_softmax.cu -o cudnn_softmax
//       -L$CUDNN/lib -l:libcudnn.so.9
//
// Bytes: forward 2 passes over the matrix, backward 3.

#include "clock.cuh"

#include <cudnn.h>

#define CHECK_CUDNN(call)                                                                       \
    do {                                                                                        \
        cudnnStatus_t code_ = (call);                                                           \
        if (code_ != CUDNN_STATUS_SUCCESS) {                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudnnGetErrorString(code_)); \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

template <typename T>
void run(const Clock& clock, cudnnHandle_t handle, cudnnDataType_t type, const std::string& dtype, int count, char** arguments) {
    const size_t elements = size_t(ROWS) * COLUMNS;
    DeviceArray<T> input(elements), output(elements), grad_output(elements), grad_input(elements);
    randomize(input);
    randomize(grad_output);
    cudnnTensorDescriptor_t matrix;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&matrix));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(matrix, CUDNN_TENSOR_NCHW, type, int(ROWS), int(COLUMNS), 1, 1));
    const float one = 1.0f, zero = 0.0f;
    auto forward = [&] {
        CHECK_CUDNN(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, matrix, input.data,
                                        &zero, matrix, output.data));
    };
    auto backward = [&] {
        CHECK_CUDNN(cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, matrix, output.data,
                                         matrix, grad_output.data, &zero, matrix, grad_input.data));
    };
    forward();
    const double bytes = double(elements) * sizeof(T);
    if (is_wanted("softmax/fwd/" + dtype, count, arguments)) emit("softmax/fwd/" + dtype, "cudnn", clock.median(forward), 2 * bytes);
    if (is_wanted("softmax/bwd/" + dtype, count, arguments)) emit("softmax/bwd/" + dtype, "cudnn", clock.median(backward), 3 * bytes);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(matrix));
}

int main(int count, char** arguments) {
    Clock clock;
    cudnnHandle_t handle;
    CHECK_CUDNN(cudnnCreate(&handle));
    run<float>(clock, handle, CUDNN_DATA_FLOAT, "f32", count, arguments);
    run<__nv_bfloat16>(clock, handle, CUDNN_DATA_BFLOAT16, "bf16", count, arguments);
    CHECK_CUDNN(cudnnDestroy(handle));
}
