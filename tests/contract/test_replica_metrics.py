"""The metrics and probes of filter and score, as their own sites serve them."""

import contextlib
import re
from collections.abc import Callable

import aiohttp
import pytest

from tests.contract import metrics_document
from tools.controlplane import ports
from trireme.filter.service import FilterPhase
from trireme.phases import phase_metrics
from trireme.registry import remote_makers
from trireme.rpc import listen_flags
from trireme.score.service import ScorePhase
from trireme.snapshot.snapshot import Snapshot
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.metrics.instruments import Registry
from trireme_kube.componentbase.server import plain_server
from trireme_kube.componentbase.tls import certificate_expiry, self_signed


def _own_certificate() -> certificate_expiry.Expiries:
    content, _ = self_signed.make_certificate("here", [])
    return certificate_expiry.Expiries([certificate_expiry.Certificate("serving", "own", content=content)])


@pytest.mark.parametrize(("phase", "make"), [("filter", FilterPhase), ("score", ScorePhase)])
async def test_metrics_and_readiness_of_a_follower(phase: str, make: Callable[..., FilterPhase | ScorePhase]) -> None:
    """An operator would find other metrics than the document names, or a replica without a snapshot called ready."""
    service = make(Snapshot(), remote_makers.no_remote_plugin)
    (port,) = ports.free_ports(1)
    listen = f"127.0.0.1:{port}"
    async with (
        phase_metrics.serve_follower(
            listen,
            phase,
            service.follow,
            dict,
            service.statistics,
            service.instruments() if isinstance(service, FilterPhase) else (),
            expiries=_own_certificate(),
            supervisor=supervision.Supervisor(),
        ),
        aiohttp.ClientSession(f"http://{listen}") as session,
    ):
        async with session.get("/metrics") as answer:
            served = set(re.findall(r"^# TYPE (trireme_\w+)", await answer.text(), re.MULTILINE))
        async with session.get("/healthz") as answer:
            assert answer.status == 200
        async with session.get("/readyz") as answer:
            assert answer.status == 500
    # Those of remote plugins are shown where there is one.
    assert served == {name for name in metrics_document.of_phases()[phase] if "_plugin_" not in name}


async def test_a_port_in_use_is_named() -> None:
    """The process would end with a traceback, or serve no metrics and not say so."""
    service = FilterPhase(Snapshot(), remote_makers.no_remote_plugin)
    (port,) = ports.free_ports(1)

    def served() -> contextlib.AbstractAsyncContextManager[None]:
        return phase_metrics.serve_follower(
            f"127.0.0.1:{port}",
            "filter",
            service.follow,
            dict,
            service.statistics,
            expiries=_own_certificate(),
            supervisor=supervision.Supervisor(),
        )

    async with served():
        with pytest.raises(listen_flags.ListenError, match=r"--metrics-listen: .* in use"):
            await served().__aenter__()


async def test_a_replica_that_no_frontend_comes_to_stands_by() -> None:
    """While another scheduler leads a new replica would never be ready, and a rollout would hang."""
    now = [100.0]
    (port,) = ports.free_ports(1)
    listen = f"127.0.0.1:{port}"
    async with (
        plain_server.serve(listen, Registry(), lambda: "no leader has come", lambda: now[0]),
        aiohttp.ClientSession(f"http://{listen}") as session,
    ):
        async with session.get("/readyz") as answer:
            assert answer.status == 500
        now[0] += plain_server.STANDBY_SECONDS
        async with session.get("/readyz?verbose") as answer:
            assert answer.status == 200
            assert "[+]frontend ok: standing by: no leader has come\n" in await answer.text()
