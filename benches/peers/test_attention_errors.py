"""Tests of attention_errors.py: tables of made-up records, and, if PyTorch is installed, its
arithmetic on the CPU, with small tensors and a program that replaces ternion-bench: python3 -m
unittest discover -s benches/peers
"""

import argparse
import collections
import dataclasses
import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import attention_cases  # noqa: E402
import attention_errors  # noqa: E402
import attention_programs  # noqa: E402
import attention_tables  # noqa: E402
from attention_programs import read_tensors, write_tensors  # noqa: E402

needs_torch = unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
RUN = dict(run=dict(device="Some GPU", driver="1.2", commit="abc1234", date="2000-01-01"))
VERSIONS = dict(versions=dict(torch="9.9", cuda="99.0", cudnn=99000))


def record(case, impl, **errors):
    return dict(case=case, impl=impl, errors={name: dict(max=most, rms=rms, scale=1.0) for name, (most, rms) in errors.items()})


RECORDS = [
    RUN,
    VERSIONS,
    # Measured again below.
    record("shapes/bf16/d64/t512/full", "ternion", y=(9.0, 9.0)),
    record("shapes/bf16/d64/t512/full", "ternion", y=(0.02, 0.003), dq=(0.1, 0.01)),
    record("shapes/bf16/d64/t512/full", "torch/cudnn", y=(0.02, 0.002), dq=(0.1, 0.01)),
    record("shapes/bf16/d64/t512/full", "torch/flash", y=(0.01, 0.003), dq=(0.1, 0.02)),
    record("shapes/f16/d192/t1024/causal-dropout", "ternion", y=(0.3, 0.01), dq=(0.0, 0.0)),
    record("shapes/f16/d192/t1024/causal-dropout", "torch/flash", y=(0.1, 0.01), dq=(0.0, 0.0)),
    dict(case="shapes/f16/d192/t1024/causal-dropout", impl="torch/cudnn", error="RuntimeError: no | kernel\nat all"),
    record("rows/bf16/causal/0", "ternion", y=(0.01, 0.001)),
    record("rows/bf16/causal/0", "torch/ops", y=(0.02, 0.002)),
    record("rows/bf16/causal/1", "ternion", y=(0.01, 0.001)),
]
OTHER_RECORDS = [
    record("varlen/bf16/d64/full", "ternion", y=(0.02, 0.001), dq=(0.1, 0.01)),
    record("varlen/bf16/d64/full", "torch/varlen", y=(0.01, 0.002), dq=(0.1, 0.01)),
    record("bias/f16/d64/t512", "ternion", y=(0.01, 0.001), dmask=(0.5, 0.03)),
    record("bias/f16/d64/t512", "torch/efficient", y=(0.01, 0.001), dmask=(0.2, 0.06)),
    dict(case="bias/f16/d64/t512", impl="torch/cudnn", error="RuntimeError: none"),
    record("decode/bf16/d128/b1", "ternion", y=(0.01, 0.001)),
]


