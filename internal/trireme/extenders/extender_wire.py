"""The JSON of HTTP extenders: request bodies, and responses decoded as Go decodes them.

Extenders use Go structs without field tags, so keys are those structs' field names, and keys of a response match in any
case. Bodies are joined from the stored bytes of pods and nodes. An invalid response raises the error text of Go's
decoder, which extenders' authors know.

Source: k8s.io/kube-scheduler/extender/v1, encoding/json.

Also change: docs/extenders.md.

Tests: tests/contract/test_extender_client.py, tests/unit/extenders/test_extenders.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trireme_kube.apimachinery import json_document

Json = dict[str, Any]


# Limits of extenders' texts, per node and in total: they go into events, conditions and calls of the phases.
_LONGEST_TEXT = 16 << 10
_ALL_TEXTS = 1 << 20
_SHORTEST_CUT = 256


class ExtenderError(Exception):
    """An extender failed, or its answer cannot be used; the text is for the event."""

    def __init__(self, text: str) -> None:
        super().__init__(text[:_LONGEST_TEXT])


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims (UIDs) on a node, in the extender's order, and the number of violated budgets."""

    uids: tuple[str, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The nodes that pass, by name, in the response's order, and why others fail."""

    names: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


# Bodies


def nodes_body(pod: bytes, names: Sequence[str], nodes: Sequence[bytes] | None) -> bytes:
    """Encode ExtenderArgs: with the nodes themselves or, if `nodes` is None, their names."""
    if nodes is None:
        return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, orjson.dumps(names))
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % (pod, b",".join(nodes))


def preemption_body(pod: bytes, victims: Mapping[str, Victims], pods_by_uid: Mapping[str, bytes] | None) -> bytes:
    """Encode ExtenderPreemptionArgs; with `pods_by_uid` victims are sent whole, without it only their UIDs."""
    entries = []
    for node in sorted(victims):
        node_victims = victims[node]
        if pods_by_uid is None:
            pods = b",".join(b'{"UID":%b}' % orjson.dumps(uid) for uid in node_victims.uids)
        else:
            pods = b",".join(pods_by_uid[uid] for uid in node_victims.uids)
        entries.append(b'%b:{"Pods":[%b],"NumPDBViolations":%d}' % (orjson.dumps(node), pods, node_victims.violations))
    by_node = b"{%b}" % b",".join(entries)
    whole, meta = (b"null", by_node) if pods_by_uid is None else (by_node, b"null")
    return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}' % (pod, whole, meta)


