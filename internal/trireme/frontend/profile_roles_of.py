"""Derives from a configuration what the parts of scheduling know of its profiles."""

from trireme.config import commandline
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import phase_configuration
from trireme.plugin_api import placements
from trireme.registry import group_sides, in_tree
from trireme.scheduling.profile_roles import ProfileRoles

#: Where bind calls plugins.
_BIND_POINTS = (ExtensionPoint.PERMIT, ExtensionPoint.PRE_BIND, ExtensionPoint.BIND, ExtensionPoint.POST_BIND)


def roles_of(completed: commandline.CompletedConfig) -> ProfileRoles:
    """The roles of the configuration's profiles; with extenders no profile speculates."""
    profiles = completed.profiles
    remote = frozenset(plugin.name for plugin in completed.trireme.remote_plugins)
    asynchronous = completed.gates.enabled("SchedulerAsyncPreemption")

    def with_remote(*points: ExtensionPoint) -> set[str]:
        """The profiles with any remote plugin at any of these points."""
        return {
            profile.scheduler_name
            for profile in profiles
            if any(not remote.isdisjoint(profile.names(point)) for point in points)
        }

    return ProfileRoles(
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
        post_filter={
            profile.scheduler_name: asynchronous
            for profile in profiles
            if profile.plugins.get(ExtensionPoint.POST_FILTER)
        },
        gang_pre_enqueue={
            profile.scheduler_name
            for profile in profiles
            if in_tree.GANG_PLUGIN in profile.names(ExtensionPoint.PRE_ENQUEUE)
        },
        gang={profile.scheduler_name for profile in profiles if in_tree.GANG_PLUGIN in profile.all_names()},
        placement_generators=_placement_generators(completed),
        placement_scorers={
            profile.scheduler_name: profile.plugins.get(ExtensionPoint.PLACEMENT_SCORE, ()) for profile in profiles
        },
        group_post_filters={
            profile.scheduler_name: profile.names(ExtensionPoint.POD_GROUP_POST_FILTER) for profile in profiles
        },
    )


def _placement_generators(completed: commandline.CompletedConfig) -> dict[str, placements.PlacementGeneratePlugin]:
    """The first plugin at PlacementGenerate of each profile that has one; none without pod groups."""
    if not completed.gates.enabled("GenericWorkload"):
        return {}
    first = {
        profile.scheduler_name: group_sides.placement_generator(name)
        for profile in completed.profiles
        for name in profile.names(ExtensionPoint.PLACEMENT_GENERATE)[:1]
    }
    return {profile: generator for profile, generator in first.items() if generator is not None}


def speculating_profiles(completed: commandline.CompletedConfig) -> set[str]:
    """The profiles without plugins of others, whose answers may change though the cluster does not."""
    remote = frozenset(plugin.name for plugin in completed.trireme.remote_plugins)
    return {profile.scheduler_name for profile in completed.profiles if remote.isdisjoint(profile.all_names())}
