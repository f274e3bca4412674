"""`trireme up`: what it takes of the configuration that it is given, and what it does when a process ends."""

import argparse
import asyncio
import contextlib
import pathlib
import sys
from typing import Any

import pytest
import yaml

from trireme.cli import main, processes, up
from trireme.config import scheduler_configuration
from trireme.insight import flags
from trireme_kube.componentbase.cli import arguments

HEADER = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"


@pytest.mark.parametrize(
    ("text", "socket"),
    [
        ("admin: {socket: /run/mine.sock}", "/run/mine.sock"),
        ("", "/free.sock"),
        ("admin: {socket: relative}", "/free.sock"),
    ],
    ids=["named", "not-named", "invalid"],
)
def test_the_admin_socket_is_the_one_that_is_named(tmp_path: pathlib.Path, text: str, socket: str) -> None:
    """If this fails, a user who named a socket is told that no scheduler runs there."""
    own = tmp_path / "own.yaml"
    own.write_text(HEADER + text)
    options = argparse.Namespace(trireme_config=str(own), filters=1, scores=1, binds=1, insights=1)
    admin = up._admin_socket_path(options, pathlib.Path("/free.sock"))
    assert admin == pathlib.Path(socket)
    document = up._trireme_document(options, up.Layout(tmp_path, tmp_path / "kubeconfig", admin))
    assert yaml.safe_load(yaml.safe_dump(document))["admin"] == {"socket": socket}


@pytest.mark.parametrize("given", [None, "here"], ids=["of the run", "named"])
def test_each_replica_of_insight_records_in_a_folder_of_its_own(tmp_path: pathlib.Path, given: str | None) -> None:
    """The console could not look back, or two replicas would wait for each other's folder; or /tmp would be filled."""
    parser = argparse.ArgumentParser()
    up.add_parser(parser.add_subparsers())
    named = [] if given is None else ["--record-dir", given]
    options = parser.parse_args(["up", "--insights", "2", *named])
    layout = up.Layout(tmp_path, tmp_path / "kubeconfig", tmp_path / "admin.sock")
    _, started = up._processes_by_start_order(
        options, layout, scheduler_configuration.LeaderElection(), processes.SharedOutput(lambda: None)
    )
    taken = recording_flags_parser()
    folders = [taken.parse_known_args(process._command)[0] for process in started if process.name.startswith("insight")]
    root = tmp_path / "recordings" if given is None else pathlib.Path(given)
    assert [pathlib.Path(each.record_dir) for each in folders] == [root / "insight-0", root / "insight-1"]
    assert {each.record_max_bytes for each in folders} == {(64 if given is None else 1024) << 20}


def recording_flags_parser() -> argparse.ArgumentParser:
    """What insight makes of its flags for recordings."""
    parser = argparse.ArgumentParser()
    arguments.add(parser, flags.InsightFlags)
    return parser


class Ending:
    """A process that ends with one code after the other, each at once."""

    def __init__(self, name: str, *codes: int) -> None:
        self.name = name
        self.codes = list(codes)
        self.starts = 0

    async def wait_until_ended(self) -> int:
        """Its next exit code."""
        return self.codes.pop(0)

    async def start(self) -> None:
        """Fails once there is no more code."""
        if not self.codes:
            raise RuntimeError(f"{self.name} ended with exit code 2 at its start")
        self.starts += 1


