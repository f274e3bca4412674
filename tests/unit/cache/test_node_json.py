"""The JSON of nodes on its way from the informer into the cache."""

from typing import Any

import orjson

from trireme.cache import node_json
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode


def _raw(name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version, "labels": {"v": version}}, **fields}


def _decode(raw: Any) -> core_pb2.Node:
    return decode.decode(raw, core_pb2.Node)


def test_each_version_of_a_node_has_its_own_json() -> None:
    nodes = node_json.NodeJson(enabled=True)
    read = nodes.decoder(_decode)
    # Events are decoded many at a time, before the first of them is handled.
    decoded = [read(_raw("a", "1")), read(_raw("a", "2", kind="Node", apiVersion="v1")), read(_raw("b", "1"))]
    found = [orjson.loads(nodes.take(node)) for node in decoded]
    assert [(each["metadata"]["name"], each["metadata"]["labels"]["v"]) for each in found] == [
        ("a", "1"),
        ("a", "2"),
        ("b", "1"),
    ]
    # A list leaves kind and version out; both ways the JSON of one version is the same.
    assert {(each["kind"], each["apiVersion"]) for each in found} == {("Node", "v1")}
    assert not nodes.take(decoded[0])


def test_node_json_is_not_stored_where_no_plugin_reads_it() -> None:
    nodes = node_json.NodeJson()
    node = nodes.decoder(_decode)(_raw("a", "1"))
    assert nodes.take(node) == b""
