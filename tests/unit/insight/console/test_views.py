"""The console's views: documents, what a query may say, and names that a reader may not list."""

import json
from typing import Any

import pytest

from tests.helpers import console_states
from tests.helpers.console_states import T0, queued, transition
from trireme.insight import request_errors
from trireme.insight.console import console_state, views
from trireme.insight.console.documents import SOME_NODE, SOME_POD, Sight
from trireme.v1 import snapshot_pb2

ALL, NOTHING = Sight(True, True), Sight(False, False, lambda text: text.replace("n1", SOME_NODE))


def busy() -> console_state.ConsoleState:
    """A cluster where pods wait, and one was preempted."""
    state = console_states.console()
    moves = [
        transition(T0, "unschedulable", "UnscheduledPodAdd, gated by SchedulingGates"),
        transition(T0 + 2, "active", "TargetPodUpdatePodSchedulingGatesEliminated"),
        transition(T0 + 5, "unschedulable", "node n1 changed"),
    ]
    state.apply_queue(
        snapshot_pb2.QueueDelta(
            reset=True, pods=[queued("large", "NodeResourcesFit", transitions=moves, pod_group="gang"), queued("small")]
        )
    )
    replica = {"phase": "filter", "address": "10.0.0.7:7001", "in_step": True}
    plugin = {"name": "quota", "address": "10.0.0.8:9000", "breaker": "open", "health": "failing"}
    for second in range(3):
        state.history.take(
            console_states.status(
                second,
                bound=second * 4,
                latencies=(second * 4, 0, 0),
                replicas=[replica],
                plugins=[plugin],
                preemptions=[console_states.preemption(1)],
            )
        )
    return state


def document(state: console_state.ConsoleState, path: str, sight: Sight = ALL, **query: str) -> Any:
    found = views.find(path)
    assert found is not None
    arguments = found.view.arguments({name: [value] for name, value in query.items()})
    made = found.document(state, sight, arguments)
    # As the reader gets it.
    return json.loads(json.dumps(made))


def test_the_overview_has_rates_latencies_and_the_queue() -> None:
    """The first page that an operator sees would be empty."""
    found = document(busy(), "/v1/overview")
    assert found["cluster"] == {"nodes": 3, "pods": 1, "queued": 2, "generation": found["cluster"]["generation"]}
    assert (found["bound"], found["series"]["bound"]) == ({"total": 8, "perSecond": 4.0}, [4.0, 4.0])
    assert found["podLatency"] == {"count": 8, "p50Seconds": 0.05, "p99Seconds": 0.099}
    assert (found["replicas"], found["plugins"]) == ({"total": 1, "inStep": 1}, {"total": 1, "ok": 0})
    later = document(busy(), "/v1/overview", after=str(T0 + 1000))
    assert later["series"]["atMs"] == [T0 + 2000]


def test_the_overview_says_that_recording_fails() -> None:
    """Everything would seem well, and what led to the next incident would not be recorded."""
    state = busy()
    assert document(state, "/v1/overview")["recordingFailure"] is None
    state.recording_failure = lambda: console_state.RecordingFailure(T0, "No space left on device: '/data/n1'")
    found = document(state, "/v1/overview")["recordingFailure"]
    assert found == {"sinceMs": T0, "error": "No space left on device: '/data/n1'"}
    assert document(state, "/v1/overview", NOTHING)["recordingFailure"] == {"sinceMs": T0, "error": ""}


def test_pods_are_found_by_reason_and_by_name() -> None:
    """One would know that two pods wait, and not which."""
    state = busy()
    reasons = document(state, "/v1/pending")["reasons"]
    assert [(reason["plugins"], reason["pods"], reason["example"]["name"]) for reason in reasons] == [
        ([], 1, "small"),
        (["NodeResourcesFit"], 1, "large"),
    ]
    pods = document(state, "/v1/pending/pods", reason=reasons[1]["id"])
    assert [(pod["name"], pod["sinceMs"], pod["podGroup"]) for pod in pods["pods"]] == [("large", T0, "gang")]
    assert document(state, "/v1/pending/pods", reason=reasons[1]["id"], offset="1") == {"total": 1, "pods": []}
    found = document(state, "/v1/pods", text="default/")["pods"]
    assert {pod["name"]: pod["state"] for pod in found} == {
        "large": "unschedulable",
        "small": "unschedulable",
        "pod-0": "on a node",
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pod", ["pod-0"]),
        ("default/pod", ["pod-0"]),
        ("ault/", ["pod-0"]),
        ("default/od", []),
        ("other/pod", []),
        ("def", ["pod-0"]),
    ],
)
def test_a_search_is_for_a_part_of_namespace_and_name(text: str, names: list[str]) -> None:
    """A pod would not be found by the name as kubectl prints it."""
    found = document(console_states.console(), "/v1/pods", text=text)["pods"]
    assert [pod["name"] for pod in found] == names


