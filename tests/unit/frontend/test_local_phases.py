"""Which phases the frontend starts itself by its configuration, and which of its flags they inherit."""

import pathlib
from typing import Any

import pytest

from tests.helpers.config_starts import Desk
from trireme.frontend.phase_clients import local_phases

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
        assert (made.counts, list(made.in_process)) == ({"bind": 1}, ["filter"])
        assert (other.counts, list(other.in_process)) == ({}, ["score"])
