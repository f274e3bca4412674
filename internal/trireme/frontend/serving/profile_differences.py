"""How a profile differs from the default one: what an administrator wants to know of it in a line.

Tests: tests/unit/frontend/test_profile_differences.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trireme.config import loading, profiles
from trireme.config.gates import FeatureGates
from trireme.config.scheduler_configuration import CompletedProfile, Plugin
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE


@dataclass(frozen=True, slots=True)
class ProfileDifferences:
    """The plugins that a profile runs and the default one does not, the reverse, and those that run otherwise."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    changed: Sequence[str] = ()


def default_profile(gates: FeatureGates) -> CompletedProfile:
    """What the profile of a scheduler without a configuration file runs."""
    config = loading.default_configuration(gates)
    return profiles.construct_profiles(config, IN_TREE, gates, lambda _line: None).profiles[0]


def differences(profile: CompletedProfile, default: CompletedProfile) -> ProfileDifferences:
    """Compare a profile with the default one.

    A plugin that both run differs in its extension points, its weight or its arguments. The order of plugins is not
    compared.
    """
    own, usual = profile.all_names(), default.all_names()
    return ProfileDifferences(
        added=[name for name in own if name not in usual],
        removed=[name for name in usual if name not in own],
        changed=[
            name
            for name in own
            if name in usual
            and (_entries(profile, name) != _entries(default, name) or profile.args(name) != default.args(name))
        ],
    )


def _entries(profile: CompletedProfile, name: str) -> dict[ExtensionPoint, list[Plugin]]:
    """By extension point the entry of a plugin, with its weight."""
    by_point = {
        point: [plugin for plugin in plugins if plugin.name == name] for point, plugins in profile.plugins.items()
    }
    return {point: entries for point, entries in by_point.items() if entries}
