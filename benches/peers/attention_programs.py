"""The programs that attention_errors.py compares: Ternion, PyTorch's fused attention, and attention
by single ops of PyTorch. Tensors are exchanged with Ternion as safetensors files in memory.
"""

import contextlib
import ctypes
import json
import pathlib
import shutil
import subprocess
import tempfile

# Folder in memory for exchanged tensors. It is used only if it has enough free space; in containers
# it may have only a few MiB.
SHARED_MEMORY = pathlib.Path("/dev/shm")
MIN_SHARED_MEMORY_BYTES = 2 << 30
GRADIENTS = ("dq", "dk", "dv", "dmask")

# ---------------------------------------------------------------- tensors in files

DTYPE_NAMES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "I32": "int32", "BOOL": "bool"}


def write_tensors(path, tensors):
    """Writes a safetensors file."""
    entries, end, parts = {}, 0, []
    dtype_names = {f"torch.{torch_name}": name for name, torch_name in DTYPE_NAMES.items()}
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous().cpu()
        size = tensor.numel() * tensor.element_size()
        entries[name] = dict(dtype=dtype_names[str(tensor.dtype)], shape=list(tensor.shape), data_offsets=[end, end + size])
        parts.append(tensor)
        end += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for tensor in parts:
            size = tensor.numel() * tensor.element_size()
            if size:
                file.write((ctypes.c_char * size).from_address(tensor.data_ptr()))


def read_tensors(path, device):
    """Reads the tensors of a safetensors file."""
    import torch

    data = bytearray(path.read_bytes())
    data_start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:data_start]).items():
        if name == "__metadata__":
            continue
        dtype, (start, end) = getattr(torch, DTYPE_NAMES[entry["dtype"]]), entry["data_offsets"]
        flat = torch.frombuffer(data[data_start + start : data_start + end], dtype=dtype) if end > start else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"]).to(device)
    return tensors


# ---------------------------------------------------------------- programs


class Ternion:
    """`ternion-bench attend`, which answers one request per line."""

    impl = "ternion"

    def __init__(self, command, device):
        self.device = device
        has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= MIN_SHARED_MEMORY_BYTES
        self.folder = tempfile.TemporaryDirectory(dir=SHARED_MEMORY if has_room else None)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read_answer("ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The process may have exited before.
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def read_answer(self, key):
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f"error: {self.process.args[0]} ended with exit status {self.process.wait()}")
        line = json.loads(text)
        if key not in line:
            raise ValueError(line.get("error", text.strip()))

    def attend(self, operands, case, seed, batches=None, dy=None):
        """Returns y, and the gradients if dy is given, by name. With dropout, results are limited
        to the first `batches` of the batch.
        """
        inputs, outputs = (pathlib.Path(self.folder.name, name) for name in ("inputs", "outputs"))
        gradient_inputs = {} if dy is None else dict(dy=dy)
        write_tensors(inputs, {**operands, **gradient_inputs})
        request = dict(case.options, inputs=str(inputs), outputs=str(outputs), seed=seed, batches=batches)
        if case.mask_gradient and dy is not None:
            request["mask_gradient"] = True
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        self.read_answer("done")
        return read_tensors(outputs, self.device)


def make_leaves(operands, mask_gradient):
    """Returns q, k, v and the mask (None without one). Those whose gradients are compared require a
    gradient.
    """
    leaves = [operands[name].detach().requires_grad_() for name in "qkv"]
    mask = operands.get("mask")
    return [*leaves, mask.detach().requires_grad_() if mask_gradient else mask]


def collect_results(y, leaves, dy):
    """Returns y, and the gradients of the leaves that require one if dy is given, by name."""
    import torch

    results = dict(y=y.detach())
    if dy is not None:
        leaves = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        results.update(zip(GRADIENTS, torch.autograd.grad(y, leaves, dy)))
    return results