def binding_body(namespace: str, name: str, uid: str, node: str) -> bytes:
    """Encode ExtenderBindingArgs."""
    return orjson.dumps({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


# Responses


def decode_first_value(body: bytes) -> Any:
    """Decode the first JSON value of a response, ignoring what follows it. Raises: ExtenderError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # Trailing data, no value, or something that only Go accepts, such as half a surrogate pair.
        text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise ExtenderError("EOF")
    try:
        return json_document.plain(json_document.parse_first_value(text))
    except json_document.MalformedJSONError as error:
        raise ExtenderError(str(error).replace("unexpected end of JSON input", "unexpected EOF")) from error


def decode_filter_result(answer: Any, names_only: bool) -> FilterResult:
    """Decode an ExtenderFilterResult; `names_only`: names were sent, and take precedence. Raises: ExtenderError."""
    fields = _GoStructReader(answer, "ExtenderFilterResult")
    nodes = fields.object("Nodes", "v1.NodeList")
    names = fields.texts("NodeNames")
    failed, unresolvable = fields.text_map("FailedNodes"), fields.text_map("FailedAndUnresolvableNodes")
    error_text = fields.text("Error")
    if error_text:
        raise ExtenderError(error_text)
    if not names_only or names is None:
        names = () if nodes is None else tuple(_node_names(fields.within("Nodes", nodes, "NodeList")))
    return FilterResult(names, failed, unresolvable)


def decode_priorities(answer: Any) -> list[tuple[str, int]]:
    """Decode a HostPriorityList. Raises: ExtenderError."""
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise ExtenderError(f"json: cannot unmarshal {_go_kind(answer)} into Go value of type v1.HostPriorityList")
    entries = [_GoStructReader(entry, "HostPriority") for entry in answer]
    return [(entry.text("Host"), entry.number("Score")) for entry in entries]


def decode_preemption_result(answer: Any) -> dict[str, Victims]:
    """Decode an ExtenderPreemptionResult. Raises: ExtenderError."""
    result = _GoStructReader(answer, "ExtenderPreemptionResult")
    victims_by_node = result.object("NodeNameToMetaVictims", "map[string]*v1.MetaVictims")
    out = {}
    for node, entry in (victims_by_node or {}).items():
        fields = result.within("NodeNameToMetaVictims", entry, "MetaVictims")
        pods = fields.list("Pods", "[]*v1.MetaPod")
        uids = tuple(fields.within("Pods", pod, "MetaPod").text("UID") for pod in pods or ())
        out[node] = Victims(uids, fields.number("NumPDBViolations"))
    return out


def check_binding_result(answer: Any) -> None:
    """Decode an ExtenderBindingResult. Raises: ExtenderError: the extender says that it did not bind the pod."""
    error_text = _GoStructReader(answer, "ExtenderBindingResult").text("Error")
    if error_text:
        raise ExtenderError(error_text)


def _node_names(nodes: "_GoStructReader") -> Iterable[str]:
    for entry in nodes.list("items", "[]v1.Node") or ():
        node = nodes.within("items", entry, "Node")
        yield node.within("metadata", node.object("metadata", "v1.ObjectMeta"), "ObjectMeta").text("name")


class _GoStructReader:
    """Reads an object's members by the field names of a Go struct. Null counts as an empty struct.

    Go's error names the struct of an invalid member, and its path from the top of the response.
    """

    def __init__(self, value: Any, struct: str, path: str = "", where: str = "value") -> None:
        if value is not None and not isinstance(value, dict):
            raise ExtenderError(f"json: cannot unmarshal {_go_kind(value)} into Go {where} of type v1.{struct}")
        self._struct = struct
        self._path = path
        self._members = {key.lower(): member for key, member in (value or {}).items()}

    def within(self, name: str, value: Any, struct: str) -> "_GoStructReader":
        """Read the struct in a field, or in an element of a field."""
        path = f"{self._path}{name}"
        return _GoStructReader(value, struct, f"{path}.", f"struct field {self._struct}.{path}")

    def object(self, name: str, type_name: str) -> Json | None:
        """A member that is an object or null. Raises: ExtenderError."""
        value = self._members.get(name.lower())
        if value is not None and not isinstance(value, dict):
            raise self._type_error(name, value, type_name)
        return value

    def list(self, name: str, type_name: str) -> "list[Any] | None":
        """A member that is a list or null. Raises: ExtenderError."""
        value = self._members.get(name.lower())
        if value is not None and not isinstance(value, list):
            raise self._type_error(name, value, type_name)
        return value

    def text(self, name: str) -> str:
        """A member that is a string; empty if it is missing or null. Raises: ExtenderError."""
        value = self._members.get(name.lower())
        return "" if value is None else self._check_text(name, value)

    def number(self, name: str) -> int:
        """A member that is a 64-bit integer; 0 if it is missing or null. Raises: ExtenderError."""
        value = self._members.get(name.lower())
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
            raise self._type_error(name, value, "int64")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A member that is a list of strings; None if it is missing or null. Raises: ExtenderError."""
        values = self.list(name, "[]string")
        return (
            None if values is None else tuple("" if text is None else self._check_text(name, text) for text in values)
        )

    def text_map(self, name: str) -> Mapping[str, str]:
        """A member that is a map of strings, long ones cut. Raises: ExtenderError."""
        values = self.object(name, "v1.FailedNodesMap") or {}
        longest = max(min(_ALL_TEXTS // max(len(values), 1), _LONGEST_TEXT), _SHORTEST_CUT)
        return {key: "" if text is None else self._check_text(name, text)[:longest] for key, text in values.items()}

    def _check_text(self, name: str, value: Any) -> str:
        """The value, which must be a string. Raises: ExtenderError."""
        if not isinstance(value, str):
            raise self._type_error(name, value, "string")
        return value

    def _type_error(self, name: str, value: Any, type_name: str) -> ExtenderError:
        """The error, in Go's words, of a member with a value of another type."""
        what = f"{_go_kind(value)} {value}" if type_name == "int64" and _go_kind(value) == "number" else _go_kind(value)
        return ExtenderError(
            f"json: cannot unmarshal {what} into Go struct field {self._struct}.{self._path}{name} of type {type_name}"
        )


def _go_kind(value: Any) -> str:
    """Go's name for the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"
