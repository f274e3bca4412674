"""Derives from a configuration what the parts of scheduling know of its profiles."""

import dataclasses

from trireme.config import commandline
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import phase_configuration
from trireme.scheduling import cycle_roles
from trireme.scheduling.profile_roles import ProfileRoles

#: Where bind calls plugins.
_BIND_POINTS = (ExtensionPoint.PERMIT, ExtensionPoint.PRE_BIND, ExtensionPoint.BIND, ExtensionPoint.POST_BIND)


def roles_of(completed: commandline.CompletedConfig) -> ProfileRoles:
    """The roles of the configuration's profiles; with extenders no profile speculates."""
    profiles = completed.profiles
    remote = _deciding_plugins(completed)

    def with_remote(*points: ExtensionPoint) -> set[str]:
        """The profiles with any remote plugin at any of these points."""
        return {
            profile.scheduler_name
            for profile in profiles
            if any(not remote.isdisjoint(profile.names(point)) for point in points)
        }

    return dataclasses.replace(
        cycle_roles.cycle_roles(profiles, completed.gates),
        permit={
            profile.scheduler_name
            for profile in profiles
            if not phase_configuration.OWN_PERMIT.issuperset(profile.names(ExtensionPoint.PERMIT))
        },
        pre_bind=with_remote(ExtensionPoint.PRE_BIND),
        post_bind=with_remote(ExtensionPoint.POST_BIND),
        remote=with_remote(*_BIND_POINTS),
        remote_bind=with_remote(ExtensionPoint.BIND),
        speculating=set() if completed.configuration.extenders else speculating_profiles(completed),
    )


def speculating_profiles(completed: commandline.CompletedConfig) -> set[str]:
    """The profiles without plugins of others, whose answers may change though the cluster does not."""
    remote = _deciding_plugins(completed)
    return {profile.scheduler_name for profile in completed.profiles if remote.isdisjoint(profile.all_names())}


def _deciding_plugins(completed: commandline.CompletedConfig) -> frozenset[str]:
    """The names of the remote plugins whose answers count."""
    return frozenset(plugin.name for plugin in completed.trireme.remote_plugins if not plugin.compared_only)
