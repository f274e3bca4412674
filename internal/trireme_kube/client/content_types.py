"""The encodings of objects: JSON, which every API server speaks, and protobuf, which Kubernetes' own speaks cheaper.

Who lists and watches names what it can read, best first, and looks at what came: an API server that does not have an
object in protobuf (the embedded one, or one behind an aggregation layer) answers JSON.
"""

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
# The answer of a write of which no more is looked at than the object's metadata.
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1, {JSON}"


def accepted(accept_content_types: str, content_type: str) -> str:
    """The Accept header for a `clientConnection` of these two: what of it we can read, as they order it.

    Without `acceptContentTypes`, `contentType` is what is asked for, as in client-go; and JSON where there is no other
    way.
    """
    named = [entry.partition(";")[0].strip().lower() for entry in accept_content_types.split(",")]
    if not any(named):
        named = [content_type.partition(";")[0].strip().lower(), JSON]
    readable = dict.fromkeys(entry for entry in named if entry in (JSON, PROTOBUF))
    return ", ".join(readable) or JSON


def is_protobuf(content_type: str | None) -> bool:
    """Whether an answer of this Content-Type is in protobuf; of a watch it has a parameter besides."""
    return (content_type or "").partition(";")[0].strip().lower() == PROTOBUF
