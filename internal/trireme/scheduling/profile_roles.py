"""What the parts of scheduling know of the profiles: sets of names, which a reload of the configuration changes.

The parts hold these very sets, so that `replace`, called between two scheduling cycles, changes them for all at once.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields

from trireme.config import gates, scheduler_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import placements
from trireme.registry import group_plugins, in_tree

#: In-tree plugins whose Permit is part of the scheduling cycles: they have no implementation for the bind phase.
OWN_PERMIT = frozenset(
    name
    for name, spec in in_tree.IN_TREE.plugins.items()
    if ExtensionPoint.PERMIT in spec.extension_points and ExtensionPoint.PERMIT not in spec.implementations
)

#: Where bind calls plugins.
_BIND_POINTS = (ExtensionPoint.PERMIT, ExtensionPoint.PRE_BIND, ExtensionPoint.BIND, ExtensionPoint.POST_BIND)


@dataclass(frozen=True, slots=True)
class ProfileRoles:
    """The profiles by what their plugins do. Each field is a set, or a dict, of profiles' names."""

    #: With Permit plugins that bind calls.
    permit: set[str]
    #: With remote plugins at PreBind.
    pre_bind: set[str]
    #: With remote plugins at PostBind.
    post_bind: set[str]
    #: With remote plugins at any point of the bind phase.
    remote: set[str]
    #: With remote plugins at Bind.
    remote_bind: set[str]
    #: Without remote plugins: their answers depend on nothing but the cluster.
    speculating: set[str]
    #: With PostFilter plugins, and whether their evictions are asynchronous.
    post_filter: dict[str, bool]
    #: Whose pods wait until a minimum of their group is there.
    gang_pre_enqueue: set[str]
    #: Whose groups, where they preempt, go where that costs least.
    ranking: set[str]
    #: Their in-tree plugins at PlacementGenerate, empty where there are no pod groups; the names of those at
    #: PlacementFeasible, remote ones included; those at PlacementScore; the names of those at PodGroupPostFilter.
    placement_generators: dict[str, Mapping[str, placements.PlacementGeneratePlugin]] = field(default_factory=dict)
    placement_feasible: dict[str, Sequence[str]] = field(default_factory=dict)
    placement_scorers: dict[str, Sequence[scheduler_configuration.Plugin]] = field(default_factory=dict)
    group_post_filters: dict[str, Sequence[str]] = field(default_factory=dict)

    def replace(self, new: "ProfileRoles") -> None:
        """Make this equal to `new`, in the sets that others hold."""
        for each in fields(self):
            held, wanted = getattr(self, each.name), getattr(new, each.name)
            held.clear()
            held.update(wanted)


def roles_of(
    profiles: Sequence[scheduler_configuration.CompletedProfile],
    features: gates.FeatureGates,
    remote: Set[str] = frozenset(),
    *,
    extended: bool = False,
) -> ProfileRoles:
    """Derive the roles of these profiles.

    `remote` are the remote plugins whose answers count; `extended`: there are HTTP extenders, so no profile speculates.
    """

    def with_remote(*points: ExtensionPoint) -> set[str]:
        """The profiles with any remote plugin at any of these points."""
        return {
            profile.scheduler_name
            for profile in profiles
            if any(not remote.isdisjoint(profile.names(point)) for point in points)
        }

    asynchronous = features.enabled("SchedulerAsyncPreemption")
    return ProfileRoles(
        permit={
            profile.scheduler_name
            for profile in profiles
            if not OWN_PERMIT.issuperset(profile.names(ExtensionPoint.PERMIT))
        },
        pre_bind=with_remote(ExtensionPoint.PRE_BIND),
        post_bind=with_remote(ExtensionPoint.POST_BIND),
        remote=with_remote(*_BIND_POINTS),
        remote_bind=with_remote(ExtensionPoint.BIND),
        speculating={
            profile.scheduler_name for profile in profiles if not extended and remote.isdisjoint(profile.all_names())
        },
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
        ranking={
            profile.scheduler_name
            for profile in profiles
            if all(
                in_tree.PREEMPTION_PLUGIN in profile.names(point)
                for point in (ExtensionPoint.POD_GROUP_POST_FILTER, ExtensionPoint.RESERVE)
            )
        },
        placement_generators=_placement_generators(profiles, features),
        placement_feasible={
            profile.scheduler_name: profile.names(ExtensionPoint.PLACEMENT_FEASIBLE) for profile in profiles
        },
        placement_scorers={
            profile.scheduler_name: profile.plugins.get(ExtensionPoint.PLACEMENT_SCORE, ()) for profile in profiles
        },
        group_post_filters={
            profile.scheduler_name: profile.names(ExtensionPoint.POD_GROUP_POST_FILTER) for profile in profiles
        },
    )


def _placement_generators(
    profiles: Sequence[scheduler_configuration.CompletedProfile], features: gates.FeatureGates
) -> dict[str, Mapping[str, placements.PlacementGeneratePlugin]]:
    """The in-tree plugins at PlacementGenerate of each profile; none without pod groups."""
    if not features.enabled("GenericWorkload"):
        return {}
    return {
        profile.scheduler_name: group_plugins.placement_generators(profile.names(ExtensionPoint.PLACEMENT_GENERATE))
        for profile in profiles
    }
