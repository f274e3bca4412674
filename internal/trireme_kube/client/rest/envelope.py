"""The envelope of an object in Kubernetes' protobuf encoding: four magic bytes and a `runtime.Unknown`.

Separate from lists and watches because the response to any request may be an error in this encoding.
Source: apimachinery's runtime/serializer/protobuf.

Also change: protos/trireme_kube/v1/encoding.proto (the messages).

Tests: tests/unit/client/informers/test_protobuf.py.
"""

from typing import Any

from google.protobuf.message import DecodeError

from trireme_kube.v1 import encoding_pb2

MAGIC = b"k8s\0"


class BadEnvelope(ValueError):
    """The bytes are not an object in Kubernetes' protobuf encoding."""


def unwrap(data: bytes) -> encoding_pb2.Unknown:
    """Return the object's type and its own bytes.

    Raises:
      BadEnvelope: the bytes have no valid envelope.
    """
    if data[:4] != MAGIC:
        raise BadEnvelope(f"no object in protobuf: {data[:40]!r}")
    try:
        return encoding_pb2.Unknown.FromString(data[4:])
    except DecodeError as error:
        raise BadEnvelope(f"no object in protobuf: {error}") from error


def decode_status(data: bytes) -> dict[str, Any]:
    """Decode an enveloped Status to its JSON form. Raises: BadEnvelope: the object is not a Status."""
    wrapped = unwrap(data)
    if wrapped.type_meta.kind != "Status":
        raise BadEnvelope(f"a {wrapped.type_meta.kind or 'nameless kind'} instead of a Status")
    try:
        status_message = encoding_pb2.ApiStatus.FromString(wrapped.raw)
    except DecodeError as error:
        raise BadEnvelope(f"no Status: {error}") from error
    details = status_message.details
    fields = {"name": details.name, "group": details.group, "kind": details.kind, "uid": details.uid}
    out: dict[str, Any] = {name: text for name, text in fields.items() if text}
    if details.causes:
        out["causes"] = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in details.causes
        ]
    if details.retry_after_seconds:
        out["retryAfterSeconds"] = details.retry_after_seconds
    return {
        "kind": "Status",
        "status": status_message.status,
        "message": status_message.message,
        "reason": status_message.reason,
        "details": out,
        "code": status_message.code,
    }
