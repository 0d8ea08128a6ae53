"""Trains a transformer to continue a text, character by character, and lets it write.

It is the Python version of the Rust example tiny_gpt.

    python python/examples/tiny_gpt.py
    python python/examples/tiny_gpt.py --text shakespeare.txt --context 64 --steps 2000 \\
        --save poet.safetensors --device cuda
    python python/examples/tiny_gpt.py --load poet.safetensors --generate "ROMEO:" --tokens 300 \\
        --temperature 0.8

With the same text and settings it has the same initial weights and the same batches. Without --text
it learns the same text, which is read from the repository. --save writes a checkpoint, which the
Rust example reads with --load, and vice versa.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

import ternion
from ternion import data, models, nn, optim, train

# Documents first, then source code: the text of the Rust example.
OWN_TEXT = """
README.md ARCHITECTURE.md CONTRIBUTING.md docs/gradients.md docs/adding-an-op.md docs/adding-a-backend.md docs/kernels/README.md
docs/kernels/matmul.md docs/kernels/attention.md examples/mnist.rs examples/tiny_gpt.rs src/lib.rs
""".split()

WARMUP_STEPS = 100

# The number of steps whose mean loss is reported: each reading waits for the device.
STEPS_PER_READING = 50


def text_of(file):
    """Returns the text to learn from."""
    if file is not None:
        return data.read_text(file)
    root = Path(__file__).resolve().parents[2]
    return "\n".join(data.read_text(root / part) for part in OWN_TEXT)


def model_of(settings, vocabulary, device):
    """Creates a model of the sizes in the settings."""
    return models.GPT(
        vocabulary=vocabulary, context=settings["context"], layers=settings["layers"], heads=settings["heads"], width=settings["width"],
        bias=False, dropout=settings["dropout"], device=device,
    )  # fmt: skip


def loss_of(model, inputs, targets):
    """Returns the mean loss of the next tokens of a batch."""
    return model.loss(inputs, targets)


class Training:
    """A training run on the first 90 % of a text, with tests on the rest."""

    def __init__(self, model, vocabulary, text, settings, device):
        self.model, self.vocabulary, self.settings, self.device = model, vocabulary, settings, device
        parts = [vocabulary.encode(part) for part in data.train_validation(text)]
        learned, self.held_out = (data.Windows(part, settings["context"]) for part in parts)
        self.batches = learned.random(settings["batch"], settings["seed"], device)
        self.adam = self._optimizer()
        self.schedule = self._schedule()
        self.losses, self.tokens, self.seconds, self.step = [], 0, 0.0, 0

    def _optimizer(self):
        """Creates AdamW as in nanoGPT: with weight decay for matrices, but not for vectors."""
        named = list(self.model.named_parameters())
        matrices = [(name, parameter) for name, parameter in named if parameter.ndim > 1]
        vectors = [(name, parameter) for name, parameter in named if parameter.ndim == 1]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        return optim.AdamW(groups, lr=self.settings["lr"], betas=(0.9, 0.99), weight_decay=0.1)

    def _schedule(self):
        """Creates the schedule: an increase in 100 steps, then a decrease to a tenth along a
        cosine.
        """
        falling = max(self.settings["steps"] - WARMUP_STEPS, 1)
        rise = optim.LinearLR(self.adam, start_factor=0.01, total_iters=WARMUP_STEPS)
        fall = optim.CosineAnnealingLR(self.adam, falling, eta_min=self.settings["lr"] / 10)
        return optim.SequentialLR(self.adam, [rise, fall], [WARMUP_STEPS])

    def learn(self):
        """Makes one step, and returns the loss."""
        self.model.train()
        inputs, targets = next(self.batches)
        self.adam.zero_grad()
        loss = loss_of(self.model, inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.step()
        self.schedule.step()
        self.step += 1
        self.tokens += targets.numel()
        return loss.detach()

    def run(self):
        """Makes all steps, and returns the last loss on the held-out text."""
        total, counted, tested, begun = ternion.zeros((), device=self.device), 0, (0, None), time.perf_counter()
        for step in range(1, self.settings["steps"] + 1):
            loss = self.learn()
            with ternion.no_grad():
                total += loss
            counted += 1
            if step == 1:
                # The first step compiles kernels on some devices.
                self.device.synchronize()
                self.tokens, begun = 0, time.perf_counter()
            if step % STEPS_PER_READING == 0 or step == self.settings["steps"]:
                self.losses.append((step, total.item() / counted))
                total.zero_()
                counted = 0
            if sys.stderr.isatty():
                print(f"\r{step}/{self.settings['steps']} ", end="\r", file=sys.stderr, flush=True)
            if step % self.settings["eval_every"] == 0:
                self.seconds += time.perf_counter() - begun
                tested = (step, self.test())
                begun = time.perf_counter()
        self.device.synchronize()
        self.seconds += time.perf_counter() - begun
        return tested[1] if tested[0] == self.settings["steps"] and tested[1] is not None else self.test()

    def test(self):
        """Prints the loss on the held-out text, and a sample. Returns the loss. The training
        continues as if there had been no test.
        """
        position = ternion.get_rng_state(self.device)
        self.model.eval()
        total, count = 0.0, 0
        with ternion.no_grad():
            for inputs, targets in self.held_out.sequential(self.settings["batch"], self.device):
                total += loss_of(self.model, inputs, targets).item() * len(inputs)
                count += len(inputs)
        loss = self.losses[-1][1] if self.losses else float("nan")
        speed = self.speed()
        told = "" if speed is None else f"  {speed:.0f} tokens/s"
        print(f"step {self.step}  loss {loss:.4f}  validation {total / count:.4f}{told}", flush=True)
        if self.step > 0:
            print(self.vocabulary.decode(self.model.generate([0], 120)).strip(), flush=True)
        ternion.set_rng_state(position, self.device)
        return total / count

    def speed(self):
        """Returns tokens per second of all steps except the first; None before there is one."""
        return self.tokens / self.seconds if self.seconds > 0 and self.tokens > 0 else None

    def state(self):
        """Returns the contents of a checkpoint."""
        state = train.TrainingState(self.device).model("model", self.model).optimizer("adam", self.adam)
        for name in ("layers", "heads", "width", "context", "batch", "seed"):
            state.setting(name, self.settings[name])
        return state.setting("characters", self.vocabulary.characters)


def write(model, vocabulary, arguments):
    """Writes the continuation of the prompt, each character as soon as it is chosen, and returns it
    for the results.
    """
    begun = time.perf_counter()
    print(arguments.generate, end="", flush=True)
    tokens = model.eval().generate(
        vocabulary.encode(arguments.generate).tolist(), arguments.tokens, arguments.temperature, arguments.top_k, arguments.top_p,
        each=lambda token: print(vocabulary.decode([token]), end="", flush=True),
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    print()
    print(f"{len(tokens)} characters, {len(tokens) / seconds:.0f} in a second", file=sys.stderr)
    return {"prompt": arguments.generate, "text": vocabulary.decode(tokens), "tokens": tokens, "seconds": seconds}


def positive(text):
    """Parses a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}, expected an integer above 0")
    return int(text)


