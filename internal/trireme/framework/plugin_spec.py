"""A plugin as data: at which extension points it is, and where each of its implementations is found.

Configuration needs to know this of every plugin, the ones that run in another process above all. So a plugin's `spec`
loads nothing of it: the frontend validates a profile without a line of what filter, score and bind run, and each of
these loads only what it runs (`trireme.registry`). Remote plugins, named in Trireme's own configuration, have
a spec without implementations and join the in-tree ones through `Registry.with_remote`.

The order of `ExtensionPoint` is the order in which kube-scheduler checks and expands a profile; which of several
mistakes in a profile is reported depends on it.

Source: pkg/scheduler/framework/plugins of Kubernetes 1.38.

Tests: tests/unit/config/test_profiles.py, tests/unit/config/test_trireme_configuration.py,
tests/unit/frontend/test_reconfiguration.py.
"""

import enum
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


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
    PLACEMENT_FEASIBLE = "placementFeasible"
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


FILTERING = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER)
SCORING = (ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
ASSUMING = (ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND)

#: The highest score of a node or placement, before the plugin's weight.
MAX_SCORE = 100


class Role(enum.Enum):
    """What the scheduler itself does on behalf of a plugin. Each role is one in-tree plugin's."""

    #: The frontend evicts the pods that its PostFilter chooses, holds preemptors back and counts attempts.
    PREEMPTION = enum.auto()
    #: The frontend asks its PodGroupPostFilter which claims a group may release, and executes that.
    CLAIM_RELEASE = enum.auto()
    #: Groups wait for their members in its name, in the queue and before they bind.
    GANGS = enum.auto()
    #: A metric counts its errors by stage.
    VOLUMES = enum.auto()
    #: Its argument `ignoredResources` has the resources that extenders manage.
    RESOURCES = enum.auto()


@dataclass(frozen=True, slots=True)
class LazyImport:
    """A name in a plugin folder whose module is imported only in the processes that use it.

    `target` is `.module:name`, the module relative to the plugin's package.
    """

    target: str

    def load(self, package: str) -> Any:
        """The object that the target names, relative to the package; imports its module if necessary."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module, package), name)


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """What is known of a plugin without importing it."""

    name: str
    extension_points: frozenset[ExtensionPoint]
    #: The package that targets are relative to.
    package: str = ""
    #: The fields of a pod that it reads, as paths of the API, e.g. `spec.nodeSelector`: pods that differ in one are of
    #: different classes. Labels that selectors name are not listed, the cache finds their keys in the selectors.
    pod_fields: tuple[str, ...] = ()
    #: The constructor of the plugin's part in a process, by the last extension point that the process calls: FILTER
    #: includes PreFilter and Reserve, SCORE includes PreScore. In the bind phase PRE_BIND or BIND includes all
    #: points of the phase, and RESERVE is the Unreserve of what PreBind wrote.
    implementations: Mapping[ExtensionPoint, LazyImport] = field(default_factory=dict)
    #: What executes, in the bind phase, the actions that are this plugin's own; by kind of trireme.v1.Action.
    actions: Mapping[str, LazyImport] = field(default_factory=dict)
    #: The cluster events that may help pods that it refused; None: it refuses no pod, or no event helps.
    events_to_register: LazyImport | None = None
    #: Its `plugin_args.PluginArgs`; None: it takes none, or any.
    args: LazyImport | None = None
    #: The reasons of its refusals: a `reason_codes.ReasonCode` for each code.
    explain: LazyImport | None = None
    #: Ignores running pods whose resize is deferred.
    ignores_deferred_resizes: bool = False
    #: Supports pod signatures: equal pods can be recognised by the fields that it reads. If one plugin of a profile
    #: does not, each of its pods is a batch of its own.
    supports_signature: bool = True
    role: Role | None = None
    #: Runs in a process of its own, configured in TriremeConfiguration.
    remote: bool = False


@dataclass(frozen=True, slots=True)
class Registry:
    """The plugins that a profile may name."""

    plugins: Mapping[str, PluginSpec]

    @staticmethod
    def of(*specs: PluginSpec) -> "Registry":
        """The registry of these plugins."""
        return Registry(MappingProxyType({spec.name: spec for spec in specs}))

    def __contains__(self, name: str) -> bool:
        return name in self.plugins

    def __getitem__(self, name: str) -> PluginSpec:
        return self.plugins[name]

    def implements(self, name: str, point: ExtensionPoint) -> bool:
        """Whether the plugin exists and serves that extension point."""
        plugin = self.plugins.get(name)
        return plugin is not None and point in plugin.extension_points

    def name_of(self, role: Role) -> str:
        """The name of the plugin that has the role."""
        return next(name for name, plugin in self.plugins.items() if plugin.role is role)

    def pod_fields(self, names: Iterable[str]) -> tuple[str, ...]:
        """The fields of a pod that those of these plugins read which are in this registry."""
        specs = (self.plugins[name] for name in names if name in self.plugins)
        return tuple(sorted({path for spec in specs for path in spec.pod_fields}))

    def with_remote(self, plugins: Iterable[PluginSpec]) -> "Registry":
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