class Tables(unittest.TestCase):
    def setUp(self):
        self.errors = attention_tables.Errors(RECORDS)

    def test_ratios_use_last_measurement_of_each_baseline(self):
        ratios = self.errors.ratios(["shapes/bf16/d64/t512/full"])
        self.assertEqual(len(ratios), 8)
        self.assertEqual(max(ratios)[0], 2.0)
        self.assertEqual(attention_tables.error_ratio(0.0, 0.0), 1.0)
        self.assertEqual(attention_tables.error_ratio(0.1, 0.0), math.inf)

    def test_verdict_names_worst_case(self):
        shapes = attention_tables.verdict_lines(self.errors, "shapes", "shapes")[0]
        self.assertIn("in 1 of 2 shapes; the most is **3.00**: the largest error of y in `shapes/f16/d192/t1024/causal-dropout`, compared with flash.", shapes)
        rows = attention_tables.verdict_lines(self.errors, "rows", "rows")[0]
        self.assertIn("in all of 1 rows; the most is 0.50", rows)
        self.assertIn("1 more have no peer.", rows)

    def test_ratio_table_has_largest_ratio_per_result(self):
        _, _, narrow, wide, _ = attention_tables.ratio_table(self.errors)
        self.assertEqual(narrow, "| bf16 | 64 |  | 2.00 / 1.50 | 1.00 / 1.00 | - / - | - / - |")
        self.assertEqual(wide, "| f16 | 192 | yes | **3.00** / 1.00 | 1.00 / 1.00 | - / - | - / - |")

    def test_details_have_all_errors(self):
        text = "\n".join(attention_tables.details(self.errors))
        self.assertIn("| `bf16/d64/t512/full` | y | 1.00e+00 | 2.00e-02 | 3.00e-03 | 2.00e-02 | 2.00e-03 | 1.00e-02 | 3.00e-03 | 2.00 | 1.50 |", text)
        self.assertIn("| `f16/d192/t1024/causal-dropout` | dq | 1.00e+00 | 0.00e+00 | 0.00e+00 | - | - | 0.00e+00 | 0.00e+00 | 1.00 | 1.00 |", text)

    def test_other_kinds_have_a_row_for_each_case(self):
        text = attention_tables.render(RECORDS + OTHER_RECORDS)
        self.assertIn("Sequences of different lengths:\n\nAt most 2 times the error of PyTorch in all of 1 cases; the most is 2.00", text)
        self.assertIn("| case | y | dq |\n| --- | ---: | ---: |\n| `varlen/bf16/d64/full` | 2.00 / 0.50 | 1.00 / 1.00 |\n", text)
        self.assertIn("in 0 of 1 cases; the most is **2.50**: the largest error of dmask in `bias/f16/d64/t512`, compared with memory-efficient.", text)
        self.assertIn("| `bias/f16/d64/t512` | 1.00 / 1.00 | **2.50** / 0.50 |\n", text)
        self.assertIn("- cuDNN lacks 1 cases such as `bias/f16/d64/t512`: RuntimeError: none\n", text)
        self.assertIn("| `varlen/bf16/d64/full` | y | 1.00e+00 | 2.00e-02 | 1.00e-03 | 1.00e-02 | 2.00e-03 | 2.00 | 0.50 |\n", text)
        # Nothing is compared.
        self.assertNotIn("Few queries", text)

    def test_records_without_other_kinds_have_no_tables_of_them(self):
        text = attention_tables.render(RECORDS)
        self.assertEqual(text.count("<details>"), 1)
        for title in attention_tables.OTHER_KINDS.values():
            self.assertNotIn(title, text)

    def test_page_is_written_between_markers(self):
        start, end = attention_tables.MARKERS
        with tempfile.TemporaryDirectory() as folder:
            page, results = pathlib.Path(folder, "page.md"), pathlib.Path(folder, "errors.jsonl")
            page.write_text(f"before\n{start}\nold\n{end}\nafter\n")
            results.write_text("".join(json.dumps(line) + "\n" for line in RECORDS))
            subprocess.run([sys.executable, str(HERE / "attention_errors.py"), "write", str(results), str(page)], check=True)
            text = page.read_text()
        self.assertIn("PyTorch 9.9 with CUDA 99.0 and cuDNN 99000, 2000-01-01.", text)
        self.assertIn("- cuDNN lacks 1 cases such as `shapes/f16/d192/t1024/causal-dropout`: RuntimeError: no / kernel\n", text)
        self.assertNotIn("old", text)
        self.assertTrue(text.endswith(f"{end}\nafter\n"))


