"""The in-tree plugins as data: which exist, at which extension points, and what kind their arguments are.

Configuration needs to know this of every plugin, the ones that run in another process above all, so it is a table and
not something found by importing the plugins: the frontend validates a profile without loading a line of what filter,
score and bind run. Remote plugins, named in Trireme's own configuration, join the table through `Registry.with_remote`.

The order of `ExtensionPoint` is the order in which kube-scheduler checks and expands a profile; which of several
mistakes in a profile is reported depends on it.

Source: pkg/scheduler/framework/plugins of Kubernetes 1.37.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


class ExtensionPoint(enum.StrEnum):
    """An extension point; the value is its field in a KubeSchedulerConfiguration's `plugins`."""

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"

    @property
    def label(self) -> str:
        """The name that metrics and logs use, e.g. `PreFilter`."""
        return self.value[0].upper() + self.value[1:]

    @property
    def interface(self) -> str:
        """The name that error messages use, e.g. `PreFilterPlugin`."""
        return self.label + "Plugin"

    @property
    def weighted(self) -> bool:
        """Whether a plugin at this point has a weight."""
        return self in (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)


@dataclass(frozen=True, slots=True)
class PluginDescription:
    """What configuration knows of a plugin."""

    name: str
    extension_points: frozenset[ExtensionPoint]
    #: The kind of its arguments, e.g. `NodeAffinityArgs`; empty for a plugin that takes none or any.
    args_kind: str = ""
    #: Pods can be told apart by what this plugin sees of them; where one plugin of a profile cannot, its batches of
    #: equal pods are of one.
    signs: bool = True
    #: Runs in a process of its own, configured in TriremeConfiguration.
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Registry:
    """The plugins that a profile may name."""

    plugins: Mapping[str, PluginDescription]

    def __contains__(self, name: str) -> bool:
        return name in self.plugins

    def __getitem__(self, name: str) -> PluginDescription:
        return self.plugins[name]

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Whether the plugin exists and serves that extension point."""
        plugin = self.plugins.get(name)
        return plugin is not None and point in plugin.extension_points

    def with_remote(self, plugins: Iterable[PluginDescription]) -> "Registry":
        """This registry with remote plugins added.

        Raises:
            ValueError: two plugins have one name.
        """
        merged = dict(self.plugins)
        for plugin in plugins:
            if plugin.name in merged:
                raise ValueError(f"a plugin named {plugin.name} already exists")
            merged[plugin.name] = plugin
        return Registry(MappingProxyType(merged))


def _table() -> Mapping[str, PluginDescription]:
    point = ExtensionPoint
    filtering = (point.PRE_FILTER, point.FILTER)
    scoring = (point.PRE_SCORE, point.SCORE)
    binding = (point.RESERVE, point.PRE_BIND)
    rows: tuple[tuple[str, tuple[ExtensionPoint, ...]], ...] = (
        ("DefaultBinder", (point.BIND,)),
        ("DefaultPreemption", (point.PRE_ENQUEUE, point.POST_FILTER, point.POD_GROUP_POST_FILTER)),
        ("DeferredPodScheduling", (*filtering, point.PERMIT)),
        (
            "DynamicResources",
            (
                point.PRE_ENQUEUE,
                *filtering,
                point.POST_FILTER,
                point.POD_GROUP_POST_FILTER,
                point.SCORE,
                *binding,
            ),
        ),
        ("GangScheduling", (point.PRE_ENQUEUE, point.PERMIT)),
        ("ImageLocality", (point.SCORE,)),
        ("InterPodAffinity", (*filtering, *scoring)),
        ("NodeAffinity", (*filtering, *scoring)),
        ("NodeDeclaredFeatures", filtering),
        ("NodeName", filtering),
        ("NodePorts", filtering),
        ("NodeResourcesBalancedAllocation", scoring),
        ("NodeResourcesFit", (*filtering, *scoring, point.PLACEMENT_SCORE)),
        ("NodeUnschedulable", filtering),
        ("NodeVolumeLimits", filtering),
        ("PodGroupPodsCount", (point.PLACEMENT_SCORE,)),
        ("PodTopologySpread", (*filtering, *scoring)),
        ("PrioritySort", (point.QUEUE_SORT,)),
        ("SchedulingGates", (point.PRE_ENQUEUE,)),
        ("TaintToleration", (*filtering, *scoring)),
        ("TopologyPlacementGenerator", (point.PLACEMENT_GENERATE,)),
        ("VolumeBinding", (*filtering, *scoring, *binding)),
        ("VolumeRestrictions", filtering),
        ("VolumeZone", filtering),
    )
    with_args = {
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    }
    return MappingProxyType(
        {
            name: PluginDescription(
                name=name,
                extension_points=frozenset(points),
                args_kind=f"{name}Args" if name in with_args else "",
                # What it looks at while a pod is resized is not part of a pod's signature.
                signs=name != "DeferredPodScheduling",
            )
            for name, points in rows
        }
    )


IN_TREE = Registry(_table())
