"""Tests of timeline.py with made-up steps: python3 -m unittest discover -s benches/peers"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import timeline  # noqa: E402

# As ternion-bench writes it.
OURS = "\n".join(
    [
        "\t".join(timeline.COLUMNS),
        "ternion/eager\t0\t0.000\t4.000\t0.000\tproducts\tmatmul\tproduct\tgemm/mma.cu (A)\t132x1x1\t128x1x1\t64\t32\t0",
        "ternion/graph\t0\t0.000\t4.000\t0.000\tproducts\tmatmul\tproduct\tgemm/mma.cu (A)\t132x1x1\t128x1x1\t64\t32\t0",
        "ternion/graph\t1\t4.500\t0.500\t0.500\tmemset and memcpy\t\tfill\t\t0x0x0\t0x0x0\t0\t0\t4096",
        "ternion/graph\t2\t5.000\t2.000\t0.000\tproducts\tmatmul\tproduct\tgemm/mma.cu (A)\t64x1x1\t128x1x1\t64\t32\t0",
        "ternion/graph\t3\t6.000\t2.000\t0.000\telementwise\tgelu\tline\tops/elementwise.cu (<T> | U)\t64x1x1\t128x1x1\t0\t32\t0",
        "",
    ]
)

TRACE = {
    "traceEvents": [
        {"cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 900},
        {"cat": "kernel", "name": "triton_per_fused_native_layer_norm_3", "ts": 120.5, "dur": 10, "args": {"grid": [8, 1, 1], "block": [64, 1, 1], "registers per thread": 40, "shared memory": 128}},
        {"cat": "kernel", "name": "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "ts": 100.0, "dur": 20, "args": {"grid": [132, 1, 1], "block": [384, 1, 1]}},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "ts": 130.5, "dur": 1.5, "args": {"bytes": 64}},
    ]
}


class Steps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "ours.tsv").write_text(OURS)

    def run_script(self, *arguments):
        command = [sys.executable, str(HERE / "timeline.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.path, check=False)

    def test_group_times_add_up_to_span(self):
        eager, graph = timeline.group_by_mode(timeline.read_tsv(self.path / "ours.tsv"))
        self.assertEqual((eager.name, eager.span, graph.span), ("ternion/eager", 4.0, 8.0))
        # Overlapping time counts once.
        self.assertEqual(dict(graph.times), {"products": 6.0, "memset and memcpy": 0.5, "gaps": 0.5, "elementwise": 1.0})
        self.assertEqual(sum(graph.times.values()), graph.span)
        (key, (time, count, grids)), *_ = graph.kernels()
        self.assertEqual((key, time, count, grids), (("products", "matmul", "product", "gemm/mma.cu (A)"), 6.0, 2, {"132x1x1", "64x1x1"}))

    def test_recorded_steps_of_two_commits_are_compared(self):
        (self.path / "before.tsv").write_text(OURS.replace("\t4.000\t0.000\tproducts", "\t4.400\t0.000\tproducts"))
        (self.path / "page.md").write_text("a\n" + "\n".join(timeline.COMMITS_MARKERS) + "\nb\n")
        missing = self.run_script("commits", "before.tsv", "ours.tsv", "page.md")
        self.assertIn("before.tsv: expected before.json next to it", missing.stderr)
        for name, commit in (("before", "b1"), ("ours", "c2")):
            (self.path / f"{name}.json").write_text(json.dumps(dict(modes=[], device="D", driver="1", commit=commit, date="now")))
        written = self.run_script("commits", "before.tsv", "ours.tsv", "page.md")
        self.assertEqual(written.returncode, 0, written.stderr)
        text = (self.path / "page.md").read_text()
        self.assertIn("Before: D, driver 1, commit b1, now. Now: D, driver 1, commit c2, now.", text)
        self.assertIn("| products | 0.006 (2) | 0.006 (2) | -0.000 |", text)
        self.assertIn("| elementwise | 0.001 (1) | 0.001 (1) | +0.000 |", text)
        eager_alone = "\n".join(OURS.splitlines()[:2]) + "\n"
        (self.path / "before.tsv").write_text(eager_alone)
        self.assertIn("expected the mode ternion/graph, got ternion/eager", self.run_script("commits", "before.tsv", "ours.tsv", "page.md").stderr)

    def test_pytorch_trace_is_converted_to_same_table(self):
        (self.path / "trace.json").write_text(json.dumps(TRACE))
        completed = self.run_script("convert", "trace.json", "--out", "torch.tsv")
        self.assertEqual(completed.returncode, 0, completed.stderr)
        rows = timeline.read_tsv(self.path / "torch.tsv")
        self.assertEqual([row["group"] for row in rows], ["products", "norm", "memset and memcpy"])
        self.assertEqual([row["start_us"] for row in rows], [0.0, 20.5, 30.5])
        self.assertEqual([row["gap_us"] for row in rows], [0.0, 0.5, 0.0])
        self.assertEqual((rows[1]["grid"], rows[1]["registers"], rows[1]["shared"], rows[2]["bytes"]), ("8x1x1", "40", "128", "64"))
        (self.path / "trace.json").write_text('{"traceEvents": []}')
        self.assertIn("no kernel", self.run_script("convert", "trace.json").stderr)

    def test_pytorch_kernels_have_groups(self):
        for name, group in {
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu>": "products",
            "pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": "attention",
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop": "attention",
            "triton_red_fused__log_softmax_nll_loss_forward_12": "loss",
            "triton_poi_fused_gelu_7": "elementwise",
            "triton_poi_fused__to_copy_5": "casts and copies",
            "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>": "optimizer",
            "triton_red_fused_sum_2": "reductions",
            "Memset (Device)": "memset and memcpy",
            "unheard_of": "other",
        }.items():
            self.assertEqual(timeline.torch_group(name), group, name)

    def test_page_and_picture(self):
        (self.path / "trace.json").write_text(json.dumps(TRACE))
        self.run_script("convert", "trace.json", "--out", "torch.tsv")
        completed = self.run_script("write", "ours.tsv", "torch.tsv", "page.md", "--title", "The step")
        self.assertEqual(completed.returncode, 0, completed.stderr)
        page = (self.path / "page.md").read_text()
        self.assertTrue(page.startswith("# The step\n\n" + timeline.START + "\n![Where the time goes](page.svg)\n"))
        self.assertIn("| group | ternion/eager, ms | ternion/graph, ms | torch/compile, ms | fraction of ternion/graph | kernels |", page)
        self.assertIn("| products | 0.004 | 0.006 | 0.020 | 75.0 % | 1 / 2 / 1 |", page)
        self.assertIn("| **all** | **0.004** | **0.008** | **0.032** | 100 % | 1 / 4 / 3 |", page)
        self.assertIn("| elementwise | gelu | `line` | ops/elementwise.cu (<T> / U) | 1 | 64x1x1 | 0.001 | 12.50 % |", page)
        # The groups of Ternion's last way are sorted by their fraction.
        self.assertLess(page.index("| products | 0.004"), page.index("| elementwise |  | 0.001"))
        drawn = xml.etree.ElementTree.parse(self.path / "page.svg").getroot()
        titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
        self.assertIn("products: 0.006 ms", titles)
        self.assertIn("gelu line ops/elementwise.cu (<T> | U) 2.0 us", titles)
        self.assertEqual(sum("matmul" in title for title in titles), 3)
        # Written again, only the text between the markers changes.
        (self.path / "page.md").write_text("before\n" + page + "after\n")
        self.assertEqual(self.run_script("write", "ours.tsv", "torch.tsv", "page.md").returncode, 0)
        self.assertEqual((self.path / "page.md").read_text(), "before\n" + page + "after\n")

    def test_page_states_provenance(self):
        def written(json_path):
            (self.path / "ours.json").write_text(json_path if isinstance(json_path, str) else json.dumps(json_path))
            (self.path / "page.md").unlink(missing_ok=True)
            completed = self.run_script("write", "ours.tsv", "ours.tsv", "page.md")
            return (self.path / "page.md").read_text() if completed.returncode == 0 else completed.stderr

        run = dict(device="Some GPU", driver="580.1", commit="abc1234", date="2026-01-01 00:00 UTC", case="train/x", modes=[])
        self.assertIn(timeline.START + "\nSome GPU, driver 580.1, commit abc1234, 2026-01-01 00:00 UTC.\n\n![Where", written(run))
        self.assertIn("\nSome GPU, driver unknown, commit unknown, 2026-01-01 00:00 UTC.\n", written(run | dict(driver=None, commit=None)))
        # A file from before these fields existed, and files of other programs.
        for other in (dict(case="train/x", modes=[]), TRACE, []):
            self.assertIn(timeline.START + "\n![Where", written(other))
        self.assertIn("error: ours.json: ", written("no JSON"))

    def test_program_writes_fields_of_provenance(self):
        program = (HERE.parent / "gpu/src/provenance.rs").read_text(encoding="utf-8")
        for key in ("device", "driver", "commit", "date"):
            self.assertIn(f'"{key}": ', program)

    def test_invalid_tables_and_pages_are_rejected(self):
        (self.path / "bad.tsv").write_text("a\tb\n")
        self.assertIn("expected a first line of the columns", self.run_script("write", "bad.tsv", "page.md").stderr)
        (self.path / "bad.tsv").write_text("\t".join(timeline.COLUMNS) + "\nternion\t1\n")
        self.assertIn("bad.tsv:2: expected 14 cells, got 2", self.run_script("write", "bad.tsv", "page.md").stderr)
        (self.path / "page.md").write_text("no markers")
        self.assertIn("expected <!-- timeline:start -->", self.run_script("write", "ours.tsv", "page.md").stderr)
        self.assertFalse((self.path / "page.svg").exists())
        self.assertIn("expected tables", self.run_script("write", "page.md").stderr)
        self.assertIn("error: ", self.run_script("write", "none.tsv", "page.md").stderr)


if __name__ == "__main__":
    unittest.main()
