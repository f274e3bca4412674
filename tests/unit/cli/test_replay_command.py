"""`trireme replay`: its output for a recording, and its exit code."""

import asyncio
import json
import pathlib
import re

import pytest

from tests.helpers import console_states
from tests.helpers.phase_calls import PROFILE
from tests.helpers.recorded_decisions import IMPORTANT, SMALL, RecordedCluster, with_decision_changed
from tests.helpers.recordings import BEGIN, SECOND, encoded, end_frame
from trireme.cli import main
from trireme.v1 import cycle_pb2, decision_pb2, recording_pb2, snapshot_pb2
from trireme_kube.apimachinery import timestamps


async def recording(path: pathlib.Path) -> RecordedCluster:
    """A file of some decisions."""
    cluster = await RecordedCluster(3).open()
    for number in (SMALL, SMALL, IMPORTANT):
        await cluster.schedule(number, 2)
    path.write_bytes(cluster.content())
    return cluster


def changed(cluster: RecordedCluster, path: pathlib.Path) -> None:
    """Both decisions of Place about the first class are others in the file."""
    frames = cluster.frames()
    for decision in cluster.decisions():
        if decision.pod_class == SMALL and decision.place.slots:
            more = decision_pb2.PlaceDecision(slots=[1])
            frames = with_decision_changed(frames, decision.number, place=more)
    path.write_bytes(b"".join(encoded(cluster.header, [*frames, end_frame()])))


async def replay(*arguments: str) -> int:
    """The exit code; in a thread, since the command has a loop of its own."""
    return await asyncio.to_thread(main.main, ["replay", *arguments])