class Cases(unittest.TestCase):
    def test_shapes_match_benchmark(self):
        cases = attention_cases.shape_cases()
        self.assertEqual(len(cases), len({case.name for case in cases}))
        self.assertEqual(len(cases), 2 * 4 * (4 * 2 + 2))
        by_name = {case.name: case for case in cases}
        self.assertEqual(by_name["shapes/bf16/d64/t1024/causal-dropout"].shapes, ((16, 32, 1024, 64),) * 3)
        self.assertEqual(by_name["shapes/bf16/d64/t1024/causal-dropout"].options, dict(causal=True, scale=0.125, dropout=0.1))
        self.assertEqual(by_name["shapes/f16/d192/t16384/full"].shapes[0], (1, 10, 16384, 192))

    def test_other_kinds_match_benchmark(self):
        made = {case.name: case for case in attention_cases.all_cases("", 1)}
        counts = collections.Counter(case.kind for case in made.values())
        self.assertEqual(counts, dict(shapes=80, varlen=8, decode=8, bias=8, forward=22))
        self.assertEqual(set(attention_errors.list_baselines()), set(counts))
        varlen, bias = made["varlen/bf16/d64/causal"], made["bias/f16/d128/t2048"]
        self.assertEqual((varlen.shapes, len(varlen.ends[0])), (((16384, 32, 64),) * 3, 13))
        self.assertEqual((bias.shapes[0], bias.shapes[3], bias.mask_gradient), ((8, 16, 2048, 128), (1, 16, 2048, 2048), True))
        decode = made["decode/bf16/d128/b4h32kv8q8k32768"]
        self.assertEqual((decode.shapes, decode.forward_only), (((4, 32, 8, 128), (4, 8, 32768, 128), (4, 8, 32768, 128)), True))
        self.assertEqual(made["forward/bf16/d64/t32768/full"].shapes[0], (1, 32, 32768, 64))

    def test_sizes_are_those_of_the_benchmark(self):
        """The constants of torch_cases.py, which cannot be imported without a GPU."""
        text = (HERE / "torch_cases.py").read_text(encoding="utf-8")
        self.assertIn(f"\nLENGTHS = {attention_cases.LENGTHS}\n", text)
        self.assertIn(f"\nDECODE = {attention_cases.DECODE}\n", text)

    def test_rows_match_file(self):
        cases = attention_cases.row_cases(attention_errors.ROWS.read_text(encoding="utf-8"), 3)
        self.assertEqual(len(cases), len({case.name for case in cases}))
        self.assertGreater(len(cases), 100)
        self.assertTrue(all(case.is_row and case.draws == 3 and case.dropout < 1 for case in cases))
        by_name = {case.name: case for case in cases}
        self.assertEqual(by_name["rows/f16/plain/0"].shapes, ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 4)))
        self.assertEqual(by_name["rows/bf16/bool mask dropout=0.3/0"].mask, "bool")
        self.assertEqual(by_name["rows/bf16/causal window=2/1"].options["window"], 2)
        self.assertEqual(by_name["rows/f16/varlen causal/3"].ends, ((0, 2, 5, 6), (0, 4, 4, 7)))
        self.assertEqual(by_name["rows/f16/attention_grad varlen causal/0"].shapes, ((7, 2, 2), (9, 1, 2), (9, 1, 5)))
        self.assertEqual({case.mask_value for case in cases if "-1e30" in case.name}, {-1e30})
        self.assertTrue(by_name["rows/bf16/default scale/0"].tied)
        for name, is_expected in (("additive mask", True), ("additive mask constant", False), ("attention_grad_mask causal", True)):
            self.assertEqual(by_name[f"rows/bf16/{name}/0"].mask_gradient, is_expected, name)
        for case in cases:
            if case.ends is not None:
                self.assertTrue(all(ends[-1] <= shape[0] for ends, shape in zip(case.ends, case.shapes)), case.name)

    def test_case_is_finished_if_ternion_succeeded(self):
        results = mock.Mock()
        lines = [dict(case="a", impl="ternion", errors={}), dict(case="a", impl="torch/flash", error="none")]
        with mock.patch("builtins.print"):
            self.assertTrue(attention_errors.store_lines(results, mock.Mock(), lines))
            self.assertFalse(attention_errors.store_lines(results, mock.Mock(), [dict(case="a", impl="ternion", error="none")]))
        self.assertEqual([list(call.kwargs) for call in results.add.call_args_list], [["case", "impl", "errors"], ["case", "impl", "error"], ["finished"], ["case", "impl", "error"]])

    def test_errors_of_draws_are_combined(self):
        draws = [dict(y=dict(max=1.0, rms=3.0, scale=1.0)), dict(y=dict(max=2.0, rms=4.0, scale=1.0))]
        self.assertEqual(attention_errors.combine_errors(draws), dict(y=dict(max=2.0, rms=12.5**0.5, scale=1.0)))


