"""All functions by name: the parameter types of each overload, and its implementation.

The checker knows the language's operators and functions; those of Kubernetes and its extensions are declared to it from
here. Overloads have their names in Kubernetes.

Source: k8s.io/apiserver/pkg/cel/environment (the environment of stored expressions), k8s.io/apiserver/pkg/cel/library.

Also change: internal/trireme_kube/cel/values.py (types of CEL).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import functools
import ipaddress
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trireme_kube.apimachinery import semver
from trireme_kube.cel import values
from trireme_kube.cel.library import (
    format_function,
    list_functions,
    named_formats,
    networks,
    operators,
    quantities_and_versions,
    string_functions,
    times,
)
from trireme_kube.cel.library import urls as urls_
from trireme_kube.cel.values import Amount, Duration, EvaluationError, Map, Optional, Timestamp, Uint


@dataclass(frozen=True, slots=True)
class Overload:
    """One overload.

    Types, a letter each: those of `LETTERS`; L<letter> and O<letter>, a list or an optional of them; M, a map of texts
    to lists of texts. * is anything, T anything that is the same wherever it stands.
    """

    name: str
    parameters: str
    result: str
    call: Callable[..., Any]
    member: bool = True
    # Whether Kubernetes declares it; else it is built in, or of an extension that the library has.
    declared: bool = True
    # Whether argument types are checked before the call.
    guarded: bool = True


LETTERS: Final[dict[str, tuple[type, ...]]] = {
    "b": (bool,),
    "i": (int,),
    "u": (Uint,),
    "d": (float,),
    "s": (str,),
    "y": (bytes,),
    "D": (Duration,),
    "S": (Timestamp,),
    "q": (Amount,),
    "v": (semver.Version,),
    "n": (ipaddress.IPv4Address, ipaddress.IPv6Address),
    "c": (ipaddress.IPv4Interface, ipaddress.IPv6Interface),
    "r": (urls_.Url,),
    "f": (named_formats.Format,),
}
#: Those of the language itself, by their names; the others are Kubernetes'.
LANGUAGE_TYPES: Final = {
    "b": "bool",
    "i": "int",
    "u": "uint",
    "d": "double",
    "s": "string",
    "y": "bytes",
    "D": "duration",
    "S": "timestamp",
}
_NUMBERS: Final = {"i": "int64", "u": "uint64", "d": "double"}
_ORDERED: Final = "iudbDSsy"
_ZEROS: Final[dict[str, Any]] = {"i": 0, "u": Uint(0), "d": 0.0, "D": Duration(0)}


def _language_function(
    name: str, *calls: tuple[str, Callable[..., Any]], member: bool = False
) -> dict[str, Sequence[Overload]]:
    made = [Overload("", parameters, "*", call, member, declared=False) for parameters, call in calls]
    return {name: made}


def _function_without_type_check(name: str, parameters: str, call: Callable[..., Any]) -> dict[str, Sequence[Overload]]:
    return {name: [Overload("", parameters, "*", call, declared=False, guarded=False)]}


def _identity(value: Any) -> Any:
    return value


def _value_of_optional(value: Optional) -> Any:
    """Return what an optional value holds. Raises: EvaluationError if it is absent."""
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _optional_of_non_zero(value: Any) -> Optional:
    return Optional() if values.is_zero(value) else Optional(value, True)


def _with_new_entry(entries: Map, key: Any, value: Any) -> Map:
    """Return a copy of the map with one more entry. Raises: EvaluationError if the key exists."""
    out = Map(dict(entries.items()))
    if key in out:
        raise EvaluationError(f"insert failed: key {values.value_text(key)} already exists")
    out.put(key, value)
    return out


def _with_new_entries(entries: Map, others: Map) -> Map:
    """Return a copy of the map with all entries of another. Raises: EvaluationError if a key exists."""
    for key, value in others.items():
        entries = _with_new_entry(entries, key, value)
    return entries


_LANGUAGE: Final[dict[str, Sequence[Overload]]] = {
    **_language_function("int", *((letter, operators.to_int) for letter in "idDsSu")),
    **_language_function("uint", *((letter, operators.to_uint) for letter in "udis")),
    **_language_function("double", *((letter, operators.to_double) for letter in "disu")),
    **_language_function("bool", *((letter, operators.to_bool) for letter in "bs")),
    **_language_function("bytes", *((letter, operators.to_bytes) for letter in "ys")),
    **_language_function("duration", *((letter, operators.to_duration) for letter in "Ds")),
    **_language_function("timestamp", *((letter, operators.to_timestamp) for letter in "Sis")),
    **_function_without_type_check("dyn", "*", _identity),
    **_function_without_type_check("type", "*", operators.type_of),
    **_function_without_type_check("size", "*", operators.size),
    **_function_without_type_check("matches", "ss", string_functions.matches_any_type),
    **_function_without_type_check("contains", "ss", string_functions.text_contains),
    **_function_without_type_check("startsWith", "ss", string_functions.starts_with),
    **_function_without_type_check("endsWith", "ss", string_functions.ends_with),
    **{
        name: [
            *([Overload("", "S", "i", functools.partial(times.timestamp_part, name), declared=False)]),
            *([Overload("", "Ss", "i", functools.partial(times.timestamp_part, name), declared=False)]),
            *(
                [Overload("", "D", "i", functools.partial(times.duration_length, name), declared=False)]
                if name in times.LENGTHS
                else ()
            ),
        ]
        for name in times.PARTS
    },
    **_language_function("optional.of", ("*", lambda value: Optional(value, True))),
    **_language_function("optional.ofNonZeroValue", ("*", _optional_of_non_zero)),
    **_language_function("optional.none", ("", Optional)),
    **_language_function("value", ("O*", _value_of_optional), member=True),
    **_language_function("hasValue", ("O*", lambda value: value.present), member=True),
    "optional.unwrap": [Overload("optional_unwrap", "LOT", "LT", list_functions.unwrapped, member=False)],
    "unwrapOpt": [Overload("optional_unwrapOpt", "LOT", "LT", list_functions.unwrapped)],
    **_language_function("first", ("L*", list_functions.first), member=True),
    **_language_function("last", ("L*", list_functions.last), member=True),
    **_language_function("charAt", ("si", string_functions.char_at), member=True),
    **_language_function("lowerAscii", ("s", string_functions.lower_ascii), member=True),
    **_language_function("upperAscii", ("s", string_functions.upper_ascii), member=True),
    **_language_function(
        "replace", ("sss", string_functions.replaced), ("sssi", string_functions.replaced), member=True
    ),
    **_language_function("split", ("ss", string_functions.split), ("ssi", string_functions.split), member=True),
    **_language_function(
        "substring", ("si", string_functions.substring), ("sii", string_functions.substring_to), member=True
    ),
    **_language_function("trim", ("s", string_functions.trimmed), member=True),
    **_language_function("join", ("Ls", string_functions.joined), ("Lss", string_functions.joined), member=True),
    **_language_function("format", ("sL*", format_function.formatted), member=True),
    **_language_function("strings.quote", ("s", string_functions.quoted)),
    **_language_function("slice", ("L*ii", list_functions.sliced), member=True),
    "flatten": [
        Overload("", parameters, "*", list_functions.flattened, declared=False, guarded=False)
        for parameters in ("L*", "L*i")
    ],
    **_function_without_type_check("sort", "L*", list_functions.sorted_list),
    **_function_without_type_check("@sortByAssociatedKeys", "L*L*", list_functions.sorted_by_keys),
    **_language_function("lists.range", ("i", list_functions.range_to)),
    **_language_function("reverse", ("L*", list_functions.reversed_list), member=True),
    **_language_function("distinct", ("L*", list_functions.distinct), member=True),
    **_language_function("sets.contains", ("L*L*", list_functions.set_contains)),
    **_language_function("sets.equivalent", ("L*L*", list_functions.set_equivalent)),
    **_language_function("sets.intersects", ("L*L*", list_functions.set_intersects)),
    **_language_function("cel.@mapInsert", ("m**", _with_new_entry), ("mm", _with_new_entries)),
}


def _kubernetes_functions() -> Iterator[tuple[str, Overload]]:
    """The functions that Kubernetes adds to CEL: name and overload, once for each overload."""
    one = functools.partial(Overload, member=False)
    yield from (
        ("quantity", one("string_to_quantity", "s", "q", quantities_and_versions.quantity_of)),
        ("isQuantity", one("is_quantity_string", "s", "b", quantities_and_versions.is_quantity)),
        ("sign", one("quantity_sign", "q", "i", quantities_and_versions.sign)),
        ("isGreaterThan", Overload("quantity_is_greater_than", "qq", "b", quantities_and_versions.is_greater_than)),
        ("isLessThan", Overload("quantity_is_less_than", "qq", "b", quantities_and_versions.is_less_than)),
        ("compareTo", Overload("quantity_compare_to", "qq", "i", quantities_and_versions.compare_to)),
        ("asApproximateFloat", Overload("quantity_get_float", "q", "d", quantities_and_versions.as_float)),
        ("asInteger", Overload("quantity_get_int", "q", "i", quantities_and_versions.as_integer)),
        ("isInteger", Overload("quantity_is_integer", "q", "b", quantities_and_versions.is_integer)),
        ("add", Overload("quantity_add", "qq", "q", quantities_and_versions.add)),
        ("add", Overload("quantity_add_int", "qi", "q", quantities_and_versions.add_int)),
        ("sub", Overload("quantity_sub", "qq", "q", quantities_and_versions.sub)),
        ("sub", Overload("quantity_sub_int", "qi", "q", quantities_and_versions.sub_int)),
        ("semver", one("string_to_semver", "s", "v", quantities_and_versions.version_of)),
        ("semver", one("string_bool_to_semver", "sb", "v", quantities_and_versions.normalized_version_of)),
        ("isSemver", one("is_semver_string", "s", "b", quantities_and_versions.is_version)),
        ("isSemver", one("is_semver_string_bool", "sb", "b", quantities_and_versions.is_normalized_version)),
        ("isGreaterThan", Overload("semver_is_greater_than", "vv", "b", quantities_and_versions.is_later)),
        ("isLessThan", Overload("semver_is_less_than", "vv", "b", quantities_and_versions.is_earlier)),
        ("compareTo", Overload("semver_compare_to", "vv", "i", quantities_and_versions.compare_versions)),
        ("major", Overload("semver_major", "v", "i", quantities_and_versions.major)),
        ("minor", Overload("semver_minor", "v", "i", quantities_and_versions.minor)),
        ("patch", Overload("semver_patch", "v", "i", quantities_and_versions.patch)),
        ("find", Overload("string_find_string", "ss", "s", string_functions.find)),
        ("findAll", Overload("string_find_all_string", "ss", "Ls", string_functions.find_all)),
        ("findAll", Overload("string_find_all_string_int", "ssi", "Ls", string_functions.find_all)),
        ("url", one("string_to_url", "s", "r", urls_.url)),
        ("isURL", one("is_url_string", "s", "b", urls_.is_url)),
        ("getScheme", Overload("url_get_scheme", "r", "s", urls_.scheme)),
        ("getHost", Overload("url_get_host", "r", "s", urls_.host)),
        ("getHostname", Overload("url_get_hostname", "r", "s", urls_.host_name)),
        ("getPort", Overload("url_get_port", "r", "s", urls_.port)),
        ("getEscapedPath", Overload("url_get_escaped_path", "r", "s", urls_.escaped_path)),
        ("getQuery", Overload("url_get_query", "r", "M", urls_.query)),
        ("format.named", one("format-named", "s", "Of", named_formats.named)),
        ("validate", Overload("format-validate", "fs", "OLs", named_formats.validate)),
        *(
            (f"format.{name}", one(f"format.{name}", "", "f", _function_returning(kind)))
            for name, kind in named_formats.BY_NAME.items()
        ),
    )
    yield from _network_functions()
    yield from _list_functions()


def _network_functions() -> Iterator[tuple[str, Overload]]:
    """The functions of addresses and networks, and all overloads of `string`, which has two of them."""
    one = functools.partial(Overload, member=False)
    yield from (
        ("ip", one("string_to_ip", "s", "n", networks.ip)),
        ("isIP", one("is_ip", "s", "b", networks.is_ip)),
        ("ip.isCanonical", one("ip_is_canonical", "s", "b", networks.is_canonical)),
        ("family", Overload("ip_family", "n", "i", networks.family)),
        ("isUnspecified", Overload("ip_is_unspecified", "n", "b", networks.is_unspecified)),
        ("isLoopback", Overload("ip_is_loopback", "n", "b", networks.is_loopback)),
        ("isLinkLocalMulticast", Overload("ip_is_link_local_multicast", "n", "b", networks.is_link_local_multicast)),
        ("isLinkLocalUnicast", Overload("ip_is_link_local_unicast", "n", "b", networks.is_link_local_unicast)),
        ("isGlobalUnicast", Overload("ip_is_global_unicast", "n", "b", networks.is_global_unicast)),
        ("string", one("ip_to_string", "n", "s", networks.address_text)),
        ("cidr", one("string_to_cidr", "s", "c", networks.cidr)),
        ("isCIDR", one("is_cidr", "s", "b", networks.is_cidr)),
        ("containsIP", Overload("cidr_contains_ip_string", "cs", "b", networks.contains_ip_text)),
        ("containsIP", Overload("cidr_contains_ip_ip", "cn", "b", networks.contains_ip)),
        ("containsCIDR", Overload("cidr_contains_cidr_string", "cs", "b", networks.contains_cidr_text)),
        ("containsCIDR", Overload("cidr_contains_cidr", "cc", "b", networks.contains_cidr)),
        ("ip", Overload("cidr_ip", "c", "n", networks.ip_of)),
        ("prefixLength", Overload("cidr_prefix_length", "c", "i", networks.prefix_length)),
        ("masked", Overload("cidr_masked", "c", "c", networks.masked)),
        ("string", one("cidr_to_string", "c", "s", networks.network_text)),
        *(("string", one("", kind, "s", operators.to_string, declared=False)) for kind in "sbydDiSu"),
    )


def _list_functions() -> Iterator[tuple[str, Overload]]:
    """Yield the functions of Kubernetes' list library, and those of strings that share their names."""
    for letter in _ORDERED:
        name = LANGUAGE_TYPES[letter]
        kind = f"L{letter}"
        yield "isSorted", Overload(f"list_{name}_is_sorted_bool", kind, "b", list_functions.is_sorted)
        yield "max", Overload(f"list_{name}_max_{name}", kind, letter, list_functions.greatest)
        yield "min", Overload(f"list_{name}_min_{name}", kind, letter, list_functions.least)
        if letter in _ZEROS:
            total = functools.partial(list_functions.total_of, _ZEROS[letter])
            yield "sum", Overload(f"list_{name}_sum_{name}", kind, letter, total)
    yield "indexOf", Overload("list_a_index_of_int", "LTT", "i", list_functions.index_of)
    yield "lastIndexOf", Overload("list_a_last_index_of_int", "LTT", "i", list_functions.last_index_of)
    yield "includes", Overload("list_includes_dyn_dyn", "**", "b", list_functions.includes)
    for parameters in ("ss", "ssi"):
        yield "indexOf", Overload("", parameters, "i", string_functions.index_of, declared=False)
    yield "lastIndexOf", Overload("", "ss", "i", string_functions.last_index_of, declared=False)
    yield "lastIndexOf", Overload("", "ssi", "i", string_functions.last_index_before, declared=False)


