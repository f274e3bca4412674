"""What dry runs read of a remote plugin's verdicts is found again, and nothing else is."""

import numpy as np
import pytest

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import node_verdicts
from trireme.v1 import remote_node_verdicts_pb2

CLOSED, FULL = status.unschedulable("Plugin", "closed"), status.unresolvable("Plugin", "full")


def recorded(*readings: tuple[list[int], list[status.Status | None]]) -> node_verdicts.RecordedVerdicts:
    """What these readings of a column leave in a recording: slots, with the verdict on each."""
    collection, table = node_verdicts.VerdictCollection(), interfaces.StatusTable()
    for slots, verdicts in readings:
        index = [interfaces.PASSES if each is None else table.intern(each) for each in verdicts]
        collection.add(np.array(slots, dtype=np.intp), np.array(index, dtype=np.int16), table)
    message = collection.to_message()
    return node_verdicts.RecordedVerdicts(type(message).FromString(message.SerializeToString()))


def found(verdicts: node_verdicts.RecordedVerdicts, size: int) -> list[status.Status | str | None]:
    """What is recorded of the first slots, by slot."""
    table = interfaces.StatusTable()
    table.intern(status.unschedulable("Another", "with a number of its own"))
    index, known = verdicts.find(np.arange(size), table)
    statuses = [None, *table.statuses]
    return [statuses[number] if there else "unknown" for number, there in zip(index, known, strict=True)]


def test_each_slot_has_the_last_verdict_that_was_read() -> None:
    """A slot that was not tried would pass, or another plugin's status stand for this one's."""
    verdicts = recorded(([1, 2, 5], [None, CLOSED, FULL]), ([], []), ([7, 5, 3], [CLOSED, None, CLOSED]))
    assert found(verdicts, 9) == ["unknown", None, CLOSED, CLOSED, "unknown", None, "unknown", CLOSED, "unknown"]


@pytest.mark.parametrize("seed", range(5))
def test_readings_in_any_order_are_found_again(seed: int) -> None:
    """Runs of slots would be shifted against each other."""
    draw, expected = np.random.default_rng(seed), dict[int, status.Status | None]()
    readings = []
    for _ in range(4):
        slots = draw.choice(50, draw.integers(0, 20), replace=False).tolist()
        verdicts = [(None, CLOSED, FULL)[number] for number in draw.integers(0, 3, len(slots)).tolist()]
        readings.append((slots, verdicts))
        expected.update(zip(slots, verdicts, strict=True))
    assert found(recorded(*readings), 60) == [expected.get(slot, "unknown") for slot in range(60)]


def test_of_other_nodes_nothing_is_known() -> None:
    """A node that came since would have the verdict on the one that had its slot."""
    verdicts = recorded(([0, 1, 2], [None, CLOSED, FULL]))
    verdicts.hold_only(np.array([True, False]))
    assert found(verdicts, 4) == [None, "unknown", "unknown", "unknown"]


def test_a_class_that_the_plugin_skips_passes_on_every_node() -> None:
    """Its dry runs would lack the answers of a plugin that nobody called."""
    collection = node_verdicts.VerdictCollection()
    collection.skip()
    verdicts = node_verdicts.RecordedVerdicts(collection.to_message())
    assert verdicts.skipped
    assert found(verdicts, 3) == [None, None, None]


@pytest.mark.parametrize(
    "fields",
    [{"run_slots": [1, 2], "run_verdicts": [1]}, {"run_slots": [1], "run_verdicts": [2]}],
    ids=["runs without a verdict", "a status that is not there"],
)
def test_runs_that_do_not_fit_together_are_refused(fields: dict[str, list[int]]) -> None:
    """A damaged recording would end in an exception that names no cause."""
    with pytest.raises(ValueError, match="run_verdicts"):
        node_verdicts.RecordedVerdicts(remote_node_verdicts_pb2.RemoteNodeVerdicts(**fields))
