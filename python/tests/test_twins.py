"""Every public function of tensors has a counterpart in Rust and a row in the op table: all
computation is in Rust, and Python only passes arguments.

A counterpart is a public function of the same stem in crates/core, crates/linalg or crates/nn. A
row is a line of that stem in docs/coverage.md. `TWINS` has names that differ, `ALIASES` other names
of a function, `FORMS` names that also exist at the top level for another object, and `EXCEPTIONS`
functions that need no counterpart, with the reason. An entry that is no longer needed also fails.
"""

import functools
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import ternion
import test_public_names
from ternion import _functions

ROOT = Path(__file__).parents[2]
#: Modules whose functions have another prefix than the module's name below `ternion`.
PREFIXES = {
    "ternion.nn.functional": "functional.", "ternion.signal.windows": "windows.", "ternion.nn.init": "init.", "ternion.nn.utils": "utils.", "ternion.nn.utils.rnn": "rnn.",
    "ternion.utils": "top_utils.", "ternion.utils.checkpoint": "checkpoint.",
}  # fmt: skip
#: Modules without functions of tensors, by reason. Submodules of `ternion.nn` that are not in
#: test_public_names.MODULES contain only layers, which are classes.
OUTSIDE = {
    "reports of devices and their memory, and marks for profilers": "ternion.cuda ternion.cuda.nvtx", "data sets and their files": "ternion.data ternion.utils.data", "models, which are classes": "ternion.models",
    "what checks functions": "ternion.testing", "names of averages, which optimizers hold": "ternion.optim.swa_utils",
}


def module_of(name):
    return importlib.import_module(name)


def prefix_of(name):
    return PREFIXES.get(name, name.removeprefix("ternion").removeprefix(".") + "." if name != "ternion" else "")


MODULES = {
    prefix_of(name): module_of(name)
    for name in test_public_names.MODULES
    if name not in " ".join(OUTSIDE.values()).split()
}  # fmt: skip

#: Functions that are other functions under another name, or take their arguments in another form.
ALIASES = {
    **_functions.ALIASES,
    "argwhere": "nonzero", "bmm": "matmul", "mm": "matmul", "mv": "matmul", "chain_matmul": "linalg.multi_dot", "vdot": "dot", "broadcast_to": "expand",
    "expand_as": "expand", "clip": "clamp", "concat": "cat", "ravel": "flatten", "reshape_as": "reshape", "view": "reshape", "view_as": "reshape", "unflatten": "reshape",
    "swapaxes": "transpose", "swapdims": "transpose", "narrow_copy": "narrow", "adjoint": "transpose", "split_with_sizes": "split", "unbind": "select", "det": "linalg.det", "inverse": "linalg.inv", "pinverse": "linalg.pinv",
    "orgqr": "linalg.householder_product", "triangular_solve": "linalg.solve_triangular", "random_": "randint", "zero_": "fill", "clamp_max": "clamp", "clamp_min": "clamp",
    "concatenate": "cat", "row_stack": "vstack", "trapz": "trapezoid", "rsub": "sub", "rand_like": "rand", "randn_like": "randn", "uniform_": "rand", "histc": "histogram",
    "empty": "zeros", "empty_like": "zeros_like", "new_empty": "zeros", "new_full": "full", "new_ones": "ones", "new_tensor": "tensor", "new_zeros": "zeros",
    "special.expit": "sigmoid", "special.gammaln": "lgamma", "special.multigammaln": "mvlgamma", "special.psi": "digamma",
    "functional.fold": "col2im", "functional.dropout3d": "functional.dropout2d", "functional.upsample": "functional.interpolate", "functional.relu6": "functional.hardtanh",
    "init.zeros_": "fill", "init.ones_": "fill", "init.constant_": "fill", "init.uniform_": "rand", "init.normal_": "randn",
    "functional.upsample_bilinear": "functional.interpolate", "functional.upsample_nearest": "functional.interpolate",
}  # fmt: skip

