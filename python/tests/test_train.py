"""Checkpoints: a resumed training run ends with the same bits, and a checkpoint that does not fit
changes nothing."""

import json
import os

import pytest

import ternion
from ternion import nn, optim, train


class Run:
    """A training run with every kind of state."""

    def __init__(self, groups=1):
        ternion.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        named = list(self.model.named_parameters())
        parts = [{"params": named}] if groups == 1 else [{"params": named[:2]}, {"params": named[2:], "lr": 1e-3, "weight_decay": 0.0}]
        self.adam = optim.AdamW(parts, lr=1e-2)
        self.schedule = optim.CosineAnnealingLR(self.adam, 20)
        self.plateau = optim.ReduceLROnPlateau(self.adam, patience=2)
        self.ema = optim.Ema(self.model, 0.9)
        self.losses, self.counts, self.step, self.best = [], {"seen": 0}, 0, None

    def state(self):
        return (
            train.TrainingState().model("model", self.model).optimizer("adam", self.adam).part("schedule", self.schedule)
            .part("plateau", self.plateau).part("ema", self.ema).part("losses", self.losses).value("best", self).value("seen", self.counts)
            .setting("batch", 16)
        )  # fmt: skip

    def train(self, until):
        while self.step < until:
            self.adam.zero_grad()
            loss = self.model(ternion.randn(16, 4)).square().mean()
            loss.backward()
            self.adam.step()
            self.schedule.step()
            self.ema.update()
            self.plateau.step(loss.item())
            self.losses.append(loss.item())
            self.best = min(self.losses)
            self.counts["seen"] += 16
            self.step += 1
        return self


@pytest.mark.parametrize("groups", [1, 2])
def test_a_resumed_training_ends_with_the_same_bits(tmp_path, groups):
    run = Run(groups).train(5)
    run.state().save(5, tmp_path / "run.st")
    run.train(12)
    resumed = Run(groups)
    resumed.train(2)
    resumed.step = resumed.state().resume(tmp_path / "run.st")
    assert resumed.step == 5 and resumed.counts == {"seen": 80}
    resumed.train(12)
    assert resumed.losses == run.losses and resumed.best == run.best
    assert all(value.equal(run.model.state_dict()[key]) for key, value in resumed.model.state_dict().items())
    assert resumed.schedule.get_last_lr() == run.schedule.get_last_lr()
    assert resumed.ema.state_dict()["average.0.weight"].equal(run.ema.state_dict()["average.0.weight"])


def test_a_checkpoint_is_read_in_parts(tmp_path):
    Run().train(3).state().save(3, tmp_path / "run.st")
    checkpoint = train.Checkpoint(tmp_path / "run.st")
    assert (checkpoint.step, checkpoint.value("batch"), checkpoint.value("seen")) == (3, 16, 48)
    assert list(checkpoint.state_dict("model")) == sorted(Run().model.state_dict())
    assert {"lr", "0.weight.exp_avg", "0.weight.step"} <= set(checkpoint.state_dict("adam"))
    # Other programs can read the tensors, and people the rest.
    assert "model.0.weight" in ternion.load(tmp_path / "run.st")
    assert json.loads((tmp_path / "run.st.json").read_text())["step"] == 3
    with pytest.raises(OSError, match='no part "sgd", expected one of adam'):
        checkpoint.state_dict("sgd")
    with pytest.raises(OSError, match='no value "epoch"'):
        checkpoint.value("epoch")


