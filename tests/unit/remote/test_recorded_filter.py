"""A remote filter of a recording says what is recorded of it, and never what is not."""

from collections.abc import Sequence

import numpy as np
import pytest

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import recorded_filter, recorded_plugins
from trireme.snapshot import classes, snapshot
from trireme.v1 import decision_pb2, filter_pb2, snapshot_pb2
from trireme.wire import status as wire_status

OWN, OTHER = status.unschedulable("Own", "closed"), status.unschedulable("Other", "full")
PASSED, OF_OTHER, OF_OWN, PASSED_TOO, BEYOND = range(5)
UNLIMITED = interfaces.UNLIMITED


class Recording:
    """Filter's recorded answer about four nodes, which is decided again, and the plugin Own."""

    def __init__(self, *, filtering: bool) -> None:
        snap = snapshot.Snapshot()
        entries = [snapshot_pb2.PodClass(id=1), snapshot_pb2.PodClass(id=2)]
        snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1, classes=entries))
        self.snap = snap
        self.answer, self.answers = recorded_filter.RecordedAnswer(), recorded_plugins.RemoteAnswers()
        columns = filter_pb2.NodeColumns(
            size=4,
            status_index=[0, 1, 2, 0],
            capacity=[5, 0, 0, 2],
            statuses=[wire_status.to_message(each) for each in (OTHER, OWN)],
        )
        self.answer.take(1, decision_pb2.FilterDecision(columns=columns))
        self.answer.filtering = filtering
        self.plugin = recorded_filter.RecordedFilterPlugin("Own", interfaces.Dependency.NODE, self.answer, self.answers)
        self.table = interfaces.StatusTable()

    def of(self, number: int) -> classes.PodClass:
        """One of the two classes."""
        return self.snap.classes[number]

    def filter(self, *slots: int, pod_class: int = 1) -> interfaces.Verdicts:
        """The plugin's verdicts on these nodes."""
        about = np.array(slots, dtype=np.intp)
        return self.plugin.filter(self.of(pod_class), self.snap, None, about, self.table)

    def named(self, verdicts: interfaces.Verdicts) -> list[status.Status | None]:
        """The refusals, by node."""
        return [None if number == interfaces.PASSES else self.table.statuses[number - 1] for number in verdicts.index]

    def record_verdicts(self, verdicts: Sequence[int]) -> None:
        """Dry runs have read the plugin's verdicts on the first nodes: 1 passes, 2 is Own's refusal."""
        decision = decision_pb2.Decision(pod_class=1)
        nodes = decision.remote.answers.add(plugin="Own").nodes
        nodes.run_slots.extend([1] * len(verdicts))
        nodes.run_verdicts.extend(verdicts)
        nodes.statuses.append(wire_status.to_message(OWN))
        self.answers.take(decision)


@pytest.mark.parametrize(("refusal", "expected"), [(OWN, OWN), (OTHER, None), (None, None)])
async def test_a_refusal_of_all_nodes_is_its_own_alone(
    refusal: status.Status | None, expected: status.Status | None
) -> None:
    recording = Recording(filtering=True)
    about = decision_pb2.FilterDecision(pre_filter=None if refusal is None else wire_status.to_message(refusal))
    recording.answer.take(1, about)
    result = await recording.plugin.pre_filter(recording.of(1), recording.snap)
    assert result.status == expected


async def test_filter_has_its_own_refusals_and_the_recorded_room() -> None:
    """A node that another plugin refused passes here; one that came since was refused by nobody."""
    recording = Recording(filtering=True)
    verdicts = recording.filter(OF_OWN, PASSED_TOO, OF_OTHER, BEYOND, PASSED)
    assert recording.named(verdicts) == [OWN, None, None, None, None]
    assert recording.table.statuses == [OWN]
    assert verdicts.capacity is not None
    assert verdicts.capacity.tolist() == [UNLIMITED, 2, UNLIMITED, UNLIMITED, 5]
    runs = [interfaces.DryRun(slot, []) for slot in (PASSED, OF_OWN)]
    found = await recording.plugin.dry_runs(recording.of(1), recording.snap, None, runs, recording.table)
    assert recording.named(found) == [None, OWN]


