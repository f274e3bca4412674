"""The views of the console: which path has which document, what its query may say, and who may read it.

A view's `version` identifies what its document is made from: while that is the same, so is the document, and a reader
who has it is answered without making it again.

The page requests them by their paths: `console/src/api.ts` and the modules beside it.

Also change: console/src/api.ts, console/src/overview_data.ts, console/src/node_data.ts, console/src/search.tsx,
console/src/views/components.tsx, console/src/views/groups.tsx, console/src/views/node.tsx,
console/src/views/overview.tsx, console/src/views/pending.tsx,
console/src/views/preemptions.tsx (the paths that the page asks for).
Also change: docs/console.md.

Tests: tests/unit/insight/console/test_views.py.
"""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.insight import path_names, request_errors
from trireme.insight.console import console_state, documents, node_documents
from trireme.insight.console.documents import Json, Sight

MAX_INTEGER = (1 << 63) - 1
MAX_POD_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name of a query: a number from 0 to `largest`, or a text of `longest` characters at most."""

    default: int | str
    largest: int = MAX_INTEGER
    longest: int = 400

    def parse(self, name: str, text: str) -> int | str:
        """The value. Raises: BadRequest."""
        if isinstance(self.default, int):
            if not (text.isascii() and text.isdecimal() and int(text) <= self.largest):
                raise request_errors.wrong_value(name, f"whole number from 0 to {self.largest}")
            return int(text)
        if len(text) > self.longest or not text.isprintable():
            raise request_errors.wrong_value(name, f"printable text of {self.longest} characters")
        return text


@dataclass(frozen=True, slots=True)
class View:
    """A page of the console.

    `path` may have `{name}` in place of a part, which `make` gets by that name, as it gets the parameters. `nodes` and
    `pods`: the reader has to be able to list these in the whole cluster. `of_pod`: to get the pod that the path names.
    """

    path: str
    make: Callable[..., Json | None]
    version: Callable[[console_state.ConsoleState], Hashable]
    parameters: Mapping[str, Parameter]
    nodes: bool = False
    pods: bool = False
    of_pod: bool = False

    def names_in(self, path: str) -> Mapping[str, str] | None:
        """The parts of the path that the view's path leaves open; None: it is the path of another view."""
        wanted, found = self.path.split("/"), path.split("/")
        if len(wanted) != len(found):
            return None
        names: dict[str, str] = {}
        for part, text in zip(wanted, found, strict=True):
            if part.startswith("{"):
                is_right = path_names.is_namespace if part == "{namespace}" else path_names.is_name
                if not is_right(text):
                    return None
                names[part.strip("{}")] = text
            elif part != text:
                return None
        return names

    def arguments(self, query: Mapping[str, Sequence[str]]) -> dict[str, int | str]:
        """The values of all parameters. Raises: BadRequest."""
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        for name, texts in query.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                raise request_errors.unknown_name(self.parameters)
            if len(texts) > 1:
                raise request_errors.repeated(name)
            values[name] = parameter.parse(name, texts[0])
        return values


@dataclass(frozen=True, slots=True)
class FoundView:
    """A view and the names in the path by which it was found."""

    view: View
    names: Mapping[str, str]

    def etag(self, state: console_state.ConsoleState, sight: Sight, arguments: Mapping[str, Any]) -> str:
        """The tag of the document as it is now: the same as long as the document is."""
        facts = (
            state.instance,
            self.view.path,
            sorted(self.names.items()),
            sorted(arguments.items()),
            sight.lists_nodes,
            sight.lists_pods,
            self.view.version(state),
        )
        return f'"{hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()}"'

    def document(self, state: console_state.ConsoleState, sight: Sight, arguments: Mapping[str, Any]) -> Json | None:
        """The document as it is now; None: what the path names does not exist."""
        return self.view.make(state, sight, **self.names, **arguments)


def _of_scheduler(state: console_state.ConsoleState) -> Hashable:
    """What the frontend has sent of itself. With the seconds since it was silent, and the size of the cluster."""
    snap = state.cluster.snap
    received, silent = state.history.received, round(state.disconnected_seconds())
    return received, silent, snap.generation, state.pending.version, state.recording


def _of_queue(state: console_state.ConsoleState) -> Hashable:
    return state.pending.version, state.cluster.snap.incarnation


def _of_cluster(state: console_state.ConsoleState) -> Hashable:
    return state.cluster.snap.incarnation, state.cluster.snap.generation


def _of_both(state: console_state.ConsoleState) -> Hashable:
    return _of_queue(state), _of_cluster(state)


_TEXT, _NUMBER = Parameter(""), Parameter(0)
_POD = "/v1/namespaces/{namespace}/pods/{name}"

VIEWS: Sequence[View] = (
    View("/v1/overview", documents.overview, _of_scheduler, {"after": _NUMBER}),
    View("/v1/pending", documents.pending, _of_queue, {}),
    View(
        "/v1/pending/pods",
        documents.pods_of_reason,
        _of_queue,
        {"reason": _TEXT, "offset": _NUMBER, "limit": Parameter(200, MAX_POD_ROWS)},
        pods=True,
    ),
    View("/v1/pods", documents.found_pods, _of_both, {"text": _TEXT}, pods=True),
    View(
        "/v1/nodes",
        node_documents.nodes,
        _of_cluster,
        {"after": _NUMBER, "incarnation": _NUMBER, "label": _TEXT},
        nodes=True,
    ),
    View("/v1/nodes/{name}", node_documents.node, _of_cluster, {}, nodes=True),
    View("/v1/groups", node_documents.groups, _of_both, {}, pods=True),
    View("/v1/preemptions", documents.preemptions, _of_scheduler, {}),
    View("/v1/components", documents.components, _of_scheduler, {}, nodes=True, pods=True),
    View(f"{_POD}/timeline", documents.timeline, _of_both, {}, of_pod=True),
)


def find(path: str) -> FoundView | None:
    """The view at the path; None: there is none."""
    for view in VIEWS:
        names = view.names_in(path)
        if names is not None:
            return FoundView(view, names)
    return None
