"""The objects that extenders are sent: what the informers read, no more and no less."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from trireme.cache import extender_objects, pod_projection
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

Json = dict[str, Any]

LIST = (EventKind.LIST_START, None)
LIST_END = (EventKind.LIST_END, None)


def pod(name: str, version: int = 1, **spec: Any) -> Json:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "metadata": {**metadata, "managedFields": []}, "spec": {"containers": [], **spec}}


def node(name: str, version: int = 1) -> Json:
    return {"kind": "Node", "metadata": {"name": name, "uid": f"{name}-{version}", "resourceVersion": str(version)}}


def _node(raw: Json) -> core_pb2.Node:
    return decode.decode(raw, core_pb2.Node)


class Informers:
    """Delivers events as the informers do: a batch is decoded before any of it is delivered."""

    def __init__(self, *, placed: bool = False) -> None:
        self.objects = extender_objects.ExtenderObjects(nodes=True, placed=placed)
        self._decode_pod = self.objects.pod_decoder(pod_projection.parse)
        self._decode_node = self.objects.node_decoder(_node)

    def pods(self, *batch: tuple[EventKind, Json | None]) -> None:
        self.objects.on_pods([Event(kind, None if raw is None else self._decode_pod(raw)) for kind, raw in batch])

    def nodes(self, *batch: tuple[EventKind, Json | None]) -> None:
        self.objects.on_nodes([Event(kind, None if raw is None else self._decode_node(raw)) for kind, raw in batch])

    def pod_version(self, name: str) -> str:
        """Which version of a pod extenders are sent; empty for none."""
        return _version(self.objects.pod(f"uid-{name}"))

    def node_version(self, name: str) -> str:
        return _version(self.objects.node(name))


def _version(stored: bytes | None) -> str:
    return "" if stored is None else orjson.loads(stored)["metadata"]["resourceVersion"]


def test_an_object_is_sent_as_it_was_read_last_and_until_it_is_deleted() -> None:
    """An extender decides by an old object, or the frontend's memory grows with every pod that ever was."""
    informers = Informers()
    informers.pods(LIST, (EventKind.LISTED, pod("a")), LIST_END)
    informers.pods((EventKind.MODIFIED, pod("a", 2)), (EventKind.ADDED, pod("b", 3)))
    assert (informers.pod_version("a"), informers.pod_version("b")) == ("2", "3")
    informers.pods((EventKind.DELETED, pod("a", 4)))
    assert (informers.pod_version("a"), informers.pod_version("b")) == ("", "3")


def test_a_pod_is_sent_as_kube_scheduler_sends_it() -> None:
    """An extender gets fields that it has never seen, or a pod without its node."""
    informers = Informers(placed=True)
    informers.pods((EventKind.ADDED, pod("a")))
    sent = informers.objects.pod("uid-a", "node-1")
    assert sent is not None
    metadata = {"namespace": "ns", "name": "a", "uid": "uid-a", "resourceVersion": "1"}
    assert orjson.loads(sent) == {"metadata": metadata, "spec": {"containers": [], "nodeName": "node-1"}}


@pytest.mark.parametrize("placed", [False, True], ids=["names alone", "whole objects"])
def test_placed_pods_are_stored_if_an_extender_needs_them(placed: bool) -> None:
    """Each pod of the cluster costs its JSON in memory, or an extender is asked about victims that it is not shown."""
    informers = Informers(placed=placed)
    informers.pods((EventKind.ADDED, pod("a")))
    informers.pods((EventKind.MODIFIED, pod("a", 2, nodeName="node-1")))
    assert informers.pod_version("a") == ("2" if placed else "")


def test_a_new_list_replaces_what_was_stored() -> None:
    """After a lost watch extenders are asked about pods and nodes that are gone, or by what they were before."""
    informers = Informers()
    listed = [(EventKind.LISTED, pod("a")), (EventKind.LISTED, pod("b"))]
    informers.pods(LIST, *listed, LIST_END)
    informers.nodes(LIST, (EventKind.LISTED, node("n0")), (EventKind.LISTED, node("n1")), LIST_END)
    # The first list breaks off, and is begun again.
    informers.pods(LIST, (EventKind.LISTED, pod("a", 5)))
    informers.pods(LIST, (EventKind.LISTED, pod("b", 6)))
    assert informers.pod_version("a") == "5"
    informers.pods((EventKind.LISTED, pod("c", 7)), LIST_END)
    informers.nodes(LIST, (EventKind.LISTED, node("n1", 8)), LIST_END)
    assert [informers.pod_version(name) for name in "abc"] == ["", "6", "7"]
    assert [informers.node_version(name) for name in ("n0", "n1")] == ["", "8"]


Batch = Sequence[tuple[EventKind, Json | None]]


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([LIST, LIST_END, (EventKind.ADDED, node("n", 9))], id="added right after a list"),
        pytest.param([(EventKind.DELETED, node("n", 8)), (EventKind.ADDED, node("n", 9))], id="made again"),
        pytest.param(
            [
                LIST,
                (EventKind.LISTED, node("n")),
                (EventKind.DELETED, node("n")),
                LIST_END,
                (EventKind.ADDED, node("n", 9)),
            ],
            id="deleted during the list and made again",
        ),
    ],
)
def test_what_comes_after_a_deletion_in_the_same_batch_stays(batch: Batch) -> None:
    """A pod is placed without the extender's say, or an extender is not shown a node."""
    informers = Informers()
    informers.nodes((EventKind.ADDED, node("n")))
    informers.nodes(*batch)
    assert informers.node_version("n") == "9"


def test_what_is_deleted_at_the_end_of_a_batch_goes() -> None:
    """An extender is shown a node that is gone."""
    informers = Informers()
    informers.nodes((EventKind.ADDED, node("n")), (EventKind.DELETED, node("n", 2)))
    assert informers.node_version("n") == ""


def test_all_that_a_batch_deletes_goes() -> None:
    informers = Informers()
    informers.nodes(*((EventKind.ADDED, node(f"n{number}")) for number in range(4)))
    informers.nodes(*((EventKind.DELETED, node(f"n{number}", 2)) for number in (0, 1, 3)))
    assert [informers.node_version(f"n{number}") for number in range(4)] == ["", "", "1", ""]
