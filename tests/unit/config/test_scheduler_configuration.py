"""The rules of a configuration: each is broken once, and reported with its field, its value and its words."""

import pytest

from tests.helpers.config_starts import HEADER, feature_gates
from trireme.config import loading, scheduler_configuration
from trireme_kube.apimachinery.field_errors import join_messages


def _problems(text: str, **asked: bool) -> list[str]:
    enabled = feature_gates(**asked)
    config = loading.load((HEADER + text).encode(), enabled, lambda _line: None)
    return scheduler_configuration.validate(config, enabled)


def _args(plugin: str, args: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


_ARGS = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"),
        (
            "podInitialBackoffSeconds: 0",
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 20",
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            "leaderElection: {leaseDuration: 5s}",
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        ),
        (
            "leaderElection: {resourceLock: configmaps}",
            'leaderElection.resourceLock: Invalid value: "configmaps": resourceLock value must be "leases"',
        ),
        ("profiles: [{schedulerName: ''}, {schedulerName: b}]", "profiles[0].schedulerName: Required value"),
        (
            "profiles: [{schedulerName: a, percentageOfNodesToScore: -1}]",
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
            '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
        ),
        (
            "extenders: [{urlPrefix: 'http://x', prioritizeVerb: p, weight: 0}]",
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}]",
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
        ),
        (
            _args("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
            f"{_ARGS}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            _args("DefaultPreemption", "{minCandidateNodesPercentage: -1}"),
            f"{_ARGS}.minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]",
        ),
        (
            _args("VolumeBinding", "{bindTimeoutSeconds: -1}"),
            f"{_ARGS}.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative "
            "value",
        ),
        (
            _args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}"),
            f"{_ARGS}.resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            _args("PodTopologySpread", "{defaultingType: Other}"),
            f'{_ARGS}.defaultingType: Unsupported value: "Other": supported values: "System", "List"',
        ),
        (
            _args(
                "NodeAffinity",
                "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
                "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Like}]}]}}}",
            ),
            f"{_ARGS}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            '.matchExpressions[0].operator: Unsupported value: "Like": '
            'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        ),
    ],
    ids=lambda text: "" if "value" in text else text[:40],
)
def test_a_broken_rule_is_reported(text: str, problem: str) -> None:
    assert _problems(text) == [problem]


def test_everything_wrong_is_reported_at_once() -> None:
    problems = _problems("parallelism: 0\npercentageOfNodesToScore: 101\nprofiles: [{schedulerName: ''}]")
    assert len(problems) == 3
    assert join_messages(problems).startswith("[")


def test_two_profiles_may_not_have_one_name() -> None:
    assert [problem.split(":")[0] for problem in _problems("profiles: [{schedulerName: a}, {schedulerName: a}]")] == [
        "profiles[1].schedulerName"
    ]


def test_all_profiles_sort_the_queue_alike() -> None:
    other = "plugins: {queueSort: {disabled: [{name: '*'}], enabled: [{name: Other}]}}"
    assert _problems(f"profiles: [{{schedulerName: a, {other}}}, {{schedulerName: b, {other}}}]") == []
    (problem,) = _problems(f"profiles: [{{schedulerName: a}}, {{schedulerName: b, {other}}}]")
    assert problem.startswith("profiles[1].plugins.queueSort: Invalid value: ")


def test_a_default_configuration_is_valid() -> None:
    assert _problems("") == []
