"""What a cycle does with the pods of batches: who is tried, and how far places hold that were found in turn."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.helpers.metric_values import counts
from tests.helpers.pod_group_builders import PROFILE
from tests.helpers.pod_group_cluster import T0, Cluster
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import queued_pod, scheduling_queue
from trireme.queueing.pod_info import PodInfo
from trireme.scheduling import batch_limit, batches_in_turn, ports, scheduling_cycle
from trireme.scheduling.failure import Failure
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

BROKEN = status.error("Plugin", "broken")


class Batches(Cluster):
    """A cluster whose cycle takes pods without a group; no place is known by speculation, and nothing preempts."""

    def __init__(self, rooms: Sequence[int]) -> None:
        super().__init__(rooms)
        self.in_turn = batches_in_turn.BatchesInTurn(self.cache, {PROFILE})
        self.noted: list[tuple[int, int]] = []
        #: The places of the class, in place of those that there are: how many, or why there are none.
        self.answers: dict[str, int | status.Status] = {}
        #: What happens when places have been found, and nothing has been taken from the queue.
        self.then: Callable[[], object] = lambda: None
        self.reports = Reports(self)
        self.now = T0
        fakes: Any = self
        in_turn: Any = self.in_turn
        in_turn.note_placed = lambda tried, placed: self.noted.append((tried, placed))
        reports: Any = self.reports
        self.run_cycle = scheduling_cycle.SchedulingCycle(
            cache=self.cache,
            queue=self.queue,
            attempts=self.attempts,
            speculations=fakes,
            post_filters=reports,
            reporter=reports,
            observer=self.metrics,
            now=lambda: self.now,
            binding=reports,
            in_turn=self.in_turn,
        )

    def pod(self, name: str, kind: str, at: float = 0.0, priority: int = 0, **spec: Any) -> None:
        """A pod without a group comes; those of one kind are of one class."""
        self.add(name, "", kind, priority, T0 + at, schedulingGroup={}, **spec)

    def record(self, name: str) -> PodInfo:
        known = self.queue.contents.get(f"ns/{name}")
        assert isinstance(known, queued_pod.QueuedPodInfo)
        return known.record

    def change(self, name: str, class_id: int | None = None, **fields: Any) -> None:
        """The pod is seen with other fields; class 0: it cannot be read."""
        record = self.record(name)
        parsed = record.pod.parsed._replace(resource_version=record.pod.parsed.resource_version + 1, **fields)
        kept = record.class_id if class_id is None else class_id
        pod = dataclasses.replace(record.pod, parsed=parsed, class_id=kept, invalid="" if kept else "spec.x: bad")
        changed = record._replace(pod=pod, class_id=kept, resource_version=str(parsed.resource_version))
        self.queue.update(changed, (), None, None, T0)

    async def in_turn_of(self, *names: str, counts: Sequence[int] = ()) -> int:
        """Place the batches of these pods' classes in turn; returns how many were taken from the queue."""
        classes = [(self.record(name).class_id, 1) for name in names]
        if counts:
            classes = [(class_id, count) for (class_id, _), count in zip(classes, counts, strict=True)]
        return await self.run_cycle.run_in_turn(batches_in_turn.BatchesAhead(PROFILE, classes))

    def kind(self, class_id: int) -> str:
        return self.registry[class_id].pod.spec.node_selector["kind"]

    async def place_in_turn(
        self, profile: str, classes: Sequence[tuple[int, int]], generation: int
    ) -> list[tuple[FilterAnswer, PlaceAnswer]]:
        out = []
        for number, (class_id, count) in enumerate(classes):
            answer = self.answers.get(self.kind(class_id), count)
            failure = answer if isinstance(answer, status.Status) else None
            slots = () if isinstance(answer, status.Status) else (number,) * answer
            out.append(
                (await self.filter(profile, class_id, count, generation), PlaceAnswer(slots=slots, failure=failure))
            )
        self.then()
        return out

    def placement(self, class_key: object, count: int) -> None:
        """Standing for Speculation."""

    @property
    def waiting(self) -> set[str]:
        """The pods that no attempt has taken."""
        count = self.queue.statistics().active
        batches = iter(lambda: self.queue.pop(T0, 100), None)
        names = {pod.key.removeprefix("ns/") for batch in batches for pod in _pods(batch)}
        assert len(names) == count
        return names


