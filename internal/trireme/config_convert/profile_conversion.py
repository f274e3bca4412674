"""One profile of an old version as a profile of `v1`: lists, weights and arguments.

An old profile modifies the defaults of its version. `v1` has other defaults, so the result states the old defaults
explicitly where they differ: the weights, and the plugins that were merged into others.

Also change: internal/trireme/config/scheduler_configuration.py,
internal/trireme/config_convert/configurations.py (fields of KubeSchedulerConfiguration).
Also change: internal/trireme/registry/legacy.py, internal/trireme/config_convert/policies.py (names of older plugins).
Also change: internal/trireme/plugins/node_label/args.py,
internal/trireme/recording/redaction.py (arguments of NodeLabel).

Tests: tests/unit/config_convert/test_versions.py.
"""

from dataclasses import dataclass, field
from typing import Any

from trireme.config.scheduler_configuration import MULTI_POINT
from trireme.config_convert import node_labels, plugin_lists
from trireme.config_convert.node_labels import NodeLabels
from trireme.config_convert.plugin_lists import FILTER, PRE_SCORE, SCORE, Plugins
from trireme.config_convert.reading import ConversionError, Note, Reader
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import legacy
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery.golang import quote, quote_list

VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
_LEAST = "NodeResourcesLeastAllocated"
_MOST = "NodeResourcesMostAllocated"


def is_older_version(version: str, than: str) -> bool:
    """Whether a version came before another."""
    return VERSIONS.index(version) < VERSIONS.index(than)


def convert(profile: Reader, version: str, notes: list[Note], provider: str = legacy.DEFAULT_PROVIDER) -> Plugins:
    """Convert the plugins of a profile to `v1`.

    Raises:
        ConversionError: they cannot be read, or nobody knows the algorithm provider.
    """
    if provider not in legacy.PROVIDERS:
        raise ConversionError(f"there was no algorithm provider {quote(provider)}, only {quote_list(legacy.PROVIDERS)}")
    plugins = plugin_lists.read(profile, notes)
    _ProfileConversion(
        plugins, version, profile.path, notes, _MOST if provider != legacy.DEFAULT_PROVIDER else _LEAST
    ).run()
    return plugins


