"""The CEL library, and the environment that Kubernetes gives selectors: variables, types and functions.

There are two environments. The first declares everything with the types that Kubernetes has and only checks. The second
evaluates; there all quantities, versions and addresses are of one type, because the library chooses among functions at
run time by kinds of values, and all these are messages. Whatever passes the first is compiled by the second. Of both
there is a second make, for the few expressions that ask whether the device has a field.

Source: k8s.io/dynamic-resource-allocation/cel (newCompiler), k8s.io/apiserver/pkg/cel/environment.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.plugins.dynamic_resources import cel_lists, cel_networks, cel_values

_CAPITALS = re.compile(r"(?<![.\w])[A-Z]+\b(?!\.)")
# Whether a variable has a value cannot be asked, only whether a message has one in a field.
_HAS_FIELD = re.compile(r"\bhas\s*\(\s*device\s*\.\s*\w+\s*\)")

_ALL_MESSAGES = str.maketrans("vnc", "qqq")
_ACCEPTED = ("BOOL", "DYN", "ANY")


class Refused(Exception):
    """What the compiler says of an expression."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an evaluation came to: a value, or an error."""

    value: Any
    type_name: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Function:
    """One overload.

    Types: q, v, n, c (quantity, version, ip, cidr), s, b, i, d (double), y (bytes), * (anything), l (list),
    S B I D Y (list of one).
    """

    name: str
    parameters: str
    result: str
    call: Callable[..., Any]
    member: bool = True


_FUNCTIONS = (
    _Function("quantity", "s", "q", cel_values.quantity_of, member=False),
    _Function("isQuantity", "s", "b", cel_values.is_quantity, member=False),
    _Function("sign", "q", "i", cel_values.sign, member=False),
    _Function("compareTo", "qq", "i", cel_values.compare_to),
    _Function("isGreaterThan", "qq", "b", cel_values.is_greater_than),
    _Function("isLessThan", "qq", "b", cel_values.is_less_than),
    _Function("asApproximateFloat", "q", "d", cel_values.as_float),
    _Function("asInteger", "q", "i", cel_values.as_integer),
    _Function("isInteger", "q", "b", cel_values.is_integer),
    _Function("add", "qq", "q", cel_values.add),
    _Function("add", "qi", "q", cel_values.add_int),
    _Function("sub", "qq", "q", cel_values.sub),
    _Function("sub", "qi", "q", cel_values.sub_int),
    _Function("semver", "s", "v", cel_values.version_of, member=False),
    _Function("semver", "sb", "v", cel_values.normalized_version_of, member=False),
    _Function("isSemver", "s", "b", cel_values.is_version, member=False),
    _Function("isSemver", "sb", "b", cel_values.is_normalized_version, member=False),
    _Function("compareTo", "vv", "i", cel_values.compare_to),
    _Function("isGreaterThan", "vv", "b", cel_values.is_greater_than),
    _Function("isLessThan", "vv", "b", cel_values.is_less_than),
    _Function("major", "v", "i", cel_values.major),
    _Function("minor", "v", "i", cel_values.minor),
    _Function("patch", "v", "i", cel_values.patch),
    _Function("find", "ss", "s", cel_values.find),
    _Function("findAll", "ss", "S", cel_values.find_all),
    _Function("findAll", "ssi", "S", cel_values.find_all),
    _Function("ip", "s", "n", cel_networks.ip, member=False),
    _Function("isIP", "s", "b", cel_networks.is_ip, member=False),
    _Function("ip.isCanonical", "s", "b", cel_networks.is_canonical, member=False),
    _Function("family", "n", "i", cel_networks.family),
    _Function("isUnspecified", "n", "b", cel_networks.is_unspecified),
    _Function("isLoopback", "n", "b", cel_networks.is_loopback),
    _Function("isLinkLocalMulticast", "n", "b", cel_networks.is_link_local_multicast),
    _Function("isLinkLocalUnicast", "n", "b", cel_networks.is_link_local_unicast),
    _Function("isGlobalUnicast", "n", "b", cel_networks.is_global_unicast),
    _Function("string", "n", "s", cel_networks.text_of, member=False),
    _Function("cidr", "s", "c", cel_networks.cidr, member=False),
    _Function("isCIDR", "s", "b", cel_networks.is_cidr, member=False),
    _Function("containsIP", "cn", "b", cel_networks.contains_ip),
    _Function("containsIP", "cs", "b", cel_networks.contains_ip_text),
    _Function("containsCIDR", "cc", "b", cel_networks.contains_cidr),
    _Function("containsCIDR", "cs", "b", cel_networks.contains_cidr_text),
    _Function("ip", "c", "n", cel_networks.ip_of),
    _Function("prefixLength", "c", "i", cel_networks.prefix_length),
    _Function("masked", "c", "c", cel_networks.masked),
    _Function("string", "c", "s", cel_networks.text_of, member=False),
    *(_Function("isSorted", kind, "b", cel_lists.is_sorted) for kind in "IDBSY"),
    *(_Function("sum", kind, kind.lower(), cel_lists.total) for kind in "ID"),
    *(_Function("min", kind, kind.lower(), cel_lists.least) for kind in "IDBSY"),
    *(_Function("max", kind, kind.lower(), cel_lists.greatest) for kind in "IDBSY"),
    _Function("indexOf", "l*", "i", cel_lists.index_of),
    _Function("lastIndexOf", "l*", "i", cel_lists.last_index_of),
    _Function("includes", "**", "b", cel_lists.includes),
)

