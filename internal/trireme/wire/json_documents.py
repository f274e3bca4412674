"""Messages as the JSON documents that people and programs read: protobuf's JSON mapping, with counts that are 0.

docs/adr/0023-one-explanation-document.md says which documents these are: insight and the frontend write them over HTTP,
the console and recordings show them, and the command line reads them.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf import json_format, message

MessageT = TypeVar("MessageT", bound=message.Message)


def document(of: message.Message) -> dict[str, Any]:
    """The message as a JSON document."""
    return json_format.MessageToDict(of, always_print_fields_with_no_presence=True)


def parse(found: Mapping[str, Any], into: MessageT) -> MessageT:
    """Fill the message from a document, for the command line; returns it. The document may be of a newer release.

    Raises: json_format.ParseError.
    """
    return json_format.ParseDict(dict(found), into, ignore_unknown_fields=True)
