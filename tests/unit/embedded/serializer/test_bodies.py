"""Request bodies: held against their types, and decoded from protobuf."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.v1 import core_pb2
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, PODS, RESOURCES
from trireme_kube.embedded.serializer import protobuf
from trireme_kube.embedded.serializer.type_checking import conform_to_type, initial_status

# What kubectl v1.37.0 sends for `kubectl create deployment web --image=x --replicas=50`.
DEPLOYMENT = bytes.fromhex(
    "6b387300 0a150a07 61707073 2f763112 0a446570 6c6f796d 656e7412 a3010a1f 0a037765 6212001a 0022002a 00320038"
    "0042005a 0a0a0361 70701203 77656212 72083212 0c0a0a0a 03617070 12037765 621a580a 1c0a0012 001a0022 002a0032"
    "00380042 005a0a0a 03617070 12037765 62123812 1a0a0178 1201782a 0042006a 00720080 01008801 00900100 a201001a"
    "00320042 004a0052 00580060 00680082 01008a01 009a0100 c2010022 020a0028 0038001a 0c080010 00180020 00280038"
    "001a0022 00"
)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """The frame that Kubernetes puts around an encoded object."""

    def field(number: int, data: bytes) -> bytes:
        length = len(data)
        size = b""
        while length >= 0x80:
            size += bytes([length & 0x7F | 0x80])
            length >>= 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + data

    names = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, names) + field(2, raw)


def test_a_body_that_kubectl_really_sent() -> None:
    """`kubectl create deployment` sends protobuf; without the decoder it fails with 415."""
    body = protobuf.decode(DEPLOYMENT)
    assert (body["apiVersion"], body["kind"]) == ("apps/v1", "Deployment")
    assert body["metadata"] == {"name": "web", "labels": {"app": "web"}}
    assert body["spec"]["replicas"] == 50
    assert body["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("x", "x")
    conform_to_type(BY_KEY["deployments.apps"], body, strict=True)


def test_a_pod_with_the_difficult_types() -> None:
    """Quantities, times, numbers that may be text, inlined sources and maps each have an encoding of their own."""
    pod = core_pb2.Pod()
    pod.metadata.name = "p"
    pod.metadata.labels["a"] = "b"
    pod.metadata.deletion_timestamp.seconds = 1_767_225_600
    container = pod.spec.containers.add(name="c", image="i")
    container.resources.requests["cpu"].string = "100m"
    container.ports.add(container_port=80, host_port=8080)
    pod.spec.volumes.add(name="v").volume_source.persistent_volume_claim.claim_name = "claim"
    pod.spec.priority = 0
    pod.spec.tolerations.add(key="k", operator="Exists", toleration_seconds=5)
    body = protobuf.decode(envelope("v1", "Pod", pod.SerializeToString()))
    assert body["metadata"] == {"name": "p", "labels": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}}
    assert body["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 8080}]
    assert body["spec"]["volumes"] == [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    assert body["spec"]["priority"] == 0, "a zero behind a pointer is a value"
    assert body["spec"]["tolerations"] == [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"k8s\x00", id="magic alone"),
        pytest.param(b"k8s\x00\xff\xff\xff", id="cut off"),
        pytest.param(envelope("v1", "Nonsense", b""), id="unknown kind"),
        pytest.param(envelope("v1", "Pod", b"\x0a\xff\x01"), id="length beyond the end"),
    ],
)
def test_malformed_protobuf_is_refused(body: bytes) -> None:
    """A broken body costs its sender a 400, not the server a crash."""
    with pytest.raises(ApiError) as refusal:
        protobuf.decode(body)
    assert refusal.value.code == 400


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(raw: bytes) -> None:
    """Whatever arrives, the answer is an object or a 400."""
    with contextlib.suppress(ApiError):
        assert isinstance(protobuf.decode(envelope("v1", "Pod", raw)), dict)


def test_every_resource_has_its_type() -> None:
    """A row in the table without a message would refuse every write with 500."""
    for resource in RESOURCES:
        assert conform_to_type(resource, {}, strict=True)["metadata"] == {}, resource.key


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            {"spec": {"containers": [{"name": "c", "image": True}]}},
            "unmarshal bool into Go struct field Container.spec",
        ),
        ({"spec": {"containers": {}}}, "unmarshal object"),
        ({"spec": []}, "unmarshal array"),
        ({"metadata": {"labels": {"a": 1}}}, "unmarshal number"),
        ({"spec": {"priority": "high"}}, "unmarshal string"),
        ({"spec": {"hostNetwork": 1}}, "unmarshal number"),
        ({"spec": {"overhead": {"cpu": "x"}}}, "quantities must match"),
    ],
)
def test_values_of_the_wrong_type(body: dict[str, Any], text: str) -> None:
    """Code behind this check relies on shapes; odd ones stop here."""
    with pytest.raises(ApiError, match=text) as refusal:
        conform_to_type(PODS, body, strict=False)
    assert refusal.value.code == 400


def test_unknown_fields() -> None:
    """`kubectl` asks for strictness and shows the path; other clients' unknown fields are dropped."""
    body = {"spec": {"nodeNam": "n", "containers": [{"name": "c", "imge": "i"}]}, "extra": 1}
    with pytest.raises(ApiError) as refusal:
        conform_to_type(PODS, body, strict=True)
    for path in ("spec.nodeNam", "spec.containers[0].imge", "extra"):
        assert f'unknown field "{path}"' in refusal.value.message
    cleaned = conform_to_type(PODS, body, strict=False)
    assert "nodeNam" not in cleaned["spec"]
    assert "extra" not in cleaned


def test_null_is_nothing_and_amounts_are_canonical() -> None:
    """Python clients send nulls; amounts may come as numbers."""
    body = {"spec": {"nodeName": None, "containers": [{"name": "c", "resources": {"requests": {"cpu": 0.5}}}]}}
    cleaned = conform_to_type(PODS, body, strict=True)
    assert "nodeName" not in cleaned["spec"]
    assert cleaned["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}


def test_what_go_always_writes_is_there() -> None:
    """Decoders meet nulls and empty objects from the real server; they must meet them here too."""
    cleaned = conform_to_type(PODS, {"status": {"conditions": [{"type": "T", "status": "True"}]}}, strict=True)
    assert cleaned["status"]["conditions"][0]["lastTransitionTime"] is None
    assert initial_status(BY_KEY["poddisruptionbudgets.policy"])["disruptionsAllowed"] == 0
    assert initial_status(BY_KEY["nodes"])["nodeInfo"]["kubeletVersion"] == ""