# As Kubernetes has them: those of cel-go's ext package, in the versions that it takes.
_EXTENSIONS = """
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


def compiled(expression: str) -> Any:
    """The expression, ready to be evaluated. Raises: Refused."""
    checking, evaluating = _environments(_HAS_FIELD.search(expression) is not None)
    try:
        result = checking.compile(expression).return_type().name()
    except RuntimeError as error:
        raise Refused(f"compilation failed: {_without_code(str(error))}") from error
    if result not in _ACCEPTED:
        raise Refused(f"must evaluate to bool or the unknown type, not {_written(result)}")
    try:
        return evaluating.compile(expression)
    except RuntimeError as error:
        raise Refused(f"program instantiation failed: {_without_code(str(error))}") from error


def evaluate(
    expression: Any,
    driver: str,
    allow_multiple: bool,
    attributes: Mapping[str, Any],
    capacity: Mapping[str, Any],
) -> Found:
    """What the expression says of a device."""
    device = {
        "driver": driver,
        "allowMultipleAllocations": allow_multiple,
        "attributes": attributes,
        "capacity": capacity,
    }
    data = {"device": device, **{f"device.{name}": value for name, value in device.items()}}
    try:
        result = expression.eval(data=data)
    except RuntimeError as error:
        return Found(None, "error", str(error))
    kind, value = result.type().name(), result.value()
    if kind == "ERROR":
        return Found(None, "error", str(value))
    return Found(value, cel_values.type_name(value) or _written(kind))


@functools.cache
def _environments(whole: bool) -> tuple[Any, Any]:
    """One that checks, one that evaluates. `whole`: the device is one variable, its fields are none of their own."""
    from cel_expr_python import cel
    from google.protobuf import descriptor_pool

    kind = cel.Type
    amount = kind(cel_values.QUANTITY_TYPE)
    others = {"v": cel_values.VERSION_TYPE, "n": cel_values.ADDRESS_TYPE, "c": cel_values.NETWORK_TYPE}
    by_letter = {
        "s": kind.STRING,
        "b": kind.BOOL,
        "i": kind.INT,
        "d": kind.DOUBLE,
        "y": kind.BYTES,
        "*": kind.DYN,
        "q": amount,
    }
    by_letter |= {letter.upper(): kind.List(by_letter[letter]) for letter in "sbidy"} | {"l": kind.List(kind.DYN)}
    device = kind(cel_values.DEVICE_TYPE)
    # A name with dots is looked for before its parts: so no more of the device is converted than is asked for.
    fields = {
        "device.driver": kind.STRING,
        "device.allowMultipleAllocations": kind.BOOL,
        "device.attributes": kind.Map(kind.STRING, kind.Map(kind.STRING, kind.DYN)),
        "device.capacity": kind.Map(kind.STRING, kind.Map(kind.STRING, amount)),
    }
    made = []
    for precise in (True, False):
        letters = by_letter | {letter: kind(name) for letter, name in others.items() if precise}
        made.append(
            cel.NewEnv(
                descriptor_pool.Default(),
                variables={"device": device if precise else kind.DYN} | ({} if whole else fields),
                config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
                # An extension may add to the functions of those before it.
                extensions=[cel.CelExtension("kubernetes", _declarations(cel, letters, precise))],
            )
        )
    return made[0], made[1]


def _declarations(cel: Any, letters: Mapping[str, Any], precise: bool) -> list[Any]:
    by_name: dict[str, dict[tuple[str, str], _Function]] = {}
    for function in _FUNCTIONS:
        shape = function.parameters, function.result
        by_name.setdefault(function.name, {})[shape if precise else _at_run_time(*shape)] = function
    out = []
    for name, overloads in by_name.items():
        declared = [
            cel.Overload(
                f"trireme_{name.replace('.', '_')}_{shape.replace('*', 'any')}",
                return_type=letters[result],
                parameters=[letters[letter] for letter in shape],
                is_member=function.member,
                # Without an implementation it can be checked against, and that is all.
                **({} if precise else {"impl": function.call}),
            )
            for (shape, result), function in overloads.items()
        ]
        out.append(cel.FunctionDecl(name, declared))
    return out


def _at_run_time(parameters: str, result: str) -> tuple[str, str]:
    """The shape as far as the library sees it then: no kinds of messages, no lists of one type nor what is in them."""
    seen = "".join("l" if letter.isupper() else letter for letter in parameters.translate(_ALL_MESSAGES))
    return seen, "*" if any(letter.isupper() for letter in parameters) else result.translate(_ALL_MESSAGES)


def _without_code(text: str) -> str:
    head, colon, rest = text.partition(": ")
    return rest if colon and head.isupper() else text


def _written(name: str) -> str:
    """A type as Kubernetes writes it: the library's names are capitals, and what they are of is in angle brackets."""
    lowered = _CAPITALS.sub(lambda found: {"NULL": "null_type"}.get(found.group(), found.group().lower()), name)
    return lowered.replace("<", "(").replace(">", ")")