#: Names that differ: the Rust function, and the row.
TWINS = {
    "cat": ("concat", "concat"), "clone": ("copy", "copy"), "contiguous": ("contiguous", "copy"), "copy_": ("copy_", "copy"), "reciprocal": ("recip", "recip"),
    "scatter": ("scatter", "scatter_set"), "masked_fill": ("masked_fill", "where"), "gelu": ("gelu", "gelu_erf"), "where": ("where_", "where"),
    "fill": ("fill_", "fill"), "fill_diagonal_": ("fill_diagonal", "fill_diagonal"),
    "zeros": ("zeros", "fill"), "zeros_like": ("zeros_like", "fill"), "ones": ("ones", "fill"), "ones_like": ("ones_like", "fill"), "full": ("full", "fill"),
    "full_like": ("full_like", "fill"), "eye": ("eye", "fill"), "arange": ("arange", "iota"), "linspace": ("linspace", "iota"), "randperm": ("permutation", "permutation"),
    "all": ("all", "min"), "any": ("any", "max"), "amax": ("max", "max"), "amin": ("min", "min"), "std": ("std", "var"), "tril": ("tril", "where"), "triu": ("triu", "where"),
    "functional.one_hot": ("one_hot", "scatter_set"),
    **{f"windows.{name}": ("make", f"{name}_window") for name in "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall".split()},
    **{f"{name}_window": ("make", f"{name}_window") for name in "bartlett blackman hamming hann kaiser".split()},
    "functional.scaled_dot_product_attention": ("scaled_dot_product_attention", "attention"),
    "nn.attention.varlen.varlen_attn": ("scaled_dot_product_attention_varlen", "attention"),
    **{f"{prefix}binary_cross_entropy_with_logits": ("bce_with_logits", "bce_with_logits") for prefix in ("", "functional.")},
    **{f"{prefix}batch_norm": ("batch_norm_train", "batch_norm") for prefix in ("", "functional.")},
}  # fmt: skip

#: Names with a prefix whose object differs from that of the same name at the top level. Both
#: compute the same, with the same Rust function.
FORMS = {
    "other names or an order of the arguments, as in PyTorch": """
        functional.elu functional.leaky_relu functional.log_softmax functional.relu functional.silu functional.softmax functional.softplus functional.prelu
        functional.alpha_dropout functional.dropout functional.feature_alpha_dropout functional.adaptive_max_pool1d functional.embedding functional.embedding_bag special.log_softmax special.softmax
        functional.batch_norm functional.binary_cross_entropy_with_logits functional.celu functional.cosine_embedding_loss functional.ctc_loss functional.group_norm
        functional.hinge_embedding_loss functional.instance_norm functional.kl_div functional.layer_norm functional.margin_ranking_loss functional.max_pool1d
        functional.max_pool2d functional.max_pool3d functional.poisson_nll_loss functional.rrelu functional.selu functional.threshold functional.triplet_margin_loss
    """,
    "of special, with its own words": """
        special.digamma special.entr special.erf special.erfc special.erfcx special.erfinv special.exp2 special.expm1 special.i0 special.i0e special.i1 special.i1e
        special.log1p special.log_ndtr special.logit special.logsumexp special.ndtr special.ndtri special.sinc
    """,
    "of linalg, with its own row or the arguments that it has there": """
        linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.lu linalg.lu_solve linalg.matmul linalg.norm linalg.qr linalg.slogdet linalg.svd linalg.vander
    """,
    "of several tensors and their graph, or of a module, where the method and the sum of a diagonal are of one tensor": "autograd.backward autograd.grad nn.trace",
    "windows of images, where the method is of windows along one axis": "functional.unfold",
}

#: Attributes of a tensor, and views of it: its transposes, and the tensor itself.
PROPERTIES = """
    H T data device dtype grad grad_fn is_cpu is_cuda is_leaf is_meta is_quantized is_sparse itemsize layout mH mT nbytes ndim real requires_grad shape
"""

