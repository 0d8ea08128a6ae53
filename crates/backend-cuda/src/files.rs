//! The files of `kernels/`, which are embedded in the library, and the programs that are compiled
//! from them.
//!
//! A file includes others by `#include "lib/rows.cuh"`, with paths relative to `kernels/`. NVRTC
//! gets every file that the root includes, directly or indirectly, as a header of that name, and
//! resolves includes and conditionals itself.

use std::collections::HashSet;

/// A file of `kernels/`: its path relative to that folder, and its source.
pub type File = (&'static str, &'static str);

macro_rules! file {
    ($path:literal) => {
        ($path, include_str!(concat!("../kernels/", $path)))
    };
}

/// Every `.cu` and `.cuh` file of `kernels/`, by path.
pub(crate) const FILES: &[File] = &[
    file!("attention/dropout.cuh"),
    file!("attention/dropout_bits.cu"),
    file!("attention/dropout_bits.cuh"),
    file!("attention/f32_forward.cu"),
    file!("attention/f32_grad.cu"),
    file!("attention/f32_mma.cuh"),
    file!("attention/forward.cu"),
    file!("attention/forward_tma.cu"),
    file!("attention/grad.cu"),
    file!("attention/grad_by_keys.cu"),
    file!("attention/grad_by_keys_wide.cu"),
    file!("attention/grad_mask.cu"),
    file!("attention/grad_mask.cuh"),
    file!("attention/grad_producer.cuh"),
    file!("attention/grad_rows.cu"),
    file!("attention/grad_scheduler.cuh"),
    file!("attention/grad_scores.cuh"),
    file!("attention/half.cuh"),
    file!("attention/key_mask.cuh"),
    file!("attention/mask.cuh"),
    file!("attention/merge_splits.cu"),
    file!("attention/mma.cuh"),
    file!("attention/params.cuh"),
    file!("attention/simt.cuh"),
    file!("attention/simt_forward.cu"),
    file!("attention/simt_grad.cu"),
    file!("attention/simt_grad_mask.cu"),
    file!("attention/softmax.cuh"),
    file!("attention/varlen.cuh"),
    file!("attention/warpgroup_softmax.cuh"),
    file!("attention/wgmma.cuh"),
    file!("attention_ladder/01_naive.cu"),
    file!("attention_ladder/02_tiled.cu"),
    file!("attention_ladder/03_online_softmax.cu"),
    file!("attention_ladder/04_mma.cu"),
    file!("attention_ladder/05_wgmma.cu"),
    file!("attention_ladder/06_warp_specialized.cu"),
    file!("attention_ladder/07_ping_pong.cu"),
    file!("attention_ladder/attention.cuh"),
    file!("attention_ladder/fragments.cuh"),
    file!("attention_ladder/producer.cuh"),
    file!("attention_ladder/stored_scores.cuh"),
    file!("attention_ladder/warpgroups.cuh"),
    file!("conv/im2col.cu"),
    file!("gemm/gemm.cuh"),
    file!("gemm/mma.cu"),
    file!("gemm/simt.cu"),
    file!("gemm/split_bf16x3.cu"),
    file!("gemm/tf32.cu"),
    file!("gemm/wgmma.cu"),
    file!("gemm/wgmma_bf16x6.cuh"),
    file!("gemm/wgmma_fused.cuh"),
    file!("gemm/wgmma_loop.cuh"),
    file!("gemm/wgmma_plain.cuh"),
    file!("gemm/wgmma_registers.cuh"),
    file!("gemm/wgmma_split_k.cu"),
    file!("gemm/wgmma_split_k_fixup.cuh"),
    file!("gemm/wgmma_sums.cuh"),
    file!("gemm/wgmma_tile.cuh"),
    file!("ladder/01_naive.cu"),
    file!("ladder/02_coalesced.cu"),
    file!("ladder/03_shared_memory.cu"),
    file!("ladder/04_block_tile_1d.cu"),
    file!("ladder/05_block_tile_2d.cu"),
    file!("ladder/06_vectorized.cu"),
    file!("ladder/07_warp_tile.cu"),
    file!("ladder/08_double_buffered.cu"),
    file!("ladder/09_mma_sync.cu"),
    file!("ladder/10_wgmma_tma.cu"),
    file!("ladder/11_warp_specialized.cu"),
    file!("ladder/12_multicast.cu"),
    file!("ladder/matrices.cuh"),
    file!("ladder/packs.cuh"),
    file!("ladder/wgmma_tiles.cuh"),
    file!("lib/activations.cuh"),
    file!("lib/base.cuh"),
    file!("lib/functions.cuh"),
    file!("lib/index_space.cuh"),
    file!("lib/launch.cuh"),
    file!("lib/narrow.cuh"),
    file!("lib/philox.cuh"),
    file!("lib/reduce.cuh"),
    file!("lib/rows.cuh"),
    file!("lib/types.cuh"),
    file!("lib/vec.cuh"),
    file!("lib/window.cuh"),
    file!("ops/assemble.cu"),
    file!("ops/batch_norm.cu"),
    file!("ops/column_sums.cuh"),
    file!("ops/copy.cu"),
    file!("ops/create.cu"),
    file!("ops/cumulative.cu"),
    file!("ops/elementwise.cu"),
    file!("ops/index.cu"),
    file!("ops/loss.cu"),
    file!("ops/multi_tensor.cu"),
    file!("ops/norm.cu"),
    file!("ops/pool.cu"),
    file!("ops/random.cu"),
    file!("ops/reduce.cu"),
    file!("ops/scatter.cu"),
    file!("ops/softmax.cu"),
    file!("ops/sort.cu"),
    file!("ops/step.cu"),
    file!("probe/launch.cu"),
    file!("ptx/barrier.cuh"),
    file!("ptx/bulk.cuh"),
    file!("ptx/cluster.cuh"),
    file!("ptx/cp_async.cuh"),
    file!("ptx/cvt.cuh"),
    file!("ptx/delay.cuh"),
    file!("ptx/delayed_barriers.cuh"),
    file!("ptx/griddepcontrol.cuh"),
    file!("ptx/ldmatrix.cuh"),
    file!("ptx/math.cuh"),
    file!("ptx/mbarrier.cuh"),
    file!("ptx/memory.cuh"),
    file!("ptx/mma.cuh"),
    file!("ptx/prmt.cuh"),
    file!("ptx/registers.cuh"),
    file!("ptx/stmatrix.cuh"),
    file!("ptx/tma.cuh"),
    file!("ptx/wgmma.cuh"),
    file!("ptx/wgmma_ordered.cuh"),
    file!("ptx/wgmma_rs.cuh"),
    file!("ptx/wgmma_ss.cuh"),
];

