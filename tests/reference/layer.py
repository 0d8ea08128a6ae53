"""What nn.py and transformers.py tell of a layer of PyTorch's: output, gradients, and three steps of training."""

import torch

torch.set_default_dtype(torch.float64)


def draw(*shape):
    """Random sixteenths: short in the file, exact in every floating dtype."""
    return (torch.randn(*shape) * 16).round().clamp(-48, 48) / 16


def plain(value, digits=9):
    """A tensor as shape and values of so many significant digits."""
    value = value.detach()
    return {"shape": list(value.shape), "values": [float(f"{x:.{digits}g}") for x in value.flatten().tolist()]}


def layer(module, *inputs, call=None, scale=1, digits=9):
    """A layer with drawn parameters, times `scale`: its output, the gradients of (output * cotangent).sum(), and what three steps make of its parameters."""
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
    """What three steps of AdamW on the mean of the squared outputs make of parameters, or, of a layer that has none, of its inputs.

    (eps is large: of a gradient that is 0 but for rounding nothing is left.)
    """
    optimizer = torch.optim.AdamW(trained.values(), lr=0.01, eps=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        call().square().mean().backward()
        optimizer.step()
    return trained
