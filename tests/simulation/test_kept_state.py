"""What a simulation finds of pods and nodes that are gone in the state of a process."""

import dataclasses

from tests.helpers import queue_builders
from tests.simulation.kept_state import TOLERATED, containers_of_what_is_gone
from trireme.queueing import nominator
from trireme.snapshot import objects


@dataclasses.dataclass
class _Frontend:
    nominations: nominator.Nominator

    __module__ = "trireme.of_a_test"


def test_entries_of_pods_that_are_gone_are_found() -> None:
    """If this fails, a frontend may keep something of every pod that ever was, and no simulation says so."""
    nominations = nominator.Nominator()
    uids = [f"uid-{number}" for number in range(TOLERATED + 1)]
    for uid in uids:
        nominations.nominate(queue_builders.record(uid, uid=uid), "node-1")
    (found,) = (text for text in containers_of_what_is_gone(_Frontend(nominations), set(uids)) if "_node_of" in text)
    assert found == f".nominations._node_of has {TOLERATED + 1} of what is gone"
    assert not containers_of_what_is_gone(_Frontend(nominations), set(uids[1:]))


def test_parts_of_keys_count_and_what_is_bounded_does_not() -> None:
    """If this fails, what is kept by a node and a pod grows unseen, or a bounded log counts as growth."""
    names = [f"node-{number}" for number in range(TOLERATED + 1)]
    table = objects.ObjectTable()
    for number, name in enumerate(names):
        table._record_change("csi_node", ("", name), number)
    (found,) = containers_of_what_is_gone({"by_node": {(name, 1): True for name in names}, "table": table}, set(names))
    assert found == f"[] has {TOLERATED + 1} of what is gone"
