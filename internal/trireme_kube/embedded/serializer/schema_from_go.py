"""Makes `protobuf_schema.json` from the Go modules that define the Kubernetes types.

Run by hand for a new release:

    python -m trireme_kube.embedded.serializer.schema_from_go MODULES/k8s.io/api@v0.37.0 \
        MODULES/k8s.io/apimachinery@v0.37.0 MODULES/k8s.io/apiextensions-apiserver@v0.37.0

The field numbers and types come from the modules' .proto files; what those do not say (which messages are inlined in
JSON, and which zero values JSON leaves out) comes from the struct tags beside them. The result holds nothing but
numbers, names and types.

Tests: tests/unit/embedded/serializer/test_bodies.py.
"""

import re
import sys
from pathlib import Path

import orjson

from trireme_kube.embedded.serializer.protobuf import SCHEMA_FILE, Field

_GROUPS = (
    "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1",
    "certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1", "networking/v1", "node/v1",
    "policy/v1", "rbac/v1", "resource/v1",
    "scheduling/v1", "scheduling/v1alpha3", "scheduling/v1beta1", "storage/v1",
)  # fmt: skip
_MACHINERY = ("pkg/apis/meta/v1", "pkg/runtime", "pkg/util/intstr", "pkg/api/resource")
_EXTENSIONS = ("pkg/apis/apiextensions/v1",)
_SCALARS = {"double": "d", "string": "s", "int32": "n", "int64": "n", "bool": "b", "bytes": "y"}
_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (optional|repeated|map<string, ([\w.]+)>) ?([\w.]*) (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_TAG = re.compile(
    r'^\t(?:\w+\s+)?(?P<type>[^\s`]+)\s+`json:"(?P<json>[^"]*)".*?protobuf:"\w+,(?P<number>\d+),', re.MULTILINE
)


def _short_name(name: str, package: str) -> str:
    """`.k8s.io.api.core.v1.Pod`, or `Pod` within its package, as `core.v1.Pod`."""
    full = name.removeprefix(".") if "." in name else f"{package}.{name}"
    return (
        full.removeprefix("k8s.io.api.")
        .removeprefix("k8s.io.apimachinery.pkg.apis.")
        .removeprefix("k8s.io.apiextensions_apiserver.pkg.apis.")
        .removeprefix("k8s.io.apimachinery.pkg.")
    )


def _struct_tags(source: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Go type and JSON tag by struct and field number."""
    tags: dict[tuple[str, int], tuple[str, str]] = {}
    for name, body in _STRUCT.findall(source):
        for match in _TAG.finditer(body):
            tags[(name, int(match["number"]))] = (match["type"], match["json"])
    return tags


def _schema_field(package: str, groups: tuple[str, ...], tags: tuple[str, str] | None) -> tuple[int, Field]:
    """Return a field's number, and its JSON name, shape and type's code."""
    label, map_type, plain_type, name, number = groups
    proto_type = map_type or plain_type
    code = _SCALARS.get(proto_type) or _short_name(proto_type, package)
    go_type, tag = tags or ("", name + ",omitempty")
    json_name, _, options = tag.partition(",")
    # To Go's JSON encoder a struct is never empty, so omitempty does not omit it; omitzero does.
    is_struct = proto_type not in _SCALARS and label != "repeated" and not map_type
    always = tags is not None and "omitzero" not in options and (is_struct or "omitempty" not in options)
    if label == "repeated" or map_type:
        shape = "map" if map_type else "repeated"
        return int(number), (json_name, shape + (" always" if always else ""), code)
    if not json_name:
        return int(number), (name, "inline", code)
    if go_type.startswith("*"):
        return int(number), (json_name, "kept", code)
    return int(number), (json_name, "always" if always else "value", code)


def _read_proto_files(folder: Path, schema: dict[str, dict[int, Field]]) -> None:
    proto = (folder / "generated.proto").read_text()
    package = re.search(r"^package ([\w.]+);", proto, re.MULTILINE)
    if package is None:
        raise SystemExit(f"{folder}: generated.proto has no package")
    tags = _struct_tags("\n".join(path.read_text() for path in sorted(folder.glob("*.go")) if "_test" not in path.name))
    for message, body in _MESSAGE.findall(proto):
        fields: dict[int, Field] = {}
        for groups in _FIELD.findall(body):
            number, described = _schema_field(package[1], groups, tags.get((message, int(groups[4]))))
            fields[number] = described
        schema[_short_name(message, package[1])] = fields


def main(argv: list[str]) -> int:
    """Writes the schema beside this module."""
    api, machinery, extensions = map(Path, argv)
    schema: dict[str, dict[int, Field]] = {}
    for part in _MACHINERY:
        _read_proto_files(machinery / part, schema)
    for part in _GROUPS:
        _read_proto_files(api / part, schema)
    for part in _EXTENSIONS:
        _read_proto_files(extensions / part, schema)
    lines = [
        orjson.dumps(name).decode() + ":" + orjson.dumps({str(key): value for key, value in fields.items()}).decode()
        for name, fields in sorted(schema.items())
        if not name.endswith("List")
    ]
    SCHEMA_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
