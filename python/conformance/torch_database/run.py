"""Runs PyTorch's operator database with Ternion, and writes the results to docs/conformance.md.

    python python/conformance/torch_database/run.py --all
        runs everything: writes docs/torch-database-cpu.json and the page
    python python/conformance/torch_database/run.py --check
        runs a fixed selection of samples: fails if one fails that passes on the page
    python python/conformance/torch_database/run.py --all --check
        the same with everything
    python python/conformance/torch_database/run.py --only cumsum -v
        shows the failures of an entry, or of all entries with this text in their name
    python python/conformance/torch_database/run.py --all --device cuda
        runs on another device: cuda or wgpu
    python python/conformance/torch_database/run.py --all --journal FILE
        in several runs: an interrupted run resumes where it ended
    python python/conformance/torch_database/run.py --page
        rewrites the page from the files, such as one from another machine
"""

import argparse
import pathlib
import sys
import time
import warnings
from collections import Counter

if __name__ == "__main__":  # The folder of the package, instead of the package itself.
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import torch

from torch_database import page, results
from torch_database.failures import WRONG, gravest
from torch_database.journal import Journal
from torch_database.names import function_of, name_of, reason_of
from torch_database.pool import Pool

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
PAGE = DOCS / "conformance.md"


def database():
    """Returns all entries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def split(entries):
    """Returns the entries that have a function in Ternion, name -> path; the names of those that
    have none; and name -> reason of those that are intentionally excluded."""
    present, absent, purpose = {}, [], {}
    for entry in entries:
        function, reason = function_of(entry), reason_of(entry)
        if function:
            present[name_of(entry)] = function.path
        elif reason:
            purpose[name_of(entry)] = reason
        else:
            absent.append(name_of(entry))
    return present, absent, purpose


def run(names, device="cpu", reduced=True, processes=2, journal=None):
    """Returns the outcomes of all samples of these entries, or of the fixed selection, together
    with those of a journal, whose entries are not run again."""
    pool = Pool(device, reduced, processes)
    if journal is None:
        return pool.run(list(names))
    known = Journal(journal)
    return known.outcomes + pool.run([name for name in names if name not in known.entries], known.seen, known.ended)


def regressions(outcomes, known):
    """Returns the samples that fail, and that the results of a device do not list as failures, or
    not as wrong."""
    failing = {name: results.failing(entry) for name, entry in known["entries"].items()}
    return [outcome for outcome in outcomes if outcome.failures and _is_worse(outcome.failures, failing.get(outcome.entry, {}).get(outcome.case))]


def _is_worse(failures, known):
    """Returns whether failures are worse than this kind, which is None for a sample that passes. A
    wrong result is worse than a rejected call."""
    return known is None or (gravest(failures)[1] in WRONG and known not in WRONG)


def vanished(present, known):
    """Returns the entries that have a function in the results of a device, and have none now."""
    return sorted(set(known["entries"]) - set(present))


def of_device(device):
    """Returns the results of a device in docs, or exits with an error if there are none."""
    result = [known for known in results.read(DOCS) if known["device"] == device]
    if not result:
        raise SystemExit(f"docs has no results of {device}: --all writes them")
    return result[0]


def _described(outcome):
    return "".join(f"{outcome.entry}  {outcome.case}  [{kind}, {form}]  {detail}  ({outcome.description})\n" for form, kind, detail in outcome.failures)


def _show(outcomes, verbose, seconds):
    counted = [outcome for outcome in outcomes if outcome.failures is not None]
    failed = [outcome for outcome in counted if outcome.failures]
    if verbose:
        print("".join(_described(outcome) for outcome in failed), end="")
    kinds = dict(Counter(gravest(outcome.failures)[1] for outcome in failed))
    share = 100 * (len(counted) - len(failed)) / max(len(counted), 1)
    print(f"{len(counted)} samples, {len(counted) - len(failed)} passed ({share:.1f} %), {len(failed)} failed: {kinds}")
    print(f"{len(outcomes) - len(counted)} do not count; {seconds:.0f} s")


def _check(outcomes, device, present):
    """Returns the exit status: 1 if a sample fails that passes on the page, or a function is
    missing."""
    known = of_device(device)
    worse, gone = regressions(outcomes, known), vanished(present, known)
    for outcome in worse:
        print(f"better by the page: {_described(outcome)}", end="")
    for name in gone:
        print(f"has a function by the page, and none now: {name}")
    return 1 if worse or gone else 0


def write_page(entries):
    present, absent, purpose = split(entries)
    PAGE.write_text(page.written(PAGE.read_text(), results.read(DOCS), present, absent, purpose))


def _parser():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every sample, in place of a fixed choice; writes results and page")
    parser.add_argument("--check", action="store_true", help="compare with the existing results, write nothing")
    parser.add_argument("--only", metavar="NAME", help="an entry, or a part of the names of entries; every sample; writes nothing")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda", "wgpu"], help="where Ternion computes; PyTorch computes on the CPU")
    parser.add_argument("--processes", type=int, default=2, help="how many run side by side")
    parser.add_argument("--journal", type=pathlib.Path, metavar="FILE", help="write each entry there when it is complete, and continue after the existing ones")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page of the existing files")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the failures, each with its first difference")
    return parser


def main():
    arguments = _parser().parse_args()
    entries = database()
    if arguments.page:
        write_page(entries)
        return 0
    present, _, _ = split(entries)
    names = [name for name in present if arguments.only in (None, name)] or [name for name in present if arguments.only in name]
    start = time.monotonic()
    outcomes = run(names, arguments.device, not (arguments.all or arguments.only), arguments.processes, arguments.journal)
    _show(outcomes, arguments.verbose, time.monotonic() - start)
    if arguments.check:
        return _check(outcomes, arguments.device, present)
    if arguments.all and not arguments.only:
        result = results.of_outcomes(outcomes, present)
        (DOCS / results.FILES.format(arguments.device)).write_text(results.written(arguments.device, torch.__version__.partition("+")[0], result, len(entries)))
        write_page(entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
