"""From the bytes of a configuration file to a `SchedulerConfiguration`, or to one error message.

The steps are those of Kubernetes' serializers, because the first one that fails decides the operator's message: JSON or
YAML is chosen by the first character, kind and version are read, the object is decoded strictly, then each plugin's
arguments; only if all of this succeeds are unknown and duplicate fields reported, together.

Also change: internal/trireme/config_convert/extenders.py (extenders' fields).

Tests: tests/unit/config/test_loading.py, tests/unit/config/test_inspection.py.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trireme.config import defaults
from trireme.config.gates import FeatureGates
from trireme.config.scheduler_configuration import (
    API_GROUP,
    API_VERSION,
    CONFIGURATION,
    KIND,
    SchedulerConfiguration,
    args_schemas,
)
from trireme.registry import in_tree_args
from trireme_kube.apimachinery import declaration, golang, json_document, yaml_document
from trireme_kube.apimachinery.configuration_files import (
    INTERNAL_VERSION,
    ConfigurationError,
    GroupVersionKind,
    not_registered,
    read_file,
    read_kind,
)
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.apimachinery.json_document import Node
from trireme_kube.apimachinery.schema import Field, Kind, Many, Scalar, Struct, Type, zero
from trireme_kube.apimachinery.strict_decoding import DecodeError, decode

#: Go's white space before the brace that makes a text JSON.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

#: Receives the lines that loading logs.
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed text: its tree, the text itself, and the duplicates in it, which strict reading refuses."""

    node: Node
    text: str
    duplicates: str = ""


def load_file(path: str, gates: FeatureGates, log: Log) -> SchedulerConfiguration:
    """Reads a configuration file.

    Raises:
        ConfigurationError: it cannot be read or decoded.
    """
    return load(read_file(path), gates, log)


def load(data: bytes, gates: FeatureGates, log: Log) -> SchedulerConfiguration:
    """Decode a configuration, fill in defaults and convert it.

    Unknown and duplicate fields are errors, all reported together. Raises: ConfigurationError: it cannot be decoded.
    """
    source = parse(data)
    kind = read_kind(source.node)
    if not kind.kind:
        raise ConfigurationError(f"Object 'Kind' is missing in '{source.text}'")
    if not kind.version:
        raise ConfigurationError(f"Object 'apiVersion' is missing in '{source.text}'")
    value, strict = _decode_as(source, kind)
    problems = strict_problems(strict)
    if kind.kind == KIND and kind.api_version == API_VERSION:
        for where, name, errors in _decode_args(value):
            strict.append(_strict_args_error(where, name, errors))
            problems += [_strict_args_error(where, name, [error]) for error in errors]
        defaults.set_defaults(value, gates, log)
    if strict:
        raise ConfigurationError(strict_error(strict), problems)
    if kind.kind != KIND:
        raise ConfigurationError(f"couldn't decode as {KIND}, got {kind.api_version}, Kind={kind.kind}: ")
    return _to_configuration(value)


def default_configuration(gates: FeatureGates) -> SchedulerConfiguration:
    """The configuration without a file."""
    value: dict[str, Any] = {}
    defaults.set_defaults(value, gates, lambda _line: None)
    return _to_configuration(value)


def _to_configuration(value: Mapping[str, Any]) -> SchedulerConfiguration:
    """Make the configuration of a decoded value with defaults."""
    config: SchedulerConfiguration = declaration.read(SchedulerConfiguration, value)
    return config


def parse(data: bytes) -> Source:
    """Parse JSON or YAML, chosen by the first character. Raises: ConfigurationError: it is neither."""
    text = data.decode("utf-8", "surrogateescape")
    if text.lstrip(_WHITE_SPACE).startswith("{"):
        try:
            return Source(json_document.parse(text), text)
        except json_document.MalformedJSONError as error:
            raise ConfigurationError(f"couldn't get version/kind; json parse error: {error}") from error
    try:
        document = yaml_document.parse(data)
    except yaml_document.MalformedYAMLError as error:
        raise ConfigurationError(str(error)) from error
    return Source(document.node, text, document.duplicates)


def _args_schemas_by_kind() -> Mapping[str, Struct]:
    """The types of plugins' arguments, by kind."""
    return {schema.name: schema for schema in args_schemas().values()}


def _decode_as(source: Source, kind: GroupVersionKind) -> tuple[dict[str, Any], list[str]]:
    """Decode the source as this kind; return the value, and errors of strict decoding. Raises: ConfigurationError."""
    schema = CONFIGURATION if kind.kind == KIND else _args_schemas_by_kind().get(kind.kind)
    own = kind.version == INTERNAL_VERSION
    if schema is None or kind.group != API_GROUP or not (own or kind.api_version == API_VERSION):
        raise ConfigurationError(not_registered(kind))
    try:
        decoded = decode(source.node, _internal_schema(schema) if own else schema)
    except DecodeError as error:
        raise ConfigurationError(str(error)) from error
    value = _with_all_fields_of(decoded.value, schema) if own else decoded.value
    return value, [source.duplicates] * bool(source.duplicates) + list(decoded.strict)


def strict_error(errors: Sequence[str]) -> str:
    """The message for unknown and duplicate fields, all in one."""
    return "strict decoding error: " + ", ".join(errors)


def strict_problems(errors: Sequence[str]) -> list[str]:
    """Unknown and duplicate fields one by one: the YAML parser has all duplicates in one message, a line each."""
    problems: list[str] = []
    for error in errors:
        head, _, lines = error.partition("\n")
        problems += [f"yaml: {line.strip()}" for line in lines.splitlines()] or [head]
    return problems


