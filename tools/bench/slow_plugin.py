"""A filter plugin that takes its time, and counts how often it was asked: what the benchmark of remote plugins asks.

Its answer depends on the node alone, and every node passes. The count stands in a file, so that the benchmark reads it
without asking.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from trireme import sdk


class Slow:
    """Sleeps for each call, as a plugin does that waits for something else."""

    def __init__(self, seconds: float, at_once: int, counted: Path) -> None:
        self.info = sdk.Info("Slow", depends_on=sdk.Dependency.NODE, max_concurrent_calls=at_once)
        self._seconds = seconds
        self._counted = counted
        self._calls = 0

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        """Every node passes, after a while."""
        self._calls += 1
        self._counted.write_text(str(self._calls))
        await asyncio.sleep(self._seconds)
        return [None] * len(nodes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--milliseconds", type=float, default=50)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--counted", type=Path, required=True)
    options, rest = parser.parse_known_args()
    options.counted.write_text("0")
    raise SystemExit(sdk.main(Slow(options.milliseconds / 1000, options.at_once, options.counted), rest))
