"""A plugin's configuration: the argument and errors of `configure`, and its results by configuration hash.

Also change: sdk/go/arguments.go, sdk/java/src/main/java/dev/trireme/sdk/Arguments.java,
sdk/java/src/main/java/dev/trireme/sdk/InvalidArguments.java, sdk/java/src/main/java/dev/trireme/sdk/Configuration.java,
sdk/java/src/main/java/dev/trireme/sdk/Configurations.java, sdk/rust/src/configuration.rs,
sdk/typescript/src/arguments.ts, sdk/typescript/src/configurations.ts (the same in the other languages' SDKs).

Tests: tests/contract/test_plugin_sdk_results.py.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The most configurations held, of several schedulers or of one over time; the oldest is dropped first.
MAX_CONFIGURATIONS = 32


@dataclass(frozen=True, slots=True)
class Configuration:
    """One profile's configuration of the plugin. `args` is the decoded JSON of its pluginConfig, `{}` without one."""

    profile: str
    args: Any
    feature_gates: Mapping[str, bool]


class InvalidArguments(ValueError):
    """Raised by `configure`: each problem is the path of a field, from `args` on, and a message."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        super().__init__(", ".join(f"{field}: {message}" for field, message in problems))
        self.problems = problems


class Configurations:
    """Results of `configure`, by the configuration's hash and the profile."""

    def __init__(self) -> None:
        self._by_hash: OrderedDict[int, dict[str, Any]] = OrderedDict()

    def add(self, config_hash: int, profile: str, value: Any) -> None:
        """Record a configuration that the plugin accepted."""
        self._by_hash.setdefault(config_hash, {})[profile] = value
        self._by_hash.move_to_end(config_hash)
        while len(self._by_hash) > MAX_CONFIGURATIONS:
            self._by_hash.popitem(last=False)

    def has(self, config_hash: int) -> bool:
        """Whether the plugin accepted the configuration of this hash."""
        return config_hash in self._by_hash

    def get_any(self, config_hash: int, profile: str) -> Any:
        """The result for the profile, or for any where the call does not say which."""
        of_profiles = self._by_hash.get(config_hash, {})
        return of_profiles[profile] if profile in of_profiles else next(iter(of_profiles.values()), None)

    def get(self, config_hash: int, profile: str) -> Any:
        """The result of `configure`; None if it was not called for the profile."""
        return self._by_hash.get(config_hash, {}).get(profile)