class TestMisfits:
    @pytest.fixture
    def file(self, tmp_path):
        Run().train(3).state().save(3, tmp_path / "run.st")
        return tmp_path / "run.st"

    def check_rejected(self, run, state, file, message):
        before = {key: value.clone() for key, value in run.model.state_dict().items()}
        position = ternion.get_rng_state()
        with pytest.raises((OSError, ValueError), match=message):
            state.resume(file)
        assert all(value.equal(before[key]) for key, value in run.model.state_dict().items())
        assert ternion.get_rng_state() == position and run.losses == []

    def test_other_parts(self, file):
        run = Run()
        state = train.TrainingState().model("model", run.model).optimizer("sgd", run.adam)
        self.check_rejected(run, state, file, "run.st: it is of a training run with other parts; not in the checkpoint: sgd \\(optimizer\\)")

    def test_other_settings(self, file):
        run = Run()
        state = run.state()
        state._parts[-1] = ("setting", "batch", 32)
        self.check_rejected(run, state, file, "other settings: batch was 16, is 32")

    def test_another_state_behind_the_model(self, file):
        run = Run()
        run.ema = optim.Ema([("other", run.model[0].weight)])
        self.check_rejected(run, run.state(), file, "ema: .*expected average.other, n_averaged")

    def test_another_model(self, file):
        run = Run()
        setattr(run.model, "0", nn.Linear(4, 9))
        self.check_rejected(run, run.state(), file, "wrong shape: 0.bias")

    def test_damage(self, file):
        content = bytearray(file.read_bytes())
        content[-3] ^= 1
        file.write_bytes(content)
        run = Run()
        self.check_rejected(run, run.state(), file, "run.st: corrupt: tensor .* is not as it was written")

    def test_no_checkpoint(self, tmp_path):
        ternion.save(tmp_path / "weights", {"x": ternion.ones(1)})
        run = Run()
        self.check_rejected(run, run.state(), tmp_path / "weights", "not a checkpoint but only 1 tensors")
        with pytest.raises(FileNotFoundError, match="nowhere"):
            run.state().resume(tmp_path / "nowhere")


def test_what_cannot_be_kept(tmp_path):
    run = Run()
    run.best = float("nan")
    with pytest.raises(ValueError, match="value best: JSON cannot say nan"):
        run.state().save(0, tmp_path / "a")
    with pytest.raises(TypeError, match="part count: of type int"):
        train.TrainingState().part("count", 3)
    with pytest.raises(TypeError, match="model m: of type Tensor"):
        train.TrainingState().model("m", ternion.ones(1))
    with pytest.raises(ValueError, match="two parts have the name"):
        train.TrainingState().model("m", run.model).setting("m", 1).save(0, tmp_path / "a")
    with pytest.raises(ValueError, match='the name "a.b"'):
        train.TrainingState().model("a.b", run.model).save(0, tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_losses_may_be_no_numbers(tmp_path):
    losses = [1.0, float("nan"), float("inf")]
    train.TrainingState().part("losses", losses).save(0, tmp_path / "a")
    result = [5.0]
    train.TrainingState().part("losses", result).resume(tmp_path / "a")
    assert str(result) == "[1.0, nan, inf]"


def test_a_folder_keeps_the_last_ones(tmp_path):
    folder = train.Checkpoints(tmp_path / "run", keep=2)
    run = Run()
    assert folder.resume(run.state()) is None
    for step in (1, 2, 3):
        folder.save(step, run.train(step).state())
    assert [step for step, _ in folder.list()] == [2, 3]
    losses = list(run.losses)
    newest = folder.list()[-1][1]
    with open(newest, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"x")
    other = Run()
    del folder
    resumed = train.Checkpoints(tmp_path / "run").resume(other.state())
    assert resumed.step == 2 and other.losses == losses[:2] and "corrupt" in resumed.corrupt[0]


@pytest.mark.parametrize("step, kind, message", [(-1, ValueError, "save: step -1, expected 0 or more"), (2**64, ValueError, "save: step"), (1.5, TypeError, "save: step of type float")])
def test_numbers_of_steps_that_are_none(tmp_path, step, kind, message):
    for save in (lambda: train.TrainingState().save(step, tmp_path / "run"), lambda: train.Checkpoints(tmp_path).save(step, train.TrainingState())):
        with pytest.raises(kind, match=message):
            save()
    for keep in (0, -1):
        with pytest.raises(ValueError, match=f"Checkpoints: keep {keep}, expected at least 1, or None"):
            train.Checkpoints(tmp_path, keep)