async def test_filter_has_no_answer_about_another_class() -> None:
    recording = Recording(filtering=True)
    with pytest.raises(recorded_plugins.MissingAnswerError, match="the answer of Own about nodes for class 2"):
        recording.filter(PASSED, pod_class=2)


async def test_beside_filter_verdicts_on_another_class_hold_nobody_back() -> None:
    """Only dry runs read verdicts there, and those have records of their own."""
    recording = Recording(filtering=False)
    state = (await recording.plugin.pre_filter(recording.of(2), recording.snap)).state
    verdicts = state.read(np.array([OF_OWN]), recording.table)
    assert (recording.named(verdicts), verdicts.capacity.tolist()) == ([None], [UNLIMITED])


def test_a_decision_without_columns_refuses_no_node() -> None:
    recording = Recording(filtering=True)
    recording.answer.take(1, decision_pb2.FilterDecision())
    recording.answer.assume([PASSED])
    assert recording.named(recording.filter(OF_OWN)) == [None]


def test_copies_that_were_placed_take_their_room() -> None:
    """Each time the copies of all nodes are named; more than fit leave no room."""
    recording = Recording(filtering=True)
    recording.answer.assume([PASSED, PASSED_TOO])
    recording.answer.assume([PASSED, PASSED, PASSED_TOO, PASSED_TOO, PASSED_TOO, BEYOND])
    capacity = recording.filter(PASSED, PASSED_TOO).capacity
    assert capacity is not None
    assert capacity.tolist() == [3, 0]


def test_a_dry_run_reads_filters_answer_where_nothing_else_is_recorded() -> None:
    recording = Recording(filtering=False)
    assert recording.named(recording.filter(PASSED, OF_OWN, PASSED_TOO)) == [None, OWN, None]


def test_a_dry_run_reads_its_own_records_before_filters_answer() -> None:
    """Others' refusals hide what the plugin would say; the records of dry runs have it."""
    recording = Recording(filtering=False)
    recording.record_verdicts([2, 1])
    assert recording.named(recording.filter(PASSED, OF_OTHER, OF_OWN, PASSED_TOO)) == [OWN, None, OWN, None]


@pytest.mark.parametrize("unknown", ["refused by another", "beyond", "another class", "another time", "other nodes"])
def test_a_dry_run_about_what_is_not_recorded_makes_nothing_up(unknown: str) -> None:
    recording = Recording(filtering=False)
    slot, pod_class = PASSED, 1
    if unknown == "refused by another":
        slot = OF_OTHER
    elif unknown == "beyond":
        slot = BEYOND
    elif unknown == "another class":
        pod_class = 2
    elif unknown == "another time":
        recording.answer.is_of_now = False
    else:
        recording.answer.same_nodes = np.array([False, True, True, True])
    with pytest.raises(recorded_plugins.MissingAnswerError, match="the answer of Own about nodes that others refused"):
        recording.filter(OF_OWN, slot, pod_class=pod_class)


def test_of_nodes_that_are_the_same_a_dry_run_reads_filters_answer() -> None:
    recording = Recording(filtering=False)
    recording.answer.same_nodes = np.array([False, False, True, True])
    assert recording.named(recording.filter(OF_OWN, PASSED_TOO)) == [OWN, None]


async def test_dry_runs_beside_filter_have_the_recorded_statuses() -> None:
    """Which pods are gone and which are there makes another run of it."""
    recording = Recording(filtering=False)
    decision = decision_pb2.Decision(pod_class=1)
    about = decision.remote.answers.add(plugin="Own").dry_runs
    about.statuses.append(wire_status.to_message(OWN))
    about.runs.add(slot=PASSED, removed_rows=[4, 3], status=1)
    about.runs.add(slot=PASSED, removed_rows=[3, 4], added_classes=[2], status=0)
    recording.answers.take(decision)

    async def run(*runs: interfaces.DryRun) -> list[status.Status | None]:
        found = await recording.plugin.dry_runs(recording.of(1), recording.snap, None, runs, recording.table)
        return recording.named(found)

    assert await run(interfaces.DryRun(PASSED, [3, 4], [2]), interfaces.DryRun(PASSED, [3, 4])) == [None, OWN]
    with pytest.raises(recorded_plugins.MissingAnswerError, match="a dry run of Own"):
        await run(interfaces.DryRun(PASSED, [3]))
