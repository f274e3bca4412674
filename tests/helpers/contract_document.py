"""docs/reference/plugin-contract.md, written from the protos: `make docs` runs this, and a test compares.

It has the services between a scheduler and plugins, and all messages and enums that their calls consist of. Messages of
Kubernetes' API are named and not explained.

Also change: internal/trireme/plugin_verification/rpcs.py,
sdk/java/src/main/java/dev/trireme/sdk/Rpcs.java (RPCs of plugins).
"""

import functools
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2

from tests.helpers import contract_comments

DOCUMENT = contract_comments.ROOT / "docs/reference/plugin-contract.md"

#: The services of the contract, in the order in which an author meets them, and who serves each.
_SERVICES = {
    "PluginService": "Served by each plugin.",
    "FilterPlugin": "Served by a plugin with preFilter, filter, postFilter or reserve.",
    "ScorePlugin": "Served by a plugin with preScore, score or a normalisation of its own.",
    "BindPlugin": "Served by a plugin with permit, preBind, bind or postBind.",
    "QueueService": "Served by a plugin with preEnqueue or queueSort, or with events that have a hint.",
    "PodGroupPlugin": "Served by a plugin with placementFeasible.",
    "SnapshotFollower": "Served by a plugin with NODE_DATA_SNAPSHOT.",
    "HandleService": "Served by the frontend, called by plugins.",
}
#: RPCs of these services that no plugin serves or calls.
_OF_PHASES = {"PluginService.GetPluginStatistics"}
#: Messages that a plugin's snapshot stream never has: its contents are for phases and insight.
_NOT_SENT = frozenset({"QueueDelta", "RemotePlugin"})
#: The files whose messages are Kubernetes' own.
_KUBERNETES = frozenset({"apps", "core", "meta", "policy", "resource", "scheduling", "storage"})
_HEAD = """# Reference: the contract of plugins

<!-- Written by `make docs` from protos/trireme/v1. -->

Every RPC, message, field and value that a plugin in any language may meet, with
the comments of [protos/trireme/v1](../../protos/trireme/v1). The rules for all
calls, and what follows from errors, are in [protocol.md](../protocol.md); which
extension point to take, in [extension-points.md](../extension-points.md). With
an SDK you see little of this: the columns, states and fences are its work.

Messages without a link are subsets of the Kubernetes type of that name, with the
same field numbers ([core.proto](../../protos/trireme/v1/core.proto) and others
beside it), or are sent to phases and insight alone (`QueueDelta`, `RemotePlugin`).
"""
_SCALARS = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


@functools.cache
def _files() -> Sequence[Any]:
    """The files of the contract, with their options and names."""
    buf = pathlib.Path(sys.executable).with_name("buf")
    built = subprocess.run(
        [buf, "build", "-o", "-#format=binpb"], cwd=contract_comments.ROOT, check=True, capture_output=True, timeout=60
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(built.stdout).file
    return [file for file in files if file.package == "trireme.v1"]


def write() -> str:
    """The document's text."""
    services = {service.name: service for file in _files() for service in file.service}
    parts = [_HEAD, "\n## Services\n"]
    parts += [_service(services[name], served) for name, served in _SERVICES.items()]
    messages = _reachable(services)
    enums = {enum.name: enum for file in _files() for enum in file.enum_type}
    used = _enums_of(messages, enums)
    parts.append("\n## Messages\n")
    parts += [_message(messages[name]) for name in sorted(messages)]
    parts.append("\n## Enums\n")
    parts += [_enum(enums[name]) for name in used]
    return "".join(parts)


def _reachable(services: Mapping[str, Any]) -> dict[str, Any]:
    """The messages that calls of the services consist of, by name, without those of Kubernetes."""
    known = {
        message.name: message
        for file in _files()
        for message in file.message_type
        if pathlib.PurePath(file.name).stem not in _KUBERNETES and message.name not in _NOT_SENT
    }
    wanted = [
        _last(name)
        for service in _SERVICES
        for method in services[service].method
        if f"{service}.{method.name}" not in _OF_PHASES
        for name in (method.input_type, method.output_type)
    ]
    found: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name in known and name not in found:
            found[name] = known[name]
            wanted += [_type_name(field) for field in _fields(known[name])]
    return found


def _enums_of(messages: Mapping[str, Any], enums: Mapping[str, Any]) -> list[str]:
    """The enums that fields of these messages have, by name."""
    return sorted(
        {name for each in messages.values() for field in _fields(each) if (name := _type_name(field)) in enums}
    )


def _service(service: Any, served: str) -> str:
    """A service and its RPCs."""
    rows = [
        f"| `{method.name}` | {_stream(method.client_streaming)}{_link(_last(method.input_type))} | "
        f"{_stream(method.server_streaming)}{_link(_last(method.output_type))} | "
        f"{_comment(f'{service.name}.{method.name}')} |\n"
        for method in service.method
        if f"{service.name}.{method.name}" not in _OF_PHASES
    ]
    head = "| RPC | request | response | meaning |\n| --- | --- | --- | --- |\n"
    return f"\n### {service.name}\n\n{served} {_comment(service.name)}\n\n{head}{''.join(rows)}"


def _message(message: Any) -> str:
    """A message and its fields."""
    rows = [
        f"| `{field.name}` | {field.number} | {_type(message, field)} | {_comment(f'{message.name}.{field.name}')} |\n"
        for field in message.field
    ]
    head = "| field | number | type | meaning |\n| --- | --- | --- | --- |\n"
    return f"\n### {message.name}\n\n{_comment(message.name)}\n" + (f"\n{head}{''.join(rows)}" if rows else "")


def _enum(enum: Any) -> str:
    """An enum and its values."""
    rows = [f"| `{each.name}` | {each.number} | {_comment(f'{enum.name}.{each.name}')} |\n" for each in enum.value]
    head = "| value | number | meaning |\n| --- | --- | --- |\n"
    return f"\n### {enum.name}\n\n{_comment(enum.name)}\n\n{head}{''.join(rows)}"


def _fields(message: Any) -> Iterator[Any]:
    """The fields of a message and of those inside it, such as the entries of maps."""
    yield from message.field
    for nested in message.nested_type:
        yield from _fields(nested)


def _type(message: Any, field: Any) -> str:
    """A field's type, linked if it is explained here."""
    entry = next((each for each in message.nested_type if each.name == _last(field.type_name)), None)
    if entry is not None and entry.options.map_entry:
        key, value = entry.field
        return f"map of {_SCALARS[key.type]} to {_plain_type(value)}"
    choice = ", one of several" if field.HasField("oneof_index") and not field.proto3_optional else ""
    repeated = field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    return f"{'list of ' if repeated else ''}{_plain_type(field)}{choice}"


def _plain_type(field: Any) -> str:
    return _link(_type_name(field)) if field.type_name else _SCALARS[field.type]


def _type_name(field: Any) -> str:
    return _last(field.type_name)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@functools.cache
def _explained() -> frozenset[str]:
    """What has a heading here."""
    services = {service.name: service for file in _files() for service in file.service}
    messages = _reachable(services)
    enums = {enum.name: enum for file in _files() for enum in file.enum_type}
    return frozenset(messages) | frozenset(_enums_of(messages, enums))


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})" if name in _explained() else f"`{name}`"


def _stream(streams: bool) -> str:
    return "stream of " if streams else ""


def _comment(name: str) -> str:
    return contract_comments.comments().get(name, "").replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(write())
