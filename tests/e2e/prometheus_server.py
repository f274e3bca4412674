"""A real Prometheus that scrapes processes of a test each second."""

import contextlib
import pathlib
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from tests.alerts import alert_rules
from tests.e2e import installation
from tools.controlplane import ports

PROGRAM = alert_rules.program("prometheus")
FRONTEND = "trireme-frontend"
"""The job of frontends, which serve HTTPS with a certificate of their own making."""

# `.ci/run` installs it.
needs_prometheus = pytest.mark.skipif(PROGRAM is None, reason="Prometheus is not installed (Debian: prometheus)")


@contextlib.asynccontextmanager
async def scraping(
    here: installation.Installation,
    folder: pathlib.Path,
    targets: Mapping[str, Sequence[str]],
    *flags: str,
    wait: str = "",
    ranges: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[str]:
    """Its URL; `targets` are addresses by job. It has the chart's rules, changed as `alert_rules.write` says."""
    (port,) = ports.free_ports(1)
    https: Mapping[str, Any] = {"scheme": "https", "tls_config": {"insecure_skip_verify": True}}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(alert_rules.write(folder, wait=wait, ranges=ranges))],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": list(found)}], **(https if job == FRONTEND else {})}
            for job, found in targets.items()
        ],
    }
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(configuration))
    command = [
        str(PROGRAM),
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    process = installation.Process("prometheus", command, folder / "prometheus.log")
    process.start()
    try:
        await here.logged(process, "Server is ready to receive web requests")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stop()
