"""Says in the site which measurements are older than the code that they measure.

Generated blocks of the pages, such as from `<!-- tiles:start -->` to `<!-- tiles:end -->`, state
the commit that was measured. If code of the block has changed since, `with_notes` adds a sentence
after the line with the commit. Changes of comments, tests and names of files do not count. Nothing
in the repository is changed.

`MEASURED` has the code that each block measures. A block that is in neither table is an error.
"""

import collections
import functools
import os
import re
import subprocess
import sys

# The beginning and the end of a block, in the three forms that the scripts write.
BEGIN = re.compile(r"<!-- (?:([\w-]+):start\b[^>]*|table:([\w-]+)|written by ([\w./-]+)) -->\s*$")
END = re.compile(r"<!-- (?:([\w-]+):end|end:([\w-]+)|end()) -->\s*$")
COMMIT = re.compile(r"\bcommit ([0-9a-f]{7,40})\b")
HEADING = re.compile(r"#+ +(.*)$")
LABEL = re.compile(r"- (\w+): ")

# A section of a block is named by its heading, a line by the label before its colon.
BY_HEADING, BY_LABEL = "heading", "label"
Parts = collections.namedtuple("Parts", "by paths")


def cuda(*names):
    """The host code of the CUDA backend for these ops."""
    return tuple(f"crates/backend-cuda/src/{name}" for name in names)


def wgpu(*names):
    """The host code of the wgpu backend for these ops."""
    return tuple(f"crates/backend-wgpu/src/ops/{name}" for name in names)


# What every launch uses, and how ops are dispatched and recorded.
LAUNCH = cuda("call.rs", "driver", "launch.rs", "memory", "submit")
DISPATCH = ("crates/core/src/dispatch", "crates/core/src/autograd")
LIB = ("kernels/lib",)
PRODUCTS = ("kernels/gemm", "kernels/ptx", *cuda("ops/matmul", "ops/matmul.rs", "variant/gemm", "variant/gemm.rs", "tiles.rs"))
ATTENTION = ("kernels/attention", "kernels/ptx", *cuda("ops/attention", "ops/attention.rs", "variant/attention.rs"))
ATTENTION_LADDER = ("kernels/attention_ladder", *cuda("attention_ladder.rs", "variant/attention_ladder.rs"), *ATTENTION)
ALL_KERNELS = ("kernels/attention", "kernels/conv", "kernels/gemm", "kernels/lib", "kernels/ops", "kernels/ptx")
CUDA = (*ALL_KERNELS, "crates/backend-cuda/src")
MODELS = ("crates/core/src", "crates/nn/src")
CPU = ("crates/backend-cpu/src",)
WGPU = ("shaders", "crates/backend-wgpu/src")
DEVICES = {"cpu": CPU, "cuda": CUDA, "wgpu": WGPU}
PROGRAMS = ("crates/data/src", "apps/src")
PYTHON = ("crates/python/src", "python/ternion")

