"""California's house prices by a perceptron: a subclassed module, statistics of every layer, predictions in dollars.

    python python/examples/housing.py
    python python/examples/housing.py --data prices.csv --target price
"""

import argparse
import json

import ternion
from ternion import nn, optim


class Regressor(nn.Module):
    """Features -> hidden -> hidden -> 1, as the Rust example housing."""

    def __init__(self, features, hidden, device):
        self.first = nn.Linear(features, hidden, device=device)
        self.second = nn.Linear(hidden, hidden, device=device)
        self.output = nn.Linear(hidden, 1, device=device)

    def forward(self, x):
        return self.output(self.second(self.first(x).relu()).relu())


def statistics(model):
    """A line for each parameter: mean, deviation and extremes of its values and of its gradient."""
    for name, parameter in model.named_parameters():
        told = [f"{name:14}"]
        for tensor in (parameter.detach(), parameter.grad):
            if tensor is not None:
                mean, std = tensor.mean().item(), tensor.std().item() if tensor.numel() > 1 else 0.0
                told.append(f"mean {mean:+.1e} std {std:.1e} range {tensor.min().item():+.1e} {tensor.max().item():+.1e}")
        print("  |  ".join(told))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", help="a CSV file; California's prices by default")
    parser.add_argument("--target", default="MedHouseVal", help="the column that is learned")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="writes the results")
    arguments = parser.parse_args()
    device = ternion.device(arguments.device)
    ternion.manual_seed(arguments.seed)
    if arguments.data:
        table = ternion.data.read_csv(arguments.data)
    else:
        table, origin = ternion.data.california_housing()
        print(origin)
    train, test = table.train_held_out(arguments.seed)
    scales = [ternion.data.Standardisation(part) for part in (train.without([arguments.target]), train.select([arguments.target]))]

    def tensors(table):
        parts = table.without([arguments.target]), table.select([arguments.target])
        return [scale.apply(part).tensor(device) for scale, part in zip(scales, parts)]

    (x, y), (x_test, y_test) = tensors(train), tensors(test)
    model = Regressor(x.shape[1], arguments.hidden, device)
    adam = optim.Adam(model.named_parameters(), lr=arguments.lr)
    for epoch in range(arguments.epochs):
        order = ternion.randperm(len(x), device=device)
        for chosen in order.split(arguments.batch):
            adam.zero_grad()
            loss = nn.functional.mse_loss(model(x[chosen]), y[chosen])
            loss.backward()
            adam.step()
        if epoch % 10 == 0 or epoch + 1 == arguments.epochs:
            print(f"epoch {epoch + 1}/{arguments.epochs}  loss {loss.item():.4f}")
    statistics(model)
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
    main()
