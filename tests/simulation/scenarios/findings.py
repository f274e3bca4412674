"""What comparisons of simulations with schedulers found, and a line that sums it up."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping


class Findings:
    """Compares what was answered with what happened, scenario by scenario.

    `differences` has a line for each; `counts` says how many pods were placed, stayed pending or were evicted.
    """

    def __init__(self) -> None:
        self.differences: list[str] = []
        self.counts: collections.Counter[str] = collections.Counter()
        self._title = ""

    def begin(self, title: str) -> None:
        """The next scenario begins; its differences have this title."""
        self._title = title

    def differ(self, text: str) -> None:
        """Add a difference."""
        self.differences.append(f"{self._title}: {text}")

    def count(self, nodes: Mapping[str, str]) -> None:
        """Count pods by whether they have a node."""
        self.counts["placed"] += sum(map(bool, nodes.values()))
        self.counts["pending"] += sum(not node for node in nodes.values())

    def compare_placements(
        self, answered: Mapping[str, str], actual: Mapping[str, str], messages: Mapping[str, str]
    ) -> None:
        """Compare the nodes of pods by name, empty for none; `messages`: why the answer has some of them pending."""
        for name in sorted(answered.keys() | actual.keys()):
            if answered.get(name) != actual.get(name):
                why = f" ({messages[name]})" if name in messages else ""
                self.differ(f"{name} is on {_node(actual, name)}, not on {_node(answered, name)}{why}")
        self.count(actual)

    def compare_evictions(self, answered: Iterable[str], actual: Iterable[str]) -> None:
        """Compare the names of the pods that were evicted."""
        evicted, expected = sorted(actual), sorted(answered)
        self.counts["evicted"] += len(evicted)
        if evicted != expected:
            self.differ(f"{evicted} were evicted, not {expected}")

    def summary(self) -> str:
        """What was counted, and how many differences there are."""
        counted = "".join(f"{count} {name}, " for name, count in self.counts.items())
        return f"{counted}{len(self.differences)} differences"


def _node(nodes: Mapping[str, str], name: str) -> str:
    return (nodes[name] or "no node") if name in nodes else "(no such pod)"
