"""What an API server sends in protobuf is read, wherever it is cut and whatever is in it."""

import contextlib
import itertools

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from trireme.cache import object_kinds, pod_projection
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import field_error
from trireme_kube.client.informers import protobuf, watch
from trireme_kube.client.rest import content_types, envelope, errors
from trireme_kube.v1 import encoding_pb2

KINDS = [core_pb2.Node, *(kind.message for kind in object_kinds.KINDS)]


def _wrapped(raw: bytes, kind: str = "Pod") -> bytes:
    unknown = encoding_pb2.Unknown(type_meta={"api_version": "v1", "kind": kind}, raw=raw)
    return envelope.MAGIC + unknown.SerializeToString()


def _node(number: int) -> core_pb2.Node:
    return core_pb2.Node(metadata={"name": f"é{number}", "resource_version": str(number)})


def _frame(kind: str, wrapped: bytes) -> bytes:
    event = encoding_pb2.WatchEvent(type=kind, object={"raw": wrapped}).SerializeToString()
    return len(event).to_bytes(4, "big") + event


def _status(code: int = 410, reason: str = "Expired") -> bytes:
    said = encoding_pb2.ApiStatus(status="Failure", reason=reason, message="too old", code=code)
    said.details.retry_after_seconds = 7
    return _wrapped(said.SerializeToString(), "Status")


@given(st.integers(0, 6), st.lists(st.integers(1, 200), max_size=12))
def test_frames_are_found_in_any_chunks(count: int, sizes: list[int]) -> None:
    """If this fails, an event is lost, doubled or garbled when a chunk ends inside it."""
    stream = b"".join(_frame("ADDED", _wrapped(_node(number).SerializeToString())) for number in range(count))
    decoder, events, at = protobuf.WatchEventDecoder(), [], 0
    for size in [*sizes, len(stream)]:
        events += decoder.feed(stream[at : at + size])
        at += size
    assert [watch.version_of(event["object"]) for event in events] == list(range(count))
    assert [protobuf.decode(event["object"], core_pb2.Node) for event in events] == [_node(n) for n in range(count)]


def test_an_error_in_a_watch_is_the_error_that_it_is_in_json() -> None:
    """If this fails, a version that the server forgot is not listed anew, and the view of the cluster is frozen."""
    (event,) = protobuf.WatchEventDecoder().feed(_frame("ERROR", _status()))
    error = errors.from_status(event["object"])
    assert (event["type"], error.status, error.expired, error.retry_after) == ("ERROR", 410, True, 7.0)
    answered = errors.from_response(429, "", {}, _status(429, "TooManyRequests"))
    assert (answered.status, answered.reason, answered.retry_after) == (429, "TooManyRequests", 7.0)


def test_a_page_gives_its_items_and_where_it_goes_on() -> None:
    """If this fails, a list is taken for whole that is not, or the watch starts from a wrong version."""
    listed = encoding_pb2.AnyList(items=[_node(n).SerializeToString() for n in (1, 2)])
    listed.metadata.resource_version, listed.metadata.continue_token = "9", "T"
    items, metadata = protobuf.page_of(_wrapped(listed.SerializeToString(), "NodeList"))
    assert [protobuf.decode(item, core_pb2.Node) for item in items] == [_node(1), _node(2)]
    assert metadata == {"resourceVersion": "9", "continue": "T"}


ODD = st.binary(max_size=60) | st.builds(_wrapped, st.binary(max_size=60)) | st.just(_status())


