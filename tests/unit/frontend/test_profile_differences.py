"""How profiles differ from the default one, as `trireme status` shows it."""

import pytest

from tests.helpers.config_starts import HEADER, feature_gates
from trireme.config import loading, profiles
from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec
from trireme.frontend.serving import profile_differences
from trireme.frontend.serving.profile_differences import ProfileDifferences
from trireme.registry.in_tree import IN_TREE

REGISTRY = IN_TREE.with_remote([PluginSpec("Remote", frozenset({ExtensionPoint.FILTER}), remote=True)])


def _found(profile: str, **gates: bool) -> ProfileDifferences:
    enabled = feature_gates(**gates)
    config = loading.load(f"{HEADER}profiles: [{profile}]".encode(), enabled, lambda _line: None)
    (made,) = profiles.construct_profiles(config, REGISTRY, enabled, lambda _line: None).profiles
    return profile_differences.differences(made, profile_differences.default_profile(enabled))


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        pytest.param("{schedulerName: mine}", ProfileDifferences([], [], []), id="default"),
        pytest.param(
            "{plugins: {filter: {enabled: [{name: Remote}]}, multiPoint: {disabled: [{name: ImageLocality}]}}}",
            ProfileDifferences(["Remote"], ["ImageLocality"], []),
            id="added-and-removed",
        ),
        pytest.param(
            "{plugins: {score: {disabled: [{name: NodeAffinity}]}}}",
            ProfileDifferences([], [], ["NodeAffinity"]),
            id="not-at-one-extension-point",
        ),
        pytest.param(
            "{plugins: {score: {enabled: [{name: ImageLocality, weight: 5}]}}}",
            ProfileDifferences([], [], ["ImageLocality"]),
            id="another-weight",
        ),
        pytest.param(
            "{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}",
            ProfileDifferences([], [], ["NodeResourcesFit"]),
            id="other-arguments",
        ),
    ],
)
def test_a_profile_is_compared_with_the_default_one(profile: str, expected: ProfileDifferences) -> None:
    assert _found(profile) == expected


def test_plugins_of_feature_gates_are_no_differences() -> None:
    """A gate adds plugins to the default profile: no administrator configured them."""
    assert _found("{}", GenericWorkload=True) == ProfileDifferences([], [], [])
    assert "GangScheduling" in profile_differences.default_profile(feature_gates(GenericWorkload=True)).all_names()
    assert "GangScheduling" not in profile_differences.default_profile(feature_gates()).all_names()
