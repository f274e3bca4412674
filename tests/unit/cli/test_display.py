"""What `trireme status`, `explain` and `version` print: in 120 columns, in words, and as JSON or YAML."""

import argparse
import asyncio
import io
import json
from typing import Any

import pytest
import yaml
from rich import console

from trireme.cli import display, explain_command, frontend_connection, main, status_command, version_command
from trireme.framework import cluster_event, event_phrases
from trireme_kube.componentbase import clocks, documents

NOW = 1_000_000.0
EVENTS = ["AssignedPodDelete", "NodeAdd", "resource.k8s.io/DeviceClassAdd"]


def _status(**changes: Any) -> dict[str, Any]:
    report: dict[str, Any] = {
        "leadership": {"leading": True, "epoch": 7, "holder": "me", "secondsLeft": 12.3},
        "synced": True,
        "queue": {"active": 1, "backoff": 0, "unschedulable": 3, "gated": 0, "inFlight": 0, "binding": 0},
        "cluster": {"nodes": 5, "pods": 9, "assumedPods": 0, "podClasses": 2, "generation": 3},
        "replicas": [
            {"phase": "filter", "address": "unix:/f", "inStep": True, "behind": 0, "backlogBytes": 1, "sentBytes": 2,
             "fullSyncs": 1},
            {"phase": "bind", "address": "unix:/b", "inStep": False, "lastError": "refused"},
        ],
        "pending": [],
        "pendingAlike": [],
        "pendingPods": 0,
    }  # fmt: skip
    return report | changes


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"), (600, "10m"), (10799, "179m"),
        (10800, "3h"), (11000, "3h3m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (176400, "2d1h"),
        (8 * 86400, "8d"), (729 * 86400, "729d"), (730 * 86400, "2y"), (800 * 86400, "2y70d"), (-5, "0s"),
    ],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    """A user compares them with the AGE column of `kubectl get`."""
    assert display.age_text(NOW - seconds, NOW) == text