GPU_SECTIONS = {
    # Its rows are repeated in the sections, or state their own commit.
    "What must hold": (),
    "From process start to first result": cuda("cache.rs", "driver", "gpu.rs", "gpu", "modules.rs", "modules", "nvrtc.rs", "source.rs", "source"),
    "Host time of an eager op": (*LAUNCH, *DISPATCH),
    "Training steps": (*CUDA, *MODELS),
    "Matrix products": PRODUCTS,
    "Attention": ATTENTION,
    "Convolutions": ("kernels/conv", *cuda("ops/conv.rs"), *PRODUCTS),
    "Elementwise": ("kernels/ops/elementwise.cu", *LIB, *cuda("ops/elementwise.rs", "variant/elementwise.rs", "source/elementwise.rs")),
    "Reductions": ("kernels/ops/reduce.cu", *LIB, *cuda("ops/reduce.rs", "variant/reduction.rs")),
    "Softmax": ("kernels/ops/softmax.cu", *LIB, *cuda("ops/softmax.rs", "variant/softmax.rs", "rows.rs")),
    "Layer normalization": ("kernels/ops/norm.cu", *LIB, *cuda("ops/norm.rs", "variant/norm.rs", "rows.rs")),
    "Transposes": ("kernels/ops/copy.cu", *LIB, *cuda("ops/copy.rs")),
    "Cross-entropy": ("kernels/ops/loss.cu", *LIB, *cuda("ops/loss.rs", "variant/loss.rs")),
    "Gradient of an embedding": ("kernels/ops/scatter.cu", "kernels/ops/sort.cu", *LIB, *cuda("ops/scatter.rs", "variant/index.rs")),
    "AdamW": ("kernels/ops/step.cu", *LIB, *cuda("ops/step.rs", "variant/step.rs")),
    "total_norm": ("kernels/ops/multi_tensor.cu", *LIB, *cuda("ops/multi_tensor.rs")),
}
WGPU_SECTIONS = {
    "What must hold on wgpu": (),
    "Host time of an eager op": ("crates/backend-wgpu/src", *DISPATCH),
    "Training steps": (*WGPU, *MODELS),
    "Matrix products": ("shaders/gemm", "shaders/lib", *wgpu("matmul", "matmul.rs")),
    "Attention": ("shaders/attention", "shaders/gemm", "shaders/lib", *wgpu("attention", "attention.rs")),
    "Convolutions": ("shaders/gemm", "shaders/ops", "shaders/lib", *wgpu("conv.rs", "im2col.rs", "matmul", "matmul.rs")),
    "Elementwise": ("shaders/ops", "shaders/lib", *wgpu("elementwise.rs")),
    "Reductions": ("shaders/ops", "shaders/rows", "shaders/lib", *wgpu("reduce.rs", "rows", "rows.rs")),
    "Softmax": ("shaders/rows", "shaders/lib", *wgpu("softmax.rs", "rows", "rows.rs")),
    "Layer normalization": ("shaders/rows", "shaders/lib", *wgpu("norm.rs", "rows", "rows.rs")),
    "Transposes": ("shaders/ops", "shaders/lib", *wgpu("copy.rs", "transpose.rs")),
    "Cross-entropy": ("shaders/rows", "shaders/lib", *wgpu("loss.rs", "rows", "rows.rs")),
    "Gradient of an embedding": ("shaders/ops", "shaders/lib", *wgpu("scatter.rs", "sort.rs", "radix.rs")),
    "AdamW": ("shaders/ops", "shaders/lib", *wgpu("step.rs", "step_vec4.rs")),
}

# The code whose changes matter, by page and block.
MEASURED = {
    ("README.md", "results"): (*CUDA, *MODELS),
    ("docs/results.md", "cuda"): (*CUDA, *MODELS),
    ("docs/results.md", "wgpu"): (*WGPU, *MODELS),
    ("docs/results.md", "cpu"): (*CPU, *MODELS),
    ("docs/benchmarks.md", "cpu"): (*CPU, *MODELS),
    ("docs/benchmarks.md", "gpu"): Parts(BY_HEADING, GPU_SECTIONS),
    ("docs/benchmarks.md", "commits"): (*LAUNCH, *DISPATCH),
    ("docs/benchmarks.md", "wgpu"): Parts(BY_HEADING, WGPU_SECTIONS),
    ("docs/benchmarks.md", "programs"): Parts(BY_LABEL, {device: (*code, *MODELS, *PROGRAMS) for device, code in DEVICES.items()}),
    ("docs/benchmarks.md", "python"): Parts(BY_LABEL, {"cpu": (*PYTHON, *CPU, *DISPATCH), "cuda": (*PYTHON, *LAUNCH, *DISPATCH)}),
    ("docs/kernels/matmul.md", "tiles"): PRODUCTS,
    ("docs/kernels/matmul.md", "product-errors"): PRODUCTS,
    ("docs/kernels/gemm-ladder.md", "ladder"): ("kernels/ladder", *cuda("ladder.rs", "variant/ladder.rs"), *PRODUCTS),
    ("docs/kernels/attention.md", "tiles"): ATTENTION,
    ("docs/kernels/attention.md", "order"): ATTENTION,
    ("docs/kernels/attention.md", "products"): ATTENTION,
    ("docs/kernels/attention.md", "errors"): ATTENTION,
    ("docs/kernels/attention-ladder.md", "attention-ladder"): ATTENTION_LADDER,
    ("docs/profiles/gpt2-step.md", "timeline"): (*CUDA, *MODELS),
    ("docs/profiles/gpt2-step.md", "timeline-commits"): (*CUDA, *MODELS),
    ("docs/profiles/gpt-curves.md", "curves"): (*CUDA, *MODELS),
}

