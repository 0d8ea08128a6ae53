"""The checks of one sample: the function, its gradients, its other forms, other layouts in memory, and errors."""

import warnings
from collections import namedtuple
from contextlib import contextmanager

import torch

import ternion

from . import derivatives, invariants, random_numbers
from .comparison import DTYPE, GRADIENT, STEPS, compared, near, of_numbers
from .conversion import LeftOut, Refused, own_arguments, ternion_arguments, torch_of, wide_arguments
from .names import name_of, resolved

REFUSED, NO_FORM, ACCEPTED, PANIC = "refused", "form absent", "accepted", "crash"

# What is wrong: the form in which the sample was run, the kind, a sentence.
Failure = namedtuple("Failure", "form kind detail")


class _Failed(Exception):
    def __init__(self, kind, detail):
        super().__init__(detail)
        self.kind = kind


class Subject:
    """An entry with its function, on a device."""

    def __init__(self, entry, function, device):
        self.entry, self.device, self.name = entry, device, name_of(entry)
        self.path, self.call, self.function = function.path, function.call, resolved(function.path)


@contextmanager
def _default_float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def run_sample(subject, sample):
    """What fails of a sample: a list of `Failure`, empty if it passes. LeftOut if it does not count."""
    ternion.manual_seed(1)
    reference = _Reference(subject, sample)
    failures = []
    for form, check in _FORMS:
        failure = _outcome(form, lambda: check(subject, sample, reference))
        if failure:
            failures.append(failure)
            if form == "function":  # The other forms would say the same.
                break
    return failures


def _outcome(form, check):
    """The failure of one form; None if it passes."""
    try:
        check()
    except _Failed as failed:
        return Failure(form, failed.kind, str(failed))
    except Refused as refused:
        return Failure(form, REFUSED, str(refused))
    return None