def _strict_args_error(where: str, name: str, errors: Sequence[str]) -> str:
    """The message for unknown and duplicate fields in a plugin's arguments."""
    return where + strict_error([f"decoding args for plugin {name}: {strict_error(errors)}"])


def _decode_args(value: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Decode the arguments of plugins with typed arguments, in place; those of others stay as they are.

    Returns the unknown and duplicate fields in them: their place, the plugin, and an error for each field.

    Raises: ConfigurationError: some cannot be decoded at all.
    """
    strict = []
    for i, profile in enumerate(value.get("profiles") or ()):
        for j, config in enumerate(profile.get("pluginConfig") or ()):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            name = config.get("name", "")
            if name not in args_schemas():
                continue
            try:
                config["args"], config[defaults.SPELT_OUT], errors = _decode_plugin_args(name, config.get("args"))
            except ConfigurationError as error:
                raise ConfigurationError(where + str(error)) from error
            if errors:
                strict.append((where, name, errors))
    return strict


def _decode_plugin_args(name: str, node: Node) -> tuple[dict[str, Any], bool, list[str]]:
    """The arguments, whether they need no more defaults, and their problems."""
    try:
        kind = read_kind(node).with_missing_parts(API_GROUP, "v1", f"{name}Args")
        if not kind.version:
            raise ConfigurationError(
                f"Object 'apiVersion' is missing in '{golang.json_text(json_document.plain(node))}'"
            )
        value, strict = _decode_as(Source(node, ""), kind)
    except ConfigurationError as error:
        raise ConfigurationError(f"decoding args for plugin {name}: {error}") from error
    if kind.kind != f"{name}Args":
        raise ConfigurationError(
            f"args for plugin {name} were not of type {name}Args.{API_GROUP}, got {kind.group_kind}"
        )
    value.pop("apiVersion", None)
    value.pop("kind", None)
    return value, kind.version == INTERNAL_VERSION, strict


# The internal version. Nobody should write one, but kube-scheduler accepts it: fields have the names of its own
# structs, and no defaults are filled in, so validation sees zeros where other files have defaults.

#: Fields whose own names are not the API's with a capital; kind and version are the same everywhere.
_NAMES = {
    "kind": "kind",
    "apiVersion": "apiVersion",
    "qps": "QPS",
    "urlPrefix": "URLPrefix",
    "tlsConfig": "TLSConfig",
    "httpTimeout": "HTTPTimeout",
    "enableHTTPS": "EnableHTTPS",
    "caFile": "CAFile",
    "caData": "CAData",
}
#: Fields that may be absent here too, which is not the same as zero.
_OPTIONAL = frozenset({"percentageOfNodesToScore", "percentageOfPlacementsToScore", "filterTimeout", "bindingTimeout"})
#: Fields that are always read, whatever their contents.
_EMPTY: Mapping[str, Callable[[], Any]] = {"profiles": list, "plugins": dict, "pluginConfig": list}


@functools.cache
def _core_types() -> frozenset[str]:
    """The structs of the core API in arguments of plugins, whose fields have the API's names here too."""
    return frozenset(name for args in in_tree_args.plugin_args().values() for name in args.core_types)


def _internal_schema(of: Struct) -> Struct:
    """The struct with its fields by kube-scheduler's own names."""
    if of.name in _core_types():
        return of
    fields = (
        replace(entry, name=_internal_name(entry), type=_internal_type(entry.type)) for entry in of.fields.values()
    )
    return replace(of, fields={entry.name: entry for entry in fields})


def _internal_name(entry: Field) -> str:
    """The field's name in kube-scheduler's own struct."""
    return _NAMES.get(entry.name, entry.name[0].upper() + entry.name[1:])


def _internal_type(of: Type) -> Type:
    """The field's type with kube-scheduler's own names in it."""
    if isinstance(of, Many):
        return Many(_internal_type(of.of))
    return _internal_schema(of) if isinstance(of, Struct) else of


def _with_all_fields_of(value: Mapping[str, Any], of: Struct) -> dict[str, Any]:
    """The decoded value with the API's names for its fields, and zeros for missing ones."""
    if of.name in _core_types():
        return dict(value)
    out: dict[str, Any] = {}
    for name, entry in of.fields.items():
        member = value.get(_internal_name(entry))
        if member is not None:
            out[name] = _with_all_fields(member, entry.type)
        elif name in _OPTIONAL:
            out[name] = None
        elif name in _EMPTY:
            out[name] = _EMPTY[name]()
        elif isinstance(entry.type, Scalar):
            out[name] = Duration() if entry.type.kind is Kind.DURATION else zero(entry.type.kind)
        elif isinstance(entry.type, Struct) and not entry.type.optional:
            out[name] = _with_all_fields_of({}, entry.type)
    return out


def _with_all_fields(value: Any, of: Type) -> Any:
    """As `_with_all_fields_of`, for a value of any type."""
    if isinstance(of, Struct):
        return _with_all_fields_of(value, of)
    if isinstance(of, Many):
        return [_with_all_fields(each, of.of) for each in value]
    return value


def with_internal_names(value: Mapping[str, Any], of: Struct) -> dict[str, Any]:
    """The value of a struct with kube-scheduler's own names for its fields, as its log shows it."""
    return {_internal_name(entry): _named_internally(value[name], entry.type) for name, entry in of.fields.items()}


def _named_internally(value: Any, of: Type) -> Any:
    """As `with_internal_names`, for a value of any type."""
    if isinstance(of, Many):
        return [_named_internally(each, of.of) for each in value]
    return with_internal_names(value, of) if isinstance(of, Struct) and value is not None else value
