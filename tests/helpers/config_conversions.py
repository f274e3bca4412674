"""Conversions of old configurations, for tests: what is written is read by the scheduler's own code, and made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.helpers.config_starts import feature_gates
from trireme.config import loading, profiles
from trireme.config.scheduler_configuration import CompletedProfile, SchedulerConfiguration
from trireme.config_convert import writing
from trireme.config_convert.drafts import Cluster, Sources
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery.configuration_files import ConfigurationError

P = ExtensionPoint
GROUP = "kubescheduler.config.k8s.io"
OLD_SCORES = {
    "TaintToleration": 1,
    "NodeAffinity": 1,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
#: Scores that came after the old versions: nothing happens without their feature.
LATER = {"VolumeBinding", "DynamicResources"}


@dataclass(frozen=True)
class Converted:
    """What came of a conversion."""

    text: str
    configuration: SchedulerConfiguration
    profiles: tuple[CompletedProfile, ...]

    @property
    def notes(self) -> str:
        """The comments, as one line."""
        return " ".join(line.lstrip("# ") for line in self.text.splitlines() if line.startswith("#"))

    @property
    def profile(self) -> CompletedProfile:
        """The only profile."""
        (profile,) = self.profiles
        return profile

    def scores(self, position: int = 0) -> dict[str, int]:
        """The weights of a profile."""
        scores = self.profiles[position].plugins[P.SCORE]
        return {plugin.name: plugin.weight for plugin in scores if plugin.name not in LATER}


def convert(*arguments: str, config_maps: Mapping[str, Any] | None = None, **files: Any) -> Converted:
    """Converts with files (name without a dot → object or text)."""

    def read_file(path: str) -> bytes:
        if path not in files:
            raise ConfigurationError(f"open {path}: no such file or directory")
        content = files[path]
        return (content if isinstance(content, str) else json.dumps(content)).encode()

    def read_config_map(cluster: Cluster, namespace: str, name: str) -> Mapping[str, str]:
        found: Mapping[str, str] = (config_maps or {})[f"{cluster.kubeconfig}|{cluster.master}|{namespace}/{name}"]
        return found

    text = writing.convert(list(arguments), Sources(read_file, read_config_map))
    enabled = feature_gates()
    config = loading.load(text.encode(), enabled, lambda _line: None)
    everywhere = frozenset(set(P) - {P.QUEUE_SORT})
    registry = IN_TREE.with_remote([PluginSpec("Mine", everywhere, remote=True)])
    return Converted(text, config, profiles.construct_profiles(config, registry, enabled, lambda _line: None).profiles)


def from_file(value: Any, *flags: str) -> Converted:
    """Converts a file."""
    return convert("f", *flags, f=value)


def versioned(version: str, **fields: Any) -> Converted:
    """Converts a configuration of a version."""
    return from_file({"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields})


def with_plugins(version: str, plugins: Any, config: Any = ()) -> Converted:
    """Converts a configuration with one profile."""
    return versioned(version, profiles=[{"plugins": plugins, "pluginConfig": list(config)}])


def named(*names: str) -> list[dict[str, str]]:
    """A list of plugins, predicates or priorities."""
    return [{"name": name} for name in names]


def from_policy(**fields: Any) -> Converted:
    """Converts a Policy."""
    return from_file({"kind": "Policy", "apiVersion": "v1", **fields})


GENERAL = {"NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"}
ALWAYS = {"NodeUnschedulable", "TaintToleration"}
LATER_FILTERS = {"DynamicResources", "NodeDeclaredFeatures"}


def filters(converted: Converted) -> set[str]:
    """What filters, but for plugins that came later."""
    return set(converted.profile.names(P.FILTER)) - LATER_FILTERS
