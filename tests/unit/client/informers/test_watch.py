"""The bytes of a watch become events wherever the network cuts them."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.client.informers import watch


def _line(number: int) -> bytes:
    return orjson.dumps(
        {"type": "ADDED", "object": {"metadata": {"name": f"é{number}", "resourceVersion": str(number)}}}
    )


@given(st.integers(0, 6), st.lists(st.integers(1, 200), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_lines_are_found_in_any_chunks(count: int, sizes: list[int], end: bytes) -> None:
    """If this fails, an event is lost, doubled or garbled when a chunk ends inside it."""
    stream = b"".join(_line(number) + end for number in range(count))
    decoder, events, at = watch.LineDecoder(), [], 0
    for size in [*sizes, len(stream)]:
        events += decoder.feed(stream[at : at + size])
        at += size
    assert [watch.version_of(event["object"]) for event in events] == list(range(count))


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"<html>\n", id="not-json"),
        pytest.param(b"[]\n", id="not-an-object"),
        pytest.param(b'{"type":"ADDED"}\n', id="without-object"),
        pytest.param(b'{"type":"ADDED","object":7}\n', id="object-is-a-number"),
        pytest.param(b"x" * (watch.MAX_EVENT_BYTES + 1), id="endless-line"),
    ],
)
def test_what_is_no_watch_breaks_the_stream(chunk: bytes) -> None:
    """If this fails, a proxy's error page ends the informer with an exception, or fills the memory."""
    with pytest.raises(watch.BrokenStream):
        watch.LineDecoder().feed(chunk)


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        pytest.param({"metadata": {"resourceVersion": "12"}}, 12, id="number"),
        pytest.param({"metadata": {"resourceVersion": "abc"}}, 0, id="opaque"),
        pytest.param({"metadata": {"resourceVersion": "²"}}, 0, id="superscript"),
        pytest.param({"metadata": {"resourceVersion": "-3"}}, 0, id="negative"),
        pytest.param({"metadata": {"resourceVersion": None}}, 0, id="null"),
        pytest.param({"metadata": {}}, 0, id="missing"),
        pytest.param({"metadata": None}, 0, id="no-metadata"),
        pytest.param({}, 0, id="empty"),
    ],
)
def test_versions_are_read_from_malformed_objects_too(raw: dict[str, Any], version: int) -> None:
    """If this fails, one odd object stops an informer."""
    assert watch.version_of(raw) == version