# Blocks without a measured commit, and why.
NOT_MEASURED = {
    ("ARCHITECTURE.md", "imports"): "read from the sources; .ci/run compares it with them",
    ("docs/conformance.md", "python/conformance/run.py"): "results of tests, which fail if they change",
    ("docs/conformance.md", "python/conformance/torch_database/run.py"): "results of tests, which fail if they change",
    ("docs/results.md", "losses"): "a picture, whose caption states the commit",
    ("docs/kernels/attention.md", "parts"): "a simulation of the arithmetic, without a device",
    ("docs/kernels/attention.md", "probes"): "a history: each row states its commit",
    ("docs/kernels/matmul.md", "probes"): "a history: each row states its commit",
}

# Blocks of benches/peers/experiments.py compare forms of which only one is in the sources. Their
# captions state the commit.
EXPERIMENT = "experiment-"

# The latest change of some paths: the commit, its date, and which of the paths it changed.
Change = collections.namedtuple("Change", "commit date paths")


class History:
    """The history of a repository, as git knows it."""

    # Lines that do not matter, which are comments, and files, which are tests and stubs.
    COMMENT = "^[[:space:]]*(//|# )"
    EXCLUDED = [":(exclude,glob)**/tests.rs", ":(exclude,glob)**/tests/**", ":(exclude,glob)**/*.pyi"]

    def __init__(self, root, warn=lambda text: print(f"warning: {text}", file=sys.stderr)):
        self.root, self.warn = root, warn
        self.changes, self.known = {}, functools.cache(self.is_known)

    def git(self, *arguments):
        """What a command of git prints, or None if it fails."""
        # A hook of git sets variables that name another repository.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = subprocess.run(["git", *arguments], cwd=self.root, env=environment, capture_output=True, text=True)
        except FileNotFoundError:
            return None
        return done.stdout if done.returncode == 0 else None

    def is_known(self, commit):
        """Whether the history of HEAD has a commit. If not, warns."""
        if self.git("merge-base", "--is-ancestor", commit, "HEAD") is not None:
            return True
        self.warn(f"commit {commit} is not in the history of this clone: whether its measurements are out of date is not known")
        return False

    def latest_change(self, commit, paths):
        """The latest change of code after a commit, or None."""
        if not paths or not self.known(commit):
            return None
        if (commit, paths) not in self.changes:
            log = self.git("log", f"-I{self.COMMENT}", "--numstat", "--format=commit %h %cs", f"{commit}..HEAD", "--", *paths, *self.EXCLUDED)
            if log is None:
                self.warn("git log failed: it needs git 2.30 or newer")
            self.changes[commit, paths] = latest(log or "", paths)
        return self.changes[commit, paths]


def latest(log, paths):
    """The newest commit of a log that changed lines of some paths, or None."""
    for entry in re.split(r"^commit ", log, flags=re.M)[1:]:
        head, *files = entry.splitlines()
        rows = [line.split("\t") for line in files if line]
        # A file that was only renamed has no changed lines. Of `a/{b => c}` the new name counts.
        names = [re.sub(r"\{.* => (.*)\}", r"\1", name) for added, removed, name in rows if (added, removed) != ("0", "0")]
        changed = [path for path in paths if any(name == path or name.startswith(path + "/") for name in names)]
        if changed:
            return Change(*head.split(), changed)
    return None