def test_nodes_are_columns_and_later_only_what_changed() -> None:
    """5,000 nodes would be sent again every two seconds."""
    state = console_states.console()
    whole = document(state, "/v1/nodes")
    assert (whole["name"], whole["value"]) == (["n0", "n1", "n2"], ["zone-0", "zone-1", "zone-0"])
    cpu = next(each for each in whole["resources"] if each["name"] == "cpu")
    assert (cpu["allocatable"], cpu["requested"]) == ([4000] * 3, [1000, 0, 0])
    assert "topology.kubernetes.io/zone" in whole["labelKeys"]
    snap = state.cluster.snap
    before = {"after": str(snap.generation), "incarnation": str(snap.incarnation)}
    snap.apply(
        snapshot_pb2.Delta(
            from_generation=snap.generation,
            to_generation=snap.generation + 1,
            removed_slots=[2],
            pods=snapshot_pb2.PodColumns(
                row=[9], pod_class=[1], slot=[1], uid=["u9"], name=["more"], start_time_s=[0], flags=[0]
            ),
        )
    )
    changed = document(state, "/v1/nodes", **before)
    assert (changed["whole"], changed["name"], changed["podCount"], changed["gone"]) == (False, ["n1"], [1], [2])
    of_another = document(state, "/v1/nodes", **(before | {"incarnation": "12345"}))
    assert (of_another["whole"], of_another["name"]) == (True, ["n0", "n1"])


def test_a_node_has_its_pods_and_resources() -> None:
    """The page of a node would not say what is on it."""
    found = document(console_states.console(), "/v1/nodes/n0")
    assert [(pod["namespace"], pod["name"], pod["cpu"]) for pod in found["pods"]] == [("default", "pod-0", 1000)]
    assert {each["name"]: each["requested"] for each in found["resources"]}["cpu"] == 1000
    assert document(console_states.console(), "/v1/nodes/n9") is None


def test_groups_count_what_waits_though_their_object_is_missing() -> None:
    """Members that wait for a group that nobody made would be in no list."""
    (group,) = document(busy(), "/v1/groups")["groups"]
    assert (group["name"], group["exists"], group["queued"], group["placed"]) == (
        "gang",
        False,
        {"unschedulable": 1},
        0,
    )


def test_groups_have_their_minimum_and_what_is_placed() -> None:
    """Whether a gang is complete could not be seen."""
    state = console_states.console()
    snap = state.cluster.snap
    delta = snapshot_pb2.Delta(from_generation=snap.generation, to_generation=snap.generation + 1)
    group = delta.objects.add().pod_group
    group.metadata.namespace, group.metadata.name = "default", "gang"
    group.spec.scheduling_policy.gang.min_count = 3
    member = delta.classes.add(id=5)
    member.pod.metadata.namespace = "default"
    member.pod.spec.scheduling_group.pod_group_name = "gang"
    delta.pods.MergeFrom(
        snapshot_pb2.PodColumns(
            row=[7, 8],
            pod_class=[5, 5],
            slot=[0, 1],
            uid=["a", "b"],
            name=["m-0", "m-1"],
            start_time_s=[0, 0],
            flags=[0, 0],
        )
    )
    snap.apply(delta)
    (found,) = document(state, "/v1/groups")["groups"]
    assert (found["policy"], found["needs"], found["placed"], found["exists"]) == ("gang", 3, 2, True)


