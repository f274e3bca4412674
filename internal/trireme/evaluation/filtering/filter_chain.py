"""The filter plugins of one profile, and what each of them can do.

What a plugin can do follows from the protocols that it implements. That is found out once, when the profile is made: to
ask an object for a protocol takes longer than many an answer.

Also change: internal/trireme/evaluation/scoring/score_chain.py (filter and score are alike here).

Tests: tests/unit/plugins/default_preemption/test_post_filter_searches.py, tests/unit/evaluation/test_filtering.py.
"""

from collections.abc import Sequence

from trireme.plugin_api import interfaces
from trireme.snapshot import classes


class FilterChain:
    """The filter plugins of one profile, in the profile's order."""

    def __init__(
        self, plugins: Sequence[interfaces.AnyFilterPlugin], not_for_resizes: frozenset[str] = frozenset()
    ) -> None:
        """`not_for_resizes` are the plugins that pass over pods whose resize is deferred."""
        self.plugins = tuple(plugins)
        self.order = tuple(plugin.name for plugin in plugins)
        #: Those whose answers have to be prepared, and all others.
        self.asynchronous = tuple(plugin for plugin in plugins if isinstance(plugin, interfaces.AsyncFilter))
        self.synchronous = tuple(plugin for plugin in plugins if not isinstance(plugin, interfaces.AsyncFilter))
        #: Of the synchronous ones those that answer faster what was prepared.
        self.preparing = tuple(plugin for plugin in self.synchronous if isinstance(plugin, interfaces.SlowFilter))
        #: The names of the synchronous ones whose answers classes of one family share; none beside an asynchronous one.
        self.ignoring_requests = tuple(
            plugin.name
            for plugin in self.synchronous
            if isinstance(plugin, interfaces.IgnoresRequests) and not self.asynchronous
        )
        #: The others among the synchronous ones.
        self.reading_requests = tuple(each for each in self.synchronous if each.name not in self.ignoring_requests)
        #: Those whose answers the pods of a DaemonSet do not share.
        self.reading_node_affinity = tuple(
            plugin for plugin in self.synchronous if not isinstance(plugin, interfaces.IgnoresNodeAffinity)
        )
        self.by_domain: dict[str, interfaces.DomainFilter] = {
            plugin.name: plugin for plugin in self.synchronous if isinstance(plugin, interfaces.DomainFilter)
        }
        self.isolated: dict[str, interfaces.IsolatedFilter] = {
            plugin.name: plugin for plugin in self.synchronous if isinstance(plugin, interfaces.IsolatedFilter)
        }
        #: The one that says what pods take of their nodes, if the profile has it.
        self.demanding = next(
            (plugin for plugin in self.synchronous if isinstance(plugin, interfaces.DemandFilter)), None
        )
        #: Those whose verdict on a node may depend on placed pods, but for `demanding`.
        self.depending_on_pods = tuple(
            plugin.name
            for plugin in plugins
            if plugin is not self.demanding and plugin.depends_on != interfaces.Dependency.NODE
        )
        self._not_for_resizes = not_for_resizes

    @property
    def places_one_by_one(self) -> bool:
        """Whether pods are placed one at a time: a plugin's verdict on a node may depend on any other one."""
        return any(plugin.depends_on == interfaces.Dependency.CLUSTER for plugin in self.asynchronous)

    def skips_class(self, plugin: str, pod_class: classes.PodClass) -> bool:
        """Whether the plugin skips the class, whatever it asks for."""
        return pod_class.resize_deferred and plugin in self._not_for_resizes