def named(paths):
    """Paths as a list in a sentence: a module's file goes with its folder, and at most three."""
    shown = [f"`{path}`" for path in dict.fromkeys(paths) if path.removesuffix(".rs") == path or path.removesuffix(".rs") not in paths]
    shown = [*shown[:3], "others"] if len(shown) > 3 else shown
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def note(history, commit, paths):
    """The sentence about code that changed after a commit, or an empty string."""
    change = history.latest_change(commit, paths)
    if change is None:
        return ""
    return f"*Measured before the latest change of {named(change.paths)} (commit {change.commit}, {change.date}).*"


def commit_of(line):
    """The commit that a line outside of a table states, the last of several, or None."""
    found = [] if line.startswith("|") else COMMIT.findall(line)
    return found[-1] if found else None


def appended(line, sentence):
    if not sentence:
        return line
    return line + ("" if line.endswith((".", ":")) else ".") + " " + sentence


def name_of(match):
    return next((group for group in match.groups() if group is not None), "")


def paths_of(parts, name, where):
    if name not in parts.paths:
        raise SystemExit(f"error: {where}: {name!r} has no entry in .ci/measured.py, which names the code that it measures")
    return parts.paths[name]


def with_line_notes(lines, paths, history, where):
    """A block whose lines with a commit get a note each. Of equal notes in a row the last stays."""
    result = []
    for number, line in enumerate(lines):
        commit, following = commit_of(line), commit_of(lines[number + 1]) if number + 1 < len(lines) else None
        if commit and isinstance(paths, Parts):
            label = LABEL.match(line)
            line = appended(line, note(history, commit, paths_of(paths, label[1] if label else "", where)))
        elif commit and commit != following:
            line = appended(line, note(history, commit, paths))
        result.append(line)
    return result


def with_section_notes(lines, parts, history, where):
    """A block with a note in each section whose code changed, and their names after the commit."""
    result, at, commit, changed = [], None, None, []

    def name_sections():
        if changed:
            result[at] = appended(result[at], f"*The code of these sections has changed since: {', '.join(changed)}.*")

    for line in lines:
        result.append(line)
        heading = HEADING.match(line)
        if stated := commit_of(line):
            name_sections()
            at, commit, changed = len(result) - 1, stated, []
        elif heading and commit:
            sentence = note(history, commit, paths_of(parts, heading[1], where))
            if sentence:
                result += ["", sentence]
                changed.append(heading[1])
    name_sections()
    return result


def blocks(text, page):
    """The blocks of a page: name, first line and line after the last, counted from 0."""
    name = start = None
    for number, line in enumerate(text.splitlines()):
        if begin := BEGIN.match(line):
            if start is not None:
                raise SystemExit(f"error: {page}:{number + 1}: a block begins in the block {name}")
            name, start = name_of(begin), number + 1
        elif (end := END.match(line)) and start is not None and name_of(end) in (name, ""):
            yield name, start, number
            name = start = None
    if start is not None:
        raise SystemExit(f"error: {page}: the block {name} does not end")


def with_notes(text, page, history, measured=None, not_measured=None):
    """A page with the notes of its blocks.

    Args:
        page: the path of the page in the repository.
        measured, not_measured: tables to use instead of those of this file.

    Raises:
        SystemExit: a block that is in neither table, or that states no commit.
    """
    measured = MEASURED if measured is None else measured
    lines = text.splitlines()
    for name, start, end in reversed(list(blocks(text, page))):
        if name.startswith(EXPERIMENT) or (page, name) in (NOT_MEASURED if not_measured is None else not_measured):
            continue
        where = f"{page}: block {name}"
        if (page, name) not in measured:
            raise SystemExit(f"error: {where}: has no entry in .ci/measured.py, which names the code that it measures")
        if not any(commit_of(line) for line in lines[start:end]):
            raise SystemExit(f"error: {where}: states no commit")
        paths = measured[page, name]
        by_heading = isinstance(paths, Parts) and paths.by == BY_HEADING
        lines[start:end] = (with_section_notes if by_heading else with_line_notes)(lines[start:end], paths, history, where)
    return "\n".join(lines) + "\n"
