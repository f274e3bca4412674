"""The frontend's own phases as real processes: started by the forker, kept up, ended."""

import asyncio
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from grpc import aio

from tests.contract import linked_frontend, plugin_servers
from trireme.cache import pod_projection
from trireme.filter import process as filter_process
from trireme.frontend.phase_clients import fallback, forker_client, local_phases, replica_link
from trireme.phases import phase_process
from trireme.remote import plugin_control
from trireme.rpc import dialing, in_process
from trireme.score import process as score_process
from trireme.v1 import (
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    filter_phase_pb2_grpc,
    plugin_pb2,
    plugin_pb2_grpc,
    score_phase_pb2,
    score_phase_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
    status_pb2,
)
from trireme_kube.componentbase import clocks

ARGUMENTS = {"filter": ("-v=0",), "score": ("-v=0",)}


@asynccontextmanager
async def kept(**counts: int) -> AsyncIterator[local_phases.LocalPhases]:
    """Children that are kept up."""
    local = local_phases.LocalPhases(ARGUMENTS, counts)
    keeping = asyncio.create_task(local.keep_running(lambda: None))
    try:
        async with asyncio.timeout(60):
            await local.until_started()
        yield local
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await local.stop()


async def _started_again(local: local_phases.LocalPhases, before: dict[str, int]) -> dict[str, int]:
    """The process ids by name once each is another one and runs."""
    async with asyncio.timeout(60):
        while True:
            now = {one.name: one.pid for one in local.statistics()}
            if all(now[name] not in (0, pid) for name, pid in before.items()):
                return now
            await asyncio.sleep(0.05)


def _parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def _gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while pathlib.Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.05)


