"""Runs filter, score, bind or insight as their programs do: python phase_program.py PHASE FLAGS...

Among victims of preemption that cost the same, the scheduler chooses by chance, by a number that grows with each change
of the cluster. A comparison needs the same choice on either side, so that of the pod's name takes its place here.
"""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

from trireme.plugins.default_preemption import post_filter
from trireme_kube.componentbase.logs import process_output


def choose_equal_victims_alike() -> None:
    """Have a pod choose the same among victims of equal cost, whatever happened to the cluster before."""

    def first_node_to_try(context: Any, nodes: int) -> int:
        return random.Random(context.cycle.pod.metadata.name).randrange(nodes)

    assert hasattr(post_filter, "_first_node_to_try")
    post_filter._first_node_to_try = first_node_to_try


def main() -> int:
    """Run the program; returns its exit code."""
    choose_equal_victims_alike()
    process_output.silence_grpc_core(sys.argv[2:])
    code: int = importlib.import_module(f"trireme.{sys.argv[1]}.process").main(sys.argv[2:])
    return code


if __name__ == "__main__":
    sys.exit(main())
