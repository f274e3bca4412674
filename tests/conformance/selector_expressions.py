"""Random CEL selectors: expressions of every type from every function, some of them with a mistake in them.

An expression is made from the type that it has to be of. Attributes of the device are of no known type, and so stand
for any: what they are turns out when the selector is asked.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

_OWN: Final = 'device.attributes["gpu.example.com"]'
_CAPACITY: Final = 'device.capacity["gpu.example.com"]'
_ATTRIBUTES: Final = {
    "int": ("count", "big", "neg"),
    "string": ("model", "text", "addr", "net", "url", "when"),
    "bool": ("on",),
    "version": ("version",),
    "list(int)": ("ints",),
    "list(string)": ("strings",),
    "list(bool)": ("bools",),
    "list(version)": ("versions",),
}
DEVICE: Final = {
    "Driver": "gpu.example.com",
    "AllowMultipleAllocations": True,
    "Attributes": {
        "model": {"string": "a100"},
        "count": {"int": 7},
        "big": {"int": 9223372036854775807},
        "neg": {"int": -3},
        "on": {"bool": True},
        "version": {"version": "1.6.0-rc.1"},
        "text": {"string": "Ünï x"},
        "other.example.com/name": {"string": "far"},
        "addr": {"string": "10.1.2.3"},
        "net": {"string": "10.0.0.0/8"},
        "when": {"string": "2023-07-14T10:30:45.123Z"},
        "url": {"string": "https://user:pw@example.com:80/a%2fb?x=1&y=2#f"},
        "ints": {"ints": [3, 1, 2]},
        "strings": {"strings": ["b", "a", "b"]},
        "bools": {"bools": [True, False]},
        "versions": {"versions": ["1.0.0", "2.0.0"]},
    },
    "Capacity": {"memory": {"value": "40Gi"}, "cores": {"value": "1500m"}},
}

_LITERALS: Final[dict[str, Sequence[str]]] = {
    "bool": ("true", "false", "device.allowMultipleAllocations"),
    "int": ("0", "1", "2", "-1", "7", "100", "9223372036854775807"),
    "uint": ("0u", "1u", "5u", "18446744073709551615u"),
    "double": ("0.0", "1.0", "1.5", "-2.25", "1e10", "1e-7"),
    "string": (
        '"a"',
        '""',
        '"a100"',
        '"Ünï"',
        '"10.1.2.3"',
        '"1.2.3"',
        '"5Gi"',
        '"http://a/b?c=d"',
        "device.driver",
        '"b,a"',
    ),
    "bytes": ('b"a"', 'b""', 'b"\\xff"'),
    "duration": ('duration("1s")', 'duration("1h30m")', 'duration("-1.5h")'),
    "timestamp": ('timestamp("2023-07-14T10:30:45.123Z")', "timestamp(0)", 'timestamp("1999-12-31T23:59:59+02:00")'),
    "quantity": ('quantity("1")', f"{_CAPACITY}.memory", f"{_CAPACITY}.cores", 'quantity("-5Mi")'),
    "version": ('semver("1.2.3")', 'semver("v2.0", true)', 'semver("1.0.0-a.1")'),
    "address": ('ip("10.1.2.3")', 'ip("::1")', 'ip("fe80::1")'),
    "network": ('cidr("10.0.0.0/8")', 'cidr("fd00::/8")', 'cidr("10.1.2.3/16")'),
    "url": ('url("http://example.com:80/x?a=b")', f"url({_OWN}.url)", 'url("/p")'),
    "format": ("format.dns1123Label()", "format.date()", "format.qualifiedName()"),
}
_PATTERNS: Final = ('"[0-9]+"', '"^a"', '"b?"', '"(a|b)*"', '"\\\\w+"', '"."', '"["')
_ORDERED: Final = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_SUMMED: Final = ("int", "uint", "double", "duration")
_KINDS: Final = tuple(_LITERALS)

# By result; {kind} is an expression of that kind, {?} of any.
_SHAPES: Final[dict[str, Sequence[str]]] = {
    "bool": (
        "!{bool}",
        "{bool} && {bool}",
        "{bool} || {bool}",
        "{bool} ? {bool} : {bool}",
        "{string}.contains({string})",
        "{string}.startsWith({string})",
        "{string}.endsWith({string})",
        "{string}.matches({pattern})",
        "matches({string}, {pattern})",
        "{string} in {list(string)}",
        "{int} in {list(int)}",
        "{string} in {own}",
        "has({own}.model)",
        "has({own}.nosuch)",
        "isQuantity({string})",
        "isSemver({string})",
        "isSemver({string}, {bool})",
        "isURL({string})",
        "isIP({string})",
        "isCIDR({string})",
        "ip.isCanonical({string})",
        "{address}.isLoopback()",
        "{address}.isGlobalUnicast()",
        "{address}.isLinkLocalUnicast()",
        "{network}.containsIP({address})",
        "{network}.containsIP({string})",
        "{network}.containsCIDR({network})",
        "{network}.containsCIDR({string})",
        "{quantity}.isGreaterThan({quantity})",
        "{quantity}.isLessThan({quantity})",
        "{quantity}.isInteger()",
        "{version}.isGreaterThan({version})",
        "{version}.isLessThan({version})",
        "{format}.validate({string}).hasValue()",
        "sets.contains({list(int)}, {list(int)})",
        "sets.equivalent({list(string)}, {list(string)})",
        "sets.intersects({list(string)}, {list(string)})",
        "{list(int)}.all(x, x > {int})",
        "{list(string)}.exists(x, x == {string})",
        "{list(int)}.exists_one(x, x == {int})",
        "{list(int)}.all(i, x, i < x)",
        "{list(string)}.includes({string})",
        "{any}.includes({any})",
        "bool({string})",
        "{any} == {any}",
        "{any} != {any}",
        "{own}.?model.hasValue()",
        "{own}.?nosuch.orValue({bool})",
        "type({any}) == type({any})",
        "cel.bind(bound, {any}, {bool})",
    ),
    "int": (
        "{int} + {int}",
        "{int} - {int}",
        "{int} * {int}",
        "{int} / {int}",
        "{int} % {int}",
        "-{int}",
        "size({string})",
        "{list(int)}.size()",
        "size({any})",
        "{string}.indexOf({string})",
        "{string}.indexOf({string}, {int})",
        "{string}.lastIndexOf({string})",
        "{string}.lastIndexOf({string}, {int})",
        "{list(int)}.indexOf({int})",
        "{list(string)}.lastIndexOf({string})",
        "int({string})",
        "int({double})",
        "int({uint})",
        "int({any})",
        "sign({quantity})",
        "{quantity}.compareTo({quantity})",
        "{quantity}.asInteger()",
        "{version}.compareTo({version})",
        "{version}.major()",
        "{version}.patch()",
        "{address}.family()",
        "{network}.prefixLength()",
        "{timestamp}.getHours()",
        "{timestamp}.getDayOfYear()",
        '{timestamp}.getHours("Europe/Berlin")',
        "{duration}.getMinutes()",
        "{list(int)}[{int}]",
        "{list(int)}.first().orValue({int})",
        "{list(int)}.last().value()",
        "{bool} ? {int} : {int}",
        "cel.bind(bound, {int}, bound + bound)",
        "{own}.?count.orValue({int})",
        "lists.range({int})[{int}]",
    ),
    "uint": (
        "{uint} + {uint}",
        "{uint} - {uint}",
        "uint({int})",
        "uint({string})",
        "{uint} % {uint}",
        "uint({double})",
    ),
    "double": (
        "{double} + {double}",
        "{double} / {double}",
        "double({int})",
        "double({string})",
        "{quantity}.asApproximateFloat()",
        "-{double}",
    ),
    "string": (
        "{string} + {string}",
        "{string}.charAt({int})",
        "{string}.lowerAscii()",
        "{string}.upperAscii()",
        "{string}.trim()",
        "{string}.replace({string}, {string})",
        "{string}.replace({string}, {string}, {int})",
        "{string}.substring({int})",
        "{string}.substring({int}, {int})",
        "{list(string)}.join()",
        "{list(string)}.join({string})",
        "strings.quote({string})",
        '"%s: %d".format([{any}, {int}])',
        '"%.2f %x".format([{double}, {string}])',
        "{string}.format([{any}])",
        "string({int})",
        "string({double})",
        "string({bool})",
        "string({duration})",
        "string({timestamp})",
        "string({address})",
        "string({any})",
        "string({bytes})",
        "{string}.find({pattern})",
        "{url}.getHost()",
        "{url}.getScheme()",
        "{url}.getHostname()",
        "{url}.getPort()",
        "{url}.getEscapedPath()",
        "{list(string)}[{int}]",
    ),
    "bytes": ("{bytes} + {bytes}", "bytes({string})"),
    "duration": ("{duration} + {duration}", "{timestamp} - {timestamp}", "-{duration}"),
    "timestamp": ("{timestamp} + {duration}", "timestamp({int})", "{timestamp} - {duration}"),
    "quantity": ("{quantity}.add({quantity})", "{quantity}.sub({int})", "{quantity}.add({int})", "quantity({string})"),
    "version": ("semver({string}, {bool})", "{list(version)}[{int}]"),
    "address": ("{network}.ip()", "ip({string})"),
    "network": ("{network}.masked()", "cidr({string})"),
    "url": ("url({string})",),
    "format": ("{format}",),
    "list(string)": (
        "[{string}]",
        "[{string}, {string}]",
        "{list(string)} + {list(string)}",
        "{string}.split({string})",
        "{string}.split({string}, {int})",
        "{string}.findAll({pattern})",
        "{string}.findAll({pattern}, {int})",
        "{list(string)}.filter(x, x != {string})",
        "{list(int)}.map(x, string(x))",
        "{list(string)}.sort()",
        "{list(string)}.sortBy(x, size(x))",
        "{list(string)}.distinct()",
        "{list(string)}.reverse()",
        "[?optional.of({string})]",
    ),
    "list(int)": (
        "[{int}]",
        "[{int}, {int}, {int}]",
        "{list(int)} + {list(int)}",
        "lists.range(5)",
        "{list(int)}.map(x, x + {int})",
        "{list(int)}.map(x, x > {int}, x * 2)",
        "{list(int)}.slice({int}, {int})",
        "{list(int)}.sort()",
        "{list(int)}.reverse()",
        "{list(int)}.transformList(i, x, i + x)",
        "{list(int)}.transformList(i, x, x > {int}, i)",
    ),
    "list(bool)": ("[{bool}, {bool}]",),
    "list(version)": ("[{version}]",),
}
_LISTS: Final = ("list(string)", "list(int)", "list(bool)", "list(version)")


class Expressions:
    """A source of expressions; equal ones for equal seeds."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def selector(self) -> str:
        """A selector, mostly one that is a truth value, and one that its writer meant."""
        kind = "bool" if self._draw.random() < 0.95 else self._draw.choice(_KINDS)
        return self._of(kind, self._draw.choice((1, 2, 2, 3)))

    def mistyped(self, text: str) -> str:
        """The selector with a letter too few, too many or wrong."""
        at = self._draw.randrange(len(text))
        change = self._draw.choice(("drop", "add", "swap"))
        if change == "drop":
            return text[:at] + text[at + 1 :]
        letter = self._draw.choice("()[]{}.,?:!&|=<>+-*/%\"'ax1 \n")
        return text[:at] + letter + text[at + (change == "swap") :]

    def _of(self, kind: str, depth: int) -> str:
        if kind == "pattern":
            return self._draw.choice(_PATTERNS)
        if kind == "own":
            return _OWN if self._draw.random() < 0.9 else "device.attributes.nosuch"
        if kind == "any":
            kind = self._draw.choice((*_KINDS, *_LISTS))
        if self._draw.random() < 0.2:
            return self._attribute(kind)
        if depth <= 0 or self._draw.random() < 0.15:
            return self._literal(kind)
        shapes: list[Callable[[int], str]] = [self._shaped(shape) for shape in _SHAPES.get(kind, ())]
        shapes += [self._chosen(kind)] * (kind in _ORDERED) * 2 + [self._summed(kind)] * (kind in _SUMMED)
        if kind == "bool":
            shapes += [self._compared] * 6 + [self._sorted] * 2
        return self._draw.choice(shapes)(depth - 1) if shapes else self._literal(kind)

    def _attribute(self, kind: str) -> str:
        """An attribute, mostly of the kind."""
        names = _ATTRIBUTES.get(kind)
        if names is None or self._draw.random() < 0.1:
            names = (*sum(_ATTRIBUTES.values(), ()), "nosuch")
            return f"{_OWN}.{self._draw.choice(names)}"
        name = self._draw.choice(names)
        return self._draw.choice((f"{_OWN}.{name}", f'{_OWN}["{name}"]', f"{_OWN}.?{name}.value()"))

    def _literal(self, kind: str) -> str:
        if kind.startswith("list("):
            inner = kind[5:-1]
            return "[" + ", ".join(self._literal(inner) for _ in range(self._draw.randrange(1, 4))) + "]"
        return self._draw.choice(_LITERALS[kind])

    def _shaped(self, shape: str) -> Callable[[int], str]:
        def make(depth: int) -> str:
            out, rest = "", shape
            while "{" in rest:
                before, _, rest = rest.partition("{")
                kind, _, rest = rest.partition("}")
                inner = self._of(kind, depth)
                out += before + (inner if inner.replace("_", "").isalnum() else f"({inner})")
            return out + rest

        return make

    def _compared(self, depth: int) -> str:
        kind = self._draw.choice(_ORDERED)
        other = kind if self._draw.random() < 0.8 else self._draw.choice(_ORDERED)
        operator = self._draw.choice(("==", "!=", "<", "<=", ">", ">="))
        return f"{self._of(kind, depth)} {operator} {self._of(other, depth)}"

    def _sorted(self, depth: int) -> str:
        return f"{self._several(self._draw.choice(_ORDERED), depth)}.isSorted()"

    def _chosen(self, kind: str) -> Callable[[int], str]:
        return lambda depth: f"{self._several(kind, depth)}.{self._draw.choice(('min', 'max'))}()"

    def _summed(self, kind: str) -> Callable[[int], str]:
        return lambda depth: f"{self._several(kind, depth)}.sum()"

    def _several(self, kind: str, depth: int) -> str:
        return "[" + ", ".join(self._of(kind, depth - 1) for _ in range(self._draw.randrange(1, 4))) + "]"
