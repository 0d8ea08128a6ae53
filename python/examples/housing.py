"""House prices by a perceptron: a subclassed module, statistics of every layer, predictions.

    python python/examples/housing.py                                      # districts that are drawn by a formula
    python python/examples/housing.py --data DIR                           # California's, of 1990, from a directory
    python python/examples/housing.py --data prices.csv --target price     # any table of numbers
"""

import argparse
import json
import math
import os
import random
import sys

import ternion
from ternion import nn, optim

COLUMNS = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude", "MedHouseVal"]


def artificial_districts(rows, seed):
    """Districts in the columns of California's whose houses are worth, in 100,000 dollars,

        0.45 income + 1.5 exp(-(distance / 2)^2) - 0.3 (people - 3) + 0.01 (age - 28) + noise

    with the distance to one town in degrees, the people in a household, and a noise even over -0.25 .. 0.25. Rooms, bedrooms and population say nothing.
    As in the Rust example; the numbers are others.
    """
    between, table = random.Random(seed).uniform, []
    for _ in range(rows):
        income, age, rooms, bedrooms = between(0.5, 8.0), between(1.0, 52.0), between(3.0, 8.0), between(0.8, 1.3)
        population, people, latitude, longitude = between(100.0, 3000.0), between(1.5, 4.5), between(32.5, 42.0), between(-124.3, -114.3)
        distance = math.hypot(latitude - 34.05, longitude + 118.25)
        value = 0.45 * income + 1.5 * math.exp(-((distance / 2) ** 2)) - 0.3 * (people - 3) + 0.01 * (age - 28) + between(-0.25, 0.25)
        table.append([income, age, rooms, bedrooms, population, people, latitude, longitude, value])
    return ternion.data.Table(COLUMNS, table)


def table_of(data, seed):
    """The table that `--data` names, and a line that tells where it is from."""
    if data == "artificial":
        return artificial_districts(4000, seed), "These districts are artificial, drawn by a formula; --data names others."
    if data == "auto" or os.path.isdir(data):
        table, origin = ternion.data.california_housing(data)
        return table, f"California housing, {origin}"
    return ternion.data.read_csv(data), f"data from {data}"


class Regressor(nn.Module):
    """Features -> hidden -> hidden -> 1, as the Rust example housing."""

    def __init__(self, features, hidden, device):
        self.first = nn.Linear(features, hidden, device=device)
        self.second = nn.Linear(hidden, hidden, device=device)
        self.output = nn.Linear(hidden, 1, device=device)

    def forward(self, x):
        return self.output(self.second(self.first(x).relu()).relu())


def learn(model, x, y, arguments):
    """Trains the model; how the layers are at the end, which a monitor tells that looks at a step now and then."""
    steps = -(-len(x) // arguments.batch)
    adam = optim.Adam(model.named_parameters(), lr=arguments.lr)
    monitor = nn.utils.StatsMonitor(model, every=max(arguments.epochs * steps // 10, 1))
    step, report = 0, None
    for epoch in range(arguments.epochs):
        total = 0.0
        for chosen in ternion.randperm(len(x), device=x.device).split(arguments.batch):
            adam.zero_grad()
            with monitor.watch(step):
                loss = nn.functional.mse_loss(model(x[chosen]), y[chosen])
            loss.backward()
            seen = monitor.step(adam)
            if seen is not None:
                report = seen
                for warning in seen.warnings:
                    print(f"warning: {warning}", flush=True)
            total += loss.item() * len(chosen)
            step += 1
        if epoch % 10 == 0 or epoch + 1 == arguments.epochs:
            print(f"epoch {epoch + 1}/{arguments.epochs}  loss {total / len(x):.4f}", flush=True)
    return report


def positive(text):
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}, expected a whole number above 0")
    return int(text)


def arguments_of():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER")
    parser.add_argument("--data", default="artificial", help="artificial (the default: drawn by a formula), a CSV file, a directory with California housing, or auto")
    parser.add_argument("--target", default="MedHouseVal", help="the column that is learned")
    parser.add_argument("--hidden", type=positive, default=128)
    parser.add_argument("--epochs", type=positive, default=30)
    parser.add_argument("--batch", type=positive, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="writes the results")
    return parser.parse_args()


def main():
    arguments = arguments_of()
    device = ternion.device(arguments.device)
    ternion.manual_seed(arguments.seed)
    table, origin = table_of(arguments.data, arguments.seed)
    print(origin)
    if arguments.target not in table.columns:
        raise ValueError(f"--target {arguments.target}: no such column; there are {', '.join(table.columns)}")
    train, test = table.train_held_out(arguments.seed)
    scales = [ternion.data.Standardisation(part) for part in (train.without([arguments.target]), train.select([arguments.target]))]

    def tensors(table):
        parts = table.without([arguments.target]), table.select([arguments.target])
        return [scale.apply(part).tensor(device) for scale, part in zip(scales, parts)]

    (x, y), (x_test, y_test) = tensors(train), tensors(test)
    model = Regressor(x.shape[1], arguments.hidden, device)
    print(f"{len(x)} rows to learn from, {len(x_test)} to be tested on, on {device}", flush=True)
    print(learn(model, x, y, arguments))
    with ternion.no_grad():
        found, target = (scales[1].restore(part) for part in (model(x_test), y_test))
        error = (found - target).square().mean()
        r2 = 1 - error / (target - target.mean()).square().mean()
    for number in range(min(5, len(found))):
        print(f"predicted {found[number, 0].item():.3f}, target {target[number, 0].item():.3f}")
    print(f"R2 {r2.item():.4f}, RMSE {error.sqrt().item():.4f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"test_r2": r2.item(), "test_rmse": error.sqrt().item()}, file, indent=2)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"housing: {error}")
