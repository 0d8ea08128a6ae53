"""The checks of one sample: the function, its gradients, its other forms, and other memory
layouts."""

import torch

import ternion

from . import gradients, random_numbers
from .calls import Failed, called, default_float64, outcome
from .comparison import VALUE, compared, of_numbers
from .conversion import LeftOut, flat, own_arguments, ternion_arguments, torch_of, wide_arguments
from .failures import ACCEPTED, NO_FORM, PANIC, WRONG, described
from .names import name_of, resolved
from .rejection_checks import fault_of, is_rejection

# Part of both libraries' errors if the dtype of a result cannot be stored in the tensor that is
# changed in place.
CAST = "can't be cast"


class Subject:
    """An entry with its function, on a device."""

    def __init__(self, entry, function, device):
        self.entry, self.device, self.name = entry, device, name_of(entry)
        self.path, self.call, self.function = function.path, function.call, resolved(function.path)


def run_sample(subject, sample):
    """Returns the failures of a sample, a list of `Failure` that is empty if it passes. Raises
    LeftOut if the sample does not count."""
    ternion.manual_seed(1)
    reference = _Reference(subject, sample)
    failures = []
    for form, check in _FORMS:
        failure = outcome(form, lambda: check(subject, sample, reference))
        if failure:
            failures.append(failure)
            # The other forms would fail in the same way. If the function only rejects the call,
            # another form may still be wrong.
            if form == "function" and failure.kind in WRONG:
                break
    return failures


class _Reference:
    """PyTorch's results for a sample: in the dtypes of the sample, and in float64."""

    def __init__(self, subject, sample):
        self.arguments = own_arguments(sample)
        self.exact, self.wide, self._gradients = None, None, ()
        self.random = random_numbers.check_of(subject.name, sample)
        function = random_numbers.DRAWN_BY_OTHERS.get(subject.name, subject.entry.op)
        self.draw = lambda: function(*self.arguments.args, **self.arguments.kwargs)
        torch.manual_seed(1)
        try:
            self.own = self.draw()
        except Exception as error:
            raise LeftOut(f"PyTorch rejects it: {error}") from None
        if subject.device == "wgpu" and any(isinstance(item, torch.Tensor) and item.dtype == torch.float64 for item in flat(self.own)):
            raise LeftOut("float64, which wgpu has not")
        if self.random is None and subject.entry.name not in random_numbers.WITHOUT_ORACLE:
            self._compute_exact(subject, sample)

    def _compute_exact(self, subject, sample):
        with default_float64():
            self.wide = wide_arguments(sample)
            try:
                self.exact = subject.entry.op(*self.wide.args, **self.wide.kwargs)
            # It does not support float64, so only PyTorch's result in the sample's dtype is
            # available.
            except Exception:
                self.wide = None

    def gradients(self, subject):
        """Returns PyTorch's gradients, computed once; None if there are none."""
        if self._gradients == ():
            self._gradients = gradients.known_of(subject, self)
        return self._gradients


def _demand(difference):
    if difference:
        raise Failed(*difference)


def _compare(subject, call, reference, kind=None):
    """Requires that a call returns PyTorch's result, and returns it. `kind` is applied to PyTorch's
    result first, such as a tuple without field names."""
    if reference.random is not None:
        _demand(reference.random.difference(call, reference.draw, reference.own, reference.arguments))
        return None
    result = call()
    _demand(compared(subject.entry.name, result, kind(reference.own) if kind else reference.own, reference.exact, reference.arguments))
    return result


def _call_of(subject, function, sample, strided=False):
    """Returns a call of Ternion's function without arguments, and the arguments that it uses."""
    arguments = called(ternion_arguments, sample, subject.device, strided)
    return lambda: called(function, *arguments.args, **arguments.kwargs), arguments


def _check_function(subject, sample, reference):
    call, arguments = _plain_call(subject, sample)
    if _compare(subject, call, reference) is not None:
        _demand_same_arguments(arguments, reference.arguments)


def _demand_same_arguments(arguments, their_arguments):
    """Requires that a call leaves its tensor arguments in the same state as PyTorch's: unchanged,
    except for running statistics and the like."""
    for index, (actual, expected) in enumerate(zip(flat((arguments.args, arguments.kwargs)), flat((their_arguments.args, their_arguments.kwargs)))):
        if isinstance(expected, torch.Tensor):
            _demand(of_numbers(VALUE, torch_of(actual), expected.detach(), None, f"argument {index} after the call"))


def _plain_call(subject, sample, strided=False):
    return _call_of(subject, lambda *args, **kwargs: subject.call(subject.function, *args, **kwargs), sample, strided)


def _check_gradient(subject, sample, reference):
    _compare_gradients(subject, sample, reference, None, False)


def _compare_gradients(subject, sample, reference, known, strided):
    """Requires PyTorch's gradients. `known` is a result of Ternion and its arguments, if already
    available."""
    if reference.random is None:
        if reference.gradients(subject) is None:
            return
        if known is None:
            call, arguments = _plain_call(subject, sample, strided)
            known = call(), arguments
        gradients.compare(subject, *known, reference)
    elif reference.random.is_drawn:
        gradients.compare_drawn(subject, sample, reference, strided)


