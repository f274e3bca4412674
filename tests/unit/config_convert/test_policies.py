"""Policies do as profiles what they did: predicates filter, priorities score, extenders are asked."""

from typing import Any

import pytest

from tests.helpers.config_conversions import ALWAYS, GENERAL, OLD_SCORES, P, filters, from_policy, named
from trireme.config_convert.reading import ConversionError


@pytest.mark.parametrize(
    ("predicates", "plugins"),
    [
        pytest.param([], ALWAYS, id="none"),
        pytest.param(["GeneralPredicates"], ALWAYS | GENERAL, id="general"),
        pytest.param(
            ["PodFitsPorts", "PodFitsResources"], ALWAYS | {"NodePorts", "NodeResourcesFit"}, id="first-names"
        ),
        pytest.param(["NoDiskConflict", "HostName"], ALWAYS | {"VolumeRestrictions", "NodeName"}, id="parts"),
        pytest.param(["MaxGCEPDVolumeCount", "MaxAzureDiskVolumeCount"], ALWAYS | {"NodeVolumeLimits"}, id="volumes"),
        pytest.param(["CheckNodeMemoryPressure", "CheckNodeCondition"], ALWAYS, id="conditions"),
        pytest.param(
            ["CheckVolumeBinding", "NoVolumeZoneConflict", "EvenPodsSpread", "MatchInterPodAffinity"],
            ALWAYS | {"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity"},
            id="the-rest",
        ),
    ],
)
def test_predicates_are_plugins_that_filter(predicates: list[str], plugins: set[str]) -> None:
    converted = from_policy(predicates=named(*predicates), priorities=[])
    assert filters(converted) == plugins
    assert converted.scores() == {}
    if "CheckVolumeBinding" in predicates:
        assert "VolumeBinding" in converted.profile.names(P.RESERVE)
        assert "VolumeBinding" in converted.profile.names(P.PRE_BIND)


@pytest.mark.parametrize(
    ("priorities", "scores", "strategy", "defaulting"),
    [
        pytest.param({}, {}, None, None, id="none"),
        pytest.param({"LeastRequestedPriority": 3}, {"NodeResourcesFit": 3}, "LeastAllocated", None, id="least"),
        pytest.param({"MostRequestedPriority": 3}, {"NodeResourcesFit": 3}, "MostAllocated", None, id="most"),
        pytest.param({"EqualPriority": 3}, {}, None, None, id="equal"),
        pytest.param({"ServiceSpreadingPriority": 3}, {"PodTopologySpread": 3}, None, "System", id="services"),
        pytest.param({"EvenPodsSpreadPriority": 3}, {"PodTopologySpread": 3}, None, "List", id="constraints"),
        pytest.param(
            {"SelectorSpreadPriority": 5, "EvenPodsSpreadPriority": 3},
            {"PodTopologySpread": 3},
            None,
            "System",
            id="both",
        ),
        pytest.param(
            {
                "InterPodAffinityPriority": 2,
                "BalancedResourceAllocation": 3,
                "NodeAffinityPriority": 4,
                "TaintTolerationPriority": 5,
                "ImageLocalityPriority": 6,
            },
            {
                "InterPodAffinity": 2,
                "NodeResourcesBalancedAllocation": 3,
                "NodeAffinity": 4,
                "TaintToleration": 5,
                "ImageLocality": 6,
            },
            None,
            None,
            id="the-rest",
        ),
    ],
)
def test_priorities_are_plugins_that_score(
    priorities: dict[str, int], scores: dict[str, int], strategy: str | None, defaulting: str | None
) -> None:
    listed = [{"name": name, "weight": weight} for name, weight in priorities.items()]
    converted = from_policy(predicates=[], priorities=listed)
    assert converted.scores() == scores
    assert filters(converted) == ALWAYS
    if strategy:
        assert converted.profile.args("NodeResourcesFit")["scoringStrategy"]["type"] == strategy
    if defaulting:
        assert converted.profile.args("PodTopologySpread")["defaultingType"] == defaulting


def test_a_policy_without_lists_is_the_old_default() -> None:
    converted = from_policy(hardPodAffinitySymmetricWeight=10)
    assert converted.scores() == OLD_SCORES
    assert filters(converted) == (ALWAYS | GENERAL) | {
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    }
    assert converted.profile.args("InterPodAffinity")["hardPodAffinityWeight"] == 10
    assert converted.profile.names(P.POST_FILTER) == ("DynamicResources", "DefaultPreemption")


def test_a_policy_with_arguments() -> None:
    """Arguments of label and ratio policies are converted."""
    shape = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    converted = from_policy(
        predicates=[
            {"name": "in", "argument": {"labelsPresence": {"labels": ["zone"], "presence": True}}},
            {"name": "out", "argument": {"labelsPresence": {"labels": ["retired"], "presence": False}}},
            {"name": "near", "argument": {"serviceAffinity": {"labels": ["region"]}}},
        ],
        priorities=[
            {
                "name": "ratio",
                "weight": 4,
                "argument": {
                    "requestedToCapacityRatioArguments": {"shape": shape, "resources": [{"name": "a/b", "weight": 2}]}
                },
            },
            {"name": "ssd", "weight": 3, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
            {"name": "apart", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "rack"}}},
        ],
        alwaysCheckAllPredicates=True,
    )
    added = converted.profile.args("NodeAffinity")["addedAffinity"]
    (term,) = added["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [(each["key"], each["operator"]) for each in term["matchExpressions"]] == [
        ("zone", "Exists"),
        ("retired", "DoesNotExist"),
    ]
    assert filters(converted) == ALWAYS | {"NodeAffinity"}
    assert converted.scores() == {"NodeResourcesFit": 4, "NodeAffinity": 3}
    strategy = converted.profile.args("NodeResourcesFit")["scoringStrategy"]
    assert strategy["requestedToCapacityRatio"]["shape"] == shape
    assert strategy["resources"] == [{"name": "a/b", "weight": 2}]
    for said in ("predicates[2]: near", "region", "priorities[2]: apart", "rack", "alwaysCheckAllPredicates"):
        assert said in converted.notes


def test_extenders_of_a_policy() -> None:
    """A Policy's extenders keep their URLs, verbs and timeouts."""
    extender = {
        "urlPrefix": "https://x/",
        "filterVerb": "filter",
        "prioritizeVerb": "rank",
        "weight": 2,
        "enableHttps": True,
        "httpTimeout": 1_500_000_000,
        "tlsConfig": {"Insecure": True},
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}],
        "ignorable": True,
    }
    (found,) = from_policy(extenders=[extender]).configuration.extenders
    assert (found.enable_https, found.http_timeout.seconds, found.weight) == (True, 1.5, 2)
    assert (found.node_cache_capable, found.ignorable) == (True, True)
    assert found.tls_config is not None
    assert found.tls_config.insecure


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"predicates": named("Bogus")}, 'f: predicates[0]: predicate type not found for "Bogus"'),
        ({"priorities": [{"name": "Bogus", "weight": 1}]}, 'f: priorities[0]: priority type not found for "Bogus"'),
        (
            {"priorities": named("LeastRequestedPriority")},
            "f: priorities[0]: Priority LeastRequestedPriority should have a positive weight applied to it",
        ),
        ({"predicates": {}}, "f: predicates: must be a list, not {}"),
        ({"hardPodAffinitySymmetricWeight": "x"}, 'f: hardPodAffinitySymmetricWeight: must be a whole number, not "x"'),
    ],
    ids=["predicate", "priority", "weight", "no-list", "no-number"],
)
def test_a_policy_that_was_wrong_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        from_policy(**fields)
    assert str(caught.value) == message
