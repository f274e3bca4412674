"""The documents of a submission: manifests, defaulted and validated by the API server's rules.

Each error names the document by its number, kind and name, and the field. Kinds of other API groups are taken as they
are, for nothing here knows their fields; they make no pods.

Tests: tests/unit/simulation/submission/test_documents.py.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.simulation import manifest_fields, manifests
from trireme_kube.apimachinery import golang
from trireme_kube.embedded.api import api_errors, resources
from trireme_kube.embedded.registry import defaults
from trireme_kube.embedded.validation import object_validation

Json = dict[str, Any]

MAX_DOCUMENTS = 1000
DEFAULT_NAMESPACE = "default"
WORKLOADS = frozenset(
    {
        *("Pod", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"),
        *("DaemonSet", "Job", "CronJob"),
    }
)
"""Kinds that make pods."""
LOOKED_UP = frozenset({"PriorityClass", "ResourceClaimTemplate"})
"""Kinds that others among the documents refer to: insight does not know those of the cluster."""
# The parts of a manifest that have a pod's fields, by the path to them.
_TEMPLATE = ("spec", "template")
_TEMPLATE_OF_JOB = ("spec", "jobTemplate", "spec", "template")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a document: its number, its kind and name, and the path of the field; empty: all of it."""

    number: int
    title: str
    path: str
    text: str

    def __str__(self) -> str:
        where = f"document {self.number} ({self.title})" if self.title else f"document {self.number}"
        return ": ".join(part for part in (where, self.path, self.text) if part)


class DocumentError(ValueError):
    """Documents cannot be submitted; the text has a line for each problem."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Document:
    """One object to submit. `resource` is None for a kind that is not of Kubernetes itself."""

    number: int
    raw: Json
    resource: resources.Resource | None

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.raw["kind"])

    @property
    def namespace(self) -> str:
        """Its namespace; empty where the kind has none."""
        return str(self.raw["metadata"].get("namespace") or "")

    @property
    def name(self) -> str:
        """Its name, or the beginning of the one that the API server would make."""
        metadata = self.raw["metadata"]
        return str(metadata.get("name") or metadata.get("generateName", "").rstrip("-"))

    def error(self, path: str, text: str) -> DocumentError:
        """The error about one of its fields."""
        return _error(self.number, self.raw, [(path, text)])


def read(given: Sequence[Json], namespace: str) -> list[Document]:
    """The objects of the manifests, those of Lists one by one. Raises: DocumentError with all that is wrong."""
    if len(given) > MAX_DOCUMENTS:
        text = f"there are {len(given)} documents: at most {MAX_DOCUMENTS} can be simulated at once"
        raise DocumentError([Problem(MAX_DOCUMENTS + 1, "", "", text)])
    found: list[Document] = []
    problems: list[Problem] = []
    for number, raw in _objects(given):
        try:
            found.append(_read_one(number, raw, namespace or DEFAULT_NAMESPACE))
        except DocumentError as error:
            problems += error.problems
    if problems:
        raise DocumentError(problems)
    return found


def _objects(given: Iterable[Json]) -> Iterator[tuple[int, Json]]:
    """Each object with the number of its document."""
    for number, raw in enumerate(given, start=1):
        if raw.get("kind") == "List" and isinstance(raw.get("items"), list):
            yield from ((number, item if isinstance(item, dict) else {}) for item in raw["items"])
        else:
            yield number, raw


def _read_one(number: int, raw: Json, namespace: str) -> Document:
    """The document, defaulted and validated. Raises: DocumentError."""
    for field in ("apiVersion", "kind"):
        if not isinstance(raw.get(field), str) or not raw[field]:
            raise _error(number, raw, [(field, "must be given, as in every manifest")])
    resource = manifest_fields.find_resource(raw["kind"], raw["apiVersion"])
    if resource is None:
        if text := _misspelt(raw["apiVersion"], raw["kind"]):
            raise _error(number, raw, [("kind", text)])
        if not isinstance(raw.get("metadata"), dict):
            raise _error(number, raw, [("metadata", "must be given")])
        return Document(number, raw, None)
    raw, problems = manifest_fields.conform(resource, raw)
    if problems:
        raise _error(number, raw, problems)
    metadata = raw.setdefault("metadata", {})
    if resource.namespaced:
        metadata.setdefault("namespace", namespace)
    raw.setdefault("spec", {})
    _validate(number, resource, raw)
    return Document(number, raw, resource)


def _validate(number: int, resource: resources.Resource, raw: Json) -> None:
    """Fill in the defaults, and validate as a create does. Raises: DocumentError."""
    metadata = raw["metadata"]
    generated = not metadata.get("name") and metadata.get("generateName")
    if generated:
        metadata["name"] = f"{generated}x"
    try:
        defaults.set_defaults(resource.key, raw)
        object_validation.validate_create(resource, raw)
    except api_errors.ApiError as error:
        causes = [(each["field"], each["message"]) for each in (error.details or {}).get("causes") or ()]
        raise _error(number, raw, causes or [("", error.message)]) from error
    finally:
        if generated:
            del metadata["name"]


def _error(number: int, raw: Json, causes: Iterable[tuple[str, str]]) -> DocumentError:
    """The error about a document, by path and text of each problem."""
    metadata = raw.get("metadata")
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, dict) else None
    title = golang.printable(" ".join(str(each) for each in (raw.get("kind"), name) if each))
    return DocumentError([Problem(number, title, path, golang.printable(text)) for path, text in causes])


def _misspelt(version: str, kind: str) -> str:
    """Which kind with a part in scheduling is probably meant; empty: none."""
    group = version.rpartition("/")[0]
    groups = {each.group for each in resources.RESOURCES}
    if group not in groups:
        return ""
    at = {each.kind: each.api_version for each in resources.RESOURCES if _has_part(each.kind)}
    if kind in at:
        return f"{kind} is not in {version}: its apiVersion is {at[kind]}"
    near = difflib.get_close_matches(kind, at, n=1, cutoff=0.8)
    return f"there is no {kind} in {version}; did you mean {near[0]} ({at[near[0]]})?" if near else ""


def _has_part(kind: str) -> bool:
    """Whether objects of the kind make a difference to scheduling."""
    return kind in WORKLOADS or kind in LOOKED_UP or kind == "Node" or manifests.takes_part(kind)


def template_path(kind: str) -> tuple[str, ...]:
    """Where a kind has its pod template; empty for a pod, which is its own."""
    if kind == "Pod":
        return ()
    return _TEMPLATE_OF_JOB if kind == "CronJob" else _TEMPLATE
