"""Derives from profiles what the scheduling cycles know of them; what the binding cycle knows is added by others."""

from collections.abc import Sequence

from trireme.config import gates, model
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import placements
from trireme.registry import group_plugins, in_tree
from trireme.scheduling.profile_roles import ProfileRoles


def cycle_roles(profiles: Sequence[model.CompletedProfile], features: gates.FeatureGates) -> ProfileRoles:
    """The roles of profiles without plugins of others in the bind phase, of which none speculates."""
    asynchronous = features.enabled("SchedulerAsyncPreemption")
    return ProfileRoles(
        permit=set(),
        pre_bind=set(),
        post_bind=set(),
        remote=set(),
        remote_bind=set(),
        speculating=set(),
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
        placement_generators=_placement_generators(profiles, features),
        placement_scorers={
            profile.scheduler_name: profile.plugins.get(ExtensionPoint.PLACEMENT_SCORE, ()) for profile in profiles
        },
        group_post_filters={
            profile.scheduler_name: profile.names(ExtensionPoint.POD_GROUP_POST_FILTER) for profile in profiles
        },
    )


def _placement_generators(
    profiles: Sequence[model.CompletedProfile], features: gates.FeatureGates
) -> dict[str, placements.PlacementGeneratePlugin]:
    """The first plugin at PlacementGenerate of each profile that has one; none without pod groups."""
    if not features.enabled("GenericWorkload"):
        return {}
    first = {
        profile.scheduler_name: group_plugins.placement_generator(name)
        for profile in profiles
        for name in profile.names(ExtensionPoint.PLACEMENT_GENERATE)[:1]
    }
    return {profile: generator for profile, generator in first.items() if generator is not None}
