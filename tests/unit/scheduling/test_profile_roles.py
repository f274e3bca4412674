"""What is derived of profiles: which plugins bind, the queue and the cycles have to reckon with."""

import pytest

from tests.helpers.shadow_cluster import CONFIGURED
from trireme.config import gates, scheduler_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.scheduling import profile_roles

FAR = "Far"
OFF = gates.FeatureGates(values={"GenericWorkload": False, "SchedulerAsyncPreemption": True})
# The roles that a remote plugin gives to its profile.
OF_BIND = ("permit", "pre_bind", "post_bind", "remote", "remote_bind")


def _profile(*points: ExtensionPoint, name: str = "one") -> scheduler_configuration.CompletedProfile:
    """A profile with the plugin at these points, and the in-tree binder."""
    plugins = {ExtensionPoint.BIND: (scheduler_configuration.Plugin("DefaultBinder", 0),)}
    for point in points:
        plugins[point] = (*plugins.get(point, ()), scheduler_configuration.Plugin(FAR, 0))
    return scheduler_configuration.CompletedProfile(
        name, 0, plugins, (), scheduler_configuration.Profile(scheduler_name=name)
    )


@pytest.mark.parametrize(
    ("point", "roles"),
    [
        (ExtensionPoint.PERMIT, {"permit", "remote"}),
        (ExtensionPoint.PRE_BIND, {"pre_bind", "remote"}),
        (ExtensionPoint.BIND, {"remote_bind", "remote"}),
        (ExtensionPoint.POST_BIND, {"post_bind", "remote"}),
        (ExtensionPoint.FILTER, set()),
    ],
    ids=lambda each: each.name if isinstance(each, ExtensionPoint) else "",
)
def test_a_remote_plugin_gives_its_profile_the_roles_of_its_point(point: ExtensionPoint, roles: set[str]) -> None:
    """A point that is left out is skipped: pods are bound without the plugin."""
    made = profile_roles.roles_of([_profile(point), _profile(name="two")], OFF, {FAR})
    assert {role for role in OF_BIND if getattr(made, role)} == roles
    assert {name for role in roles for name in getattr(made, role)} <= {"one"}
    assert made.speculating == {"two"}


def test_no_profile_speculates_beside_extenders() -> None:
    """An extender may answer otherwise though the cluster has not changed."""
    assert profile_roles.roles_of([_profile()], OFF).speculating == {"one"}
    assert profile_roles.roles_of([_profile()], OFF, extended=True).speculating == set()


def test_gangs_have_their_role_without_a_call_of_bind() -> None:
    """Waiting for a group's members is no Permit plugin's: it would cost a call for each batch."""
    own = {ExtensionPoint.PLACEMENT_FEASIBLE: (scheduler_configuration.Plugin("GangScheduling", 0),)}
    made = profile_roles.roles_of(
        [
            scheduler_configuration.CompletedProfile(
                "one", 0, own, (), scheduler_configuration.Profile(scheduler_name="one")
            )
        ],
        OFF,
    )
    assert (made.permit, made.placement_feasible) == (set(), {"one": ("GangScheduling",)})


def test_generators_of_placements_exist_with_the_gate_alone() -> None:
    """Their modules are loaded where groups are, and nowhere else."""
    profiles = CONFIGURED.completed.profiles
    assert not profile_roles.roles_of(profiles, OFF).placement_generators
    on = gates.FeatureGates(values={"GenericWorkload": True})
    named = any(profile.names(ExtensionPoint.PLACEMENT_GENERATE) for profile in profiles)
    assert any(profile_roles.roles_of(profiles, on).placement_generators.values()) == named


def test_other_roles_are_seen_by_who_holds_a_set() -> None:
    """A reload changes the sets that the parts hold, not the record."""
    roles = profile_roles.roles_of([_profile()], OFF)
    held = roles.remote
    roles.replace(profile_roles.roles_of([_profile(ExtensionPoint.PERMIT)], OFF, {FAR}))
    assert held == {"one"}
