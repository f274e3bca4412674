"""A plugin that lets every node pass and scores all alike: what calling a remote plugin costs, without its own work.

DEPENDS_ON, POD_FIELDS and SCORE_COPIES (0 or 1) in its environment say what it declares. How many calls it had, and
about how many nodes, is in a file once it has ended.

Also change: tools/bench/noop_plugins/go/main.go,
tools/bench/noop_plugins/java/src/main/java/dev/trireme/bench/Noop.java, tools/bench/noop_plugins/rust/src/main.rs,
tools/bench/noop_plugins/typescript/src/noop.ts (the same plugin).
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from trireme import sdk


class Noop:
    """Filter and Score without any work."""

    def __init__(self, depends_on: sdk.Dependency, pod_fields: Sequence[str]) -> None:
        # Copies of the pod change no score here: there is nothing to count.
        copies = os.environ.get("SCORE_COPIES", "1") == "1"
        self.info = sdk.Info("Noop", depends_on=depends_on, pod_fields=pod_fields, score_copies=copies)
        self.calls = self.nodes = 0

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        """Every node passes."""
        self._count(nodes)
        return [None] * len(nodes)

    async def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        """Every node has 50."""
        self._count(nodes)
        return [50] * len(nodes)

    def _count(self, nodes: Sequence[sdk.Node]) -> None:
        self.calls += 1
        self.nodes += len(nodes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--counted", type=Path)
    options, rest = parser.parse_known_args()
    fields = os.environ.get("POD_FIELDS", "metadata.namespace")
    plugin = Noop(sdk.Dependency[os.environ.get("DEPENDS_ON", "NODE")], fields.split(","))
    code = sdk.main(plugin, rest)
    if options.counted is not None:
        options.counted.write_text(f"{plugin.calls} {plugin.nodes}")
    raise SystemExit(code)