/// A program for the compiler: the source of its main file, and the headers that it includes.
#[derive(Debug)]
pub struct Program {
    /// The macros of a variant, and the `#include` directives of its roots.
    pub source: String,
    /// The roots and everything that they include, directly or indirectly.
    pub headers: Vec<File>,
}

impl Program {
    /// Creates the program that defines `macros` and includes `roots` in this order.
    pub(crate) fn new<'a>(roots: &[&str], macros: impl Iterator<Item = (&'a str, &'a str)>) -> Program {
        let defines = macros.map(|(name, value)| format!("#define {name} {value}\n"));
        let source = defines.chain(roots.iter().map(|root| format!("#include \"{root}\"\n"))).collect();
        Program { source, headers: with_includes(roots) }
    }

    /// Returns the source, and the path and the source of each header: everything that the machine
    /// code depends on, for digests.
    pub fn digest_parts(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.iter().flat_map(|&(path, text)| [path, text]);
        std::iter::once(self.source.as_str()).chain(headers)
    }
}

/// Returns the paths that a source includes, in any branch of its conditionals.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let directive = line.trim_start().strip_prefix('#')?.trim_start();
        directive.strip_prefix("include")?.trim_start().strip_prefix('"')?.split('"').next()
    })
}

/// Returns the file with this path. Paths without a file are ignored here; the compiler reports
/// them.
fn find_file(path: &str) -> Option<File> {
    FILES.iter().copied().find(|(listed, _)| *listed == path)
}