@needs_torch
class Reference(unittest.TestCase):
    """Compares the chunks of attention_reference.py with a computation of all scores at once, whose
    gradient PyTorch computes.
    """

    def compare(self, shapes, options, dropout_mask):
        import torch

        import attention_reference

        if options.mask_gradient:
            options.mask.requires_grad_()
        q, k, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
        group, queries, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
        attended = torch.tensor([[self.attends(options, query + (0 if options.upper_left else keys - queries), key) for key in range(keys)] for query in range(queries)])
        scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * options.scale
        if options.mask is not None and options.mask.dtype == torch.bool:
            attended = attended & options.mask
        elif options.mask is not None:
            scores = scores + options.mask
        weights = scores.masked_fill(~attended, -1e30).softmax(-1) * attended
        y = (weights if dropout_mask is None else weights * dropout_mask / (1 - options.dropout)) @ v.repeat_interleave(group, 1)
        dy = torch.randn_like(y)
        leaves = (q, k, v, options.mask) if options.mask_gradient else (q, k, v)
        expected = (y, *torch.autograd.grad(y, leaves, dy))
        # A few queries and one head at a time.
        with mock.patch.object(attention_reference, "CHUNK_QUERIES", 3):
            with torch.no_grad():
                results = attention_reference.reference(q, k, v, options, dy, dropout_mask, chunk_bytes=1).to_dict()
        self.assertEqual(list(results), ["y", "dq", "dk", "dv", "dmask"][: len(expected)])
        for one, other in zip(results.values(), expected):
            self.assertEqual(one.shape, other.shape)
            self.assertLess((one - other).abs().max().item(), 1e-12)

    def attends(self, options, position, key):
        window = options.window if options.window is not None else 10**6
        return key > position - window and (key <= position if options.causal else key < position + window)

    def test_all_kinds_of_masks(self):
        import torch

        from attention_reference import Options

        torch.manual_seed(0)
        shared, own = ((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 4)), ((1, 2, 6, 4), (1, 2, 4, 4), (1, 2, 4, 2))
        truth, added = torch.rand(2, 1, 1, 7) > 0.3, torch.randn(4, 5, 7, dtype=torch.float64)
        dropout_mask = torch.rand(2, 4, 5, 7) > 0.25
        for shapes, options, dropped in (
            (shared, Options(0.7), None),
            (shared, Options(0.7, causal=True), None),
            # The first queries are fully masked.
            (own, Options(0.7, causal=True), None),
            (own, Options(0.7, window=2), None),
            (shared, Options(0.7, causal=True, window=2, dropout=0.25), dropout_mask),
            (shared, Options(0.7, mask=truth), None),
            (shared, Options(0.7, causal=True, mask=truth, dropout=0.25), dropout_mask),
            (shared, Options(0.7, mask=added, dropout=0.25), dropout_mask),
        ):
            with self.subTest(options=options):
                self.compare(shapes, options, dropped)

    def test_gradients_of_masks_and_upper_left(self):
        import torch

        from attention_reference import Options

        torch.manual_seed(1)
        shapes, dropout_mask = ((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 4)), torch.rand(2, 4, 5, 7) > 0.25
        for mask_shape in ((2, 4, 5, 7), (1, 4, 5, 7), (2, 1, 1, 7), (2, 4, 5, 1), (4, 1, 7), (5, 7), (7,), (1,)):
            for options, dropped in (
                (Options(0.7, mask_gradient=True), None),
                (Options(0.7, causal=True, window=4, mask_gradient=True), None),
                (Options(0.7, dropout=0.25, mask_gradient=True), dropout_mask),
                (Options(0.7, causal=True, upper_left=True, mask_gradient=True), None),
            ):
                with self.subTest(mask=mask_shape, options=options):
                    self.compare(shapes, dataclasses.replace(options, mask=torch.randn(mask_shape, dtype=torch.float64)), dropped)
        # With more queries than keys, no query is fully masked.
        self.compare(((1, 2, 6, 4), (1, 2, 4, 4), (1, 2, 4, 2)), Options(0.7, causal=True, upper_left=True), None)

    def test_sequences_of_different_lengths(self):
        """Attention of all rows at once, with a mask that is true within each sequence."""
        import torch

        from attention_reference import Options, heads_first, reference_varlen, rows_first

        torch.manual_seed(2)
        # Sequences without queries and without keys, and rows after the last sequence.
        ends = ((0, 3, 3, 8, 9), (0, 2, 5, 9, 9))
        of_rows = [[next((at for at in range(4) if cumulative[at] <= row < cumulative[at + 1]), None) for row in range(count)] for cumulative, count in zip(ends, (10, 11))]
        q, k, v, dy = (torch.randn(shape, dtype=torch.float64) for shape in ((10, 4, 3), (11, 2, 3), (11, 2, 5), (10, 4, 5)))
        for options in (Options(0.7), Options(0.7, causal=True), Options(0.7, window=2), Options(0.7, causal=True, window=3, dropout=0.25)):
            with self.subTest(options=options):
                attended = torch.tensor([[self.attends_within(options, ends, *places) for places in self.places(of_rows, query)] for query in range(10)])
                kept = torch.rand(1, 4, 10, 11) > options.dropout
                leaves = [x.clone().requires_grad_() for x in (q, k, v)]
                query, key, value = map(heads_first, leaves)
                scores = query @ key.repeat_interleave(2, 1).transpose(-1, -2) * options.scale
                weights = scores.masked_fill(~attended, -1e30).softmax(-1) * attended
                y = rows_first(weights * kept / (1 - options.dropout) @ value.repeat_interleave(2, 1))
                expected = (y, *torch.autograd.grad(y, leaves, dy))
                results = reference_varlen(q, k, v, ends, options, dy, kept if options.dropout else None).to_dict()
                self.assertEqual(list(results), ["y", "dq", "dk", "dv"])
                for one, other in zip(results.values(), expected):
                    self.assertLess((one - other).abs().max().item(), 1e-12)

    def places(self, of_rows, query):
        """Returns (sequence, query, key) for each key; the sequence is None if it is another."""
        own = of_rows[0][query]
        return [(own if of_key == own else None, query, key) for key, of_key in enumerate(of_rows[1])]

    def attends_within(self, options, ends, sequence, query, key):
        if sequence is None:
            return False
        return self.attends(options, query - ends[0][sequence + 1] + ends[1][sequence + 1], key)

    def test_error_is_over_all_elements(self):
        import torch

        from attention_reference import measure_error

        exact = torch.tensor([3.0, 4.0], dtype=torch.float64)
        self.assertEqual(measure_error(torch.tensor([3.0, 4.5]), exact), dict(max=0.5, rms=0.125**0.5, scale=12.5**0.5))
        with self.assertRaisesRegex(ValueError, "not finite"):
            measure_error(torch.tensor([3.0, math.nan]), exact)
        with self.assertRaisesRegex(ValueError, r"expected shape \[2\], got \[3\]"):
            measure_error(torch.zeros(3), exact)

    def test_dropout_mask_is_read_from_identity(self):
        import torch

        from attention_reference import Options, check_kept_fraction, find_dropout_mask, reference

        torch.manual_seed(0)
        q, k, v = torch.randn(2, 3, 50, 8), torch.randn(2, 3, 45, 8), torch.randn(2, 3, 45, 8)
        dropout_mask, options = torch.rand(2, 3, 50, 45) > 0.25, Options(0.5, dropout=0.25)

        def attend(q, k, v):
            return reference(q, k, v, options, None, dropout_mask).y.bfloat16()

        self.assertTrue(torch.equal(find_dropout_mask(attend, q, k, v, 1), dropout_mask[:1]))
        check_kept_fraction(dropout_mask, options)
        with self.assertRaisesRegex(ValueError, "seems to have kept"):
            check_kept_fraction(torch.rand(2, 3, 50, 50) > 0.5, options)


