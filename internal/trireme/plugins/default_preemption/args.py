"""The arguments of DefaultPreemption.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.

Tests: tests/conformance/test_config_golden.py.
"""

from dataclasses import dataclass
from typing import Annotated

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs
from trireme_kube.apimachinery.declaration import Written
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.schema import OPTIONAL_INT32


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """How many nodes are candidates of preemption."""

    min_candidate_nodes_percentage: Annotated[
        int, "Candidates on at least this percentage of the nodes.", Written(type=OPTIONAL_INT32)
    ] = 10
    min_candidate_nodes_absolute: Annotated[
        int, "Candidates on at least so many nodes.", Written(type=OPTIONAL_INT32)
    ] = 100


def _problems_of_args(path: str, args: JsonArgs, _gates: feature_gates.Gates) -> list[Problem]:
    """Return what is wrong with the two limits: out of range, or both 0."""
    problems: list[Problem] = []
    percentage, absolute = args["minCandidateNodesPercentage"], args["minCandidateNodesAbsolute"]
    percentage_path = child(path, "minCandidateNodesPercentage")
    absolute_path = child(path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        problems.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        problems.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
    if percentage == 0 and absolute == 0:
        rule = "cannot be zero at the same time as "
        problems.append(invalid(percentage_path, percentage, rule + "minCandidateNodesAbsolute"))
        problems.append(invalid(absolute_path, absolute, rule + "minCandidateNodesPercentage"))
    return problems


ARGS = PluginArgs(DefaultPreemptionArgs, _problems_of_args, "got args of type <nil>, want *DefaultPreemptionArgs")
