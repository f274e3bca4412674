"""Compiles expressions with the CEL library in Kubernetes' environment for selectors: variables, types, functions.

The library parses and checks; `program` evaluates the checked expression.
Source: k8s.io/dynamic-resource-allocation/cel (newCompiler), k8s.io/apiserver/pkg/cel/environment.

Also change: internal/trireme/plugins/dynamic_resources/expressions.py,
internal/trireme/plugins/dynamic_resources/derived_attributes.py, internal/trireme_kube/cel/values.py (types of CEL).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py.
"""

import functools
import re
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

from trireme_kube.cel import syntax, values
from trireme_kube.cel.compiler import arity_errors, compiler_messages, validation
from trireme_kube.cel.interpreter import planner, program
from trireme_kube.cel.library import functions

_CAPITALS = re.compile(r"(?<![.\w])[A-Z]+\b(?!\.)")
# `has` does not work on variables, only on fields of messages.
_HAS_FIELD = re.compile(r"\bhas\s*\(\s*device\s*\.\s*\w+\s*\)")
# The library's messages for reaching its depth limit. Kubernetes' is 250.
_TOO_DEEP = re.compile(r"recursion (?:depth of|limit exceeded. limit:) ([0-9]+)")
_OLD_NAME: Final = "exists_one"
_NEW_NAME: Final = "existsOne"
_OLD_NAME_UNKNOWN = re.compile(rf"ERROR: <input>:([0-9]+):([0-9]+): undeclared reference to '{_OLD_NAME}'")
_NAMES: Final = {
    "NULL": "null_type",
    "DURATION": "google.protobuf.Duration",
    "TIMESTAMP": "google.protobuf.Timestamp",
}
_ACCEPTED: Final = ("BOOL", "DYN", "ANY")
# The types of a derived attribute, alone or in a list.
_SCALARS: Final = ("BOOL", "INT", "STRING", "DYN", "ANY", "kubernetes.Semver")
_ATTRIBUTES: Final = frozenset([*_SCALARS, *(f"LIST<{name}>" for name in _SCALARS)])
_NO_ATTRIBUTE: Final = (
    "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, not "
)
_FIELDS = descriptor_pb2.FieldDescriptorProto
_DEVICE: Final = "kubernetes.DRADevice"
# A type without values.
_NOTHING: Final = "kubernetes.Nothing"
_OPAQUE: Final = {
    letter: values.name_of_type(kinds[0])
    for letter, kinds in functions.LETTERS.items()
    if letter not in functions.LANGUAGE_TYPES
}
_SIGNATURES: Final = {
    **functions.LANGUAGE_TYPES,
    "*": "dyn",
    "T": "~T",
    "M": "map<string, list<string>>",
}
_CONTAINERS: Final = {"L": "list", "O": "optional_type"}

# Extensions of cel-go's ext package, in Kubernetes' versions.
_EXTENSIONS: Final = """
extensions:
- name: bindings
- name: optional
- name: strings
  version: 2
- name: sets
- name: lists
  version: 2
- name: two-var-comprehensions
"""


class RefusedError(Exception):
    """The compiler's messages about an expression."""


def compile_expression(expression: str, *, attribute: bool = False) -> program.Program:
    """Compile an expression to a program. Raises: RefusedError with Kubernetes' message.

    `attribute`: its value is an attribute of a device; else it says whether a device matches.
    """
    try:
        return _compile_uncached(expression, attribute)
    except RefusedError as refused:
        renamed = _with_the_newer_name(expression, str(refused))
        if renamed == expression:
            raise
        original = refused
    try:
        return _compile_uncached(renamed, attribute)
    except RefusedError as refused:
        message = str(refused)
        if f"{arity_errors.UNKNOWN}'{_NEW_NAME}'" in message:
            # The call does not have two variables.
            raise original from None
        for written, line in zip(renamed.split("\n"), expression.split("\n"), strict=True):
            message = message.replace(f"\n | {written}\n", f"\n | {line}\n")
        raise RefusedError(message) from refused


def _compile_uncached(expression: str, attribute: bool) -> program.Program:
    """Compile an expression.

    `attribute`: it computes an attribute instead of selecting devices. Raises: RefusedError with Kubernetes' message.
    """
    whole = _HAS_FIELD.search(expression) is not None
    try:
        tree = _make_environment(whole).compile(expression)
    except RuntimeError as error:
        raise RefusedError(f"compilation failed: {_translated_messages(expression, whole, str(error))}") from error
    checked, result = syntax.decode_checked(tree.serialize()), tree.return_type().name()
    problems = validation.validation_message(expression, checked)
    if problems:
        raise RefusedError(f"compilation failed: {problems}")
    if attribute and result not in _ATTRIBUTES:
        raise RefusedError(_NO_ATTRIBUTE + _kubernetes_type_name(result))
    if not attribute and result not in _ACCEPTED:
        raise RefusedError(f"must evaluate to bool or the unknown type, not {_kubernetes_type_name(result)}")
    try:
        return planner.program_of(checked)
    except planner.InstantiationError as error:
        raise RefusedError(f"program instantiation failed: {error}") from error


def _with_the_newer_name(expression: str, message: str) -> str:
    """Rename `exists_one` with two variables to its newer name, the only one that the library knows.

    The newer name is a letter shorter: a space before it keeps every position.
    """
    lines = expression.split("\n")
    for row, column in _OLD_NAME_UNKNOWN.findall(message):
        line = lines[int(row) - 1]
        called, rest = line[: int(column) - 1], line[int(column) - 1 :]
        if called.rstrip().endswith(_OLD_NAME):
            before, _, after = called.rpartition(_OLD_NAME)
            lines[int(row) - 1] = f"{before} {_NEW_NAME}{after}{rest}"
    return "\n".join(lines)