def comparison_overloads() -> Iterator[tuple[str, Overload]]:
    """The overloads that let the checker accept comparisons between numeric types."""
    for operator, name in {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}.items():
        for left, right in itertools.permutations(_NUMBERS, 2):
            overload = f"{name}_{_NUMBERS[left]}_{_NUMBERS[right]}"
            yield operator, Overload(overload, left + right, "b", operators.less, member=False)


def _function_returning(value: Any) -> Callable[[], Any]:
    """Return a function without arguments that returns the value."""
    return lambda: value


def _functions_by_name() -> dict[str, Sequence[Overload]]:
    """Return all overloads of each function, of the language and of Kubernetes."""
    out: dict[str, list[Overload]] = {name: list(overloads) for name, overloads in _LANGUAGE.items()}
    for name, overload in _kubernetes_functions():
        out.setdefault(name, []).append(overload)
    return dict(out)


BY_NAME: Final = _functions_by_name()


def overload_caller(name: str, count: int, *, member: bool = False) -> Callable[..., Any]:
    """Return a function that calls the overload matching `count` arguments. `member`: the first is the receiver."""
    overloads = [
        each
        for each in BY_NAME[name]
        if len(split_parameters(each.parameters)) == count and (each.member == member or not each.declared)
    ]
    if len(overloads) == 1 and not overloads[0].guarded:
        return overloads[0].call
    choices = [(tuple(map(_make_type_check, split_parameters(each.parameters))), each.call) for each in overloads]

    def call_matching_overload(*arguments: Any) -> Any:
        for fits, function in choices:
            if all(fit(argument) for fit, argument in zip(fits, arguments, strict=True)):
                return function(*arguments)
        raise EvaluationError(f"no such overload: {name}({', '.join(map(values.type_name, arguments))})")

    return call_matching_overload


def split_parameters(parameters: str) -> list[str]:
    """Split the parameter types."""
    out, prefix = [], ""
    for letter in parameters:
        prefix += letter
        if letter not in "LO":
            out.append(prefix)
            prefix = ""
    return out


def _make_type_check(parameter: str) -> Callable[[Any], bool]:
    """Return a function that says whether a value is of the type; of a list it looks at the first element only."""
    head, rest = parameter[0], parameter[1:]
    if head in "*T":
        return lambda value: True
    if head in "mM":
        return lambda value: type(value) is Map
    if head == "O":
        return lambda value: type(value) is Optional
    if head == "L":
        inner = _make_type_check(rest)
        return lambda value: type(value) is list and (not value or inner(value[0]))
    kinds = LETTERS[head]
    return lambda value: type(value) in kinds
