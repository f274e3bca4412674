"""Extenders: who is asked about what and in which order, and what becomes of the answers."""

import asyncio
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import orjson
import pytest

from trireme.cache import class_registry, cluster_cache
from trireme.config import scheduler_configuration
from trireme.extenders import extender_wire, extenders
from trireme.framework import status
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer

Json = dict[str, Any]
ALL = ("n0", "n1", "n2", "n3")
FULL = status.unschedulable("NodeResourcesFit", "Insufficient cpu")


class Fake:
    """An extender that answers by verb; an exception is a failure."""

    def __init__(self, asked: list[tuple[str, str, Json]], name: str, answers: Mapping[str, Callable[[Json], Any]]):
        self._asked, self._name, self._answers = asked, name, answers

    async def send(self, verb: str, body: bytes) -> Any:
        value = orjson.loads(body)
        self._asked.append((self._name, verb, value))
        await asyncio.sleep(0)
        return self._answers[verb](value)


GONE = "gone"


class Objects:
    """Every pod and node there is, whole."""

    def pod(self, uid: str, node_name: str = "") -> bytes | None:
        if uid == GONE:
            return None
        return orjson.dumps({"metadata": {"uid": uid}, "spec": {"nodeName": node_name}})

    def node(self, name: str) -> bytes | None:
        return orjson.dumps({"metadata": {"name": name}})


class World:
    """A cluster of ALL nodes, whose last one filter refuses, and a pod of class `self.number`."""

    def __init__(
        self, *configured: tuple[scheduler_configuration.Extender, Mapping[str, Callable[[Json], Any]]]
    ) -> None:
        registry = class_registry.ClassRegistry()
        self.cache = cluster_cache.ClusterCache(registry)
        for name in ALL:
            self.cache.set_node(core_pb2.Node(metadata={"name": name}))
        self.cache.take_delta()
        spec = {"containers": [{"name": "c", "resources": {"limits": {"a.io/b": {"string": "1"}}}}]}
        base = registry.intern_base(core_pb2.Pod(metadata={"namespace": "ns"}, spec=spec).SerializeToString())
        self.base, self.number = base, registry.intern(base, ())
        self.asked: list[tuple[str, str, Json]] = []
        self.extenders = extenders.Extenders(
            [(config, Fake(self.asked, config.url_prefix, answers)) for config, answers in configured],
            registry,
            self.cache,
            Objects(),
        )

    async def filter_and_prioritize(self, promised: str = "") -> tuple[FilterAnswer, list[int]]:
        index = np.array([0, 0, 0, 1], dtype=np.int16)
        capacity = np.array([5, 5, 5, 0], dtype=np.int32)
        self.columns = node_columns.NodeColumns.complete(self.cache.generation, (FULL,), index, capacity)
        filtered = FilterAnswer(columns=self.columns)
        slot = self.cache.slot_of(promised)
        narrowed, scores = await self.extenders.filter_and_prioritize("me", self.number, filtered, slot)
        return narrowed, list(scores)

    def verbs(self) -> list[tuple[str, str]]:
        return [(name, verb) for name, verb, _ in self.asked]


def _extender(name: str, *verbs: str, **settings: Any) -> scheduler_configuration.Extender:
    named = {f"{verb}_verb": verb for verb in verbs}
    return scheduler_configuration.Extender(url_prefix=name, node_cache_capable=True, **named, **settings)


def _keeping(*names: str, **failed: str) -> Callable[[Json], Any]:
    return lambda body: {"NodeNames": [name for name in body["NodeNames"] if name in names], "FailedNodes": failed}


def _reasons(filtered: FilterAnswer) -> dict[str, tuple[str, str]]:
    """By node why it is refused: plugin and message."""
    said = [None, *filtered.columns.statuses]
    entries = ((name, said[number]) for name, number in zip(ALL, filtered.columns.index.tolist(), strict=True))
    return {name: (entry.plugin, entry.message) for name, entry in entries if entry is not None}


def _fail(body: Json) -> Any:
    raise extenders.ExtenderError("down")


