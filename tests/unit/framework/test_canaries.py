"""Which pods a plugin's canary answers for."""

import pytest

from trireme.cache import pod_projection
from trireme.framework import canaries
from trireme.v1 import core_pb2

UIDS = [f"uid-{number}" for number in range(2000)]


def _base(uid: str, scheduler: str, shares: canaries.Shares, **annotations: str) -> core_pb2.Pod:
    """The class's pod of a pod that is read with these shares, by a plugin that reads annotations."""
    metadata = {"name": uid, "namespace": "default", "uid": uid, "annotations": annotations}
    raw = {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": []}}
    return core_pb2.Pod.FromString(pod_projection.parse(raw, {"metadata.annotations"}, shares).base)


@pytest.mark.parametrize("percent", [0, 5, 50, 100])
def test_the_share_is_about_as_many_pods_as_it_says(percent: int) -> None:
    """If this fails, a canary of 5% decides about half of the pods."""
    chosen = sum(canaries.is_chosen("P", uid, percent) for uid in UIDS) * 100 / len(UIDS)
    assert percent - 3 <= chosen <= percent + 3
    if percent in (0, 100):
        assert chosen == percent


def test_pods_of_a_small_share_are_in_each_larger_one() -> None:
    """If this fails, pods go back and forth between the versions while the share grows."""
    small = {uid for uid in UIDS if canaries.is_chosen("P", uid, 5)}
    large = {uid for uid in UIDS if canaries.is_chosen("P", uid, 20)}
    assert small < large


def test_canaries_of_two_plugins_choose_for_themselves() -> None:
    """If this fails, the same pods get all canaries, and nobody can tell which one was wrong."""
    both = sum(canaries.is_chosen("P", uid, 50) and canaries.is_chosen("Q", uid, 50) for uid in UIDS)
    assert 0.2 < both / len(UIDS) < 0.3


def test_pods_of_one_side_are_one_class_and_those_of_another_profile_have_none() -> None:
    """If this fails, a batch is answered by one version for all of its pods, or each pod is a class of its own."""
    shares = canaries.Shares({"s": [("P", 50), ("Q", 0)]})
    chosen = {uid: canaries.is_chosen("P", uid, 50) for uid in UIDS[:40]}
    bases = {uid: _base(uid, "s", shares).SerializeToString(deterministic=True) for uid in chosen}
    assert len(set(bases.values())) == 2
    for uid, is_chosen in chosen.items():
        pod = core_pb2.Pod.FromString(bases[uid])
        assert canaries.answers_for("P/canary", pod.metadata.annotations) is is_chosen
        assert canaries.answers_for("P", pod.metadata.annotations) is not is_chosen
        assert not canaries.answers_for("Q/canary", pod.metadata.annotations)
        assert canaries.answers_for("P", _base(uid, "other", shares).metadata.annotations)


def test_a_pod_cannot_choose_the_canary_by_an_annotation() -> None:
    """If this fails, the author of a pod decides which version answers for it."""
    uid = next(uid for uid in UIDS if not canaries.is_chosen("P", uid, 50))
    shares = canaries.Shares({"s": [("P", 50)]})
    pod = _base(uid, "s", shares, **{"canary.trireme.dev/P": "", "own": "kept"})
    assert dict(pod.metadata.annotations) == {"own": "kept"}
    assert not canaries.answers_for("P/canary", pod.metadata.annotations)


def test_a_pod_without_a_uid_is_no_canarys() -> None:
    """If this fails, what-if questions about pods that do not exist get the canary's answers."""
    assert not canaries.is_chosen("P", "", 100)


def test_shares_that_are_the_same_change_nothing() -> None:
    """If this fails, each reload lists all pods again."""
    shares = canaries.Shares({"s": [("P", 5)]})
    assert not shares.replace({"s": [("P", 5)]})
    assert shares.replace({"s": [("P", 10)]})
    assert shares.chosen("s", next(uid for uid in UIDS if canaries.is_chosen("P", uid, 10))) == ("P",)