#: Functions without a counterpart, by reason.
EXCEPTIONS = {
    "what a tensor reports about itself: nothing is computed": """
        data_ptr dim element_size get_device is_complex is_contiguous is_floating_point is_pinned is_same_size is_shared is_signed is_tensor ndimension nelement numel size
        storage_offset stride typename
    """,
    "between tensors and values of Python": "as_tensor asarray from_dlpack from_numpy is_nonzero item numpy scalar_tensor tensor tolist",
    "an older way to say tensor or zeros": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor
    """,
    "another dtype or device: Tensor::to_dtype and to_device, with the row copy": "bfloat16 bool byte char cpu cuda double float half int long pin_memory short to type type_as",
    "there are no complex numbers: the tensor itself, or true": "conj isreal positive real",
    "what records gradients and steps": "backward capture checkpoint detach is_autocast_enabled is_grad_enabled register_hook requires_grad_ retain_grad",
    "settings, seeds and devices": """
        devices get_default_device get_default_dtype get_float32_matmul_precision get_rng_state initial_seed manual_seed seed set_default_device set_default_dtype
        set_float32_matmul_precision set_rng_state stats
    """,
    "rules of dtypes": "can_cast promote_types result_type",
    "files": "load save",
    "what records gradients, and what reports on a graph or a module": "autograd.backward autograd.grad autograd.to_dot nn.summary",
    "a part of a model that is run again": "checkpoint.checkpoint_sequential",
    "sequences in lists of Python, or packed in an object of it, by narrow, cat and pad_sequence": """
        rnn.pack_padded_sequence rnn.pack_sequence rnn.pad_packed_sequence rnn.unpack_sequence rnn.unpad_sequence
    """,
    "first values: of crates/nn's enum Init, which is not a function, except dirac_, eye_ and sparse_, which write numbers at indices": """
        init.dirac_ init.eye_ init.kaiming_normal_ init.kaiming_uniform_ init.sparse_ init.trunc_normal_ init.xavier_normal_ init.xavier_uniform_
    """,
    "a factor, of a table of numbers": "init.calculate_gain",
    "an orthogonal factor in float64 by NumPy: Rust has none for first values": "init.orthogonal_",
    "gradients and parameters of a module by ops that have counterparts, above Rust as in PyTorch": """
        utils.clip_grads_with_norm_ utils.get_total_norm utils.parameters_to_vector utils.vector_to_parameters utils.fuse_conv_bn_eval utils.fuse_conv_bn_weights
        utils.fuse_linear_bn_eval utils.fuse_linear_bn_weights utils.skip_init
    """,
    "numbers for people, made of ops that have counterparts: reports and not parts of a training run": """
        metrics.confusion_matrix metrics.f1_score metrics.mean_absolute_error metrics.mean_squared_error metrics.precision_recall_f1 metrics.r2_score
    """,
    "formats that are not dtypes, from tables of the few numbers that they hold": "formats.decode formats.encode",
    "a constant of layers, in crates/nn with its own tests": "functional.sinusoidal",
}


def sources():
    return [path.read_text(encoding="utf-8") for crate in ("core", "linalg", "nn") for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))]


def named(text):
    """Returns the public functions of a Rust file: methods of tensors, free functions, and names in
    the lists of macros."""
    found = set(re.findall(r"^pub fn (\w+)", text, re.M))
    for methods in re.findall(r"^impl (?:Tensor|SignalWindow) \{\n(.*?)^\}", text, re.M | re.S):
        found |= set(re.findall(r"^    pub fn (\w+)", methods, re.M))
    # `sum sum_keep => Sum;`, `lt lt_scalar "<" => Lt;`
    for names in re.findall(r'^ +((?:[a-z]\w* )+)(?:"[^"]*" )?=> ', text, re.M):
        found |= set(names.split())
    # `Abs = "abs" (abs abs_) {`, after the fields of a variant that has fields
    for names in re.findall(r'= "\w+" \(([\w ]+)\) \{', text):
        found |= set(names.split())
    # `digamma: digamma_value, |x| x.polygamma(1);`
    for names in re.findall(r"^functions! \{\n(.*?)^\}", text, re.M | re.S):
        found |= set(re.findall(r"^    (\w+): ", names, re.M))
    # `1, max_pool1d, max_pool1d_with_positions, ..;`
    for names in re.findall(r"^ +\d, ([\w, ]+), \"", text, re.M):
        found |= set(names.split(", "))
    return found


@functools.lru_cache(maxsize=None)
def twins():
    return frozenset().union(*map(named, sources()))


@functools.lru_cache(maxsize=None)
def rows():
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^\| ([a-z][\w.]*) \| [FB\-fb?]", page, re.M))


def is_function(thing):
    return callable(thing) and not inspect.isclass(thing)


def found(name):
    """Returns the objects with this name, a function and the method of the same name, without the
    wrappers that insert the name in errors."""
    prefix, dot, stem = name.rpartition(".")
    holders = [MODULES[prefix + dot]] if dot else [ternion, ternion.Tensor]
    things = {inspect.unwrap(getattr(holder, stem)) for holder in holders if hasattr(holder, stem)}
    assert things, name
    return things


def is_same(name, other):
    return not found(name).isdisjoint(found(other))


@functools.lru_cache(maxsize=None)
def public():
    """Returns the functions of the modules and the methods of tensors, each name once. An in-place
    function is listed under the name of the function, if that exists too."""
    names = [prefix + name for prefix, module in MODULES.items() for name in dir(module) if not name.startswith("_") and is_function(getattr(module, name))]
    names += [name for name in dir(ternion.Tensor) if not name.startswith("_") and is_function(getattr(ternion.Tensor, name))]
    known = set(names)
    unprefixed = {name for name in known if "." not in name}

    def is_other(name):
        stem = name.split(".")[-1]
        # `functional.gelu` is `gelu`, `functional.relu_` and `relu_` are `relu`.
        return (name != stem and stem in unprefixed and is_same(name, stem)) or (name.endswith("_") and name[:-1] in known)

    return sorted(name for name in known if not is_other(name))


def resolved(name):
    while name in ALIASES:
        name = ALIASES[name]
    return name


def twin_of(name):
    """Returns the names that a function may have in Rust and in the op table."""
    name = resolved(name)
    if name in TWINS:
        function, row = TWINS[name]
        return {function}, {row}
    prefix, _, stem = name.rpartition(".")
    stem = stem.rstrip("_")
    stems = {stem, f"{stem}_window"} if prefix == "windows" else {stem}
    return stems, stems | {f"linalg.{stem}" for stem in stems}


def missing(name):
    functions, lines = twin_of(name)
    return [what for what, expected, existing in (("no function in Rust", functions, twins()), ("no row", lines, rows())) if not expected & existing]


def listed(reasons=EXCEPTIONS):
    return {name for names in reasons.values() for name in names.split()}


def test_every_module_is_looked_at():
    """Modules of layers, optimizers and models contain classes. `ternion.nn.functional` and similar
    modules export the functions of private modules."""
    names = {module.name for module in pkgutil.walk_packages(ternion.__path__, "ternion.") if not any(part.startswith("_") for part in module.name.split("."))}
    for name in sorted(names - set(test_public_names.MODULES)):
        functions = [each for each in getattr(module_of(name), "__all__", []) if is_function(getattr(module_of(name), each))]
        shown = {inspect.unwrap(getattr(module, each)) for module in MODULES.values() for each in dir(module) if is_function(getattr(module, each))}
        assert [each for each in functions if inspect.unwrap(getattr(module_of(name), each)) not in shown] == [], name


def test_properties_of_tensors_are_known():
    names = [name for name in dir(ternion.Tensor) if not name.startswith("_") and not callable(getattr(ternion.Tensor, name))]
    assert sorted(names) == sorted(PROPERTIES.split())


def test_a_name_of_the_top_level_is_its_function():
    stems = {name: name.rpartition(".")[2] for name in public() if "." in name}
    assert sorted(name for name, stem in stems.items() if hasattr(ternion, stem) or hasattr(ternion.Tensor, stem) and not stem.endswith("_")) == sorted(listed(FORMS))


def test_every_function_has_a_twin_and_a_row():
    assert {name: missing(name) for name in public() if resolved(name) not in listed() and missing(name)} == {}


def test_no_exception_is_there_for_nothing():
    assert sorted(name for name in listed() if name not in public() or not missing(name)) == []
    assert sorted(name for name in (*ALIASES, *TWINS) if name not in public() and name not in {f"{known}_" for known in public()}) == []


@pytest.mark.parametrize("text, found", [
    ("impl Tensor {\n    pub fn tile(&self) {\n    }\n    pub(crate) fn own(&self) {}\n}\n", {"tile"}),
    ("impl Shape {\n    pub fn dim(&self) {}\n}\n", set()),
    ("pub fn einsum(equation: &str) {}\n", {"einsum"}),
    ('    lt lt_scalar "<" => Lt;\n    sum sum_keep => Sum;\n', {"lt", "lt_scalar", "sum", "sum_keep"}),
    ('    Abs = "abs" (abs abs_) {\n', {"abs", "abs_"}),
    ("functions! {\n    /// Of each element.\n    erfcx: scaled_value, |x| x.erfcx();\n}\n", {"erfcx"}),
])  # fmt: skip
def test_functions_are_found_in_sources(text, found):
    assert named(text) == found


def test_a_function_without_a_twin_is_seen():
    assert missing("never_there") == ["no function in Rust", "no row"] and missing("sort") == []


def test_another_object_of_a_known_name_is_seen():
    assert is_same("functional.gelu", "gelu") and not is_same("functional.unfold", "unfold") and "functional.unfold" in public() and "init.zeros_" in public()