@dataclass(slots=True)
class _ProfileConversion:
    """One conversion of an old profile's plugin lists to those of today, with notes about what changes."""

    plugins: Plugins
    version: str
    path: str
    notes: list[Note]
    #: The plugin that scored resources by default.
    scorer: str
    #: Plugins with a note already, so that each gets only one.
    _noted: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Convert the lists, step by step."""
        self._move_renamed_extension_points()
        self._convert_selector_spread()
        if is_older_version(self.version, "v1beta2"):
            self._convert_resource_scoring_plugins()
            self._convert_default_constraints()
        self._convert_node_labels()
        self._merge_volume_limits()
        self._note_removed_plugins()
        self._drop_plugins_without_work()
        if is_older_version(self.version, "v1beta3"):
            self._state_old_weights()

    def _add_first_note_about(self, plugin: str, text: str) -> None:
        """Add a note about a plugin, unless there is one."""
        if plugin not in self._noted:
            self._noted.add(plugin)
            self.notes.append(Note(f"{self.path}: {plugin}" if self.path else plugin, text))

    def _move_renamed_extension_points(self) -> None:
        """Move plugins from renamed extension points to those of today: postFilter of v1alpha1, and unreserve."""
        sets = self.plugins.sets
        if self.version == "v1alpha1" and "postFilter" in sets:
            sets[PRE_SCORE] = sets.pop("postFilter")
        unreserve = sets.pop("unreserve", None)
        if unreserve is None:
            return
        for name in unreserve.enabled:
            if name not in self.plugins.at("reserve").enabled:
                self.plugins.at("reserve").enable(name)
                if name not in IN_TREE:
                    self._add_first_note_about(
                        name, "was at unreserve, which is a part of reserve now; it is called there as well"
                    )
        for name in unreserve.disabled:
            if "reserve" not in sets or sets["reserve"].runs_default(name):
                self._add_first_note_about(
                    name, "was disabled at unreserve, which is a part of reserve now; that cannot be left out"
                )

    # Plugins that were merged into others.

    def _convert_selector_spread(self) -> None:
        """Replace SelectorSpread and its kind by PodTopologySpread, under the old weight.

        If the old plugin was disabled, PodTopologySpread gets no default constraints.
        """
        score = self.plugins.at(SCORE)
        was_enabled = {name: score.enabled[name] for name in sorted(legacy.SELECTOR_SPREAD) if name in score.enabled}
        was_disabled = bool(legacy.SELECTOR_SPREAD.intersection(score.disabled))
        for name in sorted(legacy.SELECTOR_SPREAD):
            self.plugins.drop(name)
        for name, weight in was_enabled.items():
            if score.runs_default(legacy.SPREADING):
                self._add_first_note_about(name, f"is a part of {legacy.SPREADING}, under the weight of that")
            else:
                score.enable(legacy.SPREADING, weight)
                if not self.plugins.at(PRE_SCORE).runs_default(legacy.SPREADING):
                    self.plugins.at(PRE_SCORE).enable(legacy.SPREADING)
        if was_disabled and not was_enabled and score.runs_default(legacy.SPREADING):
            args = self.plugins.args_of(legacy.SPREADING)
            if not args.get("defaultConstraints"):
                args.setdefault("defaultingType", "List")

    def _convert_resource_scoring_plugins(self) -> None:
        """Convert plugins that score resources to strategies of NodeResourcesFit."""
        score = self.plugins.at(SCORE)
        running = {name: weight for name, weight in score.enabled.items() if name in legacy.STRATEGIES}
        by_default = score.runs_default(self.scorer) and self.scorer not in running
        args = {name: self.plugins.take_args(name) for name in legacy.STRATEGIES}
        for name in legacy.STRATEGIES:
            self.plugins.drop(name)
        if not running and by_default:
            running = {self.scorer: 1}
        elif by_default:
            self._add_first_note_about(
                self.scorer, f"cannot be combined with {next(iter(running))}: a profile has one strategy"
            )
        if not running:
            score.disable(legacy.RESOURCE_STRATEGIES)
            return
        name, weight = next(iter(running.items()))
        for other in list(running)[1:]:
            self._add_first_note_about(other, f"cannot be combined with {name}: a profile has one strategy")
        if score.disables_all_defaults or weight not in (None, 1):
            score.enable(legacy.RESOURCE_STRATEGIES, weight)
        strategy = _scoring_strategy(name, args[name])
        if strategy != {"type": "LeastAllocated"}:
            self.plugins.args_of(legacy.RESOURCE_STRATEGIES)["scoringStrategy"] = strategy

    def _convert_default_constraints(self) -> None:
        """State that given default constraints are a list, as newer versions ask for."""
        args = self.plugins.args.get(legacy.SPREADING) or {}
        if args.get("defaultConstraints"):
            args.setdefault("defaultingType", "List")

    def _convert_node_labels(self) -> None:
        """Replace the plugin NodeLabel by the affinity that NodeAffinity adds to every pod."""
        args = self.plugins.take_args(legacy.NODE_LABELS)
        where = self.plugins.drop(legacy.NODE_LABELS)
        labels = NodeLabels(
            args.get("presentLabels") or [],
            args.get("absentLabels") or [],
            args.get("presentLabelsPreference") or [],
            args.get("absentLabelsPreference") or [],
        )
        if FILTER in where or MULTI_POINT in where:
            filters = self.plugins.at(FILTER)
            if not filters.runs_default(legacy.ADDED_AFFINITY):
                filters.enable(legacy.ADDED_AFFINITY)
                self._add_first_note_about(
                    legacy.NODE_LABELS,
                    f"is a part of {legacy.ADDED_AFFINITY}, which now also evaluates the pods' own affinity",
                )
            node_labels.require_labels(self.plugins, labels)
        if (SCORE in where or MULTI_POINT in where) and labels.preferences:
            node_labels.prefer_labels(self.plugins, labels)
            self.plugins.at(SCORE).enable(legacy.ADDED_AFFINITY)
            self._add_first_note_about(
                legacy.NODE_LABELS,
                f"prefers nodes as a part of {legacy.ADDED_AFFINITY}, and shares the weight of that",
            )

    def _merge_volume_limits(self) -> None:
        """Replace the plugins that limited one kind of volume by the one that counts all."""
        points: set[str] = set()
        for name in sorted(legacy.VOLUME_LIMITS):
            where = self.plugins.drop(name)
            points.update(where)
            if where:
                self._add_first_note_about(
                    name, f"was removed: such volumes are CSI volumes, and {legacy.VOLUME_COUNTS} counts them"
                )
        for point in points & {FILTER, MULTI_POINT}:
            if not self.plugins.at(point).runs_default(legacy.VOLUME_COUNTS):
                self.plugins.at(point).enable(legacy.VOLUME_COUNTS)

    def _note_removed_plugins(self) -> None:
        """Drop plugins that exist no more, with a note."""
        for name, instead in legacy.REMOVED_PLUGINS.items():
            args = self.plugins.args.get(name)
            if self.plugins.drop(name):
                self._add_first_note_about(name, f"{instead}; it had {args}" if args else instead)
        for name in legacy.STRATEGIES:
            if self.plugins.drop(name):
                self._add_first_note_about(name, f"is a strategy of {legacy.RESOURCE_STRATEGIES} since v1beta2")

    def _drop_plugins_without_work(self) -> None:
        """Drop in-tree plugins at points where they do nothing any more.

        Plugins that are not in-tree stay, with a note.
        """
        for name in self.plugins.names():
            if name not in IN_TREE:
                self._add_first_note_about(
                    name, "is no plugin of Kubernetes; if it is yours, name it among Trireme's remotePlugins"
                )
                continue
            for point in ExtensionPoint:
                plugins = self.plugins.at(point.value)
                if name in plugins.enabled and not IN_TREE.implements(name, point):
                    plugins.drop(name)

    def _state_old_weights(self) -> None:
        """State the old default weights where none is set."""
        score = self.plugins.at(SCORE)
        for name, weight in legacy.OLD_WEIGHTS.items():
            if score.runs_default(name) and score.enabled.get(name) is None:
                score.enabled[name] = weight


def _scoring_strategy(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The strategy of NodeResourcesFit that scores as the old plugin did."""
    strategy: dict[str, Any] = {"type": legacy.STRATEGIES[name]}
    if args.get("resources"):
        strategy["resources"] = args["resources"]
    if args.get("shape"):
        strategy["requestedToCapacityRatio"] = {"shape": args["shape"]}
    return strategy