async def test_each_sees_what_those_before_it_left_and_ignorable_ones_come_last() -> None:
    """The order decides what an extender is asked about; a node that is refused without a word is refused for good."""
    world = World(
        (_extender("late", "filter", ignorable=True), {"filter": _keeping("n1")}),
        (_extender("first", "filter"), {"filter": _keeping("n0", "n1", n2="too old")}),
    )
    filtered, scores = await world.filter_and_prioritize()
    assert [(name, body["NodeNames"]) for name, _, body in world.asked] == [
        ("first", ["n0", "n1", "n2"]),
        ("late", ["n0", "n1"]),
    ]
    assert scores == []
    assert _reasons(filtered) == {
        "n0": (extenders.NAME, ""),
        "n2": (extenders.NAME, "too old"),
        "n3": ("NodeResourcesFit", "Insufficient cpu"),
    }
    assert filtered.columns.capacity.tolist() == [0, 5, 0, 0]
    # It is about this pod: the class's own answer stays.
    assert world.columns.capacity.tolist() == [5, 5, 5, 0]


async def test_an_extender_replaces_the_reason_of_a_refused_node_only() -> None:
    """The plugin that refused it first still decides which events wake the pod; unresolvable wins over failed."""
    answer = {"NodeNames": ["n0"], "FailedNodes": {"n3": "a", "n1": "b"}, "FailedAndUnresolvableNodes": {"n3": "c"}}
    world = World((_extender("one", "filter"), {"filter": lambda body: answer}))
    filtered, _ = await world.filter_and_prioritize()
    codes = {entry.message: entry.code for entry in filtered.columns.statuses}
    assert _reasons(filtered)["n3"] == ("NodeResourcesFit", "c")
    assert codes["c"] is status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert codes["b"] is status.Code.UNSCHEDULABLE


async def test_a_failure_is_ignored_or_ends_the_attempt() -> None:
    """One that may be ignored is as if it were not there; any other's error is the pod's."""
    ignored = World((_extender("one", "filter", "prioritize", ignorable=True), {"filter": _fail, "prioritize": _fail}))
    filtered, scores = await ignored.filter_and_prioritize()
    assert filtered.columns.feasible_count == 3
    assert scores == [0, 0, 0, 0]
    world = World((_extender("one", "filter"), {"filter": _fail}))
    with pytest.raises(extenders.ExtenderError, match="down"):
        await world.filter_and_prioritize()


async def test_scores_are_weighed_and_added_up() -> None:
    """Up to 10 becomes up to 100, times the weight; who fails adds nothing, strangers count for nothing."""
    world = World(
        (_extender("a", "prioritize", weight=2), {"prioritize": lambda body: [{"Host": "n1", "Score": 3}]}),
        (_extender("b", "prioritize", weight=1), {"prioritize": _fail}),
        (
            _extender("c", "prioritize", weight=1),
            {"prioritize": lambda body: [{"Host": "n1", "Score": 1}, {"Host": "n2", "Score": -4}, {"Host": "x"}]},
        ),
    )
    _, scores = await world.filter_and_prioritize()
    # What counts is the difference: n2's −40 is the lowest, so all are 40 higher.
    assert scores == [40, 110, 0, 0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"n0": 1 << 40, "n1": 1 << 42}, ["n1", "n0", "n2"], id="enormous"),
        pytest.param({"n0": 1 << 42, "n1": (1 << 42) + 2, "n2": -(1 << 50)}, ["n1", "n0", "n2"], id="far apart"),
        # Ten times as much is beyond the largest number: it goes on at the smallest.
        pytest.param({"n0": (1 << 63) - 1, "n1": 1}, ["n1", "n2", "n0"], id="too much"),
    ],
)
async def test_enormous_scores_decide_as_in_kube_scheduler(given: dict[str, int], expected: list[str]) -> None:
    """The order of the nodes is the one of Go's sums, and the numbers are such that plugins' scores can be added."""
    answer = [{"Host": name, "Score": score} for name, score in given.items()]
    world = World((_extender("a", "prioritize", weight=1), {"prioritize": lambda body: answer}))
    _, scores = await world.filter_and_prioritize()
    by_name = dict(zip(ALL, scores, strict=True))
    assert all(by_name[better] > by_name[worse] for better, worse in itertools.pairwise(expected))
    assert max(scores) <= 1 << 40


