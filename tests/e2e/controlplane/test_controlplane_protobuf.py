"""What the API server sends as protobuf, read with our messages, is what it sends as JSON."""

from __future__ import annotations

import dataclasses
import json
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.message import Message

from tools.controlplane import controlplane_fixture, launcher
from trireme.cache import pod_projection
from trireme.v1 import apps_pb2, coordination_pb2, core_pb2, policy_pb2, resource_pb2, scheduling_pb2, storage_pb2
from trireme_kube.apimachinery.decode import decode
from trireme_kube.client.informers import protobuf, watch
from trireme_kube.client.rest import content_types, envelope

pytestmark = pytest.mark.controlplane

OBJECTS = Path(__file__).parent / "objects.yaml"
KINDS = {f"{each['apiVersion']}/{each['kind']}": each for each in yaml.safe_load(OBJECTS.read_text())["items"]}
MODULES = (apps_pb2, coordination_pb2, core_pb2, policy_pb2, resource_pb2, scheduling_pb2, storage_pb2)
EXTRA = frozenset({"spec.restartPolicy", "status.conditions", "status.qosClass"})
OPTIONS = launcher.Options(
    # A pod may carry a bare priority; no class stands behind it.
    disable_admission=("ServiceAccount", "TaintNodesByCondition", "Priority", "RuntimeClass"),
    feature_gates={"GenericWorkload": True},
    runtime_config={"scheduling.k8s.io/v1beta1": True},
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[launcher.ControlPlane]:
    """A control plane that has one object of every kind that it serves."""
    controlplane_fixture.require_built()
    served = [each for each in KINDS.values() if not _absent(each)]
    lacks_groups = launcher.lacks(*OPTIONS.runtime_config)
    options = dataclasses.replace(OPTIONS, feature_gates={}, runtime_config={}) if lacks_groups else OPTIONS
    with launcher.ControlPlane(options) as started:
        objects = {"apiVersion": "v1", "kind": "List", "items": served}
        started.kubectl("create", "-f", "-", stdin=yaml.safe_dump(objects))
        yield started


def _absent(manifest: dict[str, Any]) -> list[str]:
    """The API of the object, if the API server does not serve it; v1 is always there."""
    version = manifest["apiVersion"]
    return launcher.lacks(f"{version}/{_plural(manifest)}") if "/" in version else []


def read(cluster: launcher.ControlPlane, path: str, accept: str) -> bytes:
    """The API server's answer in one encoding."""
    headers = {"Authorization": f"Bearer {cluster.token()}", "Accept": accept}
    context = ssl.create_default_context(cafile=str(cluster.authority))
    request = urllib.request.Request(cluster.server + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10, context=context) as response:
        assert response.headers["Content-Type"].startswith(accept)
        return bytes(response.read())


def _plural(manifest: dict[str, Any]) -> str:
    name: str = manifest["kind"].lower()
    return name[:-1] + "ies" if name.endswith("y") else name + ("es" if name.endswith("s") else "s")


def path_of(manifest: dict[str, Any]) -> str:
    """Where an object is served."""
    version, metadata, plural = manifest["apiVersion"], manifest["metadata"], _plural(manifest)
    launcher.require_apis(*_absent(manifest))
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{where}/{plural}/{metadata['name']}"


@pytest.mark.parametrize("manifest", KINDS.values(), ids=KINDS.keys())
def test_protobuf_of_the_api_server_reads_as_its_json(cluster: launcher.ControlPlane, manifest: dict[str, Any]) -> None:
    """A message of ours is not wire-compatible, or what a scheduler reads depends on the encoding it asks for."""
    message_class: type[Message] = next(
        getattr(module, manifest["kind"]) for module in MODULES if hasattr(module, manifest["kind"])
    )
    path = path_of(manifest)
    written = json.loads(read(cluster, path, content_types.JSON))
    sent = envelope.unwrap(read(cluster, path, content_types.PROTOBUF))
    from_wire = protobuf.decode(sent.raw, message_class)
    assert (sent.type_meta.api_version, sent.type_meta.kind) == (manifest["apiVersion"], manifest["kind"])
    assert from_wire == decode(written, message_class)
    assert from_wire.ByteSize() > 40, "the object has more than a name"
    if message_class is core_pb2.Pod:
        parsed = pod_projection.parse_protobuf(sent.raw, EXTRA)
        assert parsed == pod_projection.parse(written, EXTRA)
        assert pod_projection.parse_protobuf(sent.raw) == pod_projection.parse(written)
        assert parsed.base != pod_projection.parse(written).base


@pytest.mark.parametrize("manifest", KINDS.values(), ids=KINDS.keys())
def test_lists_and_watches_in_protobuf_have_the_same_objects(
    cluster: launcher.ControlPlane, manifest: dict[str, Any]
) -> None:
    """An informer would miss objects, or take one for another, in the encoding that is asked for first."""
    message_class: type[Message] = next(
        getattr(module, manifest["kind"]) for module in MODULES if hasattr(module, manifest["kind"])
    )
    path = path_of(manifest).rpartition("/")[0]
    listed = json.loads(read(cluster, path, content_types.JSON))
    items, metadata = protobuf.page_of(read(cluster, f"{path}?limit=500", content_types.PROTOBUF))
    in_json = [decode(item, message_class) for item in listed["items"]]
    assert [protobuf.decode(item, message_class) for item in items] == in_json
    assert int(metadata["resourceVersion"]) >= int(listed["metadata"]["resourceVersion"])
    # From no version on: everything there is comes as added, and the server ends it after a second.
    stream = read(cluster, f"{path}?watch=1&timeoutSeconds=1", content_types.PROTOBUF)
    watched = protobuf.WatchEventDecoder().feed(stream)
    assert {event["type"] for event in watched} == {"ADDED"}
    assert {watch.version_of(event["object"]) for event in watched} == {watch.version_of(item) for item in items}
    found = {watch.version_of(item): protobuf.decode(item, message_class) for item in items}
    for event in watched:
        assert protobuf.decode(event["object"], message_class) == found[watch.version_of(event["object"])]