class Reports:
    """Takes what is reported, what is bound, and for whom PostFilter runs: it decides about one pod at a time."""

    def __init__(self, cluster: Batches) -> None:
        self._cluster = cluster
        self.failed: dict[str, str] = {}
        self.skipped: list[str] = []
        self.bound: list[list[str]] = []

    def report_failure(self, pod: Any, failure: Failure) -> None:
        self.failed[pod.key.removeprefix("ns/")] = failure.reasons[0].code if failure.reasons else failure.message
        self._cluster.queue.requeue(pod, T0, rejectors=failure.rejectors)

    def report_failures(self, pods: Sequence[Any], failure: Failure) -> None:
        for pod in pods:
            self.report_failure(pod, failure)

    def report_skipped(self, pod: Any) -> None:
        self.skipped.append(pod.key.removeprefix("ns/"))
        self._cluster.queue.done(pod.uid, T0)

    def start(self, _: object, assumed: Sequence[Any]) -> None:
        self.bound.append([one.pod.key.removeprefix("ns/") for one in assumed])

    def expects_preemption(self, *_: object) -> bool:
        return False

    async def run(self, _: object, pods: Sequence[Any], __: object) -> list[Any]:
        self.report_failure(pods[0], Failure("no room", unschedulable=True, reasons=(status.Reason("full"),)))
        return list(pods[1:])


def _pods(batch: Any) -> list[queued_pod.QueuedPodInfo]:
    assert isinstance(batch, scheduling_queue.PodBatch)
    return batch.pods


def three_kinds(rooms: Sequence[int] = (9, 9, 9)) -> Batches:
    """Pods a, b and c of a class each, in this order."""
    cluster = Batches(rooms)
    for number, name in enumerate("abc"):
        cluster.pod(name, name, number)
    return cluster


async def test_batches_get_the_places_that_were_found_in_turn() -> None:
    cluster = three_kinds()
    cluster.pod("a2", "a", 0.5)
    cluster.then = lambda: setattr(cluster, "now", T0 + 5)
    attempted = cluster.queue.contents.get("ns/a")
    assert isinstance(attempted, queued_pod.QueuedPodInfo)
    assert await cluster.in_turn_of("a", "b", "c", counts=(2, 1, 1)) == 3
    assert attempted.popped_at == T0, "its attempt began with the call"
    assert counts(cluster.metrics.instruments.batch_size) == {PROFILE: 3}
    assert cluster.nodes == {"a": "n0", "a2": "n0", "b": "n1", "c": "n2"}
    assert cluster.reports.bound == [["a", "a2"], ["b"], ["c"]]
    assert cluster.noted == [(3, 3)]
    assert [call for call, *_ in cluster.asked] == ["filter"] * 3, "score is called for none by itself"
    statistics = cluster.queue.statistics()
    assert (statistics.active, statistics.in_flight) == (0, 4)


@pytest.mark.parametrize("answer", [0, BROKEN], ids=["no node", "failed"])
@pytest.mark.parametrize(("kind", "taken"), [("a", 0), ("b", 1), ("c", 2)])
async def test_a_batch_without_places_stays_in_the_queue_with_those_behind_it(
    answer: int | status.Status, kind: str, taken: int
) -> None:
    """They were placed beside it; and by itself it gets the reason, or PostFilter's room."""
    cluster = three_kinds()
    cluster.answers = {kind: answer}
    assert await cluster.in_turn_of("a", "b", "c") == taken
    assert cluster.reports.bound == [[name] for name in "abc"[:taken]]
    assert cluster.noted == [(3, taken)]
    assert (cluster.waiting, cluster.reports.failed) == (set("abc"[taken:]), {})


PORTS: dict[str, Any] = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
# What happens while places are found for a, b and c, how many batches are taken then, and who waits.
CHANGES: list[Any] = [
    pytest.param(lambda it: it.pod("urgent", "a", priority=9), 0, "a b c urgent", id="a more important pod came"),
    pytest.param(lambda it: it.pod("twin", "b", 1.5, **PORTS), 1, "b c twin", id="another pod of the same ports came"),
    pytest.param(lambda it: it.queue.delete("ns/b", "uid-b", T0), 1, "c", id="the pod was deleted"),
]


