"""Compares what insight says would happen with what a whole Trireme does on a real control plane, on random scenarios.

    python -m tests.simulation.scenarios.compare_scenarios [--seed 1] [--scenarios 100] [--kinds drain,scale] \
        [--json FILE]

For each scenario insight simulates first; then the same changes are made by the API. Every pod has to come to the node
that was said, or stay pending, and exactly those that were said are evicted. Scenarios of all kinds follow one another
in one cluster. Prints the differences and a table; the exit code is 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence

from tests.simulation.drawn_objects import PRIORITIES
from tests.simulation.scenarios import claim_kinds, compared_cluster, comparison, configurations, kinds, phase_program
from tests.simulation.scenarios.compared_cluster import PODS, PRIORITY_CLASSES, SERVICES
from tools.controlplane import launcher


async def compare(
    seed: int, count: int, chosen: Sequence[str], seconds: float, logs: pathlib.Path | None = None
) -> list[tuple[str, int, list[str]]]:
    """Compare so many scenarios, the kinds taking turns, for so long at most; returns rows of the table."""
    phase_program.choose_equal_victims_alike()
    options = launcher.Options(feature_gates=compared_cluster.GATES, runtime_config=compared_cluster.SERVED)
    scenarios: collections.Counter[str] = collections.Counter()
    found: dict[str, list[str]] = {kind: [] for kind in chosen}
    with launcher.ControlPlane(options) as plane, _folder(logs) as folder:
        cluster = compared_cluster.Cluster(plane, pathlib.Path(folder), record=logs is not None)
        cluster.start_controllers()
        async with cluster.running(configurations.FIRST, configurations.SECOND):
            compared = comparison.Comparison(cluster, seed)
            await _prepare(compared)
            await claim_kinds.prepare(compared)
            began = time.monotonic()
            for number in range(count):
                if time.monotonic() - began > seconds:
                    break
                kind = chosen[number % len(chosen)]
                known = len(compared.differences)
                await compared.begin(f"{kind} {number}")
                try:
                    await kinds.KINDS[kind](compared)
                except compared_cluster.NotSettledError:
                    await _print_pending(cluster)
                    raise
                scenarios[kind] += 1
                found[kind] += compared.differences[known:]
                for line in compared.differences[known:]:
                    print(line, flush=True)
            print(f"{dict(compared.counts)} in {time.monotonic() - began:.0f} s", flush=True)
    return [(kind, scenarios[kind], found[kind]) for kind in chosen]


def _folder(logs: pathlib.Path | None) -> contextlib.AbstractContextManager[str]:
    """The folder for sockets and logs: a temporary one, or the one that is given."""
    if logs is None:
        return tempfile.TemporaryDirectory()
    logs.mkdir(parents=True, exist_ok=True)
    return contextlib.nullcontext(str(logs))


async def _print_pending(cluster: compared_cluster.Cluster) -> None:
    """Print why pods wait."""
    for pod in await cluster.list(PODS):
        if not pod["spec"].get("nodeName"):
            print(pod["metadata"]["name"], pod["status"].get("conditions"))
            for each in cluster.first.app.scheduling.queue.contents.transitions_of(
                f"default/{pod['metadata']['name']}"
            ):
                print("   ", each)


async def _prepare(compared: comparison.Comparison) -> None:
    """What all scenarios need."""
    cluster = compared.cluster
    for name, value in PRIORITIES.items():
        await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        never = {"metadata": {"name": f"{name}-never"}, "value": value, "preemptionPolicy": "Never"}
        await cluster.create(PRIORITY_CLASSES, never)
    # Insight knows which pods have a label as long as something selects by it.
    service = {"metadata": {"name": "keys"}, "spec": {"selector": {"app": "none"}, "ports": [{"port": 80}]}}
    await cluster.create(SERVICES, service)


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenarios", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=86400.0, help="begin no scenario after so long")
    parser.add_argument("--kinds", default=",".join(kinds.KINDS), help="default: %(default)s")
    parser.add_argument("--json", type=pathlib.Path, help="add the figures to this file, a line each time")
    parser.add_argument("--logs", type=pathlib.Path, help="keep logs, a recording, and the questions in this folder")
    options = parser.parse_args()
    chosen = options.kinds.split(",")
    rows = asyncio.run(compare(options.seed, options.scenarios, chosen, options.seconds, options.logs))
    for kind, count, differences in rows:
        print(f"{kind:<16} {count:>6} scenarios {len(differences):>4} differences")
    total, differing = sum(count for _, count, _ in rows), sum(len(found) for _, _, found in rows)
    print(f"{total} scenarios of seed {options.seed}: {differing} differences")
    if options.json:
        with options.json.open("a") as file:
            figures = {kind: [count, len(found)] for kind, count, found in rows}
            file.write(json.dumps({"seed": options.seed, "kinds": figures}) + "\n")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
