"""Tests of the tables of tables.py with made-up figures: python3 -m unittest discover -s
benches/peers
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import tables  # noqa: E402

PAGE = f"# Benchmarks\n\n## CPU\n\nkept\n\n## GPU\n\n{tables.START}\nstale\n{tables.END}\n\nkept too\n"


def line(case, impl, milliseconds, value, unit="GB/s", family=None):
    return dict(case=case, impl=impl, ms=milliseconds, value=value, unit=unit, family=family or case.split("/")[0], round=0)


class Tables(unittest.TestCase):
    def test_only_text_between_markers_changes(self):
        page = tables.update_page(PAGE, [line("elementwise/add/f32", "ternion", 0.1, 1000)])
        self.assertTrue(page.startswith("# Benchmarks\n\n## CPU\n\nkept\n\n## GPU\n\n" + tables.START))
        self.assertTrue(page.endswith(tables.END + "\n\nkept too\n"))
        self.assertNotIn("stale", page)
        again = tables.update_page(page, [line("elementwise/add/f32", "ternion", 0.1, 1000)])
        self.assertEqual(page, again)

    def test_page_without_markers_is_rejected(self):
        for text in ("", tables.START, tables.END + tables.START, PAGE + PAGE):
            with self.assertRaises(SystemExit):
                tables.update_page(text, [line("elementwise/add/f32", "ternion", 0.1, 1000)])

    def test_check_results_replace_only_their_rows(self):
        run = dict(device="NVIDIA X", driver="1.2.3", commit="abc1234", date="today")
        measured = [dict(run=run), line("elementwise/add/f32", "ternion", 0.1, 1000)]
        clean = dict(check="memcheck", passed=7, failed=0, cases=40, errors=0, measured_on=dict(run, backend="cuda"))
        page = tables.update_page(PAGE, measured)
        checked = tables.update_check_rows(page, [clean])
        self.assertEqual(checked, tables.update_page(PAGE, [*measured, clean]))
        self.assertIn("0 errors in 40 cases of 7 tests |", checked)
        # For another commit, the row states it. A later check replaces an earlier one.
        later = tables.update_check_rows(checked, [dict(clean, errors=3, measured_on=dict(clean["measured_on"], commit="def5678"))])
        self.assertIn("3 errors in 40 cases of 7 tests (commit def5678) | no error | **no** |", later)
        self.assertEqual(tables.update_check_rows(later, [clean]), checked)

    def test_earlier_check_rows_are_kept_with_later_measurements(self):
        run = dict(device="NVIDIA X", driver="1.2.3", commit="abc1234", date="today")
        clean = dict(check="memcheck", passed=7, failed=0, cases=40, errors=0, measured_on=dict(run, backend="cuda"))
        other = dict(clean, check="synccheck")
        measured = line("elementwise/add/f32", "ternion", 0.1, 1000)
        page = tables.update_page(PAGE, [dict(run=run), measured, clean, other])
        later = dict(run, commit="def5678")
        # With one commit, then with two.
        for commit in ("def5678", "fed8765"):
            page = tables.update_page(page, [dict(run=dict(run, commit=commit)), measured, dict(other, measured_on=dict(later, commit=commit, backend="cuda"))])
            self.assertIn("0 errors in 40 cases of 7 tests (commit abc1234) | no error | yes |", page)
            self.assertEqual(page.count("0 errors in 40 cases of 7 tests"), 2)
        elsewhere = tables.update_page(page, [dict(run=dict(run, driver="9.9")), measured])
        self.assertNotIn("0 errors", elsewhere, "checks are of a device and its driver")

    def test_checks_of_other_device_are_rejected(self):
        run = dict(device="NVIDIA X", driver="1.2.3", commit="abc1234", date="today")
        page = tables.update_page(PAGE, [dict(run=run), line("elementwise/add/f32", "ternion", 0.1, 1000)])
        for other in (dict(device="NVIDIA Y"), dict(driver="1.2.4"), dict(backend="wgpu")):
            check = dict(check="memcheck", passed=7, failed=0, cases=40, errors=0, measured_on={**run, "backend": "cuda", **other})
            with self.assertRaisesRegex(SystemExit, "error: checks of NVIDIA .*; expected NVIDIA X, driver 1.2.3, backend cuda"):
                tables.update_check_rows(page, [check])
        with self.assertRaisesRegex(SystemExit, "measured cases come first"):
            tables.update_check_rows(PAGE, [])

    def test_ratios_and_copy_fractions(self):
        text = tables.render(
            [
                line("copy/d2d", "ternion", 0.1, 2000, family="elementwise"),
                line("elementwise/add/f32", "ternion", 0.2, 1500),
                line("elementwise/add/f32", "torch", 0.1, 3000),
                line("elementwise/add/f32", "torch/compile", 0.4, 750),
            ]
        )
        self.assertIn("| case | Ternion | rate | of copy | torch | torch/compile |", text)
        self.assertIn("| elementwise/add/f32 | 0.200 ms | 1,500 GB/s | 0.75 | 0.100 ms (**2.00**) | 0.400 ms (0.50) |", text)
        self.assertIn("128 MiB | 0.750 (elementwise/add/f32; 0 of 1 reach it) | at least 0.85 | **no** |", text)
        self.assertIn("| f32 products of 4096 and 8192: least rate over cuBLAS |  | at least 1.9 | not measured |", text)

    def test_fraction_of_equal_copy_is_reported(self):
        text = tables.render([line("reduce/sum_all/bf16", "ternion", 0.1, 900), line("reduce/sum_all/bf16", "copy", 0.09, 1000)])
        self.assertIn("| sum, bf16: smallest fraction of the bandwidth of a copy of as many bytes | 0.900 (reduce/sum_all/bf16; 1 of 1 reach it) | at least 0.85 | yes |", text)
        self.assertIn("| reduce/sum_all/bf16 | 0.100 ms | 900 GB/s | 90.00 us (**1.11**) |", text)

    def test_copy_fraction_uses_copy_of_same_family(self):
        measurements = tables.Measurements(
            [
                line("copy/d2d", "ternion", 0.1, 2000, family="reduce"),
                line("copy/d2d", "ternion", 0.1, 1000, family="softmax"),
                line("softmax/fwd/f32", "ternion", 0.1, 900),
            ]
        )
        self.assertEqual(measurements.copy_fraction("softmax", measurements.get("softmax/fwd/f32", "ternion")), 0.9)

    def test_rounds_give_medians_and_unmeasured_errors_are_kept(self):
        lines = [line("elementwise/add/f32", "ternion", ms, 1 / ms) for ms in (0.3, 0.1, 0.2)]
        lines.append(dict(case="softmax/", impl="cudnn_softmax", error="no cudnn.h", family="softmax", round=0))
        lines.append(dict(case="elementwise/add/f32", impl="ternion", error="once", family="elementwise", round=0))
        measurements = tables.Measurements(lines)
        self.assertEqual(measurements.get("elementwise/add/f32", "ternion")["ms"], 0.2)
        self.assertEqual(measurements.errors, {("softmax", "softmax/", "cudnn_softmax"): "no cudnn.h"})
        self.assertIn("- softmax/ cudnn_softmax: no cudnn.h", tables.render(lines))

    def test_eager_and_graph_training_are_reported(self):
        case = "train/mnist_mlp/f32/b64"
        text = tables.render(
            [
                line(case, "ternion/eager", 0.2, 1, "images/s"),
                line(case, "ternion/graph", 0.02, 1, "images/s"),
                line(case, "torch/graph", 0.04, 1, "images/s"),
                line("launches/" + case, "ternion/eager", 0.0, 17.0, "launches", "train"),
            ]
        )
        self.assertIn(f"| {case} (graph) | 20.00 us | 1 images/s | 40.00 us (0.50) |", text)
        self.assertIn(f"| launches/{case} |  | 17 launches |  |", text)
        self.assertIn(f"| {case} recorded: time over PyTorch's recorded | 0.50 | below 1 | yes |", text)

    def test_gpt_verdicts_use_rate_and_memory(self):
        def render(case, own_rate, *baselines, peak=None):
            lines = [line(case, "ternion/graph", 1, own_rate, "tokens/s"), *(line(case, impl, 1, value, "tokens/s") for impl, value in baselines)]
            lines[0].update({} if peak is None else {"peak_mib": peak})
            return tables.render(lines)

        case = "train/gpt2_124m/bf16"
        text = render(case, 612_000, ("torch/eager", 240_000), ("torch/compile", 450_000), peak=8192)
        self.assertIn(f"| {case} recorded | 612,000 tokens/s, 1.36 of PyTorch's best | at least 600,000 tokens/s | yes |", text)
        self.assertIn(f"| {case} recorded: most memory | 8.00 GiB | at most 8.5 GiB | yes |", text)
        text = render(case, 599_999, peak=8705)
        self.assertIn(f"| {case} recorded | 599,999 tokens/s | at least 600,000 tokens/s | **no** |", text)
        self.assertIn(f"| {case} recorded: most memory | 8.50 GiB | at most 8.5 GiB | **no** |", text)
        for case, ratio in (("train/tiny_gpt/bf16", 1.6), ("train/char_gpt/bf16", 1.25)):
            name = f"| {case} recorded: rate over PyTorch's best "
            self.assertIn(f"{name}| {ratio:.2f} | at least {ratio} | yes |", render(case, ratio * 100, ("torch/eager", 50), ("torch/graph", 100)))
            self.assertIn(f"{name}|  | at least {ratio} | not measured |", render(case, 100))

    def test_each_gpt2_variant_has_rate_and_memory_verdicts(self):
        def verdicts(*lines):
            return [text for text in tables.training_verdicts(tables.Measurements(list(lines))) if "gpt2" in text]

        def result(case, value, peak, impl="ternion/graph"):
            return dict(line(case, impl, 1, value, "tokens/s"), peak_mib=peak)

        default, baseline = "train/gpt2_124m/bf16", result("train/gpt2_124m/bf16", 480_000, 9000, "torch/compile")
        chunked = "train/gpt2_124m_chunked/bf16 recorded, logits of half of the tokens at a time"
        rate, memory = "at least 600,000 tokens/s", "at most 8.5 GiB"
        missing = [f"| {what} |  | {expected} | not measured |" for form in (f"{default} recorded", chunked) for what, expected in ((form, rate), (f"{form}: most memory", memory))]
        self.assertEqual(verdicts(), missing)
        measured = [
            f"| {chunked} | 599,999 tokens/s, 1.25 of PyTorch's best | {rate} | **no** |",
            f"| {chunked}: most memory | 8.00 GiB | {memory} | yes |",
        ]
        self.assertEqual(verdicts(result("train/gpt2_124m_chunked/bf16", 599_999, 8193), baseline), [*missing[:2], *measured])
        # The loss with kept logits is that of the same model as PyTorch's; another vocabulary makes
        # it another model.
        other_verdicts = verdicts(result("train/gpt2_124m_logits/bf16", 624_000, 8000), result("train/gpt2_50257/bf16", 600_000, 8705), baseline)
        expected = [
            f"| train/gpt2_124m_logits/bf16 recorded, all logits kept | 624,000 tokens/s, 1.30 of PyTorch's best | {rate} | yes |",
            f"| train/gpt2_124m_logits/bf16 recorded, all logits kept: most memory | 7.81 GiB | {memory} | yes |",
            f"| train/gpt2_50257/bf16 recorded, vocabulary of 50,257 | 600,000 tokens/s | {rate} | yes |",
            f"| train/gpt2_50257/bf16 recorded, vocabulary of 50,257: most memory | 8.50 GiB | {memory} | **no** |",
        ]
        self.assertEqual(other_verdicts, [*missing, *expected])
        # What only peers have measured gives no row; what failed for Ternion does.
        self.assertEqual(verdicts(result("train/gpt2_50257/bf16", 1, 1, "torch/eager")), missing)
        failed = dict(case="train/gpt2_50257/bf16", impl="ternion/graph", error="no memory", family="train", round=0)
        self.assertEqual([text.split("|")[-2].strip() for text in verdicts(failed)[4:]], ["not measured"] * 2)

    def test_case_without_baseline_uses_baseline_case(self):
        default, chunked = "train/gpt2_124m/bf16", "train/gpt2_124m_chunked/bf16"
        lines = [
            line(default, "ternion/graph", 28, 1, "tokens/s"),
            line(chunked, "ternion/graph", 30, 1, "tokens/s"),
            line(default, "torch/compile", 40, 1, "tokens/s"),
        ]
        for measurement, peak in zip(lines, (9000, 8000, 20000)):
            measurement["peak_mib"] = peak
        text = tables.render(lines)
        self.assertIn(f"| {chunked} | 30.000 ms | 1 tokens/s | 40.000 ms (0.75) |", text)
        self.assertIn(f"\n| {chunked} | 8,000 | 20,000 |\n", text)

    def test_training_memory_has_its_own_table(self):
        def measured(case, impl, peak):
            return dict(line(case, impl, 1, 1, "images/s"), peak_mib=peak)

        text = tables.render([measured("train/a", "torch/eager", 1234), measured("train/a", "ternion/eager", 7), measured("train/a", "ternion/eager", 5), measured("train/b", "ternion/graph", 9)])
        self.assertIn("\n| most memory, MiB | ternion/eager | ternion/graph | torch/eager |\n", text)
        self.assertIn("\n| train/a | 7 |  | 1,234 |\n| train/b |  | 9 |  |\n", text)
        self.assertNotIn("most memory, MiB", tables.render([line("train/a", "torch/eager", 1, 1, "images/s")]))

    def test_matmul_rates_are_compared_with_cublas(self):
        def verdict(label, rates):
            lines = [line(case, impl, 1.0, value, "TFLOP/s", family="gemm") for case, rate in rates.items() for impl, value in (("ternion", 100 * rate), ("torch/cublas", 100))]
            return next(text for text in tables.render(lines).splitlines() if text.startswith(f"| {label}"))

        half = {"gemm/bf16/nn/512": 1.1, "gemm/f16/nn/512": 0.95, "gemm/tf32/nn/2048": 0.5}
        self.assertTrue(verdict("f16 and bf16 products: least", half).endswith("| 0.95 (gemm/f16/nn/512; 2 cases) | at least 0.93 | yes |"))
        self.assertTrue(verdict("f16 and bf16 products: geometric mean", half).endswith("| 1.022 (2 cases) | at least 1.02 | yes |"))
        self.assertTrue(verdict("f16 and bf16 products: geometric mean", {**half, "gemm/bf16/nt/16x4096x4096": 1.0}).endswith("| 1.015 (3 cases) | at least 1.02 | **no** |"))
        # The fourth layout counts only for the minimum rate.
        fourth = {**half, "gemm/bf16/tt/4096": 0.92}
        self.assertTrue(verdict("f16 and bf16 products: least", fourth).endswith("| 0.92 (gemm/bf16/tt/4096; 3 cases) | at least 0.93 | **no** |"))
        self.assertTrue(verdict("f16 and bf16 products: geometric mean", fourth).endswith("| 1.022 (2 cases) | at least 1.02 | yes |"))
        self.assertTrue(verdict("f16 and bf16 products: geometric mean", {"gemm/bf16/tt/4096": 1.1}).endswith("|  | at least 1.02 | not measured |"))
        self.assertTrue(verdict("TF32 products", half).endswith("| 0.50 (gemm/tf32/nn/2048; 1 cases) | at least 0.97 | **no** |"))
        self.assertTrue(verdict("f32 products", {"gemm/f32/nn/1024": 0.5, "gemm/f32/nt/4096": 2.0}).endswith("| 2.00 (gemm/f32/nt/4096; 1 cases) | at least 1.9 | yes |"))
        self.assertTrue(verdict("f32 products", half).endswith("|  | at least 1.9 | not measured |"))

    def test_layouts_are_compared_with_fastest(self):
        def verdict(**times):
            lines = [line(f"gemm/bf16/{layout}/4096", "ternion", ms, 1, "TFLOP/s") for layout, ms in times.items()]
            return tables.layout_verdict(tables.Measurements(lines))

        label = "| bf16 products of 4096: time of the slowest of four layouts over that of the fastest |"
        self.assertEqual(verdict(nn=0.172, nt=0.16, tn=0.168, tt=0.165), f"{label} 1.075 (nn over nt) | at most 1.05 | **no** |")
        self.assertEqual(verdict(nn=0.16, nt=0.164, tn=0.168, tt=0.166), f"{label} 1.050 (tn over nn) | at most 1.05 | yes |")
        self.assertEqual(verdict(nn=0.16, nt=0.16, tn=0.16), f"{label}  | at most 1.05 | not measured |")
        # cuBLAS's times are ignored.
        cublas = tables.Measurements([line(f"gemm/bf16/{layout}/4096", "torch/cublas", 0.1, 1, "TFLOP/s") for layout in tables.LAYOUTS])
        self.assertIn("not measured", tables.layout_verdict(cublas))

    def test_layouts_match_both_programs(self):
        rust = (HERE.parent / "gpu/src/gemm.rs").read_text(encoding="utf-8")
        python = (HERE / "torch_cases.py").read_text(encoding="utf-8")
        others = ", ".join(f'"{layout}"' for layout in tables.LAYOUTS if layout != "nn")
        self.assertIn(f"for layouts in [{others}] {{", rust)
        self.assertIn(f"for layouts in ({others}):", python)

    def test_attention_is_compared_with_cudnn(self):
        def verdicts(**milliseconds):
            lines = []
            for case, (own, baseline) in milliseconds.items():
                case = "attention/" + case.replace("_", "/")
                lines += [line(case, "ternion", own, 1, "TFLOP/s"), line(case, "torch/cudnn", baseline, 1, "TFLOP/s")]
            return list(tables.attention_verdicts(tables.Measurements(lines)))

        rows = verdicts(fwd_bf16_d64_t512_full=(1.0, 0.92), fwd_bf16_d128_t16384_causal=(1.0, 1.25), bwd_bf16_d64_t512_full=(1.0, 0.92), fwd_bf16_d256_t4096_causal=(1.0, 0.89))
        label = "| attention of bf16, forward, heads of 64 and 128: "
        self.assertEqual(rows[0], f"{label}least rate over cuDNN's | 0.920 (attention/fwd/bf16/d64/t512/full; 2 cases) | at least 0.93 | **no** |")
        self.assertEqual(rows[1], f"{label}geometric mean of rates over cuDNN's | 1.072 (2 cases) | at least 1.0 | yes |")
        self.assertIn("bf16, backward, heads", rows[2])
        self.assertTrue(rows[2].endswith("| at least 0.92 | yes |"))
        self.assertEqual(rows[4], "| attention/fwd/bf16/d256/t4096/causal: rate over cuDNN's | 0.89 | at least 0.9 | **no** |")
        self.assertTrue(all(row.endswith("| not measured |") for row in verdicts()))

    def test_cold_start_verdict_states_number_of_cores(self):
        def verdict(*lines):
            return list(tables.start_verdicts(tables.Measurements(list(lines))))[1]

        label = "| process start to GPT-2 124M's first steps, no kernel on disk |"
        cold = dict(line("start/cold_gpt2", "ternion", 14_960, 14_960, "ms"), cuda_cache=False)
        self.assertEqual(verdict(cold, {"run": {"cores": 16}}), f"{label} 15.0 s on 16 cores | at most 15 s on 16 cores | yes |")
        self.assertEqual(verdict(dict(cold, ms=15_100)), f"{label} 15.1 s | at most 15 s on 16 cores | **no** |")
        self.assertEqual(verdict(dict(cold, compiled=71)), f"{label} 15.0 s, 71 kernels compiled | at most 15 s on 16 cores | yes |")
        self.assertEqual(verdict(dict(cold, compiled=0)), f"{label} 15.0 s, 0 kernels compiled | at most 15 s on 16 cores | **no** |")
        self.assertEqual(verdict(), f"{label}  | at most 15 s on 16 cores | not measured |")
        # If CUDA's own cache may have contained the kernels, the start was not cold.
        unknown = dict(line("start/cold_gpt2", "ternion", 1_923, 1_923, "ms"), compiled=54)
        for lines in ([unknown], [cold, dict(unknown, ms=14_960)], [dict(unknown, cuda_cache=True)]):
            text = verdict(*lines)
            self.assertIn(", 54 kernels compiled; not cold: CUDA's own cache was not off | ", text)
            self.assertTrue(text.endswith("| at most 15 s on 16 cores | not measured |"), text)


if __name__ == "__main__":
    unittest.main()
