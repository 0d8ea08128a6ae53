"""A program as users write it, which `mypy --strict` and pyright accept. test_types.py checks it.
The types of results are asserted, so that none is Any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_type

import numpy as np
import ternion
from ternion import amp, data, models, nn, optim, testing, train
from ternion.optim.lr_scheduler import CosineAnnealingLR
from ternion.utils.data import DataLoader, Dataset, IterableDataset, Sampler, random_split

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Classifier(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(8, width)
        self.activation = nn.ReLU()
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.1)
        self.rest = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 3))

    def forward(self, x: ternion.Tensor) -> ternion.Tensor:
        hidden = self.dropout(self.norm(self.activation(self.first(x))))
        return self.rest(hidden)


class Reader(nn.Module):
    def __init__(self) -> None:
        self.lstm, self.attention = nn.LSTM(8, 16, batch_first=True), nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: ternion.Tensor, state: tuple[ternion.Tensor, ternion.Tensor] | None = None) -> tuple[ternion.Tensor, ternion.Tensor]:
        read, (h_n, c_n) = self.lstm(x, state)
        attended, weights = self.attention(read, read, read)
        assert_type(weights, ternion.Tensor | None)
        return attended, h_n + c_n


@ternion.no_grad()
def accuracy(model: Classifier, x: ternion.Tensor, target: ternion.Tensor) -> float:
    return (model(x).argmax(1) == target).float().mean().item()


@ternion.autocast("cpu", dtype=ternion.bfloat16)
def product(x: ternion.Tensor) -> ternion.Tensor:
    return x @ x.T


def layers(model: Classifier, x: ternion.Tensor) -> None:
    assert_type(model(x), ternion.Tensor)
    assert_type(model.first(x), ternion.Tensor)
    assert_type(model.activation(x), ternion.Tensor)
    assert_type(model.first.weight, nn.Parameter)
    assert_type(Reader()(x), tuple[ternion.Tensor, ternion.Tensor])
    assert_type(nn.Conv2d(1, 2, 3, padding=1)(x), ternion.Tensor)
    assert_type(nn.CrossEntropyLoss()(x, x), ternion.Tensor)
    assert_type(nn.functional.softmax(x, -1), ternion.Tensor)
    assert_type(nn.init.zeros_(model.first.weight), ternion.Tensor)
    assert_type(model.train().to("cpu").eval(), Classifier)
    assert_type(model.parameters(), Iterator[nn.Parameter])
    assert_type(dict(model.named_modules()), dict[str, nn.Module])
    assert_type(model.state_dict(), dict[str, ternion.Tensor])
    assert_type(nn.summary(model, (2, 8)).flops, int)
    assert_type(models.GPT(vocabulary=5, context=8, layers=1, heads=1, width=8)(x), ternion.Tensor)


def learn(model: Classifier, x: ternion.Tensor, target: ternion.Tensor) -> float:
    adam = optim.AdamW(model.named_parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    schedule, scaler, ema = CosineAnnealingLR(adam, T_max=10), amp.GradScaler(), optim.Ema(model)
    monitor = nn.utils.StatsMonitor(model, every=5)
    loss = ternion.zeros(())
    for step in range(10):
        adam.zero_grad()
        with ternion.autocast("cpu"), monitor.watch(step):
            loss = nn.functional.cross_entropy(model(x), target)
        scaler.scale(loss).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert_type(norm, ternion.Tensor)
        scaler.step(adam)
        scaler.update()
        schedule.step()
        ema.update()
    assert_type(schedule.get_last_lr(), list[float])
    train.TrainingState().model("model", model).optimizer("adam", adam).save(10, "run.safetensors")
    assert_type(loss.item(), float)
    return loss.item()


class Descent(optim.Optimizer):
    def __init__(self, params: Iterable[ternion.Tensor], lr: float = 0.1):
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        with ternion.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    self.state[parameter]["step"] = self.state[parameter].get("step", 0) + 1
                    parameter.sub_(group["lr"] * parameter.grad)


class Halving(optim.lr_scheduler.LRScheduler):
    def get_lr(self) -> list[float]:
        return [lr * 0.5**self.last_epoch for lr in self.base_lrs]


def learn_in_its_own_way(model: Classifier) -> list[float]:
    descent = Descent(model.parameters())
    schedule = Halving(descent)
    descent.step()
    schedule.step()
    return schedule.get_last_lr()


def classic(images: Array, labels: list[str]) -> dict[str, float]:
    model = models.MLP(784, 128, 10, random_state=1).fit(images, labels, epochs=5, validation_data=(images, labels))
    assert_type(model, models.MLP)
    assert_type(model.predict(images), np.ndarray[Any, Any])
    assert_type(model.predict_proba(images), np.ndarray[Any, Any])
    assert_type(model.score(images, labels), float)
    return model.evaluate(images, labels)


def trusted(model: Classifier, x: ternion.Tensor) -> None:
    assert_type(testing.gradcheck(lambda x: x.tanh(), x), bool)
    assert_type(testing.gradgradcheck(lambda x: x.tanh(), x, fast_mode=True), bool)
    assert_type(testing.make_tensor(2, 3, dtype=ternion.float32, device="cpu"), ternion.Tensor)
    assert_type(x + np.float32(3) * x - np.int64(2), ternion.Tensor)
    assert_type(testing.compare_models(model, model, x), int)
    testing.assert_close(x, x.numpy())
    with ternion.check("cpu") as check:
        model(x).sum().backward()
    assert_type(check.compared, int)
    assert_type(ternion.stats(x).mean, float)


def fed() -> None:
    digits = data.mnist((100, 10))
    for images, labels in digits.train.batches(10, shuffle=1):
        assert_type(images, ternion.Tensor)
        assert_type(labels, ternion.Tensor)
    table = data.read_csv("prices.csv")
    rows, held_out = table.train_test_split(seed=1)
    assert_type(data.StandardScaler(rows).apply(held_out).tensor("cpu"), ternion.Tensor)


class Points(Dataset[tuple[ternion.Tensor, int]]):
    def __getitem__(self, index: int) -> tuple[ternion.Tensor, int]:
        return ternion.ones(2), index

    def __len__(self) -> int:
        return 3


class Untold(Dataset):
    def __getitem__(self, index: int) -> ternion.Tensor:
        return ternion.ones(2)


class Flow(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Backwards(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([2, 1, 0])


def loaded() -> None:
    assert_type(Points()[0], tuple[ternion.Tensor, int])
    loader: DataLoader[tuple[ternion.Tensor, int]] = DataLoader(Points(), batch_size=2, sampler=Backwards())
    for points, labels in loader:
        print(points, labels)
    for numbers in DataLoader(Flow(), batch_size=2):
        print(numbers)
    few, many = random_split(Points(), [1, 2])
    print(len(few), len(many), Untold()[0])


if __name__ == "__main__":
    points, classes = ternion.randn(16, 8), ternion.randint(0, 3, (16,))
    classifier = Classifier(16)
    print(learn(classifier, points, classes), accuracy(classifier, points, classes))


def bytes_of(x: ternion.Tensor) -> tuple[memoryview[int], Array]:
    """Returns the memory of a tensor without a copy, for consumers of buffers."""
    return memoryview(x), np.frombuffer(memoryview(x), np.float32)
