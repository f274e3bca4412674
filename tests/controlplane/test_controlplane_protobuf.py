"""What the API server sends as protobuf, read with our messages, is what it sends as JSON."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import controlplane_fixture
import launcher
import pytest
import yaml
from google.protobuf.message import Message

from trireme.kube.decode import decode
from trireme.v1 import (
    apps_pb2,
    coordination_pb2,
    core_pb2,
    policy_pb2,
    resource_pb2,
    scheduling_pb2,
    storage_pb2,
)

pytestmark = pytest.mark.controlplane

OBJECTS = Path(__file__).parent / "objects.yaml"
KINDS = {f"{each['apiVersion']}/{each['kind']}": each for each in yaml.safe_load(OBJECTS.read_text())["items"]}
MODULES = (apps_pb2, coordination_pb2, core_pb2, policy_pb2, resource_pb2, scheduling_pb2, storage_pb2)
OPTIONS = launcher.Options(
    # A pod may carry a bare priority; no class stands behind it.
    disable_admission=("ServiceAccount", "TaintNodesByCondition", "Priority", "RuntimeClass"),
    feature_gates={"GenericWorkload": True},
    runtime_config={"scheduling.k8s.io/v1beta1": True},
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[launcher.ControlPlane]:
    """A control plane that has one object of every kind."""
    controlplane_fixture.require_built()
    with launcher.ControlPlane(OPTIONS) as started:
        started.kubectl("create", "-f", "-", stdin=OBJECTS.read_text())
        yield started


def read(cluster: launcher.ControlPlane, path: str, accept: str) -> bytes:
    """The API server's answer in one encoding."""
    headers = {"Authorization": f"Bearer {cluster.token()}", "Accept": accept}
    context = ssl.create_default_context(cafile=str(cluster.authority))
    request = urllib.request.Request(cluster.server + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10, context=context) as response:
        assert response.headers["Content-Type"].startswith(accept)
        return bytes(response.read())


def raw_object(envelope: bytes) -> bytes:
    """The object inside what Kubernetes sends: a magic number and a runtime.Unknown, whose field 2 it is."""
    assert envelope[:4] == b"k8s\0"
    position = 4
    while position < len(envelope):
        tag, position = varint(envelope, position)
        assert tag & 7 == 2, "every field of runtime.Unknown is length-delimited"
        size, position = varint(envelope, position)
        if tag >> 3 == 2:
            return envelope[position : position + size]
        position += size
    raise AssertionError("no object")


def varint(data: bytes, position: int) -> tuple[int, int]:
    """A protobuf integer, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def drop_zero_times(message: Message) -> None:
    """Clears the times that mean "never": in protobuf they are empty messages, in JSON null."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if field.message_type.name == "Time" and not value.ListFields():
            message.ClearField(field.name)
        else:
            for each in value if field.is_repeated else (value,):
                drop_zero_times(each)


def path_of(manifest: dict[str, Any]) -> str:
    """Where an object is served."""
    version, metadata, plural = manifest["apiVersion"], manifest["metadata"], manifest["kind"].lower()
    plural = plural[:-1] + "ies" if plural.endswith("y") else plural + ("es" if plural.endswith("s") else "s")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{where}/{plural}/{metadata['name']}"


@pytest.mark.parametrize("manifest", KINDS.values(), ids=KINDS.keys())
def test_protobuf_of_the_api_server_reads_as_its_json(cluster: launcher.ControlPlane, manifest: dict[str, Any]) -> None:
    """A message of ours is not wire-compatible: its field numbers or types are not those of the API server."""
    message_class: type[Message] = next(
        getattr(module, manifest["kind"]) for module in MODULES if hasattr(module, manifest["kind"])
    )
    path = path_of(manifest)
    written = json.loads(read(cluster, path, "application/json"))
    from_wire = message_class.FromString(raw_object(read(cluster, path, "application/vnd.kubernetes.protobuf")))
    from_wire.DiscardUnknownFields()
    drop_zero_times(from_wire)
    assert from_wire == decode(written, message_class)
    assert from_wire.ByteSize() > 40, "the object has more than a name"
