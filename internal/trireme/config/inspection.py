"""Checks configuration files without starting anything: for `trireme config validate` and `print`.

The rules and their order are those of the start, except for what depends on the machine: no socket is opened, no
certificate made, no kubeconfig read. So a file can be checked at a desk or in CI.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trireme.config import gates, loading, model, trireme_configuration
from trireme.config.commandline import without_secrets
from trireme.config.gates import FeatureGates, join_messages
from trireme.config.leader_election import check_lock, check_timing
from trireme.config.loading import ConfigurationError
from trireme.config.model import CompletedProfile, SchedulerConfiguration
from trireme.config.profiles import construct_profiles
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE
from trireme_kube.componentbase.cli import versions

# In a text that cannot be parsed: at the beginning of a line, or in JSON.
_OWN_API_VERSION = re.compile(
    rb"""(?:^|[{,])\W*apiVersion["']?\s*:\s*["']?%s/""" % re.escape(trireme_configuration.API_GROUP).encode(),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class InspectedConfiguration:
    """The contents of files, with all defaults."""

    configuration: SchedulerConfiguration
    profiles: tuple[CompletedProfile, ...]
    trireme: TriremeConfiguration

    def document(self) -> dict[str, Any]:
        """The configuration as YAML would have it, without private keys."""
        return without_secrets(model.to_document(self.configuration))


def feature_gates(texts: Sequence[str]) -> FeatureGates:
    """Feature gates from `name=true|false` texts. Raises: ConfigurationError: one is invalid."""
    try:
        return gates.set_gates(gates.parse_gates(",".join(texts)), versions.effective((), ())).gates
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def is_own(data: bytes) -> bool:
    """Whether a file has a TriremeConfiguration, or seems to if it cannot be parsed."""
    try:
        return loading.read_kind(loading.parse(data).node).group == trireme_configuration.API_GROUP
    except ConfigurationError:
        return _OWN_API_VERSION.search(data) is not None


def inspect(data: bytes | None, trireme: TriremeConfiguration, enabled: FeatureGates) -> InspectedConfiguration:
    """Checks a KubeSchedulerConfiguration, or the default one, together with Trireme's settings.

    Raises:
        ConfigurationError: the scheduler would not start with it.
    """
    if data is None:
        config = loading.default_configuration(enabled)
    else:
        config = loading.load(data, enabled, _discard_log_line)
    problems = model.validate(config, enabled)
    if problems:
        raise ConfigurationError(join_messages(problems), problems)
    check_lock(config.leader_election)
    constructed = construct_profiles(
        config, trireme_configuration.registry_with_remote_plugins(IN_TREE, trireme), enabled, _discard_log_line
    )
    check_timing(config.leader_election)
    return InspectedConfiguration(constructed.configuration, constructed.profiles, trireme)


def plugin_table(profile: CompletedProfile) -> list[str]:
    """The plugins of a profile by extension point, for people."""
    lines = [f"{profile.scheduler_name}:"]
    for point in ExtensionPoint:
        plugins = profile.plugins[point]
        if plugins:
            labels = (f"{plugin.name} ({plugin.weight})" if point.weighted else plugin.name for plugin in plugins)
            lines.append(f"  {point.value:<20} {', '.join(labels)}")
    return lines


def _discard_log_line(_line: str) -> None:
    """Discard a log line: those about a configuration are for the scheduler's log."""