@pytest.mark.parametrize("columns", [80, 120])
def test_status_fits_the_screen(columns: int) -> None:
    """A line that the terminal breaks cannot be read as a table."""
    alike = {
        "count": 3, "example": {"namespace": "default", "name": "giant-6c5bd8f7d4-abcde"}, "podClass": 4,
        "minAttempts": 1, "maxAttempts": 2,
        "summary": f"was refused by NodeResourcesFit; is tried again when {event_phrases.events_summary(EVENTS)}",
    }  # fmt: skip
    shown = display.as_text(status_command.render(_status(pendingAlike=[alike], pendingPods=3)), columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert "default/giant-6c5bd8f7d4-abcde" in shown
    assert "not in step: refused" in shown


def test_the_status_of_a_standby_names_the_leader() -> None:
    """An operator looks at the wrong replica and takes it for a broken one."""
    leadership = {"leading": False, "holder": "host-1_x", "lease": "kube-system/kube-scheduler"}
    shown = display.as_text(status_command.render(_status(leadership=leadership)))
    assert "standing by: host-1_x holds the lease kube-system/kube-scheduler" in shown


FORBIDDEN = 'leases.coordination.k8s.io "other6" is forbidden: User "system:serviceaccount:a:b" cannot get it (403)'


@pytest.mark.parametrize(
    ("leadership", "text"),
    [
        (
            {"leading": False, "holder": "", "lease": "kube-system/other6"},
            "standing by: nobody is known to hold the lease kube-system/other6; "
            f"the last request for it failed: {FORBIDDEN}",
        ),
        (
            {"leading": False, "holder": "h", "lease": "kube-system/other6"},
            f"standing by: h holds the lease kube-system/other6; the last request for it failed: {FORBIDDEN}",
        ),
        (
            {"leading": True, "epoch": 7, "holder": "me", "secondsLeft": 8.2},
            f"this scheduler, epoch 7, lease valid for 8s; the last request for it failed: {FORBIDDEN}",
        ),
    ],
)
@pytest.mark.parametrize("columns", [80, 120])
def test_the_status_says_why_the_lease_cannot_be_read(leadership: dict[str, Any], text: str, columns: int) -> None:
    """A frontend that can never lead looks like a healthy standby."""
    shown = display.as_text(status_command.render(_status(leadership={**leadership, "lastError": FORBIDDEN})), columns)
    assert text in " ".join(line.strip() for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= columns


def _informer(name: str, error: str = "", *, synced: bool = False) -> dict[str, Any]:
    return {"name": name, "state": "listing", "synced": synced, "failures": 8, "lastError": error}


def test_the_status_says_which_caches_are_not_synced_and_why() -> None:
    """A missing permission makes the scheduler wait forever, for nobody knows what."""
    informers = [_informer("pods", synced=True), _informer("nodes"), _informer("a", "no"), _informer("b", "no")]
    report = _status(synced=False, informers=[*informers, _informer("storageclasses", "forbidden")])
    lines = display.as_text(status_command.render(report), 80).splitlines()
    assert [line.strip() for line in lines[1:5]] == [
        "Caches   not synced yet",
        "a, b: no",
        "storageclasses: forbidden",
        "waiting for nodes",
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_status_shows_what_fails_at_readyz_and_then_what_warns(columns: int) -> None:
    """If this fails, only programs that read JSON learn why nothing is scheduled."""
    clock = f"the clock of this host is 42 s behind the API server's ({documents.CLOCKS_THAT_DIFFER})"
    found = [
        {"check": "clock", "text": clock},
        {"check": "filter", "text": "no replica of filter is available", "fails": True},
        {"check": "permissions", "text": "nodes is as it was listed before: forbidden"},
        {"check": "bind", "text": "no replica of bind is available", "fails": True},
    ]
    lines = display.as_text(status_command.render(_status(readinessProblems=found)), columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[1].split(maxsplit=2) == ["Not", "ready", "filter: no replica of filter is available"]
    assert lines[2].strip() == "bind: no replica of bind is available"
    assert " ".join(" ".join(lines[3:7]).split()).startswith(f"Warnings clock: {clock} permissions: nodes is as it was")
    well = display.as_text(status_command.render(_status()), columns)
    assert "Not ready" not in well
    assert "Warnings" not in well


def test_the_status_names_apis_that_are_not_served() -> None:
    """Why a rule has no effect would be in the log of the start alone."""
    absent = [
        {"api": "resource.k8s.io/v1/resourceclaims", "purpose": "dynamic resource allocation"},
        {"api": "scheduling.k8s.io/v1beta1/podgroups", "purpose": "pod groups"},
        {"api": "x/v1/b", "purpose": "dynamic resource allocation"},
    ]
    lines = display.as_text(status_command.render(_status(absentApis=absent)), 120).splitlines()
    assert [line.strip() for line in lines[2:4]] == [
        "Not served  resource.k8s.io/v1/resourceclaims, x/v1/b: no dynamic resource allocation",
        "scheduling.k8s.io/v1beta1/podgroups: no pod groups",
    ]


def test_the_status_does_not_list_every_reason() -> None:
    """Twenty kinds that a role lacks would push the pods off the screen."""
    report = _status(synced=False, informers=[_informer(f"kind{number}", f"no {number}") for number in range(9)])
    shown = display.as_text(status_command.render(report))
    assert "kind4: no 4" in shown
    assert "kind5" not in shown
    assert "… and 4 more that cannot be read" in shown


def test_the_status_names_a_cache_that_cannot_be_read_any_more() -> None:
    """Synced once, the scheduler goes by what was true when its permission was taken away."""
    report = _status(informers=[_informer("pods", synced=True), _informer("nodes", "forbidden", synced=True)])
    lines = display.as_text(status_command.render(report)).splitlines()
    assert [line.strip() for line in lines[1:3]] == ["Caches   synced, but not up to date", "nodes: forbidden"]


def _lookup(endpoint: str, *addresses: str, error: str = "", listed: bool = True) -> dict[str, Any]:
    return {"phase": "filter", "endpoint": endpoint, "addresses": list(addresses), "listed": listed, "lastError": error}


@pytest.mark.parametrize("columns", [80, 120])
def test_the_status_names_endpoints_that_cannot_be_looked_up(columns: int) -> None:
    """They have no replicas, so nothing else shows that they are configured."""
    found = [
        _lookup("dns:///nowhere:7001", error="Name or service not known", listed=False),
        _lookup("dns:///gone:7001", "a", error="Name or service not known"),
        _lookup("endpointslice:///s/empty:grpc"),
        _lookup("endpointslice:///s/new:grpc", listed=False),
        _lookup("dns:///good:7001", "a", "b"),
    ]
    report = _status(endpoints=found)
    shown = display.as_text(status_command.render(report), columns)
    assert max(map(len, shown.splitlines())) <= columns
    if columns < 120:  # rows wrap
        return
    rows = [line.split(maxsplit=2)[1:] for line in shown.splitlines() if line.startswith("filter")]
    assert rows == [
        ["dns:///nowhere:7001", "cannot be looked up: Name or service not known"],
        ["dns:///gone:7001", "cannot be looked up: Name or service not known; 1 address from before"],
        ["endpointslice:///s/empty:grpc", "no addresses"],
        ["endpointslice:///s/new:grpc", "not looked up yet"],
        ["unix:/f", "in step"],
    ]
    assert "2 addresses" in display.as_text(status_command.render(report, True), 160)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_status_names_the_profiles_and_how_they_differ_from_the_default(columns: int) -> None:
    """If this fails, an administrator with two profiles reads ConfigMaps to find out which plugins run."""
    profiles = [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "batch", "addedPlugins": ["Maintenance", "QuotaPermit"], "removedPlugins": ["ImageLocality"],
         "changedPlugins": ["NodeResourcesFit"]},
        {"schedulerName": "spare"},
    ]  # fmt: skip
    lines = display.as_text(status_command.render(_status(profiles=profiles)), columns).splitlines()
    assert max(map(len, lines)) <= columns
    words = " ".join(" ".join(lines).split())
    assert "Profiles default-scheduler, spare: default plugins batch: adds Maintenance, QuotaPermit; removes " in words
    assert "removes ImageLocality; changes NodeResourcesFit" in words


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("columns", [80, 120])
def test_the_status_shows_how_often_child_processes_were_started_again(columns: int, wide: bool) -> None:
    """A filter that runs out of memory each hour looks as if it had always run."""
    ended_at_ms = str(round((clocks.wall() - 630) * 1000))
    own = [
        {"name": "filter-0", "pid": 7, "starts": 4, "address": "unix:/f", "endedAtMs": ended_at_ms, "exitCode": -9},
        {"name": "bind-0", "pid": 8, "starts": 1, "address": "unix:/b"},
    ]
    far = {"phase": "score", "address": "far:7002", "inStep": True}
    report = _status(localPhases=own, replicas=[*_status()["replicas"], far], endpoints=[_lookup("dns:///none:1")])
    lines = display.as_text(status_command.render(report, wide), columns).splitlines()
    assert max(map(len, lines)) <= columns
    cells = {line.split()[1]: line.split()[2:5] for line in lines if line.startswith(("filter ", "bind ", "score "))}
    assert cells["unix:/f"] == ["3", "(10m", "ago)"]
    assert [cells[address][0] for address in ("unix:/b", "far:7002")] == ["0", "-"]
    assert wide or cells["dns:///none:1"][0] == "-"  # where it is not folded
    assert "filter-0 was ended by SIGKILL" in lines
    assert not any(line.startswith("bind-0") for line in lines)
    assert "RESTARTS" not in display.as_text(status_command.render(_status(), wide), columns)


def test_wide_shows_more_of_replicas() -> None:
    """`-o wide` is where kubectl's users look for the rest."""
    shown = display.as_text(status_command.render(_status(), True))
    assert "FULL SYNCS" in shown
    assert "FULL SYNCS" not in display.as_text(status_command.render(_status()))


def test_a_plugins_problem_has_a_line_of_its_own() -> None:
    """In the last of nine columns it would be cut off."""
    problem = "plugin Lonely at 127.0.0.1:9000: extensionPoints: score is not among those that it serves, filter"
    plugin = {
        "name": "Lonely", "address": "127.0.0.1:9000", "version": "", "failurePolicy": "Fail", "breaker": "closed",
        "calls": 1, "failedCalls": 1, "health": "rejected", "problem": problem,
    }  # fmt: skip
    shown = display.as_text(status_command.render(_status(plugins=[plugin])), 80)
    assert problem in " ".join(line.strip() for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= 80


def test_the_problem_of_a_plugin_names_it() -> None:
    """Nobody knows which one of several plugins fails."""
    plugin = {
        "name": "Lonely", "address": "127.0.0.1:9000", "version": "", "failurePolicy": "Fail", "breaker": "open",
        "calls": 9, "failedCalls": 5, "health": "failing", "problem": "Score is not called: broken",
    }  # fmt: skip
    shown = display.as_text(status_command.render(_status(plugins=[plugin])), 100)
    assert shown.splitlines()[-1].strip() == "plugin Lonely: Score is not called: broken"
    assert "FOLLOWS" not in shown


def _plugin(name: str, address: str, **fields: Any) -> dict[str, Any]:
    """A plugin's entry."""
    counts = {"calls": 123_456, "failedCalls": 0, "p99S": 0.0181, "failurePolicy": "Fail", "breaker": "closed"}
    return {"name": name, "address": address, "version": "1.4.2", "health": "ok", "problem": "", **counts, **fields}


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("follow", [False, True], ids=["called", "following"])
def test_plugins_with_a_canary_a_shadow_and_one_that_is_left_out_fit_the_terminal(columns: int, follow: bool) -> None:
    """If this fails, the state of a plugin is cut off where a terminal is narrow."""
    shadow = {"differed": 6, "compared": 60, "failed": 0, "skipped": 0, "refusedNodes": 12}
    plugins = [
        _plugin("Maintenance", "dns:///maintenance.plugins.svc:9000"),
        _plugin(
            "Maintenance/canary",
            "dns:///maintenance-next.plugins.svc:9000",
            version="1.5.0-rc.1",
            canary={"percent": 25, "of": "Maintenance"},
        ),
        _plugin("CarbonAware", "127.0.0.1:39203", version="2026.11-rc1", shadow=shadow),
        _plugin("SlowIndex", "127.0.0.1:39204", breaker="half open", health="over budget", problem="it is left out"),
    ]
    if follow:
        plugins[0]["follows"] = {"generation": 12_345}
    shown = display.as_text(status_command.render(_status(plugins=plugins)), columns)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in shown
    states = [line for line in lines if line.endswith(("  ok", "  over budget"))]
    assert len(states) == len(plugins)
    assert all(any(line.startswith(name) for line in states) for name in ("Maintenance", "CarbonAware", "SlowIndex"))
    assert all(any(plugin["address"] in line for line in lines) for plugin in plugins[:2]) or columns > 80
    assert "answers for 25% of the pods of Maintenance" in shown
    assert "6 of 60 comparisons differ" in shown


def test_the_generation_at_which_plugins_follow_is_shown() -> None:
    """Nobody sees whether a plugin that is called by slot knows the nodes."""
    plugin = {
        "name": "Behind", "address": "127.0.0.1:9000", "version": "", "failurePolicy": "Fail", "breaker": "closed",
        "calls": 9, "failedCalls": 0, "health": "ok", "problem": "",
        "follows": {"inStep": True, "generation": 4711},
    }  # fmt: skip
    other = {**plugin, "name": "Named"}
    del other["follows"]
    shown = display.as_text(status_command.render(_status(plugins=[plugin, other])), 120)
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    assert "FOLLOWS AT" in shown
    assert (rows["Behind"][-2:], rows["Named"][-2:]) == (["4711", "ok"], ["-", "ok"])


def test_explanation_of_a_bound_pod() -> None:
    """It says where and since when, and its history does not end with a deletion."""
    at_ms = str(round(NOW * 1000))
    story = [{"atMs": at_ms, "uid": "u", "to": "gone", "cause": "bound"}]
    own = {"summary": "is bound to node n1", "bound": {"nodeName": "n1", "boundAtMs": at_ms}, "history": story}
    report = {"pod": {"namespace": "ns", "name": "p"}, "nodeName": "n1", "scheduler": own}
    shown = display.as_text(explain_command.render(report))
    assert shown.startswith("ns/p is bound to node n1 ")
    assert "it was bound" in shown
    assert "deleted" not in shown


def test_events_are_named_in_words_most_likely_first() -> None:
    """A user would have to know kube-scheduler's source to read its labels."""
    labels = event_phrases.likely_first(["resource.k8s.io/DeviceClassAdd", "NodeAdd", "AssignedPodDelete"])
    assert labels == ["AssignedPodDelete", "NodeAdd", "resource.k8s.io/DeviceClassAdd"]
    assert event_phrases.events_summary(labels) == "a pod on a node is deleted, a node is added or on 1 rarer event"
    assert event_phrases.events_summary(labels[:1]) == "a pod on a node is deleted"
    assert event_phrases.event_phrase("example.com/WidgetUpdate") == "a Widget changes"
    assert event_phrases.event_phrase("something else") == "something else"


def test_every_label_of_an_event_has_words() -> None:
    """A new kind of event would be shown by its label."""
    for resource in cluster_event.Resource:
        for action in cluster_event.ActionType:
            label = cluster_event.ClusterEvent(resource, action).label
            assert " " in event_phrases.event_phrase(label), label


@pytest.mark.parametrize("output", ["json", "yaml", "text", "wide"])
def test_formats(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read what a format promises."""

    async def ask() -> display.Report:
        return _status()

    options = argparse.Namespace(output=output, watch=False)
    asyncio.run(display.show_report(options, ask, status_command.render))
    printed = capsys.readouterr().out
    if output in ("json", "yaml"):
        assert (json.loads if output == "json" else yaml.safe_load)(printed) == _status()
    else:
        assert "Leader   this scheduler, epoch 7" in printed


def test_watch_prints_again_what_changed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal a watch is a log: nothing new, no line."""
    monkeypatch.setattr(display, "WATCH_SECONDS", 0.0)
    leading = [_status(), _status(), _status(synced=False)]
    leading[1]["leadership"] = {**leading[1]["leadership"], "secondsLeft": 3.0}
    leading[1]["atMs"] = "1000"

    async def ask() -> display.Report:
        if not leading:
            raise KeyboardInterrupt
        return leading.pop(0)

    options = argparse.Namespace(output="text", watch=True)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(display.show_report(options, ask, status_command.render))
    assert capsys.readouterr().out.count("Leader") == 2


class _Asked:
    """Answers with what it was given, one after the other: reports, and errors; then Ctrl-C is pressed."""

    def __init__(self, *answers: display.Report | Exception) -> None:
        self._answers = list(answers)

    async def __call__(self) -> display.Report:
        answer = self._answers.pop(0) if self._answers else KeyboardInterrupt()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _lost() -> Exception:
    return frontend_connection.ReportUnavailableNow("no scheduler listens")


def test_what_insight_is_sent_is_no_change() -> None:
    """Its replica is sent each report: `--watch -o json` would print one every time."""

    def report(sent: str, phase: str = "insight") -> dict[str, Any]:
        return {"leadership": {}, "replicas": [{"phase": phase, "sentBytes": sent}]}

    assert display._without_passing_time(report("1")) == display._without_passing_time(report("2"))
    assert display._without_passing_time(report("1")) != display._without_passing_time(report("1", "filter"))


def test_a_check_of_waiting_pods_is_no_change() -> None:
    """`--watch -o json` would print a report twice a minute."""
    reports = [_status(wakeUpCheck={"checkedAtMs": at, "groups": 1}) for at in ("1", "2")]
    assert display._without_passing_time(reports[0]) == display._without_passing_time(reports[1])


def test_a_watch_outlives_the_frontend(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What one leaves open for an upgrade would end at the first change of the leader."""
    monkeypatch.setattr(display, "WATCH_SECONDS", 0.0)
    options = argparse.Namespace(output="text", watch=True)
    ask = _Asked(_status(), _lost(), _lost(), _status(), _status(synced=False), _lost())
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(display.show_report(options, ask, status_command.render))
    shown = capsys.readouterr()
    assert shown.out.count("Leader") == 2
    assert shown.err == "what is above is not renewed, and asked for again: no scheduler listens\n" * 2


def test_a_watch_on_a_terminal_shows_how_old_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state before an outage would pass for the present one."""
    moments = iter([100.0, 112.4])
    monkeypatch.setattr(display, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(display.clocks, "steady", lambda: next(moments))
    shown = io.StringIO()
    out = console.Console(file=shown, force_terminal=True, width=120, no_color=True)
    monkeypatch.setattr(display, "terminal", lambda: out)
    options = argparse.Namespace(output="text", watch=True)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(display.show_report(options, _Asked(_status(), _lost()), status_command.render))
    last = shown.getvalue().rpartition("Leader")[2]
    assert "This is 12 s old, and asked for again: no scheduler listens" in last


@pytest.mark.parametrize(
    "answers", [[_lost()], [_status(), frontend_connection.ReportUnavailable("no pod of this name")]]
)
def test_a_watch_ends_where_asking_again_is_of_no_use(
    answers: list[display.Report | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong --socket, or a pod that is deleted, would be polled forever."""
    monkeypatch.setattr(display, "WATCH_SECONDS", 0.0)
    options = argparse.Namespace(output="text", watch=True)
    with pytest.raises(frontend_connection.ReportUnavailable):
        asyncio.run(display.show_report(options, _Asked(*answers), status_command.render))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script is for the command that it completes."""
    assert main.main(["completion", shell]) == 0
    assert "trireme" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """A bug report begins with it; no scheduler need run."""
    assert main.main(["version", "--client", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["client"]["kubernetes"] == "v1.38.0-beta.0"
    shown = display.as_text(version_command.render({"client": {"trireme": "1", "kubernetes": "v2", "python": "3"}}))
    assert shown == "Client  Trireme 1, as kube-scheduler v2, on Python 3"