def _check_layouts(subject, sample, reference):
    """Checks the function and its gradients with inputs that are not contiguous."""
    if not any(isinstance(item, torch.Tensor) for item in flat((sample.input, sample.args, sample.kwargs))) or subject.entry.name in random_numbers.OF_LAYOUT:
        return
    call, arguments = _plain_call(subject, sample, strided=True)
    result = _compare(subject, call, reference)
    _compare_gradients(subject, sample, reference, (result, arguments), strided=True)


def _check_method(subject, sample, reference):
    method = subject.entry.method_variant
    if not callable(method) or subject.path.startswith("Tensor.") or not isinstance(sample.input, torch.Tensor):
        return
    name = subject.entry.name.rpartition(".")[2]
    own_method = getattr(ternion.Tensor, name, None)
    if not callable(own_method):
        raise Failed(NO_FORM, f"no Tensor.{name}")
    # The method returns a plain tuple where PyTorch's does: Tensor.lu.
    _compare(subject, _call_of(subject, own_method, sample)[0], reference, tuple if name == "lu" else None)


def _check_operator(subject, sample, reference):
    sign = subject.entry.operator_variant
    if sign is None or sample.kwargs or not isinstance(sample.input, torch.Tensor):
        return
    their_arguments = own_arguments(sample)
    try:
        expected = sign(*their_arguments.args)
    except Exception:
        return
    arguments = called(ternion_arguments, sample, subject.device)
    _demand(compared(subject.entry.name, called(sign, *arguments.args), expected, reference.exact))


def _check_in_place(subject, sample, reference):
    entry = subject.entry
    change = entry.inplace_variant
    if change is None or sample.broadcasts_input or not isinstance(sample.input, torch.Tensor) or subject.path.endswith("_"):
        return
    expected = own_arguments(sample)
    before = expected.args[0].detach().clone()
    torch_error = _changed(change, expected)
    if torch_error and CAST not in torch_error:
        return
    actual = called(ternion_arguments, sample, subject.device)
    base = actual.args[0].detach() if sample.input.requires_grad else actual.args[0]
    form = _form_in_place(subject, getattr(change, "__name__", ""))
    if reference.random is not None and not torch_error:
        call, draw = _drawing(form, base, actual), _drawing(change, before, expected)
        _demand(reference.random.difference(lambda: _in_place(call, "", subject.path), draw, expected.args[0], reference.arguments))
        return
    _in_place(lambda: form(base, *actual.args[1:], **actual.kwargs), torch_error, subject.path)
    if not torch_error:
        _demand(compared(entry.name, base, expected.args[0], reference.exact if _fits(reference.exact, expected.args[0]) else None))


def _check_gradient_in_place(subject, sample, reference):
    """Checks the gradient of a copy that is changed in place, if PyTorch has one."""
    change, entry = subject.entry.inplace_variant, subject.entry
    if change is None or not entry.supports_inplace_autograd or sample.broadcasts_input or reference.random is not None or subject.path.endswith("_"):
        return
    expected = reference.own
    if not isinstance(expected, torch.Tensor) or expected.shape != sample.input.shape or expected.dtype != sample.input.dtype or not expected.requires_grad:
        return
    arguments = called(ternion_arguments, sample, subject.device)
    base = called(arguments.args[0].clone)
    called(_form_in_place(subject, getattr(change, "__name__", "")), base, *arguments.args[1:], **arguments.kwargs)
    gradients.compare(subject, base, arguments, reference)


def _form_in_place(subject, name):
    """Returns Ternion's in-place form: a method, or the function with `inplace=True`."""
    if not name.endswith("_"):
        return lambda *args, **kwargs: subject.function(*args, **{**kwargs, "inplace": True})
    method = getattr(ternion.Tensor, name, None)
    if method is None:
        raise Failed(NO_FORM, f"no Tensor.{name}")
    return method


def _drawing(form, base, arguments):
    """Returns a call of an in-place form that draws random numbers, on a new copy each time."""

    def call():
        copy = base.clone()
        form(copy, *arguments.args[1:], **arguments.kwargs)
        return copy

    return call


def _fits(exact, expected):
    return isinstance(exact, torch.Tensor) and exact.shape == expected.shape


def _changed(change, expected):
    """Runs PyTorch's in-place form. Returns its error message if it fails."""
    expected.args[0].requires_grad_(False)
    torch.manual_seed(1)
    try:
        with torch.no_grad():
            change(*expected.args, **expected.kwargs)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def _in_place(call, torch_error, path):
    """Runs an in-place form, which must fail if PyTorch's does because of dtypes."""
    with ternion.no_grad():
        if not torch_error:
            return called(call)
        try:
            call()
        except Exception as error:
            kind = fault_of(error, path, torch_error)
            if kind and not (is_rejection(error) and CAST in str(error)):
                raise Failed(kind, described(error)) from None
            return None
        except BaseException as error:
            raise Failed(PANIC, described(error)) from None
    raise Failed(ACCEPTED, f"PyTorch rejects it: {torch_error.splitlines()[0]}")


_FORMS = [
    ("function", _check_function),
    ("gradient", _check_gradient),
    ("method", _check_method),
    ("operator", _check_operator),
    ("in place", _check_in_place),
    ("gradient in place", _check_gradient_in_place),
    ("not contiguous", _check_layouts),
]
