"""The start as a whole: what is printed where, which settings win, what the rest of the program gets."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.helpers.config_starts import HEADER, Desk
from trireme.config import commandline
from trireme.config.commandline import CompletedConfig
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.componentbase.logs.start_log import StartLog, parse_line


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to start in."""
    return Desk(tmp_path)


def _run(desk: Desk, *arguments: str, built: list[CompletedConfig] | None = None) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()

    def build(completed: CompletedConfig) -> int:
        if built is not None:
            built.append(completed)
        return 7

    arguments = (*arguments, "--secure-port=0", f"--kubeconfig={desk.folder}/kubeconfig")
    code = commandline.run(arguments, build=build, environment={}, stdout=stdout, stderr=stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def test_the_log_shows_the_plugins_of_every_extension_point() -> None:
    """`PlacementFeasible` is the one that kube-scheduler does not log."""
    nothing: Any = SimpleNamespace(plugins=dict.fromkeys(ExtensionPoint, ()))
    logged = commandline.plugin_lists(nothing).keys() - {"MultiPoint"}
    missing = {point.label for point in ExtensionPoint} - logged
    assert missing == {"PlacementFeasible"}, "add it to _LOGGED_POINTS of internal/trireme/config/commandline.py"


def test_the_rest_of_the_program_gets_what_was_configured(desk: Desk) -> None:
    built: list[CompletedConfig] = []
    code, stdout, _ = _run(desk, "--pod-max-in-unschedulable-pods-duration=90s", built=built)
    assert (code, stdout) == (7, "")
    (completed,) = built
    assert completed.pod_max_in_unschedulable_pods_seconds == 90.0
    assert completed.connection.host == "https://127.0.0.1:6443"
    assert completed.profiles[0].scheduler_name == "default-scheduler"
    assert completed.document()["kind"] == "KubeSchedulerConfiguration"


@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "--version=raw"])
def test_information_is_printed_and_nothing_runs(desk: Desk, flag: str) -> None:
    built: list[CompletedConfig] = []
    code, stdout, stderr = _run(desk, flag, built=built)
    assert (code, built, stderr) == (0, [], "")
    assert ("Usage:" in stdout) is (flag in ("--help", "-h"))
    assert ("v1.38.0-beta.0" in stdout) is ("version" in flag)


def test_help_fits_the_terminal(desk: Desk) -> None:
    output = io.StringIO()
    log: list[str] = []
    start = commandline.Start(["--help"], {}, output, io.StringIO(), log.append, columns=80)
    assert start.run().code == 0
    assert output.getvalue().startswith("Trireme is a Kubernetes scheduler")
    # The name of a gate is one word, which cannot be broken.
    assert [line for line in output.getvalue().splitlines() if len(line) > 80 and len(line.split()) > 1] == []


def test_an_old_flag_is_refused_naming_the_command_that_replaces_it(desk: Desk) -> None:
    code, stdout, stderr = _run(desk, "--policy-config-file=f")
    assert (code, stdout) == (1, "")
    assert "`trireme config convert`" in stderr.splitlines()[0]
    assert stderr.endswith("\nError: unknown flag: --policy-config-file\n")


def test_a_wrong_file_is_reported_in_the_log(desk: Desk) -> None:
    path = desk.write("c.yaml", HEADER + "bogus: 1\n")
    code, stdout, stderr = _run(desk, f"--config={path}")
    assert (code, stdout) == (1, "")
    advice, last = stderr.splitlines()[-2:]
    assert last.startswith("E")
    assert last.endswith('] "command failed" err="strict decoding error: unknown field \\"bogus\\""')
    assert advice.endswith(
        "] What to do about it: https://trireme.dev/docs/troubleshooting.html#the-frontend-does-not-start"
    )


def test_deprecated_flags_count_without_a_file_only(desk: Desk) -> None:
    flags = ("--kube-api-qps=7", "--profiling=false", "--kubeconfig=kubeconfig")
    alone = desk.start(*flags, "--secure-port=0").completed.configuration
    beside = desk.configure("", *flags).completed.configuration
    assert (alone.client_connection.qps, alone.enable_profiling) == (7.0, False)
    assert (beside.client_connection.qps, beside.enable_profiling) == (50.0, True)


def test_leader_election_flags_win_over_the_file(desk: Desk) -> None:
    text = "leaderElection: {leaderElect: true, leaseDuration: 40s, renewDeadline: 30s}"
    election = desk.configure(text, "--leader-elect-lease-duration=50s").completed.configuration.leader_election
    assert (election.lease_duration, election.renew_deadline) == (Duration.of(50), Duration.of(30))
    assert not desk.configure(text, "--leader-elect=false").completed.configuration.leader_election.leader_elect


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        pytest.param(
            ["--leader-elect-lease-duration=5s"], "leaseDuration must be greater than renewDeadline", id="lease"
        ),
        pytest.param(
            ["--leader-elect-retry-period=9s"],
            "renewDeadline must be greater than retryPeriod*JitterFactor",
            id="retry",
        ),
        pytest.param(["--leader-elect-retry-period=-1s"], "retryPeriod must be greater than zero", id="negative"),
    ],
)
def test_election_times_that_cannot_work_end_the_start(desk: Desk, flags: list[str], error: str) -> None:
    ended = desk.start("--kubeconfig=kubeconfig", "--secure-port=0", *flags)
    assert (ended.outcome.code, ended.outcome.stage) == (1, "run")
    assert ended.error == f"couldn't create leader elector: {error}"
    assert desk.start("--kubeconfig=kubeconfig", "--secure-port=0", "--leader-elect=false", *flags).outcome.code == 0


