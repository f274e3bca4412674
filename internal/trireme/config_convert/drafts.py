"""The draft of a converted configuration, and the sources that old ones refer to.

Tests: tests/unit/config_convert/test_command_lines.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trireme.config_convert.plugin_lists import Plugins
from trireme.config_convert.reading import Note


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads what old configurations refer to: files, and ConfigMaps in the cluster."""

    #: Path → bytes. Raises ConfigurationError.
    read_file: Callable[[str], bytes]
    #: Cluster, namespace and name → `data`. Raises ConfigurationError.
    read_config_map: Callable[["Cluster", str, str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """How the old scheduler reached its cluster."""

    kubeconfig: str
    master: str


@dataclass(slots=True)
class Profile:
    """A profile of the new configuration."""

    plugins: Plugins
    settings: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The profile in `v1` form."""
        return {**self.settings, **self.plugins.document()}


@dataclass(slots=True)
class Draft:
    """The new configuration, and notes about the conversion."""

    #: The source of the conversion.
    origin: str = ""
    #: The API server's address, if a flag set it.
    master: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    profiles: list[Profile] = field(default_factory=list)
    extenders: list[dict[str, Any]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    #: Whether plugins were configured explicitly.
    says_plugins: bool = False
    #: What stays on the command line, as `--flag=value`.
    flags: list[str] = field(default_factory=list)

    def note(self, about: str, text: str) -> None:
        """Add a note."""
        self.notes.append(Note(about, text))

    @property
    def cluster(self) -> Cluster:
        """How the old scheduler reached its cluster."""
        connection: dict[str, Any] = self.settings.get("clientConnection") or {}
        return Cluster(connection.get("kubeconfig") or "", self.master)

    def set(self, section: str, name: str, value: Any) -> None:
        """Set a field of `leaderElection` or `clientConnection`."""
        self.settings.setdefault(section, {})[name] = value

    def profile(self) -> Profile:
        """The only profile, created if missing."""
        if not self.profiles:
            self.profiles.append(Profile(Plugins()))
        return self.profiles[0]

    def document(self) -> dict[str, Any]:
        """The new configuration."""
        written = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **self.settings,
        }
        profiles = [profile.document() for profile in self.profiles]
        if any(profiles):
            written["profiles"] = profiles
        if self.extenders:
            written["extenders"] = self.extenders
        return written
