"""A filter plugin that misbehaves: what the benchmark of isolation puts beside a profile that does not use it."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from trireme import sdk

BEHAVIOURS = ("good", "hangs", "huge", "lies", "restarts")


class Broken:
    """Passes every node, hangs, answers some 20 MiB, answers about other nodes than it was asked, or ends."""

    def __init__(self, behaviour: str) -> None:
        self.info = sdk.Info("Broken", depends_on=sdk.Dependency.NODE_PODS)
        self._behaviour = behaviour

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        """Answer, or not."""
        match self._behaviour:
            case "hangs":
                await asyncio.sleep(3600)
            case "huge":
                return [sdk.unschedulable("x" * (20 << 20)) for _ in nodes]
            case "lies":
                return [None] * (len(nodes) + 7)
            case "restarts":
                os._exit(1)
        return [None] * len(nodes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--behaviour", choices=BEHAVIOURS, default="good")
    options, rest = parser.parse_known_args()
    sys.exit(sdk.main(Broken(options.behaviour), rest))