@pytest.mark.parametrize(("then", "taken", "left"), CHANGES)
async def test_a_batch_that_is_not_the_next_one_any_more_stays_in_the_queue(
    then: Callable[[Batches], object], taken: int, left: str
) -> None:
    """Each pod is placed in the order of the queue, and as it is now."""
    cluster = Batches((9, 9, 9))
    cluster.pod("a", "a")
    cluster.pod("b", "b", 1, **PORTS)
    cluster.pod("c", "c", 2)
    cluster.then = lambda: then(cluster)
    assert await cluster.in_turn_of("a", "b", "c") == taken
    assert cluster.reports.bound == [["a"]][:taken]
    assert cluster.waiting == set(left.split())


@pytest.mark.parametrize("pods", [1, 2], ids=["all", "one of two"])
async def test_places_do_not_hold_beside_pods_that_are_not_tried(pods: int) -> None:
    """Those behind were placed as if these were on their nodes."""
    cluster = three_kinds()
    if pods == 2:
        cluster.pod("a2", "a", 0.5)
    cluster.then = lambda: cluster.change("a", flags=TERMINATING)
    assert await cluster.in_turn_of("a", "b", "c", counts=(pods, 1, 1)) == 1
    assert cluster.reports.bound == [["a2"]][: pods - 1]
    assert cluster.reports.skipped == ["a"]
    assert cluster.waiting == {"b", "c"}


async def test_pods_whose_node_is_gone_are_placed_anew_and_those_behind_them_wait() -> None:
    cluster = three_kinds()
    cluster.then = lambda: cluster.cache.remove_node("n1")
    cluster.room["n1"] = 0
    assert await cluster.in_turn_of("a", "b", "c") == 2
    assert cluster.nodes == {"a": "n0", "b": "n0"}
    assert cluster.reports.bound == [["a"], ["b"]]
    assert cluster.waiting == {"c"}
    assert cluster.noted == [(3, 2)]


async def test_without_an_answer_batches_are_placed_apart() -> None:
    cluster = three_kinds()
    cluster.fault = ports.PhaseUnavailable("filter is away")
    assert await cluster.in_turn_of("a", "b", "c") == 0
    assert cluster.noted == [(3, 0)]
    assert cluster.waiting == set("abc")


async def _run_next(cluster: Batches, meanwhile: Callable[[], object] = lambda: None) -> None:
    batch = cluster.queue.pop(T0, 100)
    assert isinstance(batch, scheduling_queue.PodBatch)
    meanwhile()
    await cluster.run_cycle.run(batch)


@pytest.mark.parametrize("others", [0, 2])
async def test_a_pod_that_terminates_is_not_placed(others: int) -> None:
    """kube-scheduler says that it skips it, and its place is the next one's."""
    cluster = Batches((1, 1))
    for number in range(1 + others):
        cluster.pod(f"p{number}", "k", number)
    cluster.change("p0", flags=TERMINATING)
    await _run_next(cluster)
    assert cluster.reports.skipped == ["p0"]
    assert cluster.reports.bound == ([["p1", "p2"]] if others else [])
    assert len(cluster.asked) == (2 if others else 0)
    assert cluster.queue.statistics().in_flight == others


async def test_a_pod_that_cannot_be_read_fails_without_a_call() -> None:
    cluster = Batches((1,))
    cluster.pod("p", "k")
    cluster.change("p", class_id=0)
    await _run_next(cluster)
    assert (cluster.reports.failed, cluster.asked, cluster.reports.bound) == ({"p": "podInvalid"}, [], [])


@pytest.mark.parametrize("how", ["assumed", "deleted"])
async def test_a_pod_that_has_a_node_or_is_gone_by_now_is_not_placed(how: str) -> None:
    """Each attempt at it would end by an error, and be repeated."""
    cluster = Batches((2,))
    cluster.pod("p", "k")
    record = cluster.record("p")

    def meanwhile() -> None:
        if how == "deleted":
            cluster.queue.delete("ns/p", "uid-p", T0)
        else:
            cluster.cache.assume("ns/p", "uid-p", "n0", record.pod.base, (), record.class_id)

    await _run_next(cluster, meanwhile)
    assert (cluster.asked, cluster.reports.bound, cluster.reports.failed) == ([], [], {})
    assert cluster.queue.statistics().in_flight == 0