@pytest.mark.parametrize(
    ("process", "seconds", "messages"),
    [
        (
            Ending("score", -9, 1),
            0.0,
            [
                "score was ended by SIGKILL and is started again",
                "score ended with exit code 1 and is started again",
                "score ended with exit code 2 at its start: everything ends",
            ],
        ),
        (Ending("score", -9), 10.0, ["score was ended by SIGKILL within 10 s of its start: everything ends"]),
        (
            Ending("cluster", -64),
            0.0,
            ["cluster was ended by SIGRTMAX: everything ends, for all objects were in its memory"],
        ),
    ],
    ids=["restarted", "early", "cluster"],
)
async def test_a_service_that_ends_is_started_again(
    process: Ending, seconds: float, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded cluster ended with it, and with it all that was tried out there."""
    monkeypatch.setattr(up, "RESTART_SECONDS", seconds)
    said: list[str] = []
    output = processes.SharedOutput(lambda: None)
    monkeypatch.setattr(output, "print_message", said.append)
    ending: Any = process
    await up._keep_running(ending, output)
    assert said == messages


async def test_a_process_can_be_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The end of its first output was taken for the end of the second process."""
    output = processes.SharedOutput(lambda: None)
    process = processes.Process("one", [sys.executable, "-c", "print('listening on x')"], output, ready="listening on ")
    for _ in range(2):
        assert await process.start() == "x"
        assert await process.wait_until_ended() == 0
    await process.stop()
    assert capsys.readouterr().out == "      one | listening on x\n" * 2


async def test_what_a_process_announces_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """The address of insight's HTTP API, which the system chose, would be lost among the lines of the log."""
    program = "print('serving HTTP on http://127.0.0.1:1'); print('listening on x')"
    output = processes.SharedOutput(lambda: None)
    process = processes.Process(
        "one", [sys.executable, "-c", program], output, ready="listening on ", announcement="serving HTTP on "
    )
    await process.start()
    assert process.announced == "http://127.0.0.1:1"
    await process.stop()
    assert "one | serving HTTP on" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--record-dir=recordings", "--console-port=8080"])
def test_what_insight_alone_does_needs_insight(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing would be recorded, without a word."""
    assert main.main(["up", "--insights", "0", flag]) == 1
    assert capsys.readouterr().err.startswith(f"Error: {flag.partition('=')[0]}: insight alone does that")


async def test_a_process_that_is_started_again_serves_where_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    """The console's page that is open, and the address that `up` printed, would never answer again."""
    program = "import sys; print('HTTP on http://' + sys.argv[1].replace(':0', ':77')); print('listening on x')"
    command = [sys.executable, "-c", program, processes.ANY_ADDRESS]
    output = processes.SharedOutput(lambda: None)
    process = processes.Process("one", command, output, ready="listening on ", announcement="HTTP on ")
    for _ in range(3):
        await process.start()
        await process.stop()
        assert process.announced == "http://127.0.0.1:77"
    assert capsys.readouterr().out.count("HTTP on http://127.0.0.1:77\n") == 3


async def test_changes_of_the_given_files_are_taken_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a change of the files of `trireme up` has neither an effect nor an error."""
    monkeypatch.setattr(up, "_LOOK_SECONDS", 0.001)
    own = tmp_path / "own.yaml"
    own.write_text(HEADER)
    options = argparse.Namespace(
        config="", trireme_config=str(own), kubeconfig="", feature_gates=[], filters=1, scores=1, binds=1, insights=1
    )
    folder = tmp_path / "run"
    folder.mkdir()
    layout = up.Layout(folder, tmp_path / "kubeconfig", tmp_path / "admin.sock")
    following = asyncio.create_task(up._follow_configuration(options, layout, processes.SharedOutput(lambda: None)))
    await asyncio.sleep(0)  # it has the files as they are
    said = ""
    async with asyncio.timeout(30):
        own.write_text(HEADER + "batch: {maxPods: none}")
        while "is wrong; the one before stays" not in said:
            await asyncio.sleep(0.001)
            said += capsys.readouterr().out
        assert "batch.maxPods" in said
        # The frontend refuses it by itself, and says so where people look.
        assert yaml.safe_load(layout.own_file.read_text())["batch"] == {"maxPods": "none"}
        own.write_text("a: [")
        while layout.own_file.read_text() != "a: [":
            await asyncio.sleep(0.001)
        own.unlink()
        while layout.own_file.exists():
            await asyncio.sleep(0.001)
        own.write_text(HEADER + "batch: {maxPods: 7}")
        while not layout.own_file.exists():
            await asyncio.sleep(0.001)
    following.cancel()
    document = yaml.safe_load(layout.own_file.read_text())
    assert (document["batch"], document["admin"]) == ({"maxPods": 7}, {"socket": str(layout.admin)})


def test_each_run_has_a_kubeconfig_of_its_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody sends to the first cluster would reach the second one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = argparse.Namespace(kubeconfig="")
    lasting = tmp_path / "state/trireme/kubeconfig"
    with contextlib.ExitStack() as first:
        assert up._choose_kubeconfig_path(options, tmp_path / "first", first) == lasting
        with contextlib.ExitStack() as second:
            assert up._choose_kubeconfig_path(options, tmp_path / "second", second) == tmp_path / "second/kubeconfig"
    with contextlib.ExitStack() as third:
        assert up._choose_kubeconfig_path(options, tmp_path / "third", third) == lasting