async def test_an_empty_reason_is_a_reason() -> None:
    """kube-scheduler counts the nodes that fail for it, so that its message has them."""
    world = World((_extender("one", "filter"), {"filter": lambda body: {"NodeNames": [], "FailedNodes": {"n0": ""}}}))
    filtered, _ = await world.filter_and_prioritize()
    told = {entry.messages: entry.code for entry in filtered.columns.statuses if entry.plugin == extenders.NAME}
    assert told == {(): status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("",): status.Code.UNSCHEDULABLE}


async def test_extenders_filter_the_nominated_node_first() -> None:
    """If it passes nobody else is looked at; if not, or if that fails, it goes on as without a promise."""
    world = World((_extender("one", "filter", "prioritize", weight=1), {"filter": _keeping("n1"), "prioritize": _fail}))
    filtered, _ = await world.filter_and_prioritize(promised="n1")
    assert [body["NodeNames"] for _, _, body in world.asked] == [["n1"]]
    assert filtered.columns.feasible_count == 3
    world.asked.clear()
    filtered, _ = await world.filter_and_prioritize(promised="n2")
    assert [body["NodeNames"] for _, _, body in world.asked] == [["n2"], ["n0", "n1", "n2"]]
    assert filtered.columns.feasible_count == 1


@pytest.mark.parametrize(
    ("resources", "interested"),
    [((), True), (("a.io/b",), True), (("a.io/other",), False), (("a.io/other", "a.io/b"), True)],
)
async def test_an_extender_gets_only_pods_that_request_its_resources(
    resources: tuple[str, ...], interested: bool
) -> None:
    """Without managed resources every pod is; a limit counts as a request does."""
    managed = tuple(scheduler_configuration.ManagedResource(name) for name in resources)
    world = World((_extender("one", "filter", "bind", managed_resources=managed), {"filter": _keeping(*ALL)}))
    await world.filter_and_prioritize()
    assert bool(world.asked) is interested
    assert world.extenders.schedules_one_by_one(world.number) is interested
    assert world.extenders.has_binder_for(world.number) is interested


async def test_an_extender_that_only_binds_does_not_split_batches() -> None:
    """Pods that an extender only binds are placed together like any others."""
    world = World((_extender("one", "bind", "preempt"), {}))
    assert not world.extenders.schedules_one_by_one(world.number)
    filtered, scores = await world.filter_and_prioritize()
    assert filtered.columns is world.columns
    assert scores == []


