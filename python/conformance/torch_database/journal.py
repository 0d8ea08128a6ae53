"""Outcomes of completed entries as lines of JSON, one entry per line. A run that was interrupted
resumes after them."""

import json
from collections import defaultdict

from .pool import Outcome


class Journal:
    """The entries in a file, and those that are added to it while a pool runs."""

    def __init__(self, path):
        self._path, self._open = path, defaultdict(list)
        self.outcomes, self.entries = [], set()
        for line in path.read_text().splitlines() if path.exists() else []:
            self._take(line)

    def _take(self, line):
        try:
            entry, outcomes = json.loads(line)
        except ValueError:  # Truncated when the run was interrupted.
            return
        self.entries.add(entry)
        for *head, failures, detail in outcomes:
            failures = failures if failures is None else [tuple(failure) for failure in failures]
            self.outcomes.append(Outcome(*head, failures, detail))

    def seen(self, outcome):
        """Keeps an outcome until its entry is complete."""
        self._open[outcome.entry].append(outcome)

    def ended(self, entry):
        """Writes the outcomes of a completed entry."""
        with self._path.open("a") as file:
            file.write(json.dumps([entry, self._open.pop(entry, [])]) + "\n")