def number(expected, fits):
    """Returns a parser of numbers that rejects invalid settings before anything is computed or
    written.
    """

    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not fits(value):
            raise argparse.ArgumentTypeError(f"{text}, expected {expected}")
        return value

    return parse


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER")
    parser.add_argument("--text", help="the text to learn from, UTF-8; by default documents and source of the repository")
    sizes = dict(layers=4, heads=4, width=128, context=256, batch=12, seed=1)
    for name, usual in sizes.items():
        parser.add_argument(f"--{name}", type=int if name == "seed" else positive, default=usual)
    parser.add_argument("--steps", type=int, help="1000 by default; with --load none")
    parser.add_argument("--lr", type=float, default=3e-3, help="the largest learning rate")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--eval-every", type=positive, default=250, help="steps between two tests on the held-out text")
    parser.add_argument("--generate", metavar="TEXT", help="writes what follows this text")
    parser.add_argument("--tokens", type=positive, default=500, help="characters to write")
    parser.add_argument("--temperature", type=number("a number of at least 0", lambda value: 0 <= value < math.inf), default=1.0)
    parser.add_argument("--top-k", type=positive)
    parser.add_argument("--top-p", type=number("a number above 0, at most 1", lambda value: 0 < value <= 1))
    parser.add_argument("--save", metavar="FILE", help="writes a checkpoint behind the training")
    parser.add_argument("--load", metavar="FILE", help="starts from the weights of a checkpoint, whose sizes hold")
    parser.add_argument("--json", help="writes the results")
    return parser.parse_args()


def main():
    arguments = arguments_of()
    device = ternion.device(arguments.device)
    settings = {name: value for name, value in vars(arguments).items() if name not in ("device", "text", "json", "save", "load")}
    ternion.manual_seed(arguments.seed)
    checkpoint = train.Checkpoint(arguments.load) if arguments.load else None
    if checkpoint is not None:
        settings.update({name: checkpoint.value(name) for name in ("layers", "heads", "width", "context")})
    settings["steps"] = arguments.steps if arguments.steps is not None else 0 if checkpoint else 1000
    needs_text = checkpoint is None or settings["steps"] > 0 or arguments.generate is None
    text = text_of(arguments.text) if needs_text else ""
    vocabulary = data.CharVocabulary(checkpoint.value("characters") if checkpoint else text)
    model = model_of(settings, len(vocabulary), device)
    if checkpoint is not None:
        model.load_state_dict(checkpoint.state_dict("model", device))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters} parameters on {device}, {len(vocabulary)} different characters", flush=True)
    results = {"device": str(device), "parameters": parameters, "seed": arguments.seed}
    if settings["steps"] > 0 or arguments.generate is None:
        training = Training(model, vocabulary, text, settings, device)
        results["validation_loss"] = training.run()
        results.update(steps=training.step, train_loss=training.losses[-1][1] if training.losses else None, readings=training.losses)
        results.update(tokens_per_second=training.speed(), train_seconds=training.seconds)
        if arguments.save:
            training.state().save(training.step, arguments.save)
    if arguments.generate is not None:
        results["generation"] = write(model, vocabulary, arguments)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"tiny_gpt: {error}")