async def test_a_pod_whose_resize_is_deferred_is_tried_though_it_has_a_node() -> None:
    cluster = Batches((2,))
    cluster.pod("p", "k")
    record = cluster.record("p")
    cluster.cache.assume("ns/p", "uid-p", "n0", record.pod.base, (), record.class_id)
    cluster.change("p", node_name="n0")
    await _run_next(cluster)
    assert [call for call, *_ in cluster.asked] == ["filter"]


async def test_pods_that_are_deleted_during_the_call_are_left_out() -> None:
    cluster = Batches((1, 1))
    for number in range(3):
        cluster.pod(f"p{number}", "k", number)

    def delete() -> None:
        cluster.queue.delete("ns/p1", "uid-p1", T0)

    cluster.meanwhile = delete
    await _run_next(cluster)
    assert cluster.nodes == {"p0": "n0", "p2": "n1"}
    assert cluster.queue.statistics().in_flight == 2


def of_one_kind(rooms: Sequence[int], pods: int, *, one_by_one: bool = False) -> Batches:
    """Pods p0 and so on of one class."""
    cluster = Batches(rooms)
    for number in range(pods):
        cluster.pod(f"p{number}", "k", number)
    cluster.attempts._limit = batch_limit.BatchLimit(100, lambda class_id: one_by_one)
    return cluster


@pytest.mark.parametrize("one_by_one", [False, True])
async def test_a_batch_is_tried_until_each_pod_has_an_answer(one_by_one: bool) -> None:
    """Also those beyond what one attempt takes, and those that PostFilter leaves."""
    cluster = of_one_kind((1, 2), 5, one_by_one=one_by_one)
    await _run_next(cluster)
    assert cluster.reports.bound == ([["p0"], ["p1"], ["p2"]] if one_by_one else [["p0", "p1", "p2"]])
    assert cluster.reports.failed == {"p3": "full", "p4": "full"}
    refused = counts(cluster.metrics.instruments.batch_attempts)
    assert sum(refused.values()) == 5
    assert cluster.queue.statistics().in_flight == 3


@pytest.mark.parametrize(
    ("rooms", "fault", "reason"),
    [((), None, "noNodes"), ((9,), ports.PhaseUnavailable("away"), "phaseFailed")],
    ids=["no nodes", "no answer"],
)
async def test_an_attempt_that_fails_fails_all_of_its_pods_once(
    rooms: Sequence[int], fault: Exception | None, reason: str
) -> None:
    cluster = of_one_kind(rooms, 3)
    cluster.fault = fault
    await _run_next(cluster)
    assert cluster.reports.failed == dict.fromkeys(("p0", "p1", "p2"), reason)
    assert cluster.queue.statistics().in_flight == 0


async def test_each_pod_that_reserve_refuses_is_reported() -> None:
    cluster = of_one_kind((9,), 4)
    cluster.reserving, cluster.unreservable = True, {"p1", "p3"}
    await _run_next(cluster)
    assert cluster.reports.bound == [["p0", "p2"]]
    assert set(cluster.reports.failed) == {"p1", "p3"}
    assert set(cluster.nodes) == {"p0", "p2"}


async def test_a_pause_of_placing_in_turn_counts_the_attempts() -> None:
    cluster = of_one_kind((9, 9), 3)
    del cluster.in_turn.note_placed  # the real one
    cluster.in_turn.note_placed(2, 1)
    for _ in range(batches_in_turn.FIRST_PAUSE - 1):
        cluster.in_turn.note_single()
    assert cluster.in_turn.most == 1
    await _run_next(cluster)
    assert cluster.in_turn.most == 2


async def test_a_pod_that_was_nominated_in_its_last_attempt_is_tried_on_its_node_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether or not its object shows the nomination yet."""
    cluster = Batches([1, 1])
    cluster.pod("p", "a")
    cluster.queue.nominator.nominate(cluster.record("p"), "n1")
    asked: list[list[int]] = []

    async def filter_nominated(*arguments: Any) -> FilterAnswer:
        asked.append(arguments[-1])
        return dataclasses.replace(await cluster.filter(PROFILE, 1, 1, cluster.cache.generation), admitted=1)

    monkeypatch.setattr(cluster, "filter_nominated", filter_nominated, raising=False)
    batch = cluster.queue.pop(T0, 100)
    assert isinstance(batch, scheduling_queue.PodBatch)
    await cluster.run_cycle.run(batch)
    assert asked == [[1]]
    assert cluster.nodes == {"p": "n1"}