async def test_the_first_that_binds_binds_and_an_ignorable_failure_leaves_it_to_the_next() -> None:
    """Nobody binds twice; where all that may be ignored failed, the Bind plugins do it."""
    item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(namespace="ns", name="p", uid="u"), node_name="n1")
    ok: Mapping[str, Callable[[Json], Any]] = {"bind": lambda body: {}}
    refusing: Mapping[str, Callable[[Json], Any]] = {"bind": lambda body: {"Error": "no"}}
    world = World((_extender("c", "bind", ignorable=True), ok), (_extender("b", "bind", ignorable=True), refusing))
    assert await world.extenders.bind(world.number, item) == status.SUCCESS
    assert world.asked == [("c", "bind", {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n1"})]
    only = World((_extender("b", "bind", ignorable=True), refusing))
    assert await only.extenders.bind(only.number, item) is None
    strict = World((_extender("b", "bind"), refusing))
    failed = status.error("", "no", reasons=(status.Reason("extenderFailed"),))
    assert await strict.extenders.bind(strict.number, item) == failed


def _candidates(**nodes: tuple[str, ...]) -> list[filter_phase_pb2.PreemptionCandidate]:
    out = []
    for node, uids in nodes.items():
        victims = [cycle_pb2.PodIdentity(namespace="ns", name=uid, uid=uid) for uid in uids]
        out.append(filter_phase_pb2.PreemptionCandidate(node_name=node, victims=victims, violations=1))
    return out


_PREEMPT_CASES = [
    pytest.param({"n0": {"Pods": [{"UID": "a"}], "NumPDBViolations": 4}}, {"n0": (["a"], 4)}, "", id="fewer"),
    pytest.param({}, {}, "", id="none"),
    pytest.param(None, {}, "", id="null"),
    pytest.param({"n1": {"Pods": [{"UID": "c"}]}}, {"n1": (["c"], 0)}, "", id="another victim that is there"),
    pytest.param(
        {"n0": {"Pods": [{"UID": "c"}]}},
        None,
        "extender: one claims to preempt pod (UID: &{c}) on node: n0, but the pod is not found on that node",
        id="not there",
    ),
    pytest.param(
        {"nowhere": {"Pods": [{"UID": "a"}]}}, None, 'nodeinfo not found for node name "nowhere"', id="no such node"
    ),
    pytest.param({"n0": {"Pods": []}}, None, 'expected at least one victim pod on node "n0"', id="nobody"),
]


@pytest.mark.parametrize(("answer", "expected", "error"), _PREEMPT_CASES)
async def test_candidates_are_trimmed(answer: Any, expected: Any, error: str) -> None:
    """Only pods on the node can be evicted from it; naming others is an error, and no pod is evicted."""
    world = World((_extender("one", "preempt"), {"preempt": lambda body: {"nodeNameToMetaVictims": answer}}))
    for uid, node in (("a", "n0"), ("b", "n0"), ("c", "n1")):
        world.cache.assume(f"ns/{uid}", uid, node, world.base, (), world.number)
    trim = world.extenders.candidate_trimmer("me", world.number)
    assert trim is not None
    asking = trim(_candidates(n0=("a", "b")))
    if error:
        with pytest.raises(extenders.ExtenderError) as caught:
            await asking
        assert str(caught.value) == error
        return
    left = await asking
    found = {each.node_name: ([pod.uid for pod in each.victims], each.violations) for each in left}
    assert found == expected
    body = world.asked[0][2]
    assert body["NodeNameToMetaVictims"] == {"n0": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}}
    assert body["NodeNameToVictims"] is None


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        pytest.param([], ["a"], {"n0": ["a"]}, id="the second adds one"),
        pytest.param(["a"], ["a"], {"n0": ["a"]}, id="the first adds one"),
        pytest.param([], [], {}, id="nobody adds any"),
    ],
)
async def test_a_candidate_without_victims_is_there_for_extenders_to_add_some(
    first: list[str], second: list[str], left: dict[str, list[str]]
) -> None:
    """kubernetes/kubernetes#135486: a pod that only lacks what an extender manages could not preempt."""

    def answering(uids: list[str]) -> Mapping[str, Callable[[Json], Any]]:
        victims = {"n0": {"Pods": [{"UID": uid} for uid in uids]}}
        return {"preempt": lambda body: {"NodeNameToMetaVictims": victims}}

    world = World((_extender("one", "preempt"), answering(first)), (_extender("two", "preempt"), answering(second)))
    world.cache.assume("ns/a", "a", "n0", world.base, (), world.number)
    trim = world.extenders.candidate_trimmer("me", world.number)
    assert trim is not None
    found = await trim(_candidates(n0=()))
    assert {each.node_name: [pod.uid for pod in each.victims] for each in found} == left


async def test_a_deleted_victim_is_not_sent_to_extenders() -> None:
    """An extender that gets null for a pod would fall over it; the other candidates stay candidates."""
    extender = dataclasses.replace(_extender("one", "preempt"), node_cache_capable=False)
    world = World((extender, {"preempt": lambda body: {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "c"}]}}}}))
    for uid, node in (("a", "n0"), ("c", "n1")):
        world.cache.assume(f"ns/{uid}", uid, node, world.base, (), world.number)
    trim = world.extenders.candidate_trimmer("me", world.number)
    assert trim is not None
    left = await trim(_candidates(n0=("a", GONE), n1=("c",)))
    assert [each.node_name for each in left] == ["n1"]
    assert list(world.asked[0][2]["NodeNameToVictims"]) == ["n1"]
    assert not await trim(_candidates(n0=("a", GONE)))
    assert len(world.asked) == 1


