// Features of launches from compute capability 9.0 on, each in the smallest kernel that shows that
// it works. Only tests of launches use these kernels.
//
//   probe_tensor_map         y[i, j] = x[row + i, column + j], a tile that is copied by a tensor
//                            map in the parameters; 0 outside x
//   probe_cluster            sums[block] = this block's index + 1000 * that of the next block in
//                            its cluster, read from its shared memory
//   probe_dependent_launch   y[i] = x[i] + 1, where the previous launch writes x while both overlap
//
// Launch: probe_tensor_map<<<1, 128>>> with a tensor map of f32 in boxes of 32 x 32 without
// swizzle; probe_cluster<<<blocks, 32>>> in clusters of any size that divides blocks;
// probe_dependent_launch<<<ceil(count / 256), 256>>>.

#include "lib/launch.cuh"
#include "ptx/cluster.cuh"
#include "ptx/griddepcontrol.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tma.cuh"

constexpr int BOX = 32;
constexpr int MAP_THREADS = 128;

struct TensorMapProbe {
    TensorMap map;
    float* y;  // BOX * BOX
    i32 row, column;
};

extern "C" __global__ void __launch_bounds__(MAP_THREADS) probe_tensor_map(const __grid_constant__ TensorMapProbe p) {
    wait_for_earlier_launches();
    __shared__ alignas(128) float tile[BOX * BOX];
    __shared__ u64 barrier;
    u32 at = cvta_to_shared(&barrier);
    if (threadIdx.x == 0) {
        mbarrier_init(at, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(at, sizeof(tile));
        cp_async_bulk_tensor_2d(cvta_to_shared(tile), p.map, p.column, p.row, at);
    }
    while (!mbarrier_try_wait_parity(at, 0)) {}
    for (u32 i = threadIdx.x; i < BOX * BOX; i += MAP_THREADS) p.y[i] = tile[i];
}

struct ClusterProbe {
    u32* sums;  // one value per block
};

extern "C" __global__ void __launch_bounds__(32) probe_cluster(const __grid_constant__ ClusterProbe p) {
    wait_for_earlier_launches();
    __shared__ u32 number;
    if (threadIdx.x == 0) number = blockIdx.x;
    barrier_cluster_arrive();
    barrier_cluster_wait();
    u32 next = (read_cluster_ctarank() + 1) % read_cluster_nctarank();
    if (threadIdx.x == 0)
        p.sums[blockIdx.x] = blockIdx.x + 1000 * ld_shared_cluster(mapa_shared_cluster(cvta_to_shared(&number), next));
    // No block may end while another one still reads from its shared memory.
    barrier_cluster_arrive();
    barrier_cluster_wait();
}

struct DependentProbe {
    u32* y;
    const u32* x;
    u32 count;
};

extern "C" __global__ void __launch_bounds__(256) probe_dependent_launch(const __grid_constant__ DependentProbe p) {
    griddepcontrol_launch_dependents();
    u32 i = blockIdx.x * 256 + threadIdx.x;
    wait_for_earlier_launches();
    if (i < p.count) p.y[i] = p.x[i] + 1;
}
