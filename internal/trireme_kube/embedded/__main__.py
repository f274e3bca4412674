"""Runs an embedded cluster as a process of its own: `python -m trireme_kube.embedded --nodes 100 --kubeconfig PATH`.

Prints the address once it serves, and ends on SIGINT or SIGTERM.

Also change: internal/trireme/cli/up.py (flags of the embedded cluster).
Also change: docs/embedded-cluster.md.

Tests: tests/contract/test_output_that_fails.py, tests/e2e/test_embedded_kubectl.py.
"""

import argparse
import asyncio
import gc
import os
import signal
import sys

import uvloop

from trireme_kube.embedded.cluster import EmbeddedCluster
from trireme_kube.embedded.kubelet.kubelets import KubeletPace
from trireme_kube.embedded.kubelet.simulated_nodes import NodeShape


def _parse_pair(text: str) -> tuple[str, str]:
    """Parse `key=value`. Raises: argparse.ArgumentTypeError."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line of the program: nodes, their shape, and the pace of the simulation."""
    shape, pace = NodeShape(), KubeletPace()
    parser = argparse.ArgumentParser(prog="trireme_kube.embedded", description="An in-memory Kubernetes cluster.")
    parser.add_argument("--nodes", type=int, default=10, help="how many simulated nodes (default 10)")
    parser.add_argument("--port", type=int, default=0, help="TCP port on loopback; 0 takes a free one (default)")
    parser.add_argument("--kubeconfig", help="write a kubeconfig here once the API is served")
    parser.add_argument("--cpu", default=shape.cpu, help=f"CPUs per node (default {shape.cpu})")
    parser.add_argument("--memory", default=shape.memory, help=f"memory per node (default {shape.memory})")
    parser.add_argument("--pods", type=int, default=shape.pods, help=f"pods per node (default {shape.pods})")
    parser.add_argument("--zones", type=int, default=shape.zones, help=f"number of zones (default {shape.zones})")
    parser.add_argument(
        "--label", type=_parse_pair, action="append", default=[], help="key=value, on every node; repeatable"
    )
    parser.add_argument(
        "--resource",
        type=_parse_pair,
        action="append",
        default=[],
        help="name=amount, an extended resource; repeatable",
    )
    parser.add_argument("--start-seconds", type=float, default=pace.start, help="from binding to Running")
    parser.add_argument("--stop-seconds", type=float, default=pace.stop, help="from deletion to gone")
    parser.add_argument("--run-seconds", type=float, default=pace.run, help="how long pods of Jobs run")
    parser.add_argument("--watch-buffer", type=int, default=10_000, help="events waiting for one slow watcher")
    parser.add_argument("--history", type=int, default=10_000, help="events kept per resource")
    parser.add_argument("--bookmark-seconds", type=float, default=60.0, help="between two bookmarks of a watch")
    parser.add_argument("--faults", action="store_true", help="let clients arm faults under /trireme/ (for tests)")
    parser.add_argument("--pod-groups", action="store_true", help="serve PodGroups, CompositePodGroups and Workloads")
    return parser.parse_args(argv)


def _make_cluster(options: argparse.Namespace) -> EmbeddedCluster:
    """Make the cluster that the command line describes; it is not started yet."""
    return EmbeddedCluster(
        nodes=options.nodes,
        port=options.port,
        shape=NodeShape(
            cpu=options.cpu,
            memory=options.memory,
            pods=options.pods,
            zones=options.zones,
            labels=dict(options.label),
            extended=dict(options.resource),
        ),
        pace=KubeletPace(start=options.start_seconds, stop=options.stop_seconds, run=options.run_seconds),
        history=options.history,
        watch_buffer=options.watch_buffer,
        bookmark_interval=options.bookmark_seconds,
        remote_faults=options.faults,
        pod_groups=options.pod_groups,
    )


def _print_if_possible(line: str) -> None:
    """Print a line; if nobody can read it, the cluster serves all the same."""
    try:
        print(line, flush=True)
    except OSError:
        # What is still buffered is written again at the exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


async def _serve_until_signal(options: argparse.Namespace) -> None:
    """Run the cluster until SIGINT or SIGTERM, and print its URL when it serves."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with _make_cluster(options) as cluster:
        if options.kubeconfig:
            cluster.write_kubeconfig(options.kubeconfig)
        _print_if_possible(f"embedded cluster with {options.nodes} nodes at {cluster.url}")
        await stopping.wait()


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal to stop; return the exit code."""
    options = _parse_arguments(sys.argv[1:] if argv is None else argv)
    # Stored objects live long and hold no cycles: collecting them again and again would cost more than all requests.
    gc.set_threshold(50_000, 50, 50)
    try:
        uvloop.run(_serve_until_signal(options))
    except OSError as error:
        print(f"error: --port {options.port}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