# Answers like ternion-bench, in float64 with one rounding; drops weights with its own generator.
STAND_IN = """
    import json, pathlib, sys
    sys.path.insert(0, {here!r})
    import torch
    from attention_programs import read_tensors, write_tensors
    from attention_reference import Options, reference, reference_varlen
    print(json.dumps(dict(ready="substitute")), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        x = read_tensors(pathlib.Path(request["inputs"]), "cpu")
        if request["seed"] == 13:
            print(json.dumps(dict(error="an unlucky seed")), flush=True)
            continue
        ends = [x.pop(name).tolist() for name in ("cu_seqlens_q", "cu_seqlens_k") if name in x]
        queries, keys = (x[name].shape[0 if ends else 2] for name in "qk")
        batch, heads = (1 if ends else x["q"].shape[0]), x["q"].shape[1]
        window = request.get("window")
        window = None if window is None else min(window, queries + keys)
        choices = [request.get(name, False) for name in ("upper_left", "mask_gradient")]
        options = Options(request["scale"], request["causal"], window, x.get("mask"), request["dropout"], *choices)
        draws = torch.rand(batch, heads, queries, keys, generator=torch.Generator().manual_seed(request["seed"]))
        kept = draws >= options.dropout if options.dropout else None
        operands = [x[name] for name in "qkv"]
        made = reference_varlen(*operands, ends, options, x.get("dy"), kept) if ends else reference(*operands, options, x.get("dy"), kept)
        made = {{name: value.to(x["q"].dtype)[: request["batches"]] for name, value in made.to_dict().items()}}
        write_tensors(request["outputs"], made)
        print(json.dumps(dict(done=True)), flush=True)
"""