def test_replicas_plugins_and_preemptions_are_shown() -> None:
    """An open breaker would be found in logs alone."""
    state = busy()
    found = document(state, "/v1/components")
    assert [(replica["phase"], replica["inStep"]) for replica in found["replicas"]] == [("filter", True)]
    assert [(plugin["name"], plugin["breaker"], plugin["p99Seconds"]) for plugin in found["plugins"]] == [
        ("quota", "open", None)
    ]
    (record,) = document(state, "/v1/preemptions")["preemptions"]
    assert (record["preemptor"], record["node"], record["victims"]) == (
        "default/vip",
        "n1",
        [{"pod": "default/victim-1", "node": "n1"}],
    )


def test_a_timeline_has_each_change_and_the_node() -> None:
    """The page of a pod would not say what happened to it."""
    state = busy()
    path = "/v1/namespaces/default/pods/{}/timeline"
    found = document(state, path.format("large"))
    assert [tuple(entry.values()) for entry in found["entries"]] == [
        (T0, "gated", "it came into the queue, gated by SchedulingGates"),
        (T0 + 2, "active", "this pod's scheduling gates are removed"),
        (T0 + 5, "unschedulable", "node n1 changed"),
    ]
    assert (found["known"], found["node"], found["leftQueueAtMs"]) == (True, None, None)
    placed = document(state, path.format("pod-0"))
    assert (placed["known"], placed["node"], placed["entries"]) == (False, "n0", [])


@pytest.mark.parametrize(
    "path",
    [view.path.format(namespace="default", name="large") for view in views.VIEWS if not (view.nodes or view.pods)],
)
def test_a_reader_who_may_list_nothing_sees_no_names(path: str) -> None:
    """Names of everybody's pods and nodes would be shown to anybody with a token."""
    text = json.dumps(document(busy(), path, NOTHING))
    names = ("n0", "n1", "vip", "victim-1", "small", "10.0.0", '"me"', *(() if "large" in path else ("large",)))
    assert [name for name in names if name in text] == []
    if path == "/v1/preemptions":
        assert SOME_POD in text


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        pytest.param(
            "/v1/overview", {"after": ["-1"]}, "after: the value in the query is no whole number", id="negative"
        ),
        pytest.param("/v1/overview", {"after": ["1", "2"]}, "after: the query has it more than once", id="twice"),
        pytest.param("/v1/overview", {"since": ["1"]}, "unknown name; known are after", id="unknown"),
        pytest.param("/v1/pending", {"x": [""]}, "known is pretty", id="none known"),
        pytest.param("/v1/pending/pods", {"limit": ["1001"]}, "limit: the value in the query is no", id="too many"),
        pytest.param(
            "/v1/nodes", {"label": ["x" * 500]}, "label: the value in the query is no printable", id="too long"
        ),
        pytest.param("/v1/pods", {"text": ["a\x00"]}, "text: the value in the query is no printable", id="unprintable"),
    ],
)
def test_a_query_that_says_nothing_known_is_refused(path: str, query: dict[str, list[str]], text: str) -> None:
    """A misspelt name would be passed over, and the answer be one to another question."""
    found = views.find(path)
    assert found is not None
    with pytest.raises(request_errors.BadRequest, match=text):
        found.view.arguments(query)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes/",
        "/v1/nodes/..",
        "/v1/nodes/%2e%2e",
        "/v1/nodes/N1",
        "/v1/nodes/a/b",
        "/v1/unknown",
        "/v1",
        "//v1/nodes",
    ],
)
def test_other_paths_are_no_views(path: str) -> None:
    """A path has one spelling, so that what it names is what rights are checked for."""
    assert views.find(path) is None


def test_a_tag_changes_with_the_facts_and_with_the_reader() -> None:
    """A reader would be told that nothing changed, or share what another one may see."""
    state = busy()
    found = views.find("/v1/pending")
    assert found is not None
    tag = found.etag(state, ALL, {})
    assert tag == found.etag(state, ALL, {})
    assert tag != found.etag(state, NOTHING, {})
    state.apply_queue(snapshot_pb2.QueueDelta(pods=[queued("more", "Fit")]))
    assert tag != found.etag(state, ALL, {})
    assert views.find("/v1/pending/pods").etag(state, ALL, {"offset": 0}) != (  # type: ignore[union-attr]
        views.find("/v1/pending/pods").etag(state, ALL, {"offset": 1})  # type: ignore[union-attr]
    )
