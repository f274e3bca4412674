"""The comments of protos/trireme/v1, by the name of what they are about, and the text of docs/protocol.md."""

import functools
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).parents[2]


@functools.cache
def comments() -> Mapping[str, str]:
    """The comment of each service, RPC, message, field, enum and value, on one line, by its name in the package."""
    buf = pathlib.Path(sys.executable).with_name("buf")
    built = subprocess.run(
        [buf, "build", "-o", "-#format=binpb"], cwd=ROOT, check=True, capture_output=True, timeout=60
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(built.stdout).file
    return {name: text for file in files if file.package == "trireme.v1" for name, text in _comments_of(file)}


@functools.cache
def protocol() -> str:
    """docs/protocol.md on one line."""
    return one_line((ROOT / "docs/protocol.md").read_text())


def one_line(text: str) -> str:
    """The text with single blanks in place of line breaks."""
    return " ".join(text.split())


def _comments_of(file: Any) -> Iterator[tuple[str, str]]:
    """The names and comments of one file."""
    for location in file.source_code_info.location:
        name = _name_at(file, list(location.path))
        if name and location.leading_comments:
            yield name, one_line(location.leading_comments)


def _name_at(file: Any, path: list[int]) -> str:
    """The name of what the path leads to; empty: of nothing that has a name."""
    value: Any = file
    names: list[str] = []
    for at, part in enumerate(path):
        if at % 2:
            value = value[part]
            names.append(value.name)
        else:
            field = value.DESCRIPTOR.fields_by_number.get(part)
            if field is None or not field.is_repeated or field.message_type is None:
                return ""
            value = getattr(value, field.name)
    return ".".join(names) if len(path) % 2 == 0 else ""
