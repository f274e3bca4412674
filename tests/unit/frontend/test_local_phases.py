"""Which phases the frontend starts itself by its configuration, and which of its flags they inherit."""

import asyncio
import contextlib
import importlib
import os
import pathlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.helpers.config_starts import Desk
from tests.helpers.virtual_time import on_virtual_time
from trireme.bind import process
from trireme.frontend import phase_modules
from trireme.frontend.phase_clients import forker_client, local_phases
from trireme.rpc import dialing
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2, plugin_pb2, snapshot_pb2

_COMMON = ["-v=0", "--logging-format=text"]
_BIND = [
    "--leader-elect=true",
    "--leader-elect-resource-name=kube-scheduler",
    "--leader-elect-resource-namespace=kube-system",
    "--kube-api-qps=50.0",
    "--kube-api-burst=100",
]


def _flags(folder: pathlib.Path, *arguments: str) -> dict[str, list[str]]:
    ended = Desk(folder).start(*arguments)
    return local_phases._inherited_flags_by_phase(ended.completed)


@pytest.mark.parametrize(
    ("arguments", "common", "bind"),
    [
        ((), [], []),
        (("-v=5",), ["-v=5", "--logging-format=text"], []),
        (("--logging-format=json",), ["-v=0", "--logging-format=json"], []),
        (("--vmodule=a=1,b*=2",), [*_COMMON, "--vmodule=a=1,b*=2"], []),
        (("--feature-gates=ContextualLogging=false",), [*_COMMON, "--contextual-logging=false"], []),
        (
            ("--leader-elect=false", "--kube-api-qps=7", "--kube-api-burst=9"),
            [],
            ["--leader-elect=false", *_BIND[1:3], "--kube-api-qps=7.0", "--kube-api-burst=9"],
        ),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("by", ["kubeconfig", "master"])
def test_local_phases_inherit_how_the_frontend_logs_and_reaches_the_api_server(
    tmp_path: pathlib.Path, arguments: tuple[str, ...], common: list[str], bind: list[str], by: str
) -> None:
    """A bind that does not would write to another cluster, at another rate, or by another Lease."""
    where = "--kubeconfig=kubeconfig" if by == "kubeconfig" else "--master=http://127.0.0.1:1"
    flags = _flags(tmp_path, where, "--secure-port=0", *arguments)
    logs = common or _COMMON
    assert flags == {"filter": logs, "score": logs, "bind": [*(bind or _BIND), where, *logs]}


class Part:
    """A phase that is started or served here; `fails` is what its start raises."""

    def __init__(self, *about: Any) -> None:
        named = [*about[0], *about[1:]] if about and isinstance(about[0], list) else about
        self.name = self.address = "-".join(str(each) for each in named if isinstance(each, (str, int)))
        self.heard: list[str] = []

    def statistics(self) -> str:
        return self.name

    async def request_start(self) -> None:
        self.heard.append("requested")

    async def start(self) -> None:
        self.heard.append("started")

    async def keep_running(self, restarted: Any) -> None:
        self.heard.append("kept")
        restarted()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.heard.append("stopped")


async def test_all_phases_of_this_frontend_are_started_kept_and_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    for name in ("LocalPhase", "InProcessPhase"):
        monkeypatch.setattr(local_phases, name, Part)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    forker = Part()
    monkeypatch.setattr(forker_client, "ForkerClient", lambda _: forker)
    local = local_phases.LocalPhases({}, {"filter": 2, "bind": 1}, in_process=("score",))
    (folder,) = tmp_path.iterdir()
    assert local.statistics() == ["filter-0", "filter-1", "bind-0", "score"]
    assert [local.addresses(phase) for phase in ("filter", "score", "other")] == [
        ["filter-0", "filter-1"],
        ["score"],
        [],
    ]
    parts: Any = local._all()
    await local.request_start()
    assert forker.heard == [], "its children are still to be started"
    waiting = asyncio.create_task(local.until_started())
    await asyncio.sleep(0)
    assert not waiting.done()
    restarts: list[bool] = []
    keeping = asyncio.create_task(local.keep_running(lambda: restarts.append(True)))
    await asyncio.sleep(0.01)
    assert (waiting.done(), len(restarts), keeping.done()) == (True, 4, False)
    keeping.cancel()
    await asyncio.wait({keeping})
    await local.stop()
    assert [each.heard for each in parts] == [["requested", "started", "kept", "stopped"]] * 4
    assert forker.heard == ["stopped"]
    assert not folder.exists()


async def test_filter_and_score_of_this_process_are_served_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_phases, "InProcessPhase", Part)
    monkeypatch.setattr(forker_client, "ForkerClient", lambda _: Part())
    local = local_phases.LocalPhases({}, {}, in_process=("filter", "score", "bind"))
    assert local.statistics() == ["filter-score", "bind"]
    assert [local.addresses(phase) for phase in ("filter", "score", "bind")] == [
        ["filter-score"],
        ["filter-score"],
        ["bind"],
    ]
    parts: Any = list(local._all())
    await local.start()
    await local.stop()
    assert [each.heard for each in parts] == [["started", "stopped"]] * 2


async def test_without_a_child_there_is_no_folder_and_the_forker_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(local_phases, "InProcessPhase", Part)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    forker = Part()
    monkeypatch.setattr(forker_client, "ForkerClient", lambda _: forker)
    local = local_phases.LocalPhases({}, {"filter": 0}, in_process=("score",))
    await local.request_start()
    assert forker.heard == ["stopped"]
    assert list(tmp_path.iterdir()) == []
    keeping = asyncio.create_task(local.restart_ended(lambda: None))
    await asyncio.sleep(0.01)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.wait({keeping})
    await local.stop()


class Phases:
    """What is made in place of local phases."""

    def __init__(self, arguments: Any, counts: Any, connection: Any, *, in_process: Any) -> None:
        self.arguments, self.counts, self.connection, self.in_process = arguments, counts, connection, in_process


_OWN = """
apiVersion: trireme.dev/v1alpha1
kind: TriremeConfiguration
phases:
  local: {local}
  filter: {{localReplicas: {filters}}}
  score: {{endpoints: ["s:1"], localReplicas: {scores}}}
"""


@pytest.mark.parametrize("local", ["Children", "InProcess"])
def test_phases_without_endpoints_are_started_here_and_others_where_theirs_are_all_away(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, local: str
) -> None:
    monkeypatch.setattr(local_phases, "LocalPhases", Phases)
    desk, children = Desk(tmp_path), local == "Children"
    own = desk.write("own.yaml", _OWN.format(local=local, filters=3 if children else 1, scores=2 if children else 1))
    completed = desk.start("--master=http://127.0.0.1:1", "--secure-port=0", f"--trireme-config={own}").completed
    connection: Any = object()
    made: Any = local_phases.phases_of_configuration(completed, connection)
    other: Any = local_phases.fallback_phases(completed, "score")
    assert (made.connection, other.connection) == (connection, None)
    assert sorted(made.arguments) == sorted(other.arguments) == ["bind", "filter", "score"]
    if children:
        assert (made.counts, list(made.in_process)) == ({"filter": 3, "bind": 1}, [])
        assert (other.counts, list(other.in_process)) == ({"score": 2}, [])
    else:
        assert (made.counts, list(made.in_process)) == ({}, ["filter", "bind"])
        assert (other.counts, list(other.in_process)) == ({}, ["score"])


class HangingWriter:
    """An API server that takes writes and does not answer."""

    def __init__(self, _api: Any) -> None:
        self.hanging = 0

    async def bind(self, *_: Any) -> None:
        await self._hang()

    async def patch_pod_status(self, *_: Any) -> None:
        await self._hang()

    async def _hang(self) -> None:
        self.hanging += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.hanging -= 1


@pytest.mark.parametrize("callers", ["wait", "are gone"])
@on_virtual_time
async def test_a_bind_in_this_process_whose_writes_hang_ends_as_soon_as_a_child(
    monkeypatch: pytest.MonkeyPatch, callers: str
) -> None:
    """A frontend that ends later than its pod's grace is killed, and leaves its Lease to run out."""
    writers: list[HangingWriter] = []

    def make_writer(api: Any) -> HangingWriter:
        writers.append(HangingWriter(api))
        return writers[-1]

    monkeypatch.setattr(process, "Writer", make_writer)
    flags = ("--leader-elect=false", "--master=http://127.0.0.1:1")
    local = local_phases.LocalPhases({"bind": flags}, {}, in_process=("bind",))
    await local.start()
    (address,) = local.addresses("bind")
    channel = dialing.Dialer().channel(address, (), 0)
    stub: Any = bind_phase_pb2_grpc.BindPhaseStub(channel)
    profile = snapshot_pb2.Profile(scheduler_name="default-scheduler")
    bind = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_BIND)
    bind.plugins.add(name="DefaultBinder")
    fence = cycle_pb2.Fence(epoch=1, lease_valid_ms=60_000)
    await stub.Fence(
        bind_phase_pb2.FenceRequest(
            fence=fence, config_hash=1, configuration=snapshot_pb2.Configuration(profiles=[profile])
        )
    )
    cycle = cycle_pb2.Cycle(fence=fence, config_hash=1, profile="default-scheduler")
    pod = cycle_pb2.PodIdentity(namespace="default", name="a", uid="u")
    item = bind_pb2.BindItem(pod=pod, node_name="n")
    action = bind_pb2.Action(pod=pod, nominate=bind_pb2.Nominate(node_name="n"))
    calls = [
        stub.Bind(bind_pb2.BindRequest(cycle=cycle, items=[item]), timeout=3600),
        stub.Apply(bind_phase_pb2.ApplyRequest(fence=fence, actions=[action]), timeout=3600),
    ]
    for call in calls:
        await call.read()
    (writer,) = writers
    assert writer.hanging == 2
    if callers == "are gone":
        for call in calls:
            call.cancel()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await local.stop()
    assert loop.time() - began <= local_phases.STOP_SECONDS
    assert writer.hanging == 0, "something may be written after the Lease is released"
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await channel.close()