def _translated_messages(expression: str, whole: bool, message: str) -> str:
    """Return the messages about an invalid expression, translated."""
    limit = _TOO_DEEP.search(message)
    if limit is not None:
        return f"ERROR: <input>:-1:0: expression recursion limit exceeded: {limit.group(1)}"
    if arity_errors.UNKNOWN not in message:
        return compiler_messages.translate_library_messages(message, expression)
    environment = _make_environment(whole, misused=True)
    try:
        tree = environment.compile(expression)
    except RuntimeError as error:
        return arity_errors.explain_empty_calls(
            expression, compiler_messages.translate_library_messages(str(error), expression)
        )
    return arity_errors.arity_problems(expression, syntax.decode_checked(tree.serialize()))


@functools.cache
def _make_environment(whole: bool, *, misused: bool = False) -> Any:
    """Make the environment for compiling expressions.

    `whole`: the device is one variable, with less precise types of its fields; else each field is a variable.
    `misused`: add overloads for wrong calls, for messages only.
    """
    from cel_expr_python import cel

    _declare_types()
    kind = cel.Type
    # A qualified name is resolved before its parts. No message can have a map of maps of such values.
    fields = {
        "device.driver": kind.STRING,
        "device.allowMultipleAllocations": kind.BOOL,
        "device.attributes": kind.Map(kind.STRING, kind.Map(kind.STRING, kind.DYN)),
        "device.capacity": kind.Map(kind.STRING, kind.Map(kind.STRING, kind(_OPAQUE["q"]))),
    }
    return cel.NewEnv(
        descriptor_pool.Default(),
        variables={"device": kind(_DEVICE)} | ({} if whole else fields),
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        # An extension may add to the functions of those before it.
        extensions=[cel.CelExtension("kubernetes", _function_declarations(cel, misused))],
    )


def _function_declarations(cel: Any, misused: bool) -> list[Any]:
    """The declarations of all functions; `misused`: with overloads for calls of a wrong number of arguments."""
    out = []
    by_name = {name: list(overloads) for name, overloads in functions.BY_NAME.items()}
    for name, comparison in functions.comparison_overloads():
        by_name.setdefault(name, []).append(comparison)
    for name, overloads in by_name.items():
        declared = [
            cel.Overload(
                overload.name,
                return_type=cel.Type(_library_type_name(overload.result)),
                parameters=[
                    cel.Type(_library_type_name(part)) for part in functions.split_parameters(overload.parameters)
                ],
                is_member=overload.member,
            )
            for overload in overloads
            if overload.declared
        ]
        if misused and name in functions.BY_NAME:
            declared += [
                cel.Overload(
                    shape, return_type=cel.Type("dyn"), parameters=[cel.Type(_NOTHING)] * count, is_member=member
                )
                for shape, count, member in arity_errors.shapes_without_overload(name)
            ]
        if declared:
            out.append(cel.FunctionDecl(name, declared))
    return out


def _library_type_name(code: str) -> str:
    if code[0] in _CONTAINERS:
        return f"{_CONTAINERS[code[0]]}<{_library_type_name(code[1:])}>"
    return _SIGNATURES.get(code) or _OPAQUE[code]


@functools.cache
def _declare_types() -> None:
    """Declare the types to the library, for checking only; no values of them exist as messages."""
    pool = descriptor_pool.Default()
    for package in ("kubernetes", "net"):
        file = descriptor_pb2.FileDescriptorProto(
            name=f"trireme/cel/{package}.proto",
            package=package,
            syntax="proto3",
            dependency=[struct_pb2.DESCRIPTOR.name],
        )
        for holder, _, name in (kind.partition(".") for kind in _OPAQUE.values()):
            if holder == package:
                file.message_type.add(name=name)
        if _NOTHING.startswith(f"{package}."):
            file.message_type.add(name=_NOTHING.rpartition(".")[2])
        if _DEVICE.startswith(f"{package}."):
            _declare_device(file.message_type.add(name=_DEVICE.rpartition(".")[2]))
        pool.AddSerializedFile(file.SerializeToString())


def _declare_device(kind: descriptor_pb2.DescriptorProto) -> None:
    """Declare the fields of the type of `device`, in the expressions of a DeviceClass or a ResourceClaim."""
    kind.field.add(name="driver", number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
    kind.field.add(name="allowMultipleAllocations", number=2, type=_FIELDS.TYPE_BOOL, label=_FIELDS.LABEL_OPTIONAL)
    for number, name in enumerate(("attributes", "capacity"), start=3):
        entry = kind.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_FIELDS.TYPE_STRING, label=_FIELDS.LABEL_OPTIONAL)
        # A map of strings to anything, in CEL.
        struct = f".{struct_pb2.Struct.DESCRIPTOR.full_name}"
        entry.field.add(
            name="value", number=2, type=_FIELDS.TYPE_MESSAGE, type_name=struct, label=_FIELDS.LABEL_OPTIONAL
        )
        kind.field.add(
            name=name,
            number=number,
            type=_FIELDS.TYPE_MESSAGE,
            type_name=f".{_DEVICE}.{entry.name}",
            label=_FIELDS.LABEL_REPEATED,
        )


def _kubernetes_type_name(name: str) -> str:
    """Convert a type name to Kubernetes' spelling: the library uses capitals and angle brackets."""
    lowered = _CAPITALS.sub(lambda match: _NAMES.get(match.group(), match.group().lower()), name)
    return lowered.replace("<", "(").replace(">", ")")
