// Sums of squares of up to seven dense tensors (`part_0` to `part_6`), each element read once.
// After such launches for all tensors, multi_tensor_root.wgsl computes their norm from the partial
// sums.
//
//   part_0 | chunk | chunk |   part_1 | chunk |   part_2 | chunk | chunk |
//              |       |                  |                  |       |
//   parts  [first + 0] [1]               [2]                [3]     [4]
//
// A workgroup processes CHUNK elements of one tensor, and writes sums of squares by size
// (squares.wgsl).
//
// A tensor that begins at a multiple of four is read as vec4. All arithmetic is in f32. The order
// of all sums depends only on sizes and offsets, so results are bit-identical in every run. Limits:
// fewer than 2^32 elements of each tensor.

struct Parameters {
    launched: u32,
    // The index in `parts` of the first workgroup's result.
    first_part: u32,
    _padding_0: u32,
    _padding_1: u32,
    // For each tensor: the end of its workgroups, the number of its elements, and its first
    // element.
    ends: array<vec4<u32>, 2>,
    counts: array<vec4<u32>, 2>,
    offsets: array<vec4<u32>, 2>,
}

const CHUNK: u32 = 16384u;

#repeat k TENSORS
fn squares_of_chunk_#{k}(chunk: u32, lane: u32) -> vec4<f32> {
    let begin = params.offsets[#{k / 4}][#{k % 4}] + chunk * CHUNK;
    let count = min(params.counts[#{k / 4}][#{k % 4}] - chunk * CHUNK, CHUNK);
    var sum = vec4<f32>();
    var single = 0u;
    if (begin % 4u == 0u) {
        let vec4_count = count / 4u;
        single = 4u * vec4_count;
        var quad = lane;
        // Four reads are in flight at the same time.
        for (; quad + 768u < vec4_count; quad += 1024u) {
#repeat n 4
            let x_#{n} = part_#{k}_vec4(begin / 4u + quad + #{256 * n}u);
#end
#repeat n 4
            sum += squares_of_vec4(x_#{n});
#end
        }
        for (; quad < vec4_count; quad += 256u) {
            sum += squares_of_vec4(part_#{k}_vec4(begin / 4u + quad));
        }
    }
    for (single += lane; single < count; single += 256u) {
        sum += squares_of(part_#{k}_at(begin + single));
    }
    return sum;
}
#end

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    var sum = vec4<f32>();
    var first = 0u;
#repeat k TENSORS
    let end_#{k} = params.ends[#{k / 4}][#{k % 4}];
    if (number >= first && number < end_#{k}) {
        sum = squares_of_chunk_#{k}(number - first, lane);
    }
    first = end_#{k};
#end
    sum = squares_of_group(sum, lane);
    if (lane == 0u && number < params.launched) {
        parts_put_vec4(params.first_part + number, sum);
    }
}