async def test_the_same_decisions_are_counted(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of a bug report would look broken."""
    path = tmp_path / "incident.trireme"
    cluster = await recording(path)
    assert await replay(str(path)) == 0
    placed = sum(len(each.place.slots) for each in cluster.decisions())
    shown = capsys.readouterr()
    assert shown.out == (
        f"{len(cluster.decisions())} decisions are the same, 0 differ; {placed} pods placed\n"
        "Calls: Filter 3, Place 2, RunPostFilter 1\n"
    )
    assert shown.err == ""


async def test_the_first_difference_ends_it(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script would not notice it, or nobody would know which decision it is."""
    path = tmp_path / "incident.trireme"
    cluster = await recording(path)
    changed(cluster, path)
    assert await replay(str(path)) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("decision 2 at 2023-11-14T22:13:21.000000Z (generation ")
    assert shown[0].endswith(f"profile p): Place of class {SMALL} (namespace default)")
    first, second = (f"n{slot}" for slot in cluster.decisions()[1].place.slots)
    lines = ["recorded:", f"  {first}", f"  {second}", "  n1", "replayed:", f"  {first}", f"  {second}"]
    assert shown[1:-2] == [f"  {line}" for line in lines]
    assert shown[-2] == "1 decisions are the same, 1 differ; 3 pods placed"
    assert await replay(str(path), "--all", "-o", "json") == 1
    report = json.loads(capsys.readouterr().out)
    assert [each["decision"] for each in report["differences"]] == [2, 4]
    assert report["differences"][0]["recorded"] == [first, second, "n1"]
    assert (report["different"], report["placedPods"]) == (2, 6)


async def test_a_folder_of_recordings_is_to_be_joined_first(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Is a directory` says nothing of what to do."""
    for arguments in ([], ["explain", "shop/cart"]):
        assert await replay(str(tmp_path), *arguments) == 1
        text = "is a folder: join its recordings by `trireme record export`, or show them by --serve"
        assert capsys.readouterr().err == f"Error: {tmp_path}: {text}\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"no recording", "byte 0: this is no recording"), (b"\x89TRI", "the file ends within its header")],
)
async def test_what_is_no_recording_is_named(
    content: bytes, problem: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 differences would be of nothing."""
    path = tmp_path / "incident.trireme"
    assert await replay(str(path)) == 1
    assert capsys.readouterr().err == f"Error: {path}: No such file or directory\n"
    path.write_bytes(content)
    assert await replay(str(path)) == 1
    assert capsys.readouterr().err == f"Error: {path}: {problem}\n"


async def test_a_file_that_is_cut_is_damaged(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of the incident would be missing without a word."""
    path = tmp_path / "incident.trireme"
    await recording(path)
    path.write_bytes(path.read_bytes()[:-60])
    assert await replay(str(path)) == 1
    assert "the file ends within a frame at byte" in capsys.readouterr().err


async def test_what_is_not_decided_again_is_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`0 differ` would include decisions that nobody looked at."""
    path = tmp_path / "incident.trireme"
    cluster = await recording(path)
    frames = with_decision_changed(cluster.frames(), 1, inexact=True)
    path.write_bytes(b"".join(encoded(cluster.header, [*frames, end_frame()])))
    assert await replay(str(path)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Not decided again: 1 (the cluster changed meanwhile), 1 (what they build on is not recorded)"
    )


async def test_what_is_not_in_the_recording_is_said(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`0 differ` would prove that all was decided right in an incident without a recording."""
    path = tmp_path / "incident.trireme"
    cluster = await recording(path)
    state = [frame for frame in cluster.frames() if frame.state_part]
    gap = recording_pb2.RecordedFrame(gap=recording_pb2.RecordingGap(dropped_messages=50))
    last = decision_pb2.Decision(number=len(cluster.decisions()) + 121, bound=decision_pb2.BoundPods(uid=["u"]))
    behind = recording_pb2.RecordedFrame(message=snapshot_pb2.SyncRequest(decisions=[last.SerializeToString()]))
    frames = [*cluster.frames(), gap, *state, behind]
    path.write_bytes(b"".join(encoded(cluster.header, [*frames, end_frame()])))
    # Neither a difference nor damage.
    assert await replay(str(path)) == 0
    text = "The recording is not complete: 1 gap in which nothing was recorded; decisions: 120 missing"
    assert capsys.readouterr().out.splitlines()[-1] == text
    assert await replay(str(path), "-o", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["gaps"], report["missing"], report["uncountedGaps"]) == (1, 120, 0)


async def test_ages_are_as_of_the_moment_that_is_shown(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A decision of the minute before an incident of last week would seem a week older than it."""
    path = tmp_path / "incident.trireme"
    await recording(path)
    moment = timestamps.rfc3339_micros(BEGIN + 75 * SECOND)
    assert await replay(str(path), "--at", moment, "explain", "default/pod-0") == 0
    assert re.search(r"Decided 7\ds ago at generation", capsys.readouterr().out)


_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: {name}
    plugins:
      multiPoint: {{disabled: [{{name: "*"}}]}}
      filter: {{enabled: [{{name: TaintToleration}}, {{name: NodeResourcesFit}}]}}
      postFilter: {{enabled: [{{name: DefaultPreemption}}]}}
      score: {{enabled: [{{name: NodeResourcesFit, weight: 1}}]}}
      queueSort: {{enabled: [{{name: PrioritySort}}]}}
      bind: {{enabled: [{{name: DefaultBinder}}]}}
    pluginConfig:
      - name: NodeResourcesFit
        args: {{scoringStrategy: {{type: {strategy}, resources: [{{name: cpu, weight: 1}}]}}}}
"""


async def test_another_configuration_shows_what_it_would_change(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights are changed in a cluster to find out."""
    path, own = tmp_path / "incident.trireme", tmp_path / "new.yaml"
    cluster = await RecordedCluster(3).open()
    for _ in range(3):
        await cluster.schedule(SMALL, 1)
    path.write_bytes(cluster.content())
    own.write_text(_CONFIGURATION.format(name="p", strategy="LeastAllocated"))
    assert await replay(str(path), "--config", str(own)) == 0
    assert "6 decisions are the same, 0 differ" in capsys.readouterr().out
    own.write_text(_CONFIGURATION.format(name="p", strategy="MostAllocated"))
    assert await replay(str(path), "--config", str(own)) == 1
    # All of them, not only the first.
    assert "4 decisions are the same, 2 differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            _CONFIGURATION.format(name="other", strategy="MostAllocated"),
            "the recording has the profile p, which is not",
        ),
        (_CONFIGURATION.format(name="p", strategy="Oldest"), 'Unsupported value: "Oldest"'),
    ],
    ids=["profile", "strategy"],
)
async def test_a_configuration_that_cannot_be_used_is_named(
    text: str, problem: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every decision would seem to change."""
    path, own = tmp_path / "incident.trireme", tmp_path / "new.yaml"
    await recording(path)
    own.write_text(text)
    assert await replay(str(path), "--config", str(own)) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"Error: --config: {own}: ")
    assert problem in shown.err
    assert shown.out == ""


async def test_a_pod_is_explained_as_of_then(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An incident is looked at the day after, when everything is elsewhere."""
    path = tmp_path / "incident.trireme"
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 2)
    before = len(cluster.frames())
    await cluster.schedule(SMALL, 3)
    cluster.builder.remove(*cluster.placed[:2])
    path.write_bytes(cluster.content())
    at = timestamps.rfc3339_micros(cluster.frames()[before - 1].unix_time_ns)
    assert await replay(str(path), "--at", at, "explain", "pod-1") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("default/pod-1 was on node n")
    assert f" at {at} " in shown
    assert "The same answer placed 1 pod before it: default/pod-0" in shown
    assert await replay(str(path), "-o", "json", "explain", "default/pod-4") == 0
    report = json.loads(capsys.readouterr().out)
    assert not report["decision"]["differs"]
    assert len(report["decision"]["batchBefore"]) == 2
    assert await replay(str(path), "explain", "pod-1") == 1
    assert "pod: default/pod-1 is neither in the queue nor on a node" in capsys.readouterr().err


async def test_a_pod_is_explained_with_what_is_not_recorded_and_what_a_wrong_clock_said(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was known hours before would be told as what was then, or what is recorded not be found."""
    path = tmp_path / "incident.trireme"
    cluster = await RecordedCluster(3).open()
    for _ in range(3):
        await cluster.schedule(SMALL, 1)
    state, *placements = cluster.frames()
    for second, frame in zip((1, 3602, 10), placements, strict=True):
        frame.unix_time_ns = BEGIN + second * SECOND
    gap = recording_pb2.RecordedFrame(unix_time_ns=BEGIN + 100 * SECOND, gap=recording_pb2.RecordingGap())
    frames = [state, *placements, gap, end_frame(BEGIN + 100 * SECOND)]
    path.write_bytes(b"".join(encoded(cluster.header, frames)))
    times = {second: timestamps.rfc3339_micros(BEGIN + second * SECOND) for second in (1, 5, 10, 11, 50, 100)}
    # It was placed by the clock that was ahead.
    assert await replay(str(path), "--at", times[10], "explain", "pod-1") == 0
    shown = capsys.readouterr().out
    assert f" at {times[10]}\n" in shown
    assert "clock was set" not in shown
    assert await replay(str(path), "--at", times[5], "explain", "pod-0") == 0
    uncertain = f"clock was set back: what was from {times[1]} to {times[10]} is not certain"
    assert uncertain in " ".join(capsys.readouterr().out.split())
    assert await replay(str(path), "--at", times[50], "explain", "pod-2") == 0
    missing = f"Nothing was recorded from {times[10]} to {times[100]}: this is what was known before."
    assert missing in " ".join(capsys.readouterr().out.split())
    assert await replay(str(path), "--at", times[50], "-o", "json", "explain", "pod-2") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["recorded"] == {
        "at": times[50],
        "knownAt": times[10],
        "gap": {"since": times[10], "until": times[100], "reason": "notRecorded"},
    }


async def test_a_missed_wake_up_is_explained_as_of_then(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, the events that did not wake a pod are in the recording, and nobody can read them."""
    path = tmp_path / "incident.trireme"
    cluster = await RecordedCluster(1).open()
    await cluster.schedule(SMALL, 1)
    missed = console_states.missed_wake_up(1)
    missed.pod.name = "pod-0"
    delta = snapshot_pb2.QueueDelta()
    delta.scheduler_status.missed_wake_ups.append(missed)
    state, *rest = cluster.frames()
    late = recording_pb2.RecordedFrame(
        unix_time_ns=rest[-1].unix_time_ns + SECOND, message=snapshot_pb2.SyncRequest(queue=delta)
    )
    path.write_bytes(b"".join(encoded(cluster.header, [state, *rest, late, end_frame(late.unix_time_ns + SECOND)])))
    text = "none of these events woke it: “a node is added” (n1); it was woken"
    for at, is_known in ((late.unix_time_ns - 1000, False), (late.unix_time_ns, True)):
        assert await replay(str(path), "--at", timestamps.rfc3339_micros(at), "explain", "pod-0") == 0
        assert (text in " ".join(capsys.readouterr().out.split())) is is_known


@pytest.mark.parametrize(
    ("state", "waited"),
    [
        (snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE, "was refused, and waited for an event"),
        (
            snapshot_pb2.QUEUED_POD_STATE_PRE_ENQUEUE_PENDING,
            "waited for plugins called before the queue (PreEnqueue, QueueSort)",
        ),
    ],
)
async def test_a_pod_that_waited_is_evaluated_as_of_then(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    state: snapshot_pb2.QueuedPodState.ValueType,
    waited: str,
) -> None:
    """Its nodes may be free by the end of the recording."""
    path = tmp_path / "incident.trireme"
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(IMPORTANT, 2)
    pod = cycle_pb2.PodIdentity(namespace="default", name="waits", uid="w")
    queued = snapshot_pb2.QueuedPod(pod=pod, pod_class=IMPORTANT, profile=PROFILE, state=state, attempts=1)
    cluster._record(snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(pods=[queued])))
    at = timestamps.rfc3339_micros(cluster.frames()[-1].unix_time_ns)
    cluster.builder.remove(*cluster.placed)
    path.write_bytes(cluster.content())
    assert await replay(str(path), "--at", at, "explain", "waits") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"default/waits {waited} at {at}" in shown
    assert "0 of 2 nodes were feasible then" in shown
    assert "It preempts nobody: no node where evictions might help has a pod of lower priority" in shown
    assert "--proposals" not in shown
    assert await replay(str(path), "explain", "waits") == 0
    assert "2 of 2 nodes were feasible then" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--at", "2001-01-01T00:00:00Z", "explain", "p"], "--at: the recording begins at 2023-11-14"),
        (["--at", "2024-01-01T00:00:00Z"], "--at: this is for `explain POD`"),
    ],
    ids=["too-early", "without-explain"],
)
async def test_a_time_that_means_nothing_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    """The answer would be about another time than the one that was asked about."""
    path = tmp_path / "incident.trireme"
    await recording(path)
    assert await replay(str(path), *arguments) == 1
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("text", ["yesterday", "2026-01-02T03:04:05"])
async def test_a_time_has_a_form_and_a_zone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Local time of another machine would be hours away."""
    path = tmp_path / "incident.trireme"
    await recording(path)
    with pytest.raises(SystemExit):
        await replay(str(path), "--at", text, "explain", "p")
    assert "--at" in capsys.readouterr().err