@pytest.mark.parametrize(
    ("lock", "error"),
    [
        ("endpoints", "endpoints lock is removed, migrate to leases"),
        ("configmapsleases", "configmapsleases lock is removed, migrated to leases"),
        ("other", "Invalid lock-type other"),
    ],
)
def test_a_lock_that_is_none_ends_the_start(desk: Desk, lock: str, error: str) -> None:
    ended = desk.start("--kubeconfig=kubeconfig", "--secure-port=0", f"--leader-elect-resource-lock={lock}")
    assert ended.error == f"couldn't create resource lock: {error}"


def test_what_is_written_is_read_back_as_the_same(desk: Desk) -> None:
    text = """
parallelism: 3
profiles:
- schedulerName: a
  plugins: {score: {enabled: [{name: ImageLocality, weight: 9}]}, multiPoint: {disabled: [{name: VolumeZone}]}}
  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 4}}]
- schedulerName: b
extenders: [{urlPrefix: "http://x", filterVerb: f, httpTimeout: 3s}]
"""
    assert desk.configure(text, "--write-config-to=one.yaml").outcome.code == 0
    written = yaml.safe_load((desk.folder / "one.yaml").read_text())
    again = desk.start("--config=one.yaml", "--secure-port=0", "--write-config-to=two.yaml")
    assert again.outcome.code == 0
    second = yaml.safe_load((desk.folder / "two.yaml").read_text())
    for profile in second["profiles"]:
        # What the default profile disables is listed again each time, by kube-scheduler too.
        assert profile["plugins"]["reserve"]["disabled"].pop() == {"name": "DefaultPreemption", "weight": 0}
    assert second == written
    assert (written["parallelism"], written["extenders"][0]["httpTimeout"]) == (3, "3s")


def test_a_private_key_is_written_but_not_logged(desk: Desk) -> None:
    text = 'extenders: [{urlPrefix: "http://x", filterVerb: f, tlsConfig: {insecure: true, keyData: aHVzaA==}}]'
    ended = desk.configure(text, "--write-config-to=one.yaml", "-v=2")
    assert ended.outcome.code == 0
    assert "aHVzaA==" in (desk.folder / "one.yaml").read_text()
    logged = "\n".join(ended.logs)
    assert "aHVzaA==" not in logged
    assert "REDACTED" in logged


def test_the_plugins_of_each_profile_are_logged(desk: Desk) -> None:
    ended = desk.configure("profiles: [{schedulerName: a}, {schedulerName: b}]", "-v=2")
    lines = [line for line in ended.logs if "starts to work with those plugins" in line]
    assert len(lines) == 2
    lists = json.loads(lines[0].partition("Plugins=")[2])
    assert lists["Bind"]["Enabled"] == [{"Name": "DefaultBinder", "Weight": 0}]


def test_trireme_settings_come_from_their_own_file(desk: Desk) -> None:
    own = desk.write(
        "own.yaml",
        "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"
        "remotePlugins: [{name: Mine, address: 'unix:/p', extensionPoints: [score]}]\n",
    )
    text = "profiles: [{plugins: {score: {enabled: [{name: Mine, weight: 4}]}}}]"
    completed = desk.configure(text, f"--trireme-config={own}").completed
    assert [p.name for p in completed.trireme.remote_plugins] == ["Mine"]
    assert completed.registry["Mine"].remote
    assert 'ScorePlugin "Mine" does not exist' in desk.configure(text).error


def test_a_gate_changes_what_runs(desk: Desk) -> None:
    """--feature-gates reaches the configuration that runs."""
    completed = desk.configure("", "--feature-gates=GenericWorkload=true").completed
    assert "GangScheduling" in completed.profiles[0].all_names()
    assert completed.gates.enabled("GenericWorkload")


# The log of the start.


def test_lines_are_written_as_text_and_as_json() -> None:
    stream = io.StringIO()
    log = StartLog(stream, clock=lambda: 1_700_000_000.5, process=42)
    log.write("W something is odd")
    log.format = "json"
    log.write('E "command failed" err="a \\"b\\"\\n" count=3 on=true')
    text, record = stream.getvalue().splitlines()
    assert text.startswith("W11")
    assert text.endswith("] something is odd")
    assert "     42 " in text
    assert json.loads(record) == {
        "ts": 1_700_000_000_500.0,
        "caller": json.loads(record)["caller"],
        "msg": "command failed",
        "err": 'a "b"\n',
        "count": 3,
        "on": True,
    }


@pytest.mark.parametrize(
    ("line", "message", "values"),
    [
        ('"a b"', "a b", {}),
        ('"a" x="1" y=2', "a", {"x": "1", "y": 2}),
        ('"a" x=<\n\tone\n\t two\n > y=true', "a", {"x": "one\n two", "y": True}),
        ("plain text x=1", "plain text x=1", {}),
    ],
)
def test_a_line_is_parsed_into_fields(line: str, message: str, values: dict[str, object]) -> None:
    assert parse_line(line) == (message, values)
