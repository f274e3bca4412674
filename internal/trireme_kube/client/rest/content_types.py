"""The encodings of objects: JSON, which every API server supports, and protobuf, which costs Kubernetes' own less.

A client lists the encodings it can read, best first, and checks the Content-Type of the response: an API server that
has no protobuf for an object (the embedded one, or one behind an aggregation layer) responds in JSON.

Also change: internal/trireme_kube/embedded/serializer/protobuf.py, internal/trireme/config/command_flags.py,
internal/trireme/config/scheduler_configuration.py (the media type of protobuf).
"""

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# For writes whose caller reads only the object's metadata from the response.
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1, {JSON}"


def accept_header(accept_content_types: str, content_type: str) -> str:
    """The Accept header for a `clientConnection` with these two fields: the readable encodings, in their order.

    Without `acceptContentTypes`, it is `contentType`, as in client-go; JSON if nothing else is readable.
    """
    types = [entry.partition(";")[0].strip().lower() for entry in accept_content_types.split(",")]
    if not any(types):
        types = [content_type.partition(";")[0].strip().lower(), JSON]
    readable = dict.fromkeys(entry for entry in types if entry in (JSON, PROTOBUF))
    return ", ".join(readable) or JSON


def is_protobuf(content_type: str | None) -> bool:
    """Whether a response of this Content-Type is in protobuf; a watch's has a parameter appended."""
    return (content_type or "").partition(";")[0].strip().lower() == PROTOBUF
