"""Decodes protocol buffers field by field, without a depth limit.

Source: protobuf.dev/programming-guides/encoding.

Tests: tests/conformance/test_selectors.py.
"""

from collections.abc import Iterator
from typing import Any, Final

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5


def read_fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an integer, or bytes."""
    at = 0
    while at < len(content):
        tag, at = _read_varint(content, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(content, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, at = _read_varint(content, at)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}[kind]
        yield tag >> 3, content[at : at + length]
        at += length


def unpack_varints(content: bytes) -> Iterator[int]:
    """Yield the integers of a packed repeated field."""
    at = 0
    while at < len(content):
        value, at = _read_varint(content, at)
        yield value


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Decode the varint at a position; return it with the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