@needs_torch
class Measuring(unittest.TestCase):
    """Whole cases on the CPU, whose results are rounded once: no error exceeds half an ulp."""

    @classmethod
    def setUpClass(cls):
        code = textwrap.dedent(STAND_IN).format(here=str(HERE))
        cls.ternion = attention_programs.Ternion([sys.executable, "-c", code], "cpu")

    @classmethod
    def tearDownClass(cls):
        cls.ternion.__exit__()

    def test_tensors_are_written_and_read_unchanged(self):
        import torch

        tensors = dict(a=torch.randn(3, 5).bfloat16(), b=torch.tensor([True, False, True]), c=torch.zeros(0, 4).half(), d=torch.randn(2, 3).half().t())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tensors")
            write_tensors(path, tensors)
            self.assertEqual(int.from_bytes(path.read_bytes()[:8], "little") % 8, 0)
            results = read_tensors(path, "cpu")
        self.assertEqual(list(results), list(tensors))
        for name, tensor in tensors.items():
            self.assertEqual(results[name].dtype, tensor.dtype)
            self.assertTrue(torch.equal(results[name], tensor))

    def check_errors(self, errors, unit):
        for name, error in errors.items():
            self.assertGreater(error["scale"], 0, name)
            self.assertLess(error["rms"], unit * error["scale"], name)

    def test_shape_is_compared_with_pytorch(self):
        programs = [self.ternion, attention_programs.Torch("torch/flash", "FLASH_ATTENTION"), attention_programs.Torch("torch/cudnn", "CUDNN_ATTENTION")]
        case = attention_cases.Case("shapes/bf16/d8/t40/causal", "bf16", ((2, 3, 40, 8),) * 3, dict(causal=True, scale=0.35, dropout=0.0))
        ours, flash, cudnn = attention_errors.measure_shape(case, programs, 1, "cpu")
        self.assertEqual(list(ours["errors"]), ["y", "dq", "dk", "dv"])
        self.check_errors(ours["errors"], 2.0**-8)
        self.check_errors(flash["errors"], 2.0**-6)
        self.assertEqual((cudnn["impl"], "error" in cudnn), ("torch/cudnn", True))

    def test_each_program_is_compared_with_its_own_dropout_mask(self):
        programs = [self.ternion, attention_programs.Torch("torch/math", "MATH")]
        options = dict(causal=True, scale=0.35, dropout=0.1)
        case = attention_cases.Case("shapes/f16/d16/t100/causal-dropout", "f16", ((2, 3, 100, 16),) * 3, options)
        ours, theirs = attention_errors.measure_shape(case, programs, 1, "cpu")
        self.check_errors(ours["errors"], 2.0**-11)
        self.check_errors(theirs["errors"], 2.0**-8)

    def test_sequences_are_compared_with_pytorch(self):
        ends = (0, 9, 12, 40)
        case = attention_cases.Case("varlen/bf16/d8/causal", "bf16", ((40, 3, 8),) * 3, attention_cases.make_options(8, True), ends=(ends, ends))
        programs = [self.ternion, attention_programs.TorchVarlen(), attention_programs.Torch("torch/flash", "FLASH_ATTENTION")]
        ours, varlen, flash = attention_errors.measure_shape(case, programs, 1, "cpu")
        self.assertEqual(list(ours["errors"]), ["y", "dq", "dk", "dv"])
        self.check_errors(ours["errors"], 2.0**-8)
        self.check_errors(flash["errors"], 2.0**-6)
        # It needs a GPU.
        self.assertEqual((varlen["impl"], "error" in varlen), ("torch/varlen", True))

    def test_varlen_attn_gets_cumulative_lengths(self):
        """Without a GPU, the definition replaces varlen_attn."""
        from attention_reference import Options, reference_varlen

        def attend(q, k, v, *lengths, scale, window_size):
            self.assertEqual(lengths[2:], (28, 31))
            options = Options(scale, causal={(-1, 0): True, (-1, -1): False}[window_size])
            return reference_varlen(q, k, v, [ends.tolist() for ends in lengths[:2]], options).y.to(q.dtype)

        shapes, ends = ((40, 3, 8), (45, 3, 8), (45, 3, 8)), ((0, 9, 12, 40), (0, 9, 14, 45))
        for causal in (False, True):
            case = attention_cases.Case("varlen/bf16/d8", "bf16", shapes, attention_cases.make_options(8, causal), ends=ends, forward_only=True)
            with mock.patch("torch.nn.attention.varlen.varlen_attn", attend):
                _, varlen = attention_errors.measure_shape(case, [self.ternion, attention_programs.TorchVarlen()], 1, "cpu")
            self.check_errors(varlen["errors"], 2.0**-8)

    def test_mask_gradient_is_compared_with_pytorch(self):
        shapes = *((2, 3, 20, 8),) * 3, (1, 3, 20, 20)
        case = attention_cases.Case("bias/f16/d8/t20", "f16", shapes, attention_cases.make_options(8), "additive", mask_gradient=True)
        ours, theirs = attention_errors.measure_shape(case, [self.ternion, attention_programs.Torch("torch/math", "MATH")], 1, "cpu")
        self.assertEqual(list(ours["errors"]), ["y", "dq", "dk", "dv", "dmask"])
        self.check_errors(ours["errors"], 2.0**-11)
        self.check_errors(theirs["errors"], 2.0**-8)

    def test_forward_cases_have_no_gradient(self):
        shapes = (2, 4, 1, 8), *((2, 2, 30, 8),) * 2
        case = attention_cases.Case("decode/bf16/d8", "bf16", shapes, attention_cases.make_options(8), forward_only=True)
        ours, theirs = attention_errors.measure_shape(case, [self.ternion, attention_programs.Torch("torch/math", "MATH")], 1, "cpu")
        for line in (ours, theirs):
            self.assertEqual(list(line["errors"]), ["y"])
            self.check_errors(line["errors"], 2.0**-7)

    def test_every_row_is_measured(self):
        """The program that replaces Ternion answers every row, with all results."""
        cases = attention_cases.row_cases(attention_errors.ROWS.read_text(encoding="utf-8"), 1)
        lines = [line for case in cases for line in attention_errors.measure_row(case, self.ternion, 5, "cpu")]
        self.assertEqual([line for line in lines if "error" in line], [])
        errors = attention_tables.Errors(lines)
        self.assertEqual(len(errors.cases_with_errors("rows")), len(cases))
        for case in cases:
            names = ["y", "dq", "dk", "dv", *(["dmask"] if case.mask_gradient else [])]
            self.assertEqual([list(made) for made in errors.errors[case.name].values()], [names, names], case.name)

    def test_rows_are_compared_with_single_ops(self):
        cases = attention_cases.row_cases(attention_errors.ROWS.read_text(encoding="utf-8"), 2)
        names = ["plain/1", "causal/3", "causal window=2/0", "causal window=all/0", "bool mask/1", "additive mask/1", "dropout=0.5/0", "bool mask dropout=0.3/0"]
        names += ["varlen causal/0", "varlen wide 64 dropout=0.2/0", "causal upper left, mask/1", "attention_grad_mask dropout offset=5/0", "default scale/0"]
        selected = [case for case in cases if case.name.removeprefix("rows/f16/") in names]
        self.assertEqual(len(selected), len(names))
        for case in selected:
            with self.subTest(case=case.name):
                ours, theirs = attention_errors.measure_row(case, self.ternion, 3, "cpu")
                self.assertEqual((ours["impl"], theirs["impl"]), ("ternion", "torch/ops"))
                self.check_errors(ours["errors"], 2.0**-11)
                self.check_errors(theirs["errors"], 2.0**-7)

    def test_resume_measures_missing_cases(self):
        with tempfile.TemporaryDirectory() as folder:
            bundle, out = pathlib.Path(folder), pathlib.Path(folder, "errors.jsonl")
            program = bundle / "ternion-bench"
            program.write_text(f"#!{sys.executable}\n" + textwrap.dedent(STAND_IN).format(here=str(HERE)))
            program.chmod(0o755)
            given = dict(bundle=bundle, out=out, draws=1, seed=1, time_limit=None)
            with mock.patch.object(attention_errors, "DEVICE", "cpu"), mock.patch("builtins.print"):
                attention_errors.run(argparse.Namespace(**given, only=["rows/f16/causal/0"], resume=False))
                attention_errors.run(argparse.Namespace(**given, only=["rows/f16/causal/"], resume=True))
            lines = [json.loads(line) for line in out.read_text().splitlines()]
        finished = [line["finished"] for line in lines if "finished" in line]
        self.assertEqual(finished, [f"rows/f16/causal/{number}" for number in range(4)])
        self.assertEqual(sum("errors" in line for line in lines), 2 * 4)
        self.assertIn("Rows of the op table, compared with PyTorch op by op", attention_tables.render(lines))

    def test_rejected_call_is_recorded_as_error(self):
        case = attention_cases.Case("rows/f16/plain/0", "f16", ((1, 1, 2, 8),) * 3, dict(causal=False, scale=0.5, dropout=0.0), draws=2)
        (line,) = attention_errors.measure_row(case, self.ternion, 13, "cpu")
        self.assertEqual(line, dict(case=case.name, impl="ternion", error="ValueError: an unlucky seed"))


if __name__ == "__main__":
    unittest.main()