async def test_a_frontend_without_local_phases_makes_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """If this fails, a root file system that is read-only stops a frontend that needs none."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    local = local_phases.LocalPhases(ARGUMENTS, {"filter": 0})
    await local.request_start()
    await local.stop()


async def test_each_listens_under_its_own_name_and_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an installation without endpoints has no phases, or leaves orphans that obey nobody."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # what several say at once must not run together
    async with kept(filter=2, score=1) as local:
        pids = {one.name: one.pid for one in local.statistics()}
        assert sorted(pids) == ["filter-0", "filter-1", "score-0"]
        for name, pid in pids.items():
            assert pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name
            assert pathlib.Path(f"/proc/{pid}/fd/0").resolve() == pathlib.Path(os.devnull)
        for address in local.addresses("filter"):
            _, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
            writer.close()
            await writer.wait_closed()
    for pid in pids.values():
        await _gone(pid)


async def test_phases_in_this_process_need_no_other_and_take_calls_until_they_are_stopped() -> None:
    """A frontend on few processors has them in its own process, on no socket."""
    arguments = {**ARGUMENTS, "bind": ("--master=http://127.0.0.1:1", "-v=0")}
    local = local_phases.LocalPhases(arguments, {}, in_process=("filter", "score", "bind"))
    await local.request_start()
    (address,) = local.addresses("filter")
    channel = dialing.Dialer().channel(address, (), 0)
    get_info = functools.partial(plugin_control.get_plugin_info, channel, 20.0)
    with pytest.raises(aio.AioRpcError, match="nothing is served at in-process:filter-score-0"):
        await get_info()
    assert local.addresses("score") == [address]
    assert [(one.pid, one.starts) for one in local.statistics()] == [(0, 0)] * 2
    await local.start()
    try:
        assert list((await get_info()).plugins) == []
        found = [(one.name, one.address, one.pid, one.starts) for one in local.statistics()]
        own = os.getpid()
        assert found == [
            ("filter-score-0", "in-process:filter-score-0", own, 1),
            ("bind-0", "in-process:bind-0", own, 1),
        ]
    finally:
        await local.stop()
    with pytest.raises(aio.AioRpcError, match="nothing is served"):
        await get_info()


async def test_filter_and_score_in_this_process_follow_by_one_stream() -> None:
    configuration = snapshot_pb2.Configuration()
    profile = configuration.profiles.add(scheduler_name="default-scheduler")
    profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER).plugins.add(name="NodeName")
    scored = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE).plugins
    scored.add(name="ImageLocality", weight=2)
    scored.add(name="NodeAffinity", weight=1)
    local = local_phases.LocalPhases(ARGUMENTS, {}, in_process=("filter", "score"))
    await local.start()
    frontend = linked_frontend.Frontend(configuration=configuration)
    frontend.add_nodes(3)
    frontend.publish()
    try:
        frontend.links.set_endpoints(local.addresses("filter"))
        await frontend.follows()
        ((_, channel),) = frontend.links.channels()
        answer = await plugin_pb2_grpc.PluginServiceStub(channel).GetPluginInfo(plugin_pb2.GetPluginInfoRequest())
        points = {each.name: list(each.extension_points) for each in answer.plugins}
        fence, number = cycle_pb2.Fence(epoch=1), _intern_pod(frontend)
        generation = frontend.publish()
        cycle = cycle_pb2.Cycle(fence=fence, config_hash=1, generation=generation, profile="default-scheduler")
        cycle.pod_class = number
        filtering = filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1)
        filtered = await filter_phase_pb2_grpc.FilterPhaseStub(channel).Filter(filtering, timeout=30)
        preparing = score_phase_pb2.ScorePhasePrepareRequest(cycle=cycle)
        scored_at = await score_phase_pb2_grpc.ScorePhaseStub(channel).Prepare(preparing, timeout=30)
    finally:
        await frontend.links.close()
        await local.stop()
    assert points == {
        "ImageLocality": [plugin_pb2.EXTENSION_POINT_SCORE],
        "NodeAffinity": [plugin_pb2.EXTENSION_POINT_SCORE],
        "NodeName": [plugin_pb2.EXTENSION_POINT_FILTER],
    }
    assert filtered.evaluated_generation == scored_at.evaluated_generation == generation > 1
    assert frontend.link.full_syncs == 1


async def test_what_score_refuses_is_not_in_force_for_filter() -> None:
    """If this fails, filter answers by plugins that its stream's configuration does not have."""

    def configuration_with(score: str) -> snapshot_pb2.Configuration:
        configuration = snapshot_pb2.Configuration()
        profile = configuration.profiles.add(scheduler_name="default-scheduler")
        filters = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER).plugins
        filters.add(name="NodeName" if score == "ImageLocality" else "NodePorts")
        profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE).plugins.add(name=score, weight=1)
        return configuration

    async with phase_process.open_in_frontend([filter_process.PHASE, score_process.PHASE]) as services:
        server = in_process.InProcessServer("both")
        for service in services:
            server.add(service.add_to)
        server.start()
        follow = snapshot_pb2_grpc.SnapshotFollowerStub(in_process.InProcessChannel(server))
        about = plugin_pb2_grpc.PluginServiceStub(in_process.InProcessChannel(server))

        async def send(score: str, config_hash: int) -> None:
            hello = snapshot_pb2.Hello(
                fence=cycle_pb2.Fence(epoch=1), config_hash=config_hash, configuration=configuration_with(score)
            )
            delta = snapshot_pb2.Delta(reset=True, to_generation=1)
            stream = follow.Sync()
            await stream.write(snapshot_pb2.SyncRequest(hello=hello))
            await stream.write(snapshot_pb2.SyncRequest(delta=delta))
            await stream.read()

        async def names() -> list[str]:
            answer = await about.GetPluginInfo(plugin_pb2.GetPluginInfoRequest())
            return [each.name for each in answer.plugins]

        await send("ImageLocality", 1)
        assert await names() == ["ImageLocality", "NodeName"]
        with pytest.raises(aio.AioRpcError, match=r"hello\.configuration: .*NoSuchPlugin"):
            await send("NoSuchPlugin", 2)
        assert await names() == ["ImageLocality", "NodeName"]
        await server.stop(0)


