"""Residual networks for small images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import nn
from .._ternion import Tensor
from ..nn.blocks import _convolution


class ResNet(nn.Module):
    """A residual network (He et al. 2016) for images of about 32 x 32:
    [batch, channels, height, width] -> [batch, classes].

    The first convolution is 3 x 3 with stride 1, and no pooling follows, so that small images lose
    no resolution. Keys are torchvision's: `conv1`, `bn1`, `layer1.0.conv1`, .., `fc`.

    Args:
        channels: The number of channels of the images.
        classes: The number of classes.
        blocks: The number of blocks of each stage. Each stage except the first has half the height
            and width and twice the number of channels of the previous one.
        width: The number of channels of the first stage.

    Raises:
        ValueError: If there are no stages, or if a number of blocks or the width is below 1; when
            called, if the input has another rank or number of channels.
    """

    def __init__(
        self, channels: int = 3, classes: int = 10, blocks: Sequence[int] = (2, 2, 2, 2), width: int = 64, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        if not blocks or min(blocks) < 1 or width < 1:
            raise ValueError(f"ResNet: stages of {list(blocks)} blocks, width {width}: expected at least 1 of each")
        factory_kwargs = dict(device=device, dtype=dtype)
        stages, inputs = [], width
        for number, count in enumerate(blocks):
            outputs, stage = width << number, []
            for at in range(count):
                stage.append(nn.ResidualBlock(inputs, outputs, 2 if at == 0 and number > 0 else 1, **factory_kwargs))
                inputs = outputs
            stages.append(stage)
        self.conv1 = _convolution(channels, width, 3, 1, factory_kwargs)
        self.bn1 = nn.BatchNorm2d(width, **factory_kwargs)
        for number, stage in enumerate(stages):
            setattr(self, f"layer{number + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(inputs, classes, **factory_kwargs)
        self._stages = len(stages)

    def forward(self, input: Tensor) -> Tensor:
        x = self.bn1(self.conv1(input)).relu()
        for number in range(self._stages):
            x = self.__dict__[f"layer{number + 1}"](x)
        return self.fc(x.mean((2, 3)))


class ResNet18(ResNet):
    """The residual network with 18 weight layers for images of about 32 x 32.

    Shapes: [batch, channels, height, width] -> [batch, classes]
    """

    def __init__(self, classes: int = 10, channels: int = 3, device: Any = None, dtype: Any = None):
        super().__init__(channels, classes, (2, 2, 2, 2), 64, device, dtype)
