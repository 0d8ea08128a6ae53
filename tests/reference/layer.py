"""Output, gradients, and three training steps of a PyTorch layer, for nn.py and transformers.py."""

import torch

torch.set_default_dtype(torch.float64)


def draw(*shape):
    """Returns random multiples of 1/16: short in the file, exact in every floating dtype."""
    return (torch.randn(*shape) * 16).round().clamp(-48, 48) / 16


def plain(value, digits=9):
    """Returns the shape of a tensor and its values with this many significant digits."""
    value = value.detach()
    return {"shape": list(value.shape), "values": [float(f"{x:.{digits}g}") for x in value.flatten().tolist()]}


def layer(module, *inputs, call=None, scale=1, digits=9):
    """Returns reference values of a layer with random parameters, times `scale`.

    They are its output, the gradients of (output * cotangent).sum(), and its parameters after three
    training steps.
    """
    call = call or (lambda: module(*inputs))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(draw(*parameter.shape) * scale)
    for x in inputs:
        x.requires_grad_()
    values = lambda named: {name: plain(value, digits) for name, value in named.items()}
    parameters = dict(module.named_parameters())
    start = values(parameters)
    given = [plain(x, digits) for x in inputs]
    output = call()
    cotangent = draw(*output.shape)
    (output * cotangent).sum().backward()
    case = {
        "parameters": start,
        "inputs": given,
        "cotangent": plain(cotangent, digits),
        "output": plain(output, digits),
        "grad_inputs": [plain(x.grad, digits) for x in inputs],
        "grad_parameters": {name: plain(value.grad, digits) for name, value in parameters.items()},
    }
    return case | {"stepped": values(steps(parameters or {str(at): x for at, x in enumerate(inputs)}, call))}


def steps(trained, call):
    """Runs three steps of AdamW on the mean of the squared outputs, and returns the parameters.

    For a layer without parameters, `trained` contains its inputs. (eps is large, so that a gradient
    that is 0 except for rounding has no effect.)
    """
    optimizer = torch.optim.AdamW(trained.values(), lr=0.01, eps=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        call().square().mean().backward()
        optimizer.step()
    return trained
