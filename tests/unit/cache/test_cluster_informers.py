"""Which collections are followed, what reads their objects, and who hears of them."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from trireme.cache import cluster_informers, extender_objects, node_json, object_kinds
from trireme.framework import canaries
from trireme_kube.client.informers import resources
from trireme_kube.client.informers.watch import Event, EventKind

_NODE = {"metadata": {"name": "n"}, "spec": {}, "status": {}}
_POD = {"metadata": {"namespace": "ns", "name": "p", "uid": "u"}, "spec": {"containers": []}, "status": {}}


class Handlers:
    """Notes who hears of what."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_pods(self, batch: Sequence[Any]) -> None:
        self.heard.append("pods")

    def on_nodes(self, batch: Sequence[Any]) -> None:
        self.heard.append("nodes")

    def on_objects(self, kind: object_kinds.ObjectKind, batch: Sequence[Any]) -> None:
        self.heard.append(kind.field)


class Made:
    """The informers that were made, by resource: their decoders and consumers."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        gate: Callable[[str], bool],
        cache: extender_objects.ExtenderObjects | None = None,
        *,
        whole_nodes: bool = False,
    ) -> None:
        self.handlers = Handlers()
        self.made: dict[resources.Resource, SimpleNamespace] = {}
        self.json_requested: list[resources.Resource] = []
        monkeypatch.setattr(cluster_informers, "_make_informer", self._make)
        json = node_json.NodeJson(whole_nodes)
        unused: Any = None
        self.informers = cluster_informers.make_informers(
            unused, {}, gate, frozenset(), cache, self.handlers, json=json, shares=canaries.Shares({})
        )

    def _make(self, api: Any, prefetched: Any, streams: bool, watched: Any, decoders: Any, consumers: Any) -> Any:
        made = SimpleNamespace(
            streams=streams,
            decoders=decoders,
            consumers=consumers,
            request_json=lambda: self.json_requested.append(watched),
        )
        self.made[watched] = made
        return made

    def deliver(self, watched: resources.Resource, kind: EventKind, raw: Any) -> None:
        decoded = self.made[watched].decoders[0](raw)
        for consume in self.made[watched].consumers:
            consume([Event(kind, decoded)])


def test_each_kind_whose_gates_are_on_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins would never see its objects, and pods that wait for them never be tried."""
    everything = Made(monkeypatch, lambda name: True)
    assert list(everything.made)[:2] == [resources.PODS, resources.NODES]
    assert list(everything.made)[2:] == [kind.watched for kind in object_kinds.KINDS]
    assert everything.informers == list(everything.made.values())
    nothing = Made(monkeypatch, lambda name: False)
    assert list(nothing.made)[2:] == [kind.watched for kind in object_kinds.KINDS if not kind.gates]
    assert len(nothing.made) < len(everything.made)
    assert {made.streams for made in everything.made.values()} == {True}
    assert {made.streams for made in nothing.made.values()} == {False}


def test_each_kind_has_its_own_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, lambda name: True)
    for each in made.made.values():
        for consume in each.consumers:
            consume([])
    assert made.handlers.heard == ["pods", "nodes", *(kind.field for kind in object_kinds.KINDS)]


@pytest.mark.parametrize("keeps_nodes", [True, False])
def test_extenders_have_what_is_followed_until_it_is_gone(monkeypatch: pytest.MonkeyPatch, keeps_nodes: bool) -> None:
    cache = extender_objects.ExtenderObjects(keeps_nodes, True)
    made = Made(monkeypatch, lambda name: True, cache)
    made.deliver(resources.PODS, EventKind.ADDED, _POD)
    made.deliver(resources.NODES, EventKind.ADDED, _NODE)
    assert cache.pod("u") is not None
    assert (cache.node("n") is not None) == keeps_nodes
    assert made.made[resources.PODS].decoders[1] is None, "they are sent JSON"
    assert (made.made[resources.NODES].decoders[1] is None) == keeps_nodes
    made.deliver(resources.PODS, EventKind.DELETED, _POD)
    assert cache.pod("u") is None
    made.made[resources.NODES].consumers[-1](
        [Event(EventKind.DELETED, SimpleNamespace(metadata=SimpleNamespace(name="n")))]
    )
    assert cache.node("n") is None
    assert made.handlers.heard[:3] == ["pods", "nodes", "pods"]


@pytest.mark.parametrize("whole_nodes", [True, False])
def test_nodes_are_read_in_json_for_plugins_that_get_them_whole(
    monkeypatch: pytest.MonkeyPatch, whole_nodes: bool
) -> None:
    made = Made(monkeypatch, lambda name: True, whole_nodes=whole_nodes)
    assert made.json_requested == ([resources.NODES] if whole_nodes else [])
