"""Jaeger: a collector that takes OTLP, with a store in memory that returns traces. `make test-traces` builds it.

Source: https://www.jaegertracing.io/docs/2.0/configuration/.
"""

import contextlib
import pathlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import yaml

from tests.e2e import installation
from tools.controlplane import ports
from tools.programs import build_jaeger

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Jaeger:
    """Where spans go, and where traces are read."""

    otlp: str
    url: str

    @property
    def trace_url(self) -> str:
        """The URL of a trace, as `tracing.storeUrl` has it."""
        return f"{self.url}/api/v3/traces/{{traceID}}"

    async def get(self, path: str) -> tuple[int, Json]:
        """A status, and a document of the store's API."""
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return response.status, await response.json(content_type=None)


def require() -> None:
    """Skip the calling test where Jaeger is not built: it takes ten minutes."""
    if not build_jaeger.PROGRAMS.available():
        pytest.skip("Jaeger is not built: `make test-traces` (needs Go 1.26)")


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path) -> AsyncIterator[Jaeger]:
    """Jaeger, for the block."""
    otlp, http, grpc = ports.free_ports(3)
    configuration = {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
            "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "info"}},
        },
        "extensions": {
            "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 100_000}}}},
            "jaeger_query": {
                "storage": {"traces": "memory"},
                "http": {"endpoint": f"127.0.0.1:{http}"},
                "grpc": {"endpoint": f"127.0.0.1:{grpc}"},
            },
        },
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{otlp}"}}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
    }
    path = folder / "jaeger.yaml"
    path.write_text(yaml.safe_dump(configuration))
    process = installation.Process("jaeger", [str(build_jaeger.JAEGER), "--config", str(path)], folder / "jaeger.log")
    process.start()
    here = Jaeger(f"127.0.0.1:{otlp}", f"http://127.0.0.1:{http}")
    try:
        await installation.until(
            lambda: "Everything is ready" in process.said or not process.running, 60, lambda: process.said[-3000:]
        )
        assert process.running, process.said[-3000:]
        yield here
    finally:
        process.stop()