@given(ODD)
def test_malformed_bytes_raise_the_documented_error(data: bytes) -> None:
    """If this fails, one odd object, or a proxy in between, ends the process."""
    for message_class in KINDS:
        with contextlib.suppress(field_error.FieldError):
            protobuf.decode(data, message_class)
    with contextlib.suppress(field_error.FieldError):
        pod_projection.parse_protobuf(data)
    with contextlib.suppress(errors.ApiError):
        protobuf.page_of(data)
    with contextlib.suppress(envelope.BadEnvelope):
        envelope.decode_status(data)
    for stream in (data, _frame("ADDED", data), _frame("ERROR", data), len(data).to_bytes(4, "big") + data):
        with contextlib.suppress(watch.BrokenStream):
            protobuf.WatchEventDecoder().feed(stream)
    assert isinstance(watch.version_of(data), int)
    assert isinstance(watch.metadata_of(data), dict)
    assert errors.from_response(500, "", {}, data).status == 500


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(_frame("ADDED", b"{}"), id="object-in-json"),
        pytest.param(b'{"type":"ADDED"}\n' * 9, id="json"),
        pytest.param((watch.MAX_EVENT_BYTES + 1).to_bytes(4, "big"), id="endless-frame"),
    ],
)
def test_what_is_no_watch_breaks_the_stream(chunk: bytes) -> None:
    """If this fails, a proxy's error page fills the memory or is taken for a quiet watch."""
    with pytest.raises(watch.BrokenStream):
        protobuf.WatchEventDecoder().feed(chunk)


def _amount(text: str) -> meta_pb2.Quantity:
    return meta_pb2.Quantity(string=text)


@pytest.mark.parametrize(
    ("message", "path"),
    [
        pytest.param(
            core_pb2.Node(status={"allocatable": {"cpu": _amount("1"), "a.io/b": _amount("lots")}}),
            "status.allocatable.a.io/b",
            id="node",
        ),
        pytest.param(
            core_pb2.Pod(spec={"containers": [{}, {"resources": {"limits": {"cpu": _amount("1Q")}}}]}),
            "spec.containers[1].resources.limits.cpu",
            id="in-a-list",
        ),
        pytest.param(
            core_pb2.Pod(
                spec={
                    "volumes": [
                        {
                            "volume_source": {
                                "ephemeral": {
                                    "volume_claim_template": {
                                        "spec": {"resources": {"requests": {"storage": _amount("lots")}}}
                                    }
                                }
                            }
                        }
                    ]
                }
            ),
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage",
            id="behind-an-inlined-field",
        ),
    ],
)
def test_an_amount_that_is_none_is_refused_by_path(message: Message, path: str) -> None:
    """If this fails, one object with an odd amount fails the plugins for every pod."""
    with pytest.raises(field_error.FieldError) as caught:
        protobuf.decode(message.SerializeToString(), type(message))
    assert caught.value.path == path


def test_zero_times_and_unknown_fields_are_dropped() -> None:
    """If this fails, nodes are equal or not by the encoding they came in, and replicas are sent what nobody reads."""
    node = core_pb2.Node(metadata={"name": "n"})
    node.status.conditions.add(type="Ready").last_heartbeat_time.SetInParent()
    read = protobuf.decode(node.SerializeToString() + b"\xfa\x3f\x03abc", core_pb2.Node)
    assert not read.status.conditions[0].HasField("last_heartbeat_time")
    assert b"abc" not in read.SerializeToString()


@pytest.mark.parametrize(
    ("accept", "content_type", "asked"),
    [
        ("", content_types.PROTOBUF, "application/vnd.kubernetes.protobuf, application/json"),
        ("", content_types.JSON, "application/json"),
        ("", "application/cbor", "application/json"),
        ("application/json", content_types.PROTOBUF, "application/json"),
        ("application/vnd.kubernetes.protobuf", content_types.JSON, "application/vnd.kubernetes.protobuf"),
        ("text/html, application/json;q=0.5,application/vnd.kubernetes.protobuf", "", None),
        ("text/html", content_types.PROTOBUF, "application/json"),
    ],
)
def test_accept_headers_follow_the_configured_content_type(accept: str, content_type: str, asked: str | None) -> None:
    """If this fails, an administrator's choice of encoding is not obeyed, or one is asked for that we cannot read."""
    wanted = asked or "application/json, application/vnd.kubernetes.protobuf"
    assert content_types.accept_header(accept, content_type) == wanted


def test_an_answer_is_read_by_its_content_type() -> None:
    """If this fails, JSON is parsed as protobuf or the other way round."""
    named = (content_types.PROTOBUF, f"{content_types.PROTOBUF};stream=watch", "Application/vnd.kubernetes.protobuf")
    others = ("application/json", "application/json;stream=watch", "", None)
    assert list(itertools.chain(map(content_types.is_protobuf, named), map(content_types.is_protobuf, others))) == [
        *[True] * len(named),
        *[False] * len(others),
    ]
