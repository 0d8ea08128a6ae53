// Matrix products, one thread per element: any strides. (Placeholder of the first step: see matmul.cu.)
typedef TYPE E;
struct Product {
    E* y;
    const E* a;
    const E* b;
    u64 m, n, k, batches;
    i64 y_row, y_column, a_row, a_column, b_row, b_column;
    Space<3> batch;
};
extern "C" __global__ void __launch_bounds__(256) product(const __grid_constant__ Product p) {
    u64 number = u64(blockIdx.x) * 256 + threadIdx.x;
    if (number >= p.m * p.n * p.batches) return;
    u64 j = number % p.n, i = number / p.n % p.m;
    i64 at[3];
    locate(p.batch, number / p.n / p.m, at);
    Compute<E> sum = 0;
    for (u64 k = 0; k < p.k; ++k)
        sum = sum_of(sum, product_of(widen(p.a[at[1] + i64(i) * p.a_row + i64(k) * p.a_column]),
                                     widen(p.b[at[2] + i64(k) * p.b_row + i64(j) * p.b_column])));
    p.y[at[0] + i64(i) * p.y_row + i64(j) * p.y_column] = narrow<E>(sum);
}