async def test_a_victim_may_be_deleted_between_two_extenders() -> None:
    """It was there when it was named, and deleting who is gone does no harm; the scheduler goes on."""
    named = {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "b"}]}}}

    def late(body: Json) -> Any:
        world.cache.forget("b")
        raise extenders.ExtenderError("down")

    world = World(
        (_extender("one", "preempt"), {"preempt": lambda body: named}),
        (_extender("two", "preempt", ignorable=True), {"preempt": late}),
    )
    world.cache.assume("ns/b", "b", "n0", world.base, (), world.number)
    trim = world.extenders.candidate_trimmer("me", world.number)
    assert trim is not None
    left = await trim(_candidates(n0=("a",)))
    assert [pod.uid for pod in left[0].victims] == ["b"]


@pytest.mark.parametrize(
    ("failed", "longest"),
    [
        pytest.param({"n0": "x" * 3_000_000}, 16 << 10, id="one long text"),
        pytest.param({f"n{n}": "y" * 1000 for n in range(5000)}, 256, id="very many texts"),
        pytest.param({f"n{n}": "z" * 200 for n in range(5000)}, 200, id="many texts"),
    ],
)
def test_long_extender_messages_are_truncated(failed: dict[str, str], longest: int) -> None:
    """It travels with the answer to filter, and into the pod's condition with many others': no call may burst of it."""
    said = extender_wire.decode_filter_result({"FailedNodes": failed, "FailedAndUnresolvableNodes": failed}, True)
    for texts in (said.failed, said.unresolvable):
        assert {len(text) for text in texts.values()} == {longest}
    assert len(str(extenders.ExtenderError("x" * 3_000_000))) == 16 << 10


_VICTIMS = "json: cannot unmarshal number into Go struct field MetaVictims.NodeNameToMetaVictims"
_METADATA = "Nodes.items.metadata"


@pytest.mark.parametrize(
    ("read", "answer", "text"),
    [
        pytest.param(
            extender_wire.decode_preemption_result,
            {"NodeNameToMetaVictims": {"n0": {"Pods": 5}}},
            f"{_VICTIMS}.Pods of type []*v1.MetaPod",
            id="no list of victims",
        ),
        pytest.param(
            extender_wire.decode_preemption_result,
            {"NodeNameToMetaVictims": {"n0": {"Pods": [5]}}},
            f"{_VICTIMS}.Pods of type v1.MetaPod",
            id="no victim",
        ),
        pytest.param(
            lambda answer: extender_wire.decode_filter_result(answer, False),
            {"Nodes": {"items": [{"metadata": {"name": 5}}]}},
            f"json: cannot unmarshal number into Go struct field ObjectMeta.{_METADATA}.name of type string",
            id="no name",
        ),
    ],
)
def test_a_wrong_type_in_a_response_is_reported_with_its_path(
    read: Callable[[Json], Any], answer: Json, text: str
) -> None:
    """In the words of kube-scheduler, which say where to look."""
    with pytest.raises(extenders.ExtenderError) as caught:
        read(answer)
    assert str(caught.value) == text


def test_an_extender_without_a_node_cache_gets_objects() -> None:
    """Bodies are joined from bytes; what comes out must be JSON with all the keys that Go's structs have."""
    body = orjson.loads(extender_wire.nodes_body(b'{"x":1}', (), [b'{"a":1}', b'{"b":2}']))
    assert body == {"Pod": {"x": 1}, "Nodes": {"metadata": {}, "items": [{"a": 1}, {"b": 2}]}, "NodeNames": None}
    victims = {"n": extender_wire.Victims(("u",), 2)}
    body = orjson.loads(extender_wire.preemption_body(b"{}", victims, {"u": b'{"u":1}'}))
    assert body == {
        "Pod": {},
        "NodeNameToVictims": {"n": {"Pods": [{"u": 1}], "NumPDBViolations": 2}},
        "NodeNameToMetaVictims": None,
    }