/// Returns `roots` and everything that they include, each once.
fn with_includes(roots: &[&str]) -> Vec<File> {
    let mut files: Vec<File> = roots.iter().filter_map(|root| find_file(root)).collect();
    let mut visited: HashSet<&str> = files.iter().map(|&(path, _)| path).collect();
    let mut next = 0;
    while let Some(&(_, text)) = files.get(next) {
        files.extend(includes(text).filter_map(find_file).filter(|&(path, _)| visited.insert(path)));
        next += 1;
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::{study_variants, variants};
    use std::collections::BTreeSet;
    use std::path::Path;

    fn files_on_disk(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                files_on_disk(&entry.path(), &format!("{path}/"), found);
            } else if path.ends_with(".cu") || path.ends_with(".cuh") {
                found.insert(path);
            }
        }
    }

    #[test]
    fn every_file_is_listed() {
        let mut found = BTreeSet::new();
        files_on_disk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels"), "", &mut found);
        let listed: Vec<&str> = FILES.iter().map(|&(path, _)| path).collect();
        assert!(listed.iter().eq(found.iter()), "listed, by path: {listed:?}, on disk: {found:?}");
    }

    #[test]
    fn every_include_is_a_listed_file() {
        for (path, text) in FILES {
            for included in includes(text) {
                assert!(find_file(included).is_some(), "{path} includes {included}, which is not listed");
            }
        }
    }

    #[test]
    fn headers_are_guarded_and_roots_are_not_included() {
        for (path, text) in FILES {
            let is_guarded = text.lines().any(|line| line == "#pragma once");
            assert_eq!(is_guarded, path.ends_with(".cuh"), "{path}");
            assert!(includes(text).all(|included| included.ends_with(".cuh")), "{path}");
        }
    }

    #[test]
    fn no_file_is_unused() {
        let all = variants().into_iter().chain(study_variants());
        let sources: Vec<_> = all.map(|variant| variant.source_with_delays()).collect();
        assert!(sources.iter().all(|source| find_file(source.file).is_some()));
        let programs: Vec<Program> = sources.iter().map(|source| source.program()).collect();
        let used: BTreeSet<&str> =
            programs.iter().flat_map(|program| &program.headers).map(|&(path, _)| path).collect();
        for (path, _) in FILES {
            assert!(used.contains(path), "{path} is not part of any kernel");
        }
    }

    #[test]
    fn every_barrier_has_a_form_with_delays() {
        let (_, delayed) = find_file("ptx/delayed_barriers.cuh").expect("the macros");
        for (path, text) in FILES.iter().filter(|(path, _)| *path != "ptx/delayed_barriers.cuh") {
            for after in text.split("__sync").skip(1) {
                let name: String = after.chars().take_while(|&c| c == '_' || c.is_alphanumeric()).collect();
                let is_call = after[name.len()..].starts_with('(');
                let definition = format!("#define __sync{name}(");
                assert!(!is_call || delayed.contains(&definition), "{path}: __sync{name} has no delay");
            }
        }
    }

    #[test]
    fn includes_are_found_in_any_spelling_and_branch() {
        let text = "// #include \"a\"\n#if X\n#  include \"lib/b.cuh\"\n#endif\n#include <c>\n#pragma once";
        assert_eq!(includes(text).collect::<Vec<_>>(), ["lib/b.cuh"]);
    }

    #[test]
    fn a_program_depends_on_what_its_headers_include() {
        let program = Program::new(&["ops/softmax.cu"], [("TYPE", "float")].into_iter());
        assert_eq!(program.source, "#define TYPE float\n#include \"ops/softmax.cu\"\n");
        let paths: Vec<&str> = program.headers.iter().map(|&(path, _)| path).collect();
        assert_eq!(paths[0], "ops/softmax.cu");
        for path in ["lib/rows.cuh", "lib/functions.cuh", "lib/narrow.cuh", "ptx/cvt.cuh"] {
            assert!(paths.contains(&path), "{path} in {paths:?}");
        }
        assert!(
            program.digest_parts().any(|part| part.contains("struct f16")),
            "the text of an indirect header"
        );
        assert!(Program::new(&["no/such.cu"], std::iter::empty()).headers.is_empty());
    }
}
