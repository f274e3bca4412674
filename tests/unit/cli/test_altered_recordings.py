"""A recording with every kind of decision, altered or cut: each command says so, and none takes it for whole."""

import asyncio
import pathlib
import random
import re
import time
from collections.abc import Sequence

import pytest

from tests.helpers.recorded_decisions import IMPORTANT, SMALL, with_every_call
from tests.helpers.recordings import encoded, end_frame
from trireme.cli import main
from trireme.recording import segment_folder, verification
from trireme.v1 import decision_pb2, filter_pb2, remote_answer_pb2, status_pb2

# How long damaged files are given to the commands, which takes some 30 ms each; every byte is read at least.
SECONDS = 3.0
LEAST = 20

KINDS = {field.name for field in decision_pb2.Decision.DESCRIPTOR.oneofs_by_name["decision"].fields}


def remote_answers() -> remote_answer_pb2.RemoteAnswers:
    """An answer at each point."""
    out = remote_answer_pb2.RemoteAnswers(complete=True)
    out.answers.add(plugin="P").scores.raw.extend([1, 2, 3])
    refused = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="P")
    runs = out.answers.add(plugin="P").dry_runs
    runs.statuses.append(refused)
    runs.runs.add(slot=1, removed_rows=[0], status=1)
    out.answers.add(plugin="P").post_filter.response.CopyFrom(filter_pb2.PostFilterResponse(status=refused))
    reservations = out.answers.add(plugin="P").reservations
    reservations.uid.append("u")
    reservations.reservations.add(status=refused)
    return out


async def content() -> bytes:
    """An exported file, small, with every kind of decision."""
    cluster = await with_every_call()
    await cluster.schedule(SMALL, 1)
    await cluster.schedule(IMPORTANT, 1)
    await cluster.nominate(SMALL, "n1")
    cluster.log.add_placed(("p", SMALL), cluster.generation, [("u1", 1)])
    bound = decision_pb2.BoundPods(uid=["u1"], attempts=[1], queue_us=[1], attempt_us=[1], permit_us=[0])
    cluster.log.add(("p", SMALL), cluster.generation, decision_pb2.Decision(bound=bound))
    frames = cluster.frames()
    kinds = {each.WhichOneof("decision") for each in cluster.decisions()}
    assert kinds == KINDS
    # Protobuf joins a message in two parts.
    more = decision_pb2.Decision(remote=remote_answers()).SerializeToString()
    last = frames[-1].message.decisions
    last[-1] += more
    return b"".join(encoded(cluster.header, [*frames, end_frame()]))


@pytest.fixture(name="whole", scope="module")
def _whole() -> bytes:
    return asyncio.run(content())


def run(*arguments: object) -> int:
    return main.main([str(each) for each in arguments])


def commands(path: pathlib.Path, folder: pathlib.Path) -> Sequence[tuple[str, Sequence[object]]]:
    """All that read a file, by name; `redact` reads a folder of segments."""
    out = path.with_suffix(".out")
    out.unlink(missing_ok=True)
    return (
        ("replay", ("replay", path, "--all")),
        ("check", ("record", "check", path)),
        ("explain", ("replay", path, "explain", "pod-0")),
        ("redact", ("record", "export", "--dir", folder, "--redact", out)),
    )


def test_it_is_whole_before(whole: bytes, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The unaltered recording passes, so that the errors below come from the alterations."""
    path = tmp_path / segment_folder.file_name(1)
    path.write_bytes(whole)
    for name, arguments in commands(path, tmp_path):
        assert run(*arguments) == 0, (name, capsys.readouterr())
    shown = capsys.readouterr()
    assert " 0 differ" in shown.out
    assert "Traceback" not in shown.err
    redacted = path.with_suffix(".out")
    assert run("replay", redacted, "--all") == 0
    assert run("record", "check", redacted) == 0
    assert " 0 differ" in capsys.readouterr().out


MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: p
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def test_another_configuration_decides_every_kind(
    whole: bytes, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kind that it cannot decide would be counted as the same, or end it."""
    path, own = tmp_path / "r.trireme", tmp_path / "new.yaml"
    path.write_bytes(whole)
    own.write_text(MOST_ALLOCATED)
    code = run("replay", path, "--config", own)
    shown = capsys.readouterr()
    assert shown.err == ""
    found = re.fullmatch(r"(\d+) decisions are the same, (\d+) differ; .*", shown.out.splitlines()[-2])
    assert found is not None, shown.out
    assert sum(map(int, found.groups())) >= len(KINDS) - 2
    assert code == (found[2] != "0")
    assert "Not decided again" not in shown.out


def is_damaged(path: pathlib.Path) -> bool:
    """Whether `trireme record check` finds anything wrong, or the end missing."""
    summary = verification.verify(path)
    return bool(summary.problems or summary.torn)


@pytest.mark.slow
def test_every_byte_that_is_altered_or_cut_is_noticed(whole: bytes, tmp_path: pathlib.Path) -> None:
    """A file that was damaged on its way would be decided again as if it were the incident."""
    path = tmp_path / "r.trireme"
    unnoticed = []
    # What a file holds that is cut is tested for each byte with the format.
    cut = [("cut", at, whole[:at]) for at in range(0, len(whole), 8)]
    altered = [
        ("altered", at, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]) for at in range(len(whole))
    ]
    for name, at, damaged in (*cut, *altered):
        path.write_bytes(damaged)
        if not is_damaged(path):
            unnoticed.append((name, at))
    assert unnoticed == []


@pytest.mark.slow
def test_no_command_takes_it_for_whole_or_ends_in_a_traceback(
    whole: bytes, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody would look for the error in Trireme, or believe "0 differ"."""
    path = tmp_path / segment_folder.file_name(1)
    draw, ends, tried = random.Random(18), time.monotonic() + SECONDS, 0
    while tried < LEAST or time.monotonic() < ends:
        tried += 1
        at, cut = draw.randrange(len(whole)), draw.random() < 0.5
        path.write_bytes(whole[:at] if cut else whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        for name, arguments in commands(path, tmp_path):
            code = run(*arguments)
            shown = capsys.readouterr()
            where = (name, "cut" if cut else "altered", at, shown)
            assert "Traceback" not in shown.err, where
            if name == "replay":
                assert code == 1, where
                assert shown.err.startswith("Error: "), where
                assert "0 differ" not in shown.out, where
            elif name == "check":
                # The writer may have crashed, or only have begun: that is said, and is no damage.
                said = re.search(r"[Tt]orn|Frames +0\b", shown.out)
                assert code == 1 or said is not None, where
            elif code:
                assert shown.err, where
