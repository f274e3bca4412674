"""The arguments of VolumeBinding.

Source: pkg/scheduler/apis/config (v1/defaults.go, validation) of Kubernetes 1.37.
"""

from trireme.framework import feature_gates
from trireme.framework.plugin_args import Args, PluginArgs, Value
from trireme.plugin_kit import args_schema
from trireme_kube.apimachinery.field_errors import Problem, child, invalid
from trireme_kube.apimachinery.schema import OPTIONAL_INT64, Field, Many, struct

_SCHEMA = struct(
    "v1",
    "VolumeBindingArgs",
    *args_schema.TYPE_META,
    Field("bindTimeoutSeconds", OPTIONAL_INT64),
    Field("shape", Many(args_schema.SHAPE_POINT)),
)


def _set_defaults(value: Value, gates: feature_gates.Gates) -> None:
    value.setdefault("bindTimeoutSeconds", 600)
    if not value.get("shape") and gates.enabled("StorageCapacityScoring"):
        value["shape"] = [{"utilization": 0, "score": args_schema.MAX_SHAPE_SCORE}, {"utilization": 100, "score": 0}]


def _validate(path: str, args: Args, gates: feature_gates.Gates) -> list[Problem]:
    problems: list[Problem] = []
    timeout = args["bindTimeoutSeconds"]
    if timeout < 0:
        rule = "invalid BindTimeoutSeconds, should not be a negative value"
        problems.append(invalid(child(path, "bindTimeoutSeconds"), timeout, rule))
    shape, where = args.get("shape"), child(path, "shape")
    if gates.enabled("StorageCapacityScoring"):
        problems.extend(args_schema.shape_problems(where, shape or ()))
    elif shape is not None:
        shown = [{"Utilization": point["utilization"], "Score": point["score"]} for point in shape]
        rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        problems.append(invalid(where, shown, rule))
    return problems


ARGS = PluginArgs(_SCHEMA, _validate, "want args to be of type VolumeBindingArgs, got <nil>", _set_defaults)
