"""A plugin's description: its Info, and the extension points that its methods implement.

Also change: sdk/go/definition.go, sdk/java/src/main/java/dev/trireme/sdk/Description.java,
sdk/java/src/main/java/dev/trireme/sdk/Info.java, sdk/java/src/main/java/dev/trireme/sdk/Plugin.java,
sdk/java/src/main/java/dev/trireme/sdk/Event.java, sdk/rust/src/info.rs, sdk/rust/src/plugin.rs,
sdk/typescript/src/description.ts, sdk/typescript/src/plugin.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/plugin.proto (the messages).

Tests: tests/contract/test_plugin_sdk_results.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.plugin_api import plugin_info_validation
from trireme.sdk.values import Dependency, NodeData, Normalization
from trireme.v1 import plugin_pb2


@dataclass(frozen=True, slots=True)
class Event:
    """A kind of change that may help a pod that the plugin refused.

    In the framework's words, for example `Event("Node", "Add", "UpdateNodeLabel")`.
    """

    resource: str
    actions: tuple[str, ...]

    def __init__(self, resource: str, *actions: str) -> None:
        object.__setattr__(self, "resource", resource)
        object.__setattr__(self, "actions", actions)


@dataclass(frozen=True, slots=True)
class Info:
    """A plugin's name, needs and limits.

    `name` is what profiles call it. `pod_fields` are paths such as `spec.nodeSelector` or
    `metadata.labels['example.com/tier']`; without any it gets what the built-in plugins see of a pod. Which pods a call
    is about is known without them; `metadata.name` here would make each pod a class of its own. Without `events` any
    change in the cluster wakes the pods that it refused. `max_concurrent_calls` 0: as many as come. The scheduler
    caches answers for as long as `version` stays: code or settings that answer otherwise are another version. `info` is
    read at each handshake, every few seconds, so one that is a property may change it. A scheduler that lacks one of
    the `required_features`, additions to the contract, rejects the plugin and says which. `idempotent`: a call may be
    made twice, also at two replicas at once, without another effect than the two answers.

    `score_copies`: score also answers for nodes with copies of the pod on them, so that pods of a class are placed in
    batches although the score depends on NODE_PODS. With SNAPSHOT `node.pods` has the copies,
    `call.cluster` does not, and unset means that score answers unless it uses `call.cluster`: then pods are placed one
    at a time. True says that its answer is right all the same. With other forms of nodes the copies are in
    `call.added_pods`, which score has to count, and unset means that it does not.
    """

    name: str
    version: str = ""
    depends_on: Dependency = Dependency.CLUSTER
    node_data: NodeData = NodeData.NAMES
    pod_fields: tuple[str, ...] = ()
    normalization: Normalization = Normalization.NONE
    max_concurrent_calls: int = 0
    events: Sequence[Event] = ()
    required_features: tuple[str, ...] = ()
    idempotent: bool = False
    score_copies: bool | None = None


class Plugin(Protocol):
    """Any object with an `info` and some of the methods that the package's docstring lists."""

    @property
    def info(self) -> Info:
        """Its name, needs and limits."""
        ...


POINTS = {
    "pre_enqueue": plugin_pb2.EXTENSION_POINT_PRE_ENQUEUE,
    "sort_key": plugin_pb2.EXTENSION_POINT_QUEUE_SORT,
    "pre_filter": plugin_pb2.EXTENSION_POINT_PRE_FILTER,
    "filter": plugin_pb2.EXTENSION_POINT_FILTER,
    "filter_nodes": plugin_pb2.EXTENSION_POINT_FILTER,
    "post_filter": plugin_pb2.EXTENSION_POINT_POST_FILTER,
    "pre_score": plugin_pb2.EXTENSION_POINT_PRE_SCORE,
    "score": plugin_pb2.EXTENSION_POINT_SCORE,
    "score_nodes": plugin_pb2.EXTENSION_POINT_SCORE,
    "normalize_scores": plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE,
    "reserve": plugin_pb2.EXTENSION_POINT_RESERVE,
    "permit": plugin_pb2.EXTENSION_POINT_PERMIT,
    "pre_bind": plugin_pb2.EXTENSION_POINT_PRE_BIND,
    "bind": plugin_pb2.EXTENSION_POINT_BIND,
    "post_bind": plugin_pb2.EXTENSION_POINT_POST_BIND,
    "placement_feasible": plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE,
}

#: A scheduler without this feature does not know the extension point PLACEMENT_FEASIBLE.
PLACEMENT_FEASIBLE_FEATURE = "placement-feasible"


def leave_out_placement_feasible(info: plugin_pb2.PluginInfo) -> None:
    """Remove the extension point from a description for a scheduler that does not know it."""
    points = [each for each in info.extension_points if each != plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE]
    info.extension_points[:] = points


def describe(plugin: Plugin) -> plugin_pb2.PluginInfo:
    """Make the PluginInfo for the handshake.

    Raises:
        ValueError: it has no extension point, two methods for one, or names an unknown field of a pod.
    """
    info = plugin.info
    for one, many in (("filter", "filter_nodes"), ("score", "score_nodes")):
        if hasattr(plugin, one) and hasattr(plugin, many):
            raise ValueError(f"plugin {info.name}: has both {one} and {many}")
    out = plugin_pb2.PluginInfo(
        name=info.name,
        version=info.version,
        extension_points=sorted({point for method, point in POINTS.items() if hasattr(plugin, method)}),
        max_concurrent_calls=info.max_concurrent_calls,
        idempotent=info.idempotent,
        pod_fields=info.pod_fields,
        node_data=int(info.node_data),  # type: ignore[arg-type]
        depends_on=int(info.depends_on),  # type: ignore[arg-type]
        normalization=int(info.normalization),  # type: ignore[arg-type]
        required_features=info.required_features,
    )
    if hasattr(plugin, "normalize_scores"):
        out.normalization = plugin_pb2.NORMALIZATION_CUSTOM
    out.score_copies = _scores_copies(info, out)
    for event in info.events:
        out.events_to_register.add(
            resource=event.resource, actions=event.actions, hint=hasattr(plugin, "queueing_hint")
        )
    try:
        plugin_info_validation.check_plugin_info(out)
    except ValueError as error:
        raise ValueError(f"plugin {info.name}: {error}") from error
    return out


def _scores_copies(info: Info, described: plugin_pb2.PluginInfo) -> bool:
    """Whether ScoreCopies is served, so far as it would be called at all."""
    if plugin_pb2.EXTENSION_POINT_SCORE not in described.extension_points:
        return False
    if info.score_copies is not None:
        return info.score_copies
    own = described.normalization == plugin_pb2.NORMALIZATION_CUSTOM
    return info.node_data == NodeData.SNAPSHOT and info.depends_on == Dependency.NODE_PODS and not own
