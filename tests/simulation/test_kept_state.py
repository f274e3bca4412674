"""What a simulation finds of pods that are gone in the state of a frontend."""

import dataclasses

from kept_state import TOLERATED, containers_of_gone_pods

from trireme.queueing import nominator, pod_info


@dataclasses.dataclass
class _Frontend:
    nominations: nominator.Nominator

    __module__ = "trireme.of_a_test"


def test_entries_of_pods_that_are_gone_are_found() -> None:
    """If this fails, a frontend may keep something of every pod that ever was, and no simulation says so."""
    nominations = nominator.Nominator()
    uids = [f"uid-{number}" for number in range(TOLERATED + 1)]
    for uid in uids:
        nominations.nominate(
            pod_info.make_pod_info(f"default/{uid}", uid, 1, "default-scheduler", 0, pod=None), "node-1"
        )
    (found,) = (text for text in containers_of_gone_pods(_Frontend(nominations), set(uids)) if "_node_of" in text)
    assert found == f".nominations._node_of has {TOLERATED + 1} of pods that are gone"
    assert not containers_of_gone_pods(_Frontend(nominations), set(uids[1:]))
