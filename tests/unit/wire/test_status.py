"""Statuses survive the wire, and an answer that makes no sense is an error and not a success."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.framework import status
from trireme.framework.status import Code, Reason, Status
from trireme.v1 import status_pb2
from trireme.wire.status import from_message, to_message

_texts = st.text(max_size=8)
_reasons = st.builds(Reason.of, _texts, st.dictionaries(_texts, _texts, max_size=3))
_refusals = st.builds(
    Status,
    st.sampled_from([code for code in Code if code not in (Code.SUCCESS, Code.SKIP)]),
    st.text(min_size=1, max_size=8),
    st.lists(_texts, max_size=3).map(tuple),
    st.lists(_reasons, max_size=3).map(tuple),
)


@given(_refusals)
def test_a_refusal_survives_the_wire(value: Status) -> None:
    """Code, plugin, messages and reasons all arrive."""
    copy = from_message(status_pb2.Status.FromString(to_message(value).SerializeToString()))
    assert (copy, copy.reasons) == (value, value.reasons)


@pytest.mark.parametrize("value", [status.SUCCESS, status.SKIP], ids=["success", "skip"])
def test_the_common_answers_are_one_object_each(value: Status) -> None:
    """Thousands of successes cost no memory."""
    assert from_message(to_message(value)) is value


@pytest.mark.parametrize("code", [0, 99], ids=["unset", "unknown"])
def test_an_unknown_code_is_an_error_of_the_plugin(code: int) -> None:
    """A plugin that forgets the code must not let a pod pass."""
    message = status_pb2.Status.FromString(b"\x08" + bytes([code]))
    got = from_message(message, "Picky")
    assert (got.code, got.plugin) == (Code.ERROR, "Picky")
    assert str(code) in got.message
