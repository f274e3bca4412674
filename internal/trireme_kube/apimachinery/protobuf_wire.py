"""Encodes fields of protocol buffers one by one, where a message would be built only to be serialised.

Source: protobuf.dev/programming-guides/encoding.

Tests: tests/unit/remote/test_request.py, tests/unit/recording/test_segments.py.
"""

_VARINT = 0
_LENGTH_DELIMITED = 2


def encode_varint(value: int) -> bytes:
    """Encode a non-negative number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_number(field_number: int, value: int) -> bytes:
    """Encode a field of type uint32, uint64 or bool."""
    return encode_varint(field_number << 3 | _VARINT) + encode_varint(value)


def encode_delimited(field_number: int, payload: bytes) -> bytes:
    """Encode a field of type message, string or bytes."""
    return encode_varint(field_number << 3 | _LENGTH_DELIMITED) + encode_varint(len(payload)) + payload