def _intern_pod(frontend: linked_frontend.Frontend) -> int:
    """The class of a pod without requests, which the next delta has."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = pod_projection.parse({"metadata": {"namespace": "default", "name": "a", "uid": "u"}, "spec": spec})
    return frontend.registry.intern(frontend.registry.intern_base(pod.base), ())


def _refuse_all(request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
    count = len(request.nodes.nodes)
    refusal = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["no licence"], plugin="P")
    return filter_pb2.FilterResponse(
        columns=filter_pb2.NodeColumns(size=count, statuses=[refusal], status_index=[1] * count, capacity=[0] * count)
    )


async def test_a_phase_in_this_process_that_stops_waits_for_a_plugin_that_is_asked(tmp_path: pathlib.Path) -> None:
    """The end of a fallback does not take the plugin for one that failed, whose refusals may be ignored."""
    plugin = plugin_servers.ScriptedPlugin({plugin_servers.FILTER: _refuse_all})
    plugin.gate.clear()
    target = f"unix:{tmp_path}/plugin.sock"
    ignored = plugin_servers.remote(target, failure_policy=snapshot_pb2.FAILURE_POLICY_IGNORE)
    configuration = snapshot_pb2.Configuration(remote_plugins=[ignored])
    profile = configuration.profiles.add(scheduler_name="default-scheduler")
    profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER).plugins.add(name="P")
    local = local_phases.LocalPhases(ARGUMENTS, {}, in_process=("filter",))
    await local.start()
    async with plugin_servers.scripted(target, plugin):
        frontend = linked_frontend.Frontend(configuration=configuration)
        frontend.add_nodes(3)
        pod_class = _intern_pod(frontend)
        frontend.publish()
        frontend.links.set_endpoints(local.addresses("filter"))
        await frontend.follows()
        cycle = cycle_pb2.Cycle(
            fence=cycle_pb2.Fence(epoch=1),
            config_hash=1,
            generation=frontend.publish(),
            profile="default-scheduler",
            pod_class=pod_class,
        )
        request = filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1)

        async def call(link: replica_link.ReplicaLink) -> filter_phase_pb2.FilterPhaseFilterResponse:
            return await filter_phase_pb2_grpc.FilterPhaseStub(link.channel).Filter(request, timeout=30)

        calling = asyncio.create_task(frontend.links.call("default-scheduler", pod_class, call))
        await plugin.until_running(1)
        frontend.links.set_endpoints([])
        stopping = asyncio.create_task(local.stop())
        await asyncio.sleep(0.1)
        plugin.gate.set()
        columns = (await calling).columns
        await stopping
        await frontend.links.close()
    assert [text for each in columns.statuses for text in each.messages] == ["no licence"]


async def test_a_task_of_a_phase_in_this_process_that_fails_ends_the_frontend() -> None:
    """Nothing ends silently: the frontend is restarted rather than left with a phase that lacks a part."""

    async def fail() -> None:
        raise ValueError("oh")

    local = local_phases.LocalPhases(ARGUMENTS, {}, in_process=("score",))
    keeping = asyncio.create_task(local.keep_running(lambda: None))
    try:
        async with asyncio.timeout(60):
            await local.until_started()
            (phase,) = local._all()
            assert isinstance(phase, local_phases.InProcessPhase)
            phase._supervisor.keep("a part", fail)
            with pytest.raises(BaseExceptionGroup):
                await keeping
    finally:
        await local.stop()


@pytest.mark.parametrize("victim", ["the-phase", "the-forker"])
async def test_killed_children_are_restarted(victim: str) -> None:
    """If this fails, a phase that crashes, or the process that starts phases, takes scheduling down for good."""
    async with kept(filter=1) as local:
        (first,) = local.statistics()
        os.kill(first.pid if victim == "the-phase" else _parent(first.pid), signal.SIGKILL)
        again = await _started_again(local, {first.name: first.pid})
        await _gone(first.pid)
        (last,) = local.statistics()
        assert (last.name, last.pid, last.starts) == ("filter-0", again["filter-0"], 2)
        assert [last.address] == local.addresses("filter")
        assert 0 <= clocks.wall() - last.ended_at < 60
        # Without the forker its exit code counts: it ends with its processes.
        assert last.exit_code == -signal.SIGKILL


class Replicas:
    """A phase without a configured replica that answers."""

    available = False

    def __init__(self) -> None:
        self.own = asyncio.Event()

    def answering(self) -> list[str]:
        """Nobody."""
        return []

    def statistics(self) -> list[replica_link.LinkStatistics]:
        """Nothing is known."""
        return []

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """Our own are among them once they stand in."""
        if any(address.startswith("unix:") for address in addresses):
            self.own.set()


@pytest.mark.parametrize("victim", ["the-phase", "the-forker"])
async def test_children_that_stand_in_are_restarted_too(victim: str) -> None:
    """If this fails, one OOM kill ends scheduling until a configured replica is back."""
    local, replicas, restarted = local_phases.LocalPhases(ARGUMENTS, {"filter": 1}), Replicas(), asyncio.Event()
    standing_in = fallback.Fallback("filter", replicas, lambda: local, 0.0, time.monotonic, restarted.set)
    standing_in.set_endpoints(["far:1"])
    running = asyncio.create_task(standing_in.run())
    try:
        async with asyncio.timeout(60):
            await replicas.own.wait()
            (first,) = local.statistics()
            os.kill(first.pid if victim == "the-phase" else _parent(first.pid), signal.SIGKILL)
            again = await _started_again(local, {first.name: first.pid})
            await restarted.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    for pid in (first.pid, *again.values()):
        await _gone(pid)


# A process as the frontend is: forks the forker off first. Prints its ids, and what is left at the end.
_FORKING = """
import asyncio, os, pathlib, sys
from trireme.frontend import phase_modules
from trireme.rpc import forker
forked = forker.fork_forker(phase_modules.SHARED)
print(len(os.listdir("/proc/self/task")), forked.pid)
from trireme.frontend.phase_clients import forker_client, local_phases