class InTime:
    """A phase's module: it serves what it says, or names what is wrong with its flags."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.heard: list[object] = []

    @contextlib.asynccontextmanager
    async def open_services(self, arguments: Sequence[str], supervisor: object) -> AsyncIterator[list["InTime"]]:
        if self.problem:
            raise ValueError(self.problem)
        self.heard.append(list(arguments))
        yield [self, self]
        self.heard.append("closed")

    def add_to(self, server: object) -> None:
        self.heard.append("added")

    def end_streams(self) -> None:
        self.heard.append("streams ended")


async def test_a_phase_of_this_process_is_imported_served_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams last until the other side ends: one that is not ended keeps the frontend for as long as a call may."""
    module, name = InTime(), phase_modules.PROCESSES["bind"]
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(importlib, "import_module", lambda name: monkeypatch.setitem(sys.modules, name, module))
    phase = local_phases.InProcessPhase(["bind"], ["-v=1"])
    await phase.stop()
    assert (phase.statistics().starts, phase.statistics().pid) == (0, 0)
    await phase.start()
    assert (phase.statistics().starts, phase.statistics().pid) == (1, os.getpid())
    assert module.heard == [["-v=1"], "added", "added"]
    await phase.stop()
    assert module.heard[3:] == ["streams ended", "streams ended", "closed"]
    await phase.stop()
    assert phase.statistics().starts == 0


async def test_a_phase_of_this_process_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, phase_modules.PROCESSES["bind"], InTime("--x: no such flag"))
    with pytest.raises(forker_client.LocalPhaseError, match="bind-0 cannot be started: --x: no such flag"):
        await local_phases.InProcessPhase(["bind"], []).start()


async def test_phases_of_which_there_are_none_are_kept_until_somebody_ends_them() -> None:
    """The end of what keeps them would be taken for a failure."""
    keeping = asyncio.create_task(local_phases.LocalPhases({}, {}).restart_ended(lambda: None))
    await asyncio.wait({keeping}, timeout=0.05)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.wait({keeping})
