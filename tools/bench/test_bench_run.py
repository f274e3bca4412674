"""The driver drives: a small workload on the real control plane comes out with figures that can be true."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from tools.bench import run
from tools.bench.driver import api, provisioner, rounds, sides, workload
from tools.controlplane import controlplane_fixture


def bound(namespace: str, name: str, kind: str = "ADDED", version: str = "1") -> bytes:
    """An event of the watch for pods with a node."""
    metadata = {"namespace": namespace, "name": name, "resourceVersion": version}
    return orjson.dumps({"type": kind, "object": {"metadata": metadata}})


async def test_pods_are_awaited_until_the_last_is_bound() -> None:
    """A workload would end before its last pod is bound, or never, or count a pod twice."""
    moments = iter(range(100))
    pods = api.bound_pods(clock=lambda: float(next(moments)))
    pods.take(bound("a", "early"))
    awaited = pods.expect(["a/early", "a/x", "a/y"])
    pods.take(bound("a", "x"))
    pods.take(bound("a", "x", "MODIFIED"))
    pods.take(bound("b", "y"))
    pods.take(bound("a", "y", "DELETED"))
    assert awaited.left == {"a/y"}, "gone is not bound, and another namespace's pod is another pod"
    pods.take(bound("a", "y"))
    await awaited.wait(patience=0.001)
    assert pods.seen_at == {"a/early": 0.0, "a/x": 1.0, "b/y": 2.0, "a/y": 3.0}


async def test_waiting_ends_where_nothing_moves() -> None:
    """A scheduler that is stuck would hold the benchmark up forever."""
    with pytest.raises(TimeoutError, match="1 pods still wait"):
        await api.bound_pods().expect(["a/x"]).wait(patience=0.001)


def test_watch_errors_are_not_events() -> None:
    """An expired watch would end the run with a KeyError instead of starting again."""
    with pytest.raises(api.ApiError) as raised:
        api.bound_pods().take(b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    assert raised.value.status == 410


async def test_a_watch_that_was_closed_goes_on_where_it_ended() -> None:
    """If this fails, bindings seem to stand still for seconds where a busy API server closes the driver's watch."""
    asked: list[dict[str, str]] = []
    watches: list[list[bytes] | Exception] = [
        [bound("a", "x", version="7"), bound("a", "y", version="9")],
        api.ApiError("GET", "/api/v1/pods", 504, "too large resource version"),
        [bound("a", "z", version="4")],
    ]

    class Server:
        async def watch(self, _path: str, **query: str) -> AsyncIterator[bytes]:
            asked.append(query)
            if len(asked) > len(watches):
                raise asyncio.CancelledError
            watch = watches[len(asked) - 1]
            if isinstance(watch, Exception):
                raise watch
            for line in watch:
                yield line

    pods = api.bound_pods()
    with pytest.raises(asyncio.CancelledError):
        await pods.follow(cast(api.Api, Server()))
    assert [query.get("resourceVersion") for query in asked] == [None, "9", None, "4"]
    assert set(pods.seen_at) == {"a/x", "a/y", "a/z"}


async def test_a_claim_gets_one_volume_once_it_has_a_node() -> None:
    """Pods with volumes would wait forever, or a claim get a second volume when it is seen again."""
    written: list[tuple[str, dict[str, Any]]] = []

    def claim(name: str, **annotations: str) -> bytes:
        metadata = {"namespace": "a", "name": name, "uid": name, "resourceVersion": "1", "annotations": annotations}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "s",
        }
        return orjson.dumps({"type": "MODIFIED", "object": {"metadata": metadata, "spec": spec}})

    class Server:
        async def watch(self, _path: str, **_query: str) -> AsyncIterator[bytes]:
            chosen = claim("x", **{"volume.kubernetes.io/selected-node": "n"})
            for line in (claim("x"), claim("y"), chosen, chosen):
                yield line
            await asyncio.Event().wait()

        async def create(self, path: str, body: bytes) -> None:
            written.append((path, orjson.loads(body)))

        async def patch(self, path: str, body: bytes) -> None:
            written.append((path, orjson.loads(body)))
            done.set()

    done = asyncio.Event()
    running = asyncio.create_task(provisioner.Provisioner(cast(api.Api, Server())).run())
    await done.wait()
    running.cancel()
    (_, volume), (path, bound_claim) = written
    assert volume["metadata"]["name"] == bound_claim["spec"]["volumeName"]
    assert volume["spec"]["claimRef"]["uid"] == "x"
    assert path.endswith("/a/persistentvolumeclaims/x")


def test_plan_alternates_sides_and_leaves_the_limit_out_where_it_has_no_meaning() -> None:
    """One side would always be first, or binding one by one be taken for a limit of groups."""
    known = workload.load(run.WORKLOADS)
    competitors = sides.select(sides.read((run.BENCH / "sides.yaml").read_text()), ["kube-scheduler", "limit"])
    plan = run.Plan([(each, competitors) for each in workload.select(known, ["basic", "gang"], [50])], 2)
    assert [(number, each.test, side.name) for number, each, side in plan.runs()] == [
        (0, "basic", "kube-scheduler"),
        (0, "basic", "limit"),
        (1, "basic", "limit"),
        (1, "basic", "kube-scheduler"),
        (0, "gang", "kube-scheduler"),
        (1, "gang", "kube-scheduler"),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--workloads", "basics"], id="workload"),
        pytest.param(["--sides", "nobody"], id="side"),
        pytest.param(["--file", "/nowhere.yaml"], id="file"),
    ],
)
def test_wrong_requests_end_with_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error would end in a traceback, or in a benchmark of nothing."""
    assert run.main(arguments) == 1
    assert capsys.readouterr().err.startswith("bench: ")


@pytest.mark.slow
@pytest.mark.controlplane
def test_small_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make bench` does not work: cluster, load, limit, kube-scheduler, measuring or report."""
    controlplane_fixture.require_built()
    result = tmp_path / "bench.json"
    arguments = ["--workloads", "basic,backlog", "--nodes", "50", "--rounds", "1", "--result", str(result)]
    assert run.main([*arguments, "--sides", "kube-scheduler,limit"]) == 0, capsys.readouterr().out
    written = json.loads(result.read_text())
    assert [(row["workload"], row["side"], row["pods"]) for row in written["rows"]] == [
        ("basic", "kube-scheduler", 200),
        ("basic", "limit", 200),
        ("backlog", "kube-scheduler", 500),
        ("backlog", "limit", 500),
    ]
    for row in written["rows"]:
        assert 5 < row["pods_per_s"] < 5000
        assert 0.1 < row["cpu_ms_per_pod"] < 50
        assert 10 < row["pss_mb"] < 1000
        assert 0 < row["first_bind_s"] < 30
    assert "| basic " in capsys.readouterr().out


@pytest.mark.controlplane
def test_a_side_that_ends_fails_its_run() -> None:
    """A scheduler that crashes would be waited for, or its memory be taken for its figure."""
    controlplane_fixture.require_built()
    (small,) = workload.select(workload.load(run.WORKLOADS), ["basic"], [50])
    broken = sides.Side("broken", (sides.Program(("{python}", "-c", "exit('no such flag')"), 1),), {}, {}, False, False)
    with pytest.raises(ExceptionGroup) as raised:
        rounds.run(broken, small)
    assert "ended with exit code 1\nno such flag" in str(raised.value.exceptions[0])