async def run():
    local = local_phases.LocalPhases({"filter": ("-v=0",)}, {"filter": int(sys.argv[1])}, forked)
    await local.request_start()
    await local.start()
    for one in local.statistics():
        status = pathlib.Path(f"/proc/{one.pid}/status").read_text()
        parent = int(status.partition("PPid:")[2].split()[0])
        lines = (pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (one.pid, parent))
        print(parent, *(line.decode().strip(chr(0)) for line in lines))
    await local.stop()

asyncio.run(run())
print(pathlib.Path(f"/proc/{forked.pid}").exists())
"""


@pytest.mark.parametrize("phases", [1, 0])
def test_a_forker_forked_off_at_the_start_has_the_phases_and_ends_where_there_are_none(phases: int) -> None:
    """If this fails, the frontend loads everything twice, forks beside a thread, or leaves a process to nobody."""
    command = [sys.executable, "-c", _FORKING, str(phases)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    first, *of_phases, left = ran.stdout.splitlines()
    threads, forker = first.split()
    assert (threads, left) == ("1", "False")
    assert of_phases == [f"{forker} filter-0 forker"] * phases


# A frontend that has phases of its own until it is killed. Prints their folder, and their ids.
_KILLED = """
import asyncio, os
from trireme.frontend import phase_modules
from trireme.rpc import forker
forked = forker.fork_forker(phase_modules.SHARED)
from trireme.frontend.phase_clients import local_phases

async def run():
    local = local_phases.LocalPhases({"filter": ("-v=0",)}, {"filter": 2}, forked)
    await local.request_start()
    await local.start()
    print(os.path.dirname(local.addresses("filter")[0].removeprefix("unix:")))
    print(*(one.pid for one in local.statistics()), flush=True)
    await asyncio.Event().wait()

asyncio.run(run())
"""


async def test_a_frontend_that_is_killed_leaves_no_folder(tmp_path: pathlib.Path) -> None:
    """If this fails, each OOM kill leaves a folder in TMPDIR, which in a container is never cleaned."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, env=environment
    ) as frontend:
        assert frontend.stdout is not None
        folder = pathlib.Path((await asyncio.to_thread(frontend.stdout.readline)).strip())
        pids = [int(pid) for pid in (await asyncio.to_thread(frontend.stdout.readline)).split()]
        assert folder.parent == tmp_path
        assert len(pids) == 2
        frontend.kill()
        for pid in pids:
            await _gone(pid)
    assert list(tmp_path.iterdir()) == []


async def test_a_phase_that_cannot_start_is_an_error() -> None:
    """If this fails, a frontend whose phases refuse their flags waits for them forever."""
    local = local_phases.LocalPhases({"filter": ("--no-such-flag",)}, {"filter": 1})
    try:
        with pytest.raises(forker_client.LocalPhaseError, match="filter-0 ended with exit code 2 at its start"):
            await local.start()
    finally:
        await local.stop()


@pytest.mark.parametrize("flag", ["--kube-api-burst=0", "--no-such-flag"])
async def test_a_phase_that_cannot_be_served_in_this_process_is_an_error_too(flag: str) -> None:
    local = local_phases.LocalPhases({"bind": (flag,)}, {}, in_process=("bind",))
    try:
        with pytest.raises(
            forker_client.LocalPhaseError, match=f"bind-0 cannot be started: .*{flag.partition('=')[0]}"
        ):
            await local.start()
    finally:
        await local.stop()
