//! Products of f16 with cooperative matrices: one launch writes f32 sums to memory, another one
//! applies the epilogue.

use super::{Parameters, Tensors, Tiling, batch_space, bindings};
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{
    Constant, CooperativeNumber, CooperativeSum, Function, LeftKMajor, LoadLeft, LoadRight, RightKMajor,
    SlotName, Tile,
};
use crate::ops::GROUP;
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use ternion_core::{DType, Result};

/// Rows and columns of a tile.
const TILE: usize = 128;
/// Inner indices of a step.
const STEP: usize = 16;
/// Number of workgroups that keep a device busy (two for each multiprocessor of a large device),
/// and minimum length of a part of a sum.
const TARGET_GROUPS: usize = 264;
const MIN_PART_LENGTH: usize = 256;
/// Maximum number of bytes of sums in memory.
const MAX_BYTES: usize = 1 << 30;
/// Workgroup memory, in bytes.
const GROUP_BYTES: u32 = 2 * 1536 * 8;

/// The parameters of matmul_cooperative.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SumParameters {
    launched: u32,
    rank: u32,
    m: u32,
    n: u32,
    splits: u32,
    k: u32,
    split_length: u32,
    matrices: u32,
    left_slow: u32,
    right_slow: u32,
    rows: u32,
    columns: u32,
    offsets: [u32; 4],
    space: Space,
}

/// A product that is computed with cooperative matrices.
pub(super) struct Cooperative {
    k_major: [bool; 2],
    parameters: SumParameters,
}

impl Cooperative {
    /// Returns the product if its operands are f16, the device has the required features, k is a
    /// multiple of [`STEP`], and the sums are not too large.
    pub(super) fn of(
        call: &Call<'_>,
        tensors: &Tensors<'_>,
        matmul_parameters: &Parameters,
        k_major: [bool; 2],
    ) -> Option<Cooperative> {
        let gpu = call.gpu;
        let [m, n, k, matrices] = tensors.sizes();
        let has_features =
            gpu.has_cooperative_f16() && gpu.limits.max_compute_workgroup_storage_size >= GROUP_BYTES;
        if !has_features || tensors.a.dtype != DType::F16 || k == 0 || !k.is_multiple_of(STEP) {
            return None;
        }
        let (rows, columns) = (m.next_multiple_of(TILE), n.next_multiple_of(TILE));
        let bytes = matrices * rows * columns * 4;
        // Cooperative matrices are stored to one binding: the shader does not select windows.
        let max_bytes = MAX_BYTES.min(gpu.limits.max_storage_buffer_binding_size as usize);
        let max_splits = (k / MIN_PART_LENGTH).min(max_bytes / bytes).max(1);
        let target_splits = (TARGET_GROUPS / (bytes / (4 * TILE * TILE))).clamp(1, max_splits);
        let split_length = k.div_ceil(target_splits).next_multiple_of(STEP);
        let [a_row, a_inner, b_inner, b_column] = matmul_parameters.inputs;
        let (space, rank) = batch_space(tensors, false, true);
        let parameters = SumParameters {
            launched: 0,
            rank,
            m: matmul_parameters.m,
            n: matmul_parameters.n,
            splits: k.div_ceil(split_length) as u32,
            k: matmul_parameters.k,
            split_length: split_length as u32,
            matrices: matrices as u32,
            left_slow: if k_major[0] { a_row } else { a_inner },
            right_slow: if k_major[1] { b_column } else { b_inner },
            rows: rows as u32,
            columns: columns as u32,
            offsets: matmul_parameters.offsets,
            space,
        };
        (bytes <= max_bytes).then_some(Cooperative { k_major, parameters })
    }

    /// Launches the sums, then the epilogue.
    pub(super) fn launch(
        &self,
        call: &Call<'_>,
        tensors: &Tensors<'_>,
        matmul_parameters: &Parameters,
        function: Function,
    ) -> Result<()> {
        let SumParameters { splits, matrices, rows, columns, .. } = self.parameters;
        let plane = matrices as usize * rows as usize * columns as usize;
        let workspace = call.gpu.alloc(splits as usize * plane * 4)?;
        let parts = call.gpu.workspace(call.name, &workspace)?;
        let [y, a, b, bias, residual] = bindings(call, tensors)?;
        let sums = Launch {
            variant: self.variant(),
            bindings: smallvec::smallvec![parts, a, b],
            groups: splits as usize * plane / (TILE * TILE),
        };
        call.gpu.launch(call.name, sums, bytemuck::bytes_of(&self.parameters))?;
        let added = Parameters {
            splits,
            split_stride: plane as u32,
            // sum_padded_parts reads the padded sizes of the sums from these two fields.
            left_layout: rows,
            right_layout: columns,
            ..*matmul_parameters
        };
        let tiling =
            Tiling { tile: Tile::SumPaddedParts, ..Tiling::with_vec4_tile(tensors.sizes(), self.k_major) };
        let plain = matmul_parameters.is_plain(function);
        let epilogue = Launch {
            variant: super::variant(
                tensors,
                tiling,
                [StorageFormat::of(tensors.y.dtype), StorageFormat::F32],
                function,
                plain,
            ),
            bindings: smallvec::smallvec![y, parts, b, bias, residual],
            groups: tensors.y.layout.elements().div_ceil(4 * GROUP),
        };
        call.gpu.launch(call.name, epilogue, bytemuck::bytes_of(&added))
    }

    /// Returns the shader. The constants set the layout of vec4 in workgroup memory, which the
    /// shader describes. Load functions whose names end in T load a row-major matrix. Nothing else
    /// in the shader may be named A, B or C, because these are the roles of matrices.
    fn variant(&self) -> Variant {
        let number = |k_major: bool, [along, across]: [u32; 2]| if k_major { along } else { across };
        let [left, right] = self.k_major;
        Variant::new(Shader::MatmulCooperative, Class::Float)
            .slot(SlotName::Parts, StorageFormat::F32, Access::CooperativeAccumulator)
            .slot(SlotName::A, StorageFormat::F16, Access::ReadHalfVec4)
            .slot(SlotName::B, StorageFormat::F16, Access::ReadHalfVec4)
            .fill(if left { LeftKMajor::Yes } else { LeftKMajor::No })
            .fill(if right { RightKMajor::Yes } else { RightKMajor::No })
            .fill(Constant::LeftAcross.is(number(left, [4, 32])))
            .fill(Constant::RightAcross.is(number(right, [4, 32])))
            .fill(Constant::LeftStride.is(number(left, [6, 34])))
            .fill(Constant::RightStride.is(number(right, [6, 34])))
            .fill(Constant::LeftUnit.is(number(left, [24, 1])))
            .fill(Constant::RightUnit.is(number(right, [24, 1])))
            .fill(if left { LoadLeft::ByRows } else { LoadLeft::ByColumns })
            .fill(if right { LoadRight::ByColumns } else { LoadRight::ByRows })
            .fill(CooperativeNumber::F32)
            .fill(CooperativeSum::C)
    }
}
