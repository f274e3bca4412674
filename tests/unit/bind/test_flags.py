"""The flags of the bind process: what they mean, and one line where they mean nothing."""

import pytest

from trireme.bind import flags, process, write_turns
from trireme.config import leader_election, scheduler_configuration
from trireme.rpc.listen_flags import ListenError


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        pytest.param(["--listen", "0.0.0.0:7000"], "--listen", id="open-to-the-network"),
        pytest.param(["--listen", "nowhere"], "--listen", id="no-address"),
        pytest.param(["--bogus"], "--bogus", id="unknown-flag"),
        pytest.param(["positional"], "positional", id="positional"),
        pytest.param(["--kube-api-qps", "fast"], "--kube-api-qps", id="qps"),
        pytest.param(["--kube-api-burst", "0"], "--kube-api-burst", id="burst"),
        pytest.param(["--leader-elect=maybe"], "--leader-elect", id="boolean"),
        pytest.param(["--leader-elect-resource-name="], "--leader-elect-resource-name", id="no-lease"),
        pytest.param(["--leader-elect-resource-namespace="], "--leader-elect-resource-namespace", id="no-namespace"),
        pytest.param(["--metrics-listen", "unix:/x"], "--metrics-listen", id="metrics-socket"),
        pytest.param(["--metrics-listen", "9000"], "--metrics-listen", id="metrics-port-alone"),
        pytest.param(["--exit-with-parent", "me"], "--exit-with-parent", id="parent"),
        pytest.param(["--allowed-identities", "a"], "--allowed-identities", id="identities-without-tls"),
        pytest.param(["--kubecon", "x"], "--kubecon", id="abbreviation"),
    ],
)
def test_a_mistake_is_named(argv: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr names the flag, the exit code is 1, and nothing was started."""
    with pytest.raises((flags.FlagError, ListenError), match=named):
        flags.parse(argv)
    assert process.main(argv) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert named in captured.err
    assert captured.err.count("\n") == 1


def test_the_defaults_are_kube_scheduler_s() -> None:
    """Without flags: loopback, the usual Lease, the usual rate limit, the pod's service account."""
    options = flags.parse([])
    assert options.listener.address.text == "127.0.0.1:0"
    assert options.lease == ("kube-system", "kube-scheduler")
    assert (options.connection.qps, options.connection.burst) == (50.0, 100)
    assert (options.connection.source.kubeconfig, options.connection.source.master) == ("", "")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        pytest.param(["--leader-elect"], True, id="bare"),
        pytest.param(["--leader-elect=true"], True, id="true"),
        pytest.param(["--leader-elect=0"], False, id="zero"),
        pytest.param(["--leader-elect=False"], False, id="False"),
    ],
)
def test_booleans_are_go_s(argv: list[str], expected: bool) -> None:
    """The flag is passed on from a kube-scheduler command line."""
    assert (flags.parse(argv).lease is not None) is expected


@pytest.mark.parametrize("elects", [True, False], ids=["lease", "no-lease"])
def test_bind_reads_the_lease_that_the_frontend_acquires(elects: bool) -> None:
    election = scheduler_configuration.LeaderElection(
        leader_elect=elects, resource_name="mine", resource_namespace="ns"
    )
    lease = flags.parse(["--listen", "127.0.0.1:0", *leader_election.bind_flags(election)]).lease
    assert lease == (("ns", "mine") if elects else None)


def test_without_leader_election_no_lease_need_be_named() -> None:
    arguments = ["--leader-elect=false", "--leader-elect-resource-name=", "--leader-elect-resource-namespace="]
    assert flags.parse(arguments).lease is None


def test_each_kind_of_write_has_connections_for_all_that_are_under_way() -> None:
    """Bindings, PreBind and actions: a write that waits for a connection would pass its deadline."""
    assert flags.parse([]).connection.max_connections == 3 * write_turns.CONCURRENCY


def test_metrics_are_served_at_a_host_and_port() -> None:
    assert flags.parse(["--metrics-listen=127.0.0.1:9000"]).metrics_listen == "127.0.0.1:9000"
