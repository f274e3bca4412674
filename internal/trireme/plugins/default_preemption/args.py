"""The arguments of DefaultPreemption.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.
"""

from trireme.framework import feature_gates
from trireme.framework.plugin_args import JsonArgs, PluginArgs, Value
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.schema import OPTIONAL_INT32, TYPE_META, Field, struct

_SCHEMA = struct(
    "v1",
    "DefaultPreemptionArgs",
    *TYPE_META,
    Field("minCandidateNodesPercentage", OPTIONAL_INT32),
    Field("minCandidateNodesAbsolute", OPTIONAL_INT32),
)


def _set_defaults(value: Value, _gates: feature_gates.Gates) -> None:
    """Set kube-scheduler's defaults: candidates on 10 % of the nodes, and on at least 100."""
    value.setdefault("minCandidateNodesPercentage", 10)
    value.setdefault("minCandidateNodesAbsolute", 100)


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


ARGS = PluginArgs(_SCHEMA, _problems_of_args, "got args of type <nil>, want *DefaultPreemptionArgs", _set_defaults)
