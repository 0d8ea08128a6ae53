"""Checks of the settings of learning-rate schedules, and their text."""


def describe(schedule):
    """Formats the settings of a schedule, its progress and the learning rates."""
    settings = [f"{name}={value!r}" for name, value in vars(schedule).items() if name != "optimizer" and not name.startswith("_")]
    return f"{type(schedule).__name__}({', '.join(settings)}, lr={schedule.get_last_lr()})"


def lambda_list(schedule, lr_lambda, groups):
    """Returns one function for each group."""
    functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
    if len(functions) != groups:
        raise ValueError(f"{schedule}: {len(functions)} functions for {groups} groups of parameters")
    return functions


def check_at_least_1(schedule, name, value):
    if value < 1:
        raise ValueError(f"{schedule}: {name} {value}, expected at least 1")


def check_float64(schedule, name, value):
    try:
        float(value)
    except OverflowError:
        raise ValueError(f"{schedule}: {name} of {value.bit_length()} bits, expected a number that float64 holds") from None


def check_fraction(schedule, name, value):
    if not 0 <= value <= 1:
        raise ValueError(f"{schedule}: {name} {value}, expected 0 to 1")