class Torch:
    """scaled_dot_product_attention by one of PyTorch's backends. Sequences of different lengths are
    computed one by one.
    """

    def __init__(self, impl, backend):
        self.impl, self.backend = impl, backend

    def attend(self, operands, case, seed, batches=None, dy=None):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        # In cases with a gradient, it is always required, because another graph might draw other
        # random numbers.
        leaves = make_leaves(operands, case.mask_gradient)
        torch.manual_seed(seed)
        with sdpa_kernel(getattr(SDPBackend, self.backend)), torch.set_grad_enabled(not case.forward_only):
            y = self.attend_to_sequences(leaves, case) if case.ends else self.attend_to_all(leaves, case)
            results = collect_results(y, leaves, dy)
        return {name: value[:batches] for name, value in results.items()}

    def attend_to_all(self, leaves, case):
        import torch

        q, k, v, mask = leaves
        if mask is not None:
            mask = mask.expand(*q.shape[:3], k.shape[2])
        options = dict(dropout_p=case.dropout, is_causal=case.options["causal"], scale=case.options["scale"])
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1], **options)

    def attend_to_sequences(self, leaves, case):
        return join_sequences(lambda q, k, v, _: self.attend_to_all((q, k, v, None), case), leaves[:3], case.ends)


class TorchVarlen(Torch):
    """PyTorch's varlen_attn, which computes sequences of different lengths by flash attention."""

    def __init__(self):
        super().__init__("torch/varlen", "FLASH_ATTENTION")

    def attend_to_sequences(self, leaves, case):
        import torch
        from torch.nn.attention.varlen import varlen_attn

        q, k, v, _ = leaves
        ends = [torch.tensor(ends, dtype=torch.int32, device=q.device) for ends in case.ends]
        lengths = [max(end - first for first, end in zip(ends, ends[1:])) for ends in case.ends]
        window = (-1, 0) if case.options["causal"] else (-1, -1)
        return varlen_attn(q, k, v, *ends, *lengths, scale=case.options["scale"], window_size=window)


def join_sequences(attend, operands, ends):
    """Computes attention within each sequence, and joins the results to [rows, heads, columns].
    Rows after the last sequence are 0. `attend` gets operands of [1, heads, rows, columns], and the
    slices of the rows of queries and keys.
    """
    import torch

    from attention_reference import heads_first, rows_first, sequences

    q, k, v = operands
    parts = [
        rows_first(attend(heads_first(q[queries]), heads_first(k[keys]), heads_first(v[keys]), (queries, keys))) for queries, keys in sequences(ends)
    ]
    return torch.cat([*parts, v.new_zeros(q.shape[0] - ends[0][-1], q.shape[1], v.shape[2])])


def attend_op_by_op(operands, options, dropout_mask, dy, ends=None):
    """Computes attention with single ops, each of which rounds to the operands' dtype."""
    leaves = make_leaves(operands, options.mask_gradient)
    *operands, mask = leaves

    def attend_within(q, k, v, slices):
        kept = None if dropout_mask is None else dropout_mask[:, :, slices[0], slices[1]]
        return compose(q, k, v, None, options, kept)

    y = join_sequences(attend_within, operands, ends) if ends else compose(*operands, mask, options, dropout_mask)
    return collect_results(y, leaves, dy)


def compose(q, k, v, mask, options, dropout_mask):
    """Returns attention. Scores of masked keys are finite, so that fully masked queries have no
    NaN; the last factor sets their output to 0.
    """
    import torch

    group, queries, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2)) * options.scale
    attended = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
    band = options.attended_keys(0, queries, queries, keys, q.device)
    attended = attended if band is None else band
    if mask is not None and mask.dtype == torch.bool:
        attended = attended & mask
    elif mask is not None:
        scores = scores + mask
    weights = scores.masked_fill(~attended, -1e4).softmax(-1)
    if dropout_mask is not None:
        weights = weights * dropout_mask / (1 - options.dropout)
    return weights @ v * attended.any(-1, keepdim=True)
