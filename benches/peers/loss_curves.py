"""The losses of one model on three backends, from the records of the program `compare`.

A record is what `compare --json` writes, or a line of `programs.py run --only compare_..`, which
also states machine, commit and time. Each record compares the CPU with another device.
"""

import json
import math

from figures import Line, LinePanel, Style, render
from plot_tables import MissingRecord, PlotError

# Record -> the device that it compares with the CPU.
RECORDS = {"compare-cuda.json": "cuda", "compare-wgpu.json": "wgpu"}
STYLES = {
    "cpu": Style("CPU", "pale", "", None, 7),
    "cuda": Style("CUDA", "blue", "", None, 2),
    "wgpu": Style("wgpu", "orange", "5 6", None, 2),
}
KEYS = ("devices", "model", "seed", "steps", "losses")


class Record:
    """The losses of a model on the CPU and on another device."""

    def __init__(self, name, text, device):
        self.name, self.device = name, device
        line = parse_line(name, text)
        values = line.get("results", line)
        missing = [key for key in KEYS if key not in values]
        if missing:
            raise PlotError(f"{name}: expected the results of compare, without {', '.join(missing)}")
        self.model, self.seed, self.steps, self.devices = values["model"], values["seed"], values["steps"], values["devices"]
        self.cpu_losses, self.losses = values["losses"]
        self.check()
        stated = [line.get("machine"), f"commit {line.get('commit', 'unknown')}", line.get("time", "unknown date")]
        self.provenance = f"{device}: {', '.join(stated)}." if stated[0] else ""

    def check(self):
        """Raises an error unless there is a finite loss of both devices for each step."""
        if [str(one).split(":")[0] for one in self.devices] != ["cpu", self.device]:
            raise PlotError(f"{self.name}: devices {', '.join(map(str, self.devices))}, expected cpu, {self.device}")
        if not self.steps or {len(self.cpu_losses), len(self.losses)} != {self.steps}:
            raise PlotError(f"{self.name}: {len(self.cpu_losses)} and {len(self.losses)} losses, expected {self.steps} of each device")
        if not all(isinstance(loss, (int, float)) and 0 < abs(loss) < math.inf for loss in [*self.cpu_losses, *self.losses]):
            raise PlotError(f"{self.name}: expected finite losses that are not 0")

    def differences(self):
        """Returns the differences from the CPU by step, relative to its losses."""
        pairs = enumerate(zip(self.cpu_losses, self.losses), 1)
        return {step: abs(first - second) / abs(first) for step, (first, second) in pairs}


def parse_line(name, text):
    """Returns the record of a file: its JSON, or the newest line of JSON lines."""
    for candidate in (text, text.strip().rpartition("\n")[2]):
        try:
            line = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(line, dict):
            return line
    raise PlotError(f"{name}: expected a JSON object, or one on the last line")


def read_records(folder):
    """Returns the records of a folder, which must be of one training run on the CPU."""
    missing = [name for name in RECORDS if not (folder / name).is_file()]
    if missing:
        raise MissingRecord(f"docs/plots/records has no {' and no '.join(missing)}")
    records = [Record(name, (folder / name).read_text(encoding="utf-8"), device) for name, device in RECORDS.items()]
    check_same_run(*records)
    return records


def check_same_run(first, second):
    """Raises an error unless model, seed, steps and the losses of the CPU are equal."""
    for key in ("model", "seed", "steps"):
        one, other = getattr(first, key), getattr(second, key)
        if one != other:
            raise PlotError(f"{first.name} and {second.name}: {key} {one} and {other}")
    for step, (one, other) in enumerate(zip(first.cpu_losses, second.cpu_losses), 1):
        if one != other:
            raise PlotError(f"{first.name} and {second.name}: step {step}: the CPU's losses are {one!r} and {other!r}")


def by_step(losses):
    return dict(enumerate(losses, 1))


def captions(records):
    first = records[0]
    stated = [record.provenance for record in records if record.provenance] or ["The records state no device and no commit."]
    return [*stated, f"compare --model {first.model} --seed {first.seed} --steps {first.steps}, drawn by benches/peers/plots.py."]


def draw(folder):
    """Returns the figure: three curves, and their differences from the CPU's."""
    records = read_records(folder)
    curves = [Line(STYLES["cpu"], by_step(records[0].cpu_losses)), *(Line(STYLES[record.device], by_step(record.losses)) for record in records)]
    dots = [Line(STYLES[record.device]._replace(shape="dot", width=0), record.differences()) for record in records]
    panels = [
        LinePanel("Loss", "step", "loss", curves, over_steps=True),
        LinePanel("Difference from the CPU", "step", "difference / loss of the CPU", dots, over_steps=True, y_is_logarithmic=True, height=220),
    ]
    largest = max(value for record in records for value in record.differences().values())
    subtitle = f"The same model, seed and batches: the largest difference is {largest:.1e} of the loss. Dots on the lower edge: no difference."
    return render(f"Losses of the model {records[0].model} on three backends", subtitle, panels, captions(records), columns=1)
