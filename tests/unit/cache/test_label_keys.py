"""Which pods carry a label key, without looking at the others."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trireme.cache import class_registry, cluster_cache, label_keys, pod_projection

KEYS = ["app", "tier", "index"]
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from("xy")).map(lambda made: tuple(sorted(made.items())))


class LabelKeysMachine(RuleBasedStateMachine):
    """The index against a plain dictionary of pods."""

    def __init__(self) -> None:
        super().__init__()
        self.index = label_keys.LabelKeys()
        self.pods: dict[str, pod_projection.Labels] = {}

    @rule(uid=st.sampled_from("abcd"), own=labels)
    def set(self, uid: str, own: pod_projection.Labels) -> None:
        """A pod comes, or has other labels."""
        self.remove(uid)
        self.index.add(uid, own)
        self.pods[uid] = own

    @rule(uid=st.sampled_from("abcd"))
    def remove(self, uid: str) -> None:
        """A pod is gone."""
        if uid in self.pods:
            self.index.remove(uid, self.pods.pop(uid))

    @invariant()
    def finds_who_carries(self) -> None:
        """Each key finds the pods that carry it, each once."""
        for wanted in ({"app"}, {"app", "index"}, {"other"}, set[str]()):
            expected = sorted(uid for uid, own in self.pods.items() if wanted & {key for key, _ in own})
            assert sorted(self.index.pods_with_any(wanted)) == expected


TestLabelKeys = LabelKeysMachine.TestCase


class _NotLookedThrough(dict[str, Any]):
    """Pods that may be looked up, and must not all be looked at."""

    def values(self) -> Any:
        raise AssertionError("every pod was looked at")

    items = __iter__ = values


def _cache(pods: int) -> cluster_cache.ClusterCache:
    registry = class_registry.ClassRegistry()
    cache = cluster_cache.ClusterCache(registry)
    raw = {"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {"nodeName": "n"}}
    parsed = pod_projection.parse(raw)
    base = registry.intern_base(parsed.base)
    for number in range(pods):
        own = (("app", "web"), ("index", str(number)), *((("rare", "x"),) if number == 7 else ()))
        pod = parsed._replace(uid=f"u{number}", name=f"p{number}", labels=own)
        cache.set_pod(pod, registry.intern(base, own), base)
    return cache


def test_a_new_key_costs_the_pods_that_carry_it_and_no_others() -> None:
    """With 50,000 pods the first use of a label key would otherwise stop the scheduler for 30 ms."""
    cache = _cache(2000)
    before = len(cache.registry)
    cache._pods = _NotLookedThrough(cache._pods)
    cache.registry.add_selector_keys(["nobody"])
    cache.reclassify(cache.registry.take_new_selector_keys())
    assert len(cache.registry) == before
    cache.registry.add_selector_keys(["rare"])
    cache.reclassify(cache.registry.take_new_selector_keys())
    rare, other = (cache.pod(uid) for uid in ("u7", "u8"))
    assert rare is not None
    assert other is not None
    assert rare.class_id != other.class_id
