"""What all files of configuration have in common: they are read, and state a kind and a version.

The messages are those of Kubernetes' serializers.

Source: k8s.io/apimachinery/pkg/runtime.

Tests: tests/unit/config/test_loading.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.json_document import Node, Number, Object
from trireme_kube.apimachinery.strict_decoding import describe

INTERNAL_VERSION = "__internal"
"""The version that kube-scheduler's own types have."""

#: The place in kube-scheduler's messages where kinds are registered.
_SCHEME = "pkg/runtime/scheme.go:110"
_FIND_KIND = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class ConfigurationError(ValueError):
    """The configuration cannot be used; the message says why, in kube-scheduler's words."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        """`problems` are the parts of the message, where it is made of several."""
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """An object's declared kind and version."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """Group and version as one text."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> str:
        """Kind and group as one text."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def with_missing_parts(self, group: str, version: str, kind: str) -> "GroupVersionKind":
        """This kind, with missing parts taken from another group, version and kind."""
        mine = GroupVersionKind(self.group, self.version, self.kind or kind)
        if not mine.version and mine.group in ("", group):
            return GroupVersionKind(group, version, mine.kind)
        return mine


def read_file(path: str) -> bytes:
    """The bytes of a file.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except IsADirectoryError as error:
        raise ConfigurationError(f"read {path}: is a directory") from error
    except OSError as error:
        raise ConfigurationError(f"open {path}: {os_error(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise ConfigurationError(f"open {path}: invalid argument") from error


def os_error(error: OSError) -> str:
    """The operating system's message, spelt as in Go: `no such file or directory`."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read_kind(node: Node) -> GroupVersionKind:
    """The kind and version of an object; field names match without regard to case.

    Raises: ConfigurationError: it is not an object, or they are not strings.
    """
    prefix = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if node is None:
        return GroupVersionKind("", "", "")
    if not isinstance(node, Object):
        raise ConfigurationError(f"{prefix} {describe(node)} into Go value of type {_FIND_KIND}")
    found = {"apiVersion": "", "kind": ""}
    wrong = ""
    for key, value in node.members:
        name = next((name for name in found if name.lower() == key.lower()), None)
        if name is None or value is None:
            continue
        if isinstance(value, str) and not isinstance(value, Number):
            found[name] = value
        else:
            wrong = wrong or f"{prefix} {describe(value)} into Go struct field .{name} of type string"
    if wrong:
        raise ConfigurationError(wrong)
    return GroupVersionKind(*_group_version(found["apiVersion"]), found["kind"])


def _group_version(api_version: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`; Go reads a lone slash as empty."""
    if api_version == "/":
        return "", ""
    if api_version.count("/") > 1:
        raise ConfigurationError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    return group, version


def not_registered(kind: GroupVersionKind) -> str:
    """The message for an unknown kind."""
    if kind.version == INTERNAL_VERSION:
        return (
            f"no kind {golang.quote(kind.kind)} is registered for the internal version of group "
            f'{golang.quote(kind.group)} in scheme "{_SCHEME}"'
        )
    return (
        f"no kind {golang.quote(kind.kind)} is registered for version {golang.quote(kind.api_version)} "
        f'in scheme "{_SCHEME}"'
    )