def _called(function, *args, **kwargs):
    """What Ternion gives; errors of this suite are not taken for its refusals."""
    try:
        return function(*args, **kwargs)
    except (LeftOut, Refused, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        raise _Failed(REFUSED, f"{type(error).__name__}: {error}") from None
    except BaseException as error:  # A panic of the native part is no Exception.
        raise _Failed(PANIC, f"{type(error).__name__}: {error}") from None


class _Reference:
    """What PyTorch makes of a sample: in the sample's dtypes, and in float64."""

    def __init__(self, subject, sample):
        self.arguments = own_arguments(sample)
        self.exact, self.wide = None, None
        self.random = random_numbers.check_of(subject.name, sample)
        torch.manual_seed(1)
        try:
            self.own = subject.entry.op(*self.arguments.args, **self.arguments.kwargs)
        except Exception as error:
            raise LeftOut(f"PyTorch refuses it: {error}") from None
        if subject.device == "wgpu" and any(isinstance(item, torch.Tensor) and item.dtype == torch.float64 for item in _flat(self.own)):
            raise LeftOut("float64, which wgpu has not")
        if self.random is None and subject.entry.name not in random_numbers.WITHOUT_ORACLE:
            self._compute_exact(subject, sample)

    def _compute_exact(self, subject, sample):
        with _default_float64():
            self.wide = wide_arguments(sample)
            try:
                self.exact = subject.entry.op(*self.wide.args, **self.wide.kwargs)
            except Exception:  # It does not take float64: PyTorch's own result is what there is.
                self.wide = None


def _demand(difference):
    if difference:
        raise _Failed(*difference)


def _compare(subject, found, reference, kind=None):
    """Demands PyTorch's result; `kind` is what it is made before, such as a tuple without names."""
    own = kind(reference.own) if kind else reference.own
    if reference.random is not None:
        _demand(reference.random(found, own, reference.arguments))
    else:
        _demand(compared(subject.entry.name, found, own, reference.exact, reference.arguments))


def _check_function(subject, sample, reference):
    arguments = _called(ternion_arguments, sample, subject.device)
    _compare(subject, _called(subject.call, subject.function, *arguments.args, **arguments.kwargs), reference)


def _check_layouts(subject, sample, reference):
    if not any(isinstance(item, torch.Tensor) for item in _flat((sample.input, sample.args, sample.kwargs))) or subject.entry.name in random_numbers.OF_LAYOUT:
        return
    arguments = _called(ternion_arguments, sample, subject.device, strided=True)
    _compare(subject, _called(subject.call, subject.function, *arguments.args, **arguments.kwargs), reference)


def _check_method(subject, sample, reference):
    method = subject.entry.method_variant
    if not callable(method) or subject.path.startswith("Tensor.") or not isinstance(sample.input, torch.Tensor):
        return
    name = subject.entry.name.rpartition(".")[2]
    own = getattr(ternion.Tensor, name, None)
    if not callable(own):
        raise _Failed(NO_FORM, f"no Tensor.{name}")
    arguments = _called(ternion_arguments, sample, subject.device)
    # The method gives a plain tuple where PyTorch's does: Tensor.lu.
    _compare(subject, _called(own, *arguments.args, **arguments.kwargs), reference, tuple if name == "lu" else None)


def _check_operator(subject, sample, reference):
    sign = subject.entry.operator_variant
    if sign is None or sample.kwargs or not isinstance(sample.input, torch.Tensor):
        return
    own = own_arguments(sample)
    try:
        expected = sign(*own.args)
    except Exception:
        return
    arguments = _called(ternion_arguments, sample, subject.device)
    _demand(compared(subject.entry.name, _called(sign, *arguments.args), expected, reference.exact))


def _check_in_place(subject, sample, reference):
    entry = subject.entry
    change = entry.inplace_variant
    if change is None or sample.broadcasts_input or not isinstance(sample.input, torch.Tensor) or subject.path.endswith("_"):
        return
    name = getattr(change, "__name__", "")
    own = own_arguments(sample)
    refusal = _changed(change, own)
    if refusal and "can't be cast" not in refusal:
        return
    found = _called(ternion_arguments, sample, subject.device)
    base = found.args[0].detach() if sample.input.requires_grad else found.args[0]
    if name.endswith("_"):
        method = getattr(ternion.Tensor, name, None)
        if method is None:
            raise _Failed(NO_FORM, f"no Tensor.{name}")
        _change(lambda: method(base, *found.args[1:], **found.kwargs), refusal)
    else:
        _change(lambda: subject.function(base, *found.args[1:], **{**found.kwargs, "inplace": True}), refusal)
    if not refusal and reference.random is None:
        _demand(compared(entry.name, base, own.args[0], reference.exact if _fits(reference.exact, own.args[0]) else None))


def _fits(exact, own):
    return isinstance(exact, torch.Tensor) and exact.shape == own.shape


def _changed(change, own):
    """Runs PyTorch's in-place form; what it says if it refuses."""
    own.args[0].requires_grad_(False)
    torch.manual_seed(1)
    try:
        with torch.no_grad():
            change(*own.args, **own.kwargs)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def _change(call, refusal):
    """Runs an in-place form, which must fail where PyTorch's does for the sake of dtypes."""
    with ternion.no_grad():
        if not refusal:
            _called(call)
            return
        try:
            call()
        except Exception:
            return
    raise _Failed(ACCEPTED, f"PyTorch refuses it: {refusal.splitlines()[0]}")


def _flat(value):
    """The tensors and other things within lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flat(item)]
    if isinstance(value, dict):
        return _flat(list(value.values()))
    return [value]


def _gradients(outputs, leaves, cotangents):
    """PyTorch's gradients; None where it has none to give."""
    pairs = [(output, cotangents[place].to(output.dtype)) for place, output in enumerate(outputs) if place in cotangents and output.requires_grad]
    if not pairs:
        return None
    found = torch.autograd.grad([output for output, _ in pairs], leaves, [weights for _, weights in pairs], allow_unused=True)
    return [torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(leaves, found)]


def _invariant(subject, outputs):
    function = invariants.of(subject.entry.name)
    return _flat(function(outputs) if function else outputs)


def _cotangents(outputs):
    """Weights for each output that has a gradient, by its place."""
    generator = torch.Generator().manual_seed(7)
    return {
        place: torch.randn(output.shape, generator=generator).to(output.dtype)
        for place, output in enumerate(outputs)
        if isinstance(output, torch.Tensor) and output.requires_grad and output.is_floating_point()
    }


def _own_gradients(subject, reference):
    """PyTorch's gradients, the exact ones if they are known, and the weights of outputs; None if there is none."""
    if not reference.arguments.leaves or reference.random is not None or _tied(subject, reference):
        return None
    outputs = _invariant(subject, reference.own)
    cotangents = _cotangents(outputs)
    try:
        own = _gradients(outputs, reference.arguments.leaves, cotangents)
    except RuntimeError:  # PyTorch has no gradient here.
        return None
    if own is None:
        return None
    exact = None
    if reference.exact is not None:
        try:
            exact = _gradients(_invariant(subject, reference.exact), reference.wide.leaves, cotangents)
        except RuntimeError:
            exact = None
    return own, exact, cotangents


def _tied(subject, reference):
    """Whether the gradient depends on which of equal elements was taken."""
    x = reference.arguments.args[0]
    return subject.entry.name in invariants.OF_ORDER and x.unique().numel() < x.numel()


def _check_gradient(subject, sample, reference):
    known = _own_gradients(subject, reference)
    if known is None:
        return
    own, exact, cotangents = known
    arguments = _called(ternion_arguments, sample, subject.device)
    outputs = _called(_invariant, subject, _called(subject.call, subject.function, *arguments.args, **arguments.kwargs))
    without = [place for place in cotangents if not outputs[place].requires_grad]
    if without:
        raise _Failed(GRADIENT, f"output {without[0]} has no gradient")
    weights = [ternion.from_dlpack(weight, copy=True).to(subject.device) for weight in cotangents.values()]
    found = _called(ternion.autograd.grad, [outputs[place] for place in cotangents], arguments.leaves, weights, allow_unused=True)
    for place, (gradient, expected) in enumerate(zip(found, own)):
        wide = exact[place] if exact else None
        difference = _of_gradient(gradient, expected, wide, place, subject.entry.name not in STEPS)
        if difference and difference[0] == GRADIENT and wide is not None and _is_theirs_wrong(subject, reference, cotangents, place, gradient, expected, wide):
            raise _Failed(derivatives.KIND, f"PyTorch's: {difference[1]}")
        _demand(difference)


def _is_theirs_wrong(subject, reference, cotangents, place, gradient, own, exact):
    """Whether differences of PyTorch's function show that its gradient is wrong, and this one right."""
    found = torch.zeros_like(own) if gradient is None else torch_of(gradient)
    if found.shape != own.shape:
        return False
    wide = reference.wide

    def weighted_sum():
        with torch.no_grad(), _default_float64():
            outputs = _invariant(subject, subject.entry.op(*wide.args, **wide.kwargs))
        return sum((outputs[number].double() * weights.double()).sum().item() for number, weights in cotangents.items())

    is_symmetric = getattr(subject.entry.gradcheck_wrapper, "__name__", "") == "gradcheck_wrapper_hermitian_input"
    return derivatives.decides(weighted_sum, wide.leaves[place], ~near(found, own, exact), found, exact, is_symmetric)


def _of_gradient(found, own, exact, place, measured):
    if found is None:
        return (GRADIENT, f"input {place} has no gradient") if (own != 0).any() else None
    found = torch_of(found)
    if found.shape != own.shape:
        return GRADIENT, f"gradient {place} has shape {list(found.shape)}, expected {list(own.shape)}"
    if found.dtype != own.dtype:
        return DTYPE, f"gradient {place} has dtype {found.dtype}, expected {own.dtype}"
    return of_numbers(GRADIENT, found, own, exact, f"gradient {place}", measured)


_FORMS = [
    ("function", _check_function),
    ("gradient", _check_gradient),
    ("method", _check_method),
    ("operator", _check_operator),
    ("in place", _check_in_place),
    ("not contiguous", _check_layouts),
]


def run_error(subject, case):
    """What fails of a call that must be an error: an empty list if it is one."""
    sample = case.sample_input
    own = own_arguments(sample)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject.entry.op(*own.args, **own.kwargs)
    except Exception as error:
        refusal = str(error) or type(error).__name__
    else:
        raise LeftOut("PyTorch only warns")
    try:
        arguments = _called(ternion_arguments, sample, subject.device)
        result = subject.call(subject.function, *arguments.args, **arguments.kwargs)
        # A GPU reports a wrong index when what it computed is read.
        for item in _flat(result):
            if isinstance(item, ternion.Tensor):
                torch_of(item)
    except LeftOut:
        raise
    except Exception:
        return []
    except BaseException as error:
        return [Failure("error", PANIC, f"{type(error).__name__}: {error}")]
    return [Failure("error", ACCEPTED, f"PyTorch refuses it: {refusal.splitlines()[0]}")]
