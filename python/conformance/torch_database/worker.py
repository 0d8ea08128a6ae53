"""Runs entries of the database in a separate process: it reads names of entries as lines, and
writes outcomes as lines of JSON.

An input line is {"entry": name, "after": how many samples to skip, "reduced": whether to use the
fixed selection}. Output lines are {"start": case, "description": ..}, then {"failures": ..} or
{"left_out": reason} for each sample; {"no_samples": dtype, "detail": error} if they cannot be
created; and finally {"end": true}.
"""

import json
import os
import sys
import warnings


def _say(out, **line):
    out.write(json.dumps(line) + "\n")
    out.flush()


def _cases(entry, reduced):
    """Yields all samples and calls that must fail: name, function that runs the case, its argument,
    and the sample. For a dtype without samples, its name and the error."""
    from torch_database import checks, rejection_checks, samples

    choice = samples.CHOSEN if reduced else {}
    for short in samples.DTYPES:
        try:
            result = samples.samples_of(entry, short, choice.get(short))
        except samples.NoSamples as error:
            yield short, None, str(error), None
            continue
        for number, sample in result.items():
            yield f"{short} {number}", checks.run_sample, sample, sample
    for number, case in samples.errors_of(entry, choice.get("error")).items():
        yield f"error {number}", rejection_checks.run_error, case, case.sample_input


def run_entry(out, subject, reduced, after):
    """Runs the cases after the first `after` ones."""
    from torch_database.conversion import LeftOut
    from torch_database.derivatives import KIND
    from torch_database.samples import described

    done = 0
    for case, run, argument, sample in _cases(subject.entry, reduced):
        if run is None:
            if done >= after:
                _say(out, no_samples=case, detail=" ".join(argument.split())[:300])
            continue
        done += 1
        if done <= after:
            continue
        _say(out, start=case, description=described(sample))
        try:
            failures = run(subject, argument)
        except LeftOut as reason:
            _say(out, left_out=str(reason).splitlines()[0])
            continue
        failures = [[f.form, f.kind, " ".join(f.detail.split())[:300]] for f in failures]
        details = [detail for _, kind, detail in failures if kind == KIND]
        _say(out, failures=[failure for failure in failures if failure[1] != KIND], note=details[0] if details else "")


def main():
    # The output of other code must not be mixed with the outcomes.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from torch_database.checks import Subject
    from torch_database.names import function_of, name_of

    torch.set_num_threads(1)
    # The same samples on every machine: if PyTorch finds a GPU, some samples request results on it,
    # but PyTorch's results should be those of the CPU.
    torch.cuda.is_available = lambda: False
    entries = {name_of(entry): entry for entry in op_db}
    for line in sys.stdin:
        task = json.loads(line)
        entry = entries[task["entry"]]
        run_entry(out, Subject(entry, function_of(entry), sys.argv[1]), task["reduced"], task["after"])
        _say(out, end=True)


if __name__ == "__main__":
    main()
