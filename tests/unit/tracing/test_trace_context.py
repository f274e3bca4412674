"""W3C trace contexts in metadata."""

import pytest

from trireme.tracing import trace_context
from trireme.tracing.trace_context import TraceContext

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_example_of_the_standard_is_read_and_written() -> None:
    context = trace_context.parse(HEADER)
    assert context == TraceContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True)
    assert context.header() == HEADER


def test_a_later_version_may_append_fields() -> None:
    context = trace_context.parse(HEADER.replace("00-", "01-", 1) + "-more")
    assert context is not None
    assert context.sampled


@pytest.mark.parametrize(
    "header",
    [
        "",
        "ff" + HEADER[2:],
        HEADER.upper(),
        HEADER[:-1],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
    ],
)
def test_an_invalid_header_is_none(header: str) -> None:
    assert trace_context.parse(header) is None


def test_a_context_is_found_in_metadata() -> None:
    found = trace_context.of_metadata((("user-agent", "x"), ("traceparent", HEADER)))
    assert found is not None
    assert found.header() == HEADER
    assert trace_context.of_metadata(None) is None


def test_flags_other_than_sampled_are_ignored() -> None:
    context = trace_context.parse(HEADER[:-2] + "02")
    assert context is not None
    assert not context.sampled
