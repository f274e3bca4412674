"""Reads what a process uses: memory, file descriptors, threads, and the gauges that it serves."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

KIB = 1024

_NO_SIZES = (
    # Moments, versions and counts of what happened: they grow, or stay, by their nature.
    "generation",
    "timestamp",
    "epoch",
    "resource_version",
    "start_time",
    "version",
    "feature_enabled",
    "healthcheck",
    "registered_metrics",
    # Read from /proc, more exactly.
    "process_",
    # The whole machine's.
    "kube_pod_resource",
)
"""Parts of the names of gauges that are not sizes of anything in the process."""


def of_process(pid: int) -> dict[str, float]:
    """Private memory in bytes, open file descriptors and threads. Raises FileNotFoundError without such a process."""
    folder = pathlib.Path("/proc", str(pid))
    private = 0
    for line in (folder / "smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            private += int(line.split()[1]) * KIB
    return {
        "private memory": float(private),
        "file descriptors": float(len(list((folder / "fd").iterdir()))),
        "threads": float(len(list((folder / "task").iterdir()))),
    }


def gauges(text: str) -> dict[str, float]:
    """The sizes among the gauges of a page of metrics, each the sum over its labels."""
    return dict(_sizes(text))


def _sizes(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        if family.type == "gauge" and not any(part in family.name for part in _NO_SIZES):
            yield family.name, sum(sample.value for sample in family.samples)


async def metrics_page(address: str) -> str:
    """The page of metrics at an address: `unix:PATH` or `HOST:PORT`. Raises OSError where nothing answers."""
    if address.startswith("unix:"):
        connector: aiohttp.BaseConnector = aiohttp.UnixConnector(path=address.removeprefix("unix:"))
        url = "http://localhost/metrics"
    else:
        connector, url = aiohttp.TCPConnector(), f"http://{address}/metrics"
    limit = aiohttp.ClientTimeout(total=30)
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as session, session.get(url) as answer:
            return await answer.text()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ConnectionError(f"{address}: {error}") from error
