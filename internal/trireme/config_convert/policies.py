"""A Policy as a profile: predicates became plugins that filter, priorities became plugins that score.

A Policy lists everything that filters and scores, so the profile starts empty (`multiPoint` without defaults) and
enables what the Policy lists. A plugin that filters and scores is disabled at the point that the Policy does not list.
Plugins that Kubernetes added later are enabled as by default, since a Policy could neither list nor omit them.

Also change: internal/trireme/registry/legacy.py, internal/trireme/config_convert/profile_conversion.py,
internal/trireme/config/scheduler_configuration.py (names of older plugins).
"""

from dataclasses import dataclass, field
from typing import Any

from trireme.config import defaults, gates
from trireme.config.scheduler_configuration import MULTI_POINT
from trireme.config_convert import extenders, node_labels
from trireme.config_convert.node_labels import NodeLabels
from trireme.config_convert.plugin_lists import ALL, FILTER, PRE_SCORE, SCORE, Plugins
from trireme.config_convert.reading import ConversionError, Note, Reader
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import legacy
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery.golang import quote
from trireme_kube.componentbase.cli import versions


def convert(policy: Reader, notes: list[Note]) -> tuple[Plugins, list[dict[str, Any]]]:
    """Convert a Policy; return its profile's plugins, and its extenders.

    Raises:
        ConversionError: it cannot be read, or the scheduler would have refused it.
    """
    work = _PolicyConversion(notes)
    work.convert_predicates(policy.readers("predicates"))
    work.convert_priorities(policy.readers("priorities"))
    weight = policy.integer("hardPodAffinitySymmetricWeight")
    if weight:
        work.plugins.args_of(legacy.HARD_POD_AFFINITY_WEIGHT)["hardPodAffinityWeight"] = weight
    if policy.boolean("alwaysCheckAllPredicates"):
        notes.append(
            Note("alwaysCheckAllPredicates", "was removed: the status of the first plugin that refuses a node counts")
        )
    extenders_ = extenders.convert(policy, notes)
    for name in ("kind", "apiVersion", "metadata"):
        policy.take(name)
    notes.extend(policy.unknown())
    work.enable_plugins()
    return work.plugins, extenders_


@dataclass(slots=True)
class _PolicyConversion:
    """One conversion of a Policy: the plugins, labels and notes collected so far."""

    notes: list[Note]
    plugins: Plugins = field(default_factory=Plugins)
    filters: set[str] = field(default_factory=set)
    #: Plugin → weight.
    scores: dict[str, int] = field(default_factory=dict)
    labels: NodeLabels = field(default_factory=NodeLabels)

    # What filters.

    def convert_predicates(self, entries: list[Reader] | None) -> None:
        """Enable the plugins that filter as the predicates did; without a list those that were the default."""
        names = list(legacy.DEFAULT_PREDICATES if entries is None else legacy.MANDATORY_PREDICATES)
        for predicate in entries or ():
            name = self._convert_predicate(predicate)
            if name:
                names.append(name)
        for name in names:
            self.filters.update(legacy.PREDICATES[name])
        if self.labels.present or self.labels.absent:
            node_labels.require_labels(self.plugins, self.labels)
            if legacy.ADDED_AFFINITY not in self.filters:
                self.filters.add(legacy.ADDED_AFFINITY)
                text = f"is a part of {legacy.ADDED_AFFINITY}, which now also evaluates the pods' own affinity"
                self.notes.append(Note("labelsPresence", text))

    def _convert_predicate(self, predicate: Reader) -> str:
        """The name of the predicate that stands for this one; empty if its arguments do.

        Labels go to `labels`; what has no equivalent becomes a note. Raises: ConversionError for an unknown name.
        """
        old_name = predicate.text("name")
        argument = predicate.reader("argument")
        self.notes.extend(predicate.unknown())
        about = f"{predicate.path}: {old_name}"
        if argument is not None:
            presence, affinity = argument.reader("labelsPresence"), argument.reader("serviceAffinity")
            self.notes.extend(argument.unknown())
            if presence is not None:
                labels = self.labels.present if presence.boolean("presence") else self.labels.absent
                labels.extend(presence.texts("labels"))
                return ""
            if affinity is not None:
                instead = legacy.REMOVED_PLUGINS["ServiceAffinity"]
                text = f"{instead}; it had the labels {', '.join(affinity.texts('labels'))}"
                self.notes.append(Note(about, text))
                return ""
        name = legacy.PREDICATE_ALIASES.get(old_name, old_name)
        if name not in legacy.PREDICATES:
            raise ConversionError(f"{predicate.path}: predicate type not found for {quote(old_name)}")
        if name.startswith("Max") and name != "MaxCSIVolumeCountPred":
            self.notes.append(
                Note(about, f"was removed: such volumes are CSI volumes, and {legacy.VOLUME_COUNTS} counts them")
            )
        return name

    # What scores.

    def convert_priorities(self, entries: list[Reader] | None) -> None:
        """Enable the plugins that score as the priorities did; without a list those that were the default."""
        scorers: dict[str, int] = {}
        if entries is None:
            scorers = {legacy.PRIORITIES[name]: weight for name, weight in legacy.DEFAULT_PRIORITIES.items()}
        for priority in entries or ():
            self._convert_priority(priority, scorers)
        self._merge_spreading_priorities(scorers)
        self._convert_resource_priorities(scorers)
        if self.labels.preferences:
            node_labels.prefer_labels(self.plugins, self.labels)
        self.scores.update(scorers)

    def _convert_priority(self, priority: Reader, scorers: dict[str, int]) -> None:
        """Add the plugin that scores as the priority did to `scorers`, with its weight; a note where there is none."""
        old_name, weight = priority.text("name"), priority.integer("weight") or 0
        argument = priority.reader("argument")
        self.notes.extend(priority.unknown())
        about = f"{priority.path}: {old_name}"
        if weight <= 0:
            raise ConversionError(f"{priority.path}: Priority {old_name} should have a positive weight applied to it")
        if argument is not None and self._convert_priority_argument(about, argument, weight, scorers):
            return
        if old_name == legacy.EQUAL_PRIORITY:
            return
        name = legacy.PRIORITIES.get(old_name)
        if name is None:
            raise ConversionError(f"{priority.path}: priority type not found for {quote(old_name)}")
        if name in legacy.REMOVED_PLUGINS:
            self.notes.append(Note(about, legacy.REMOVED_PLUGINS[name]))
        else:
            scorers.setdefault(name, weight)

    def _convert_priority_argument(self, about: str, argument: Reader, weight: int, scorers: dict[str, int]) -> bool:
        """Convert a priority defined by its argument; return whether it is one."""
        ratio = argument.reader("requestedToCapacityRatioArguments")
        preference = argument.reader("labelPreference")
        service = argument.reader("serviceAntiAffinity")
        self.notes.extend(argument.unknown())
        if ratio is not None:
            strategy: dict[str, Any] = {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {"shape": ratio.take("shape") or []},
            }
            ratio.copy(("resources",), strategy)
            self.notes.extend(ratio.unknown())
            self.plugins.args_of(legacy.RESOURCE_STRATEGIES)["scoringStrategy"] = strategy
            scorers["RequestedToCapacityRatio"] = weight
        elif preference is not None:
            better = self.labels.better_present if preference.boolean("presence") else self.labels.better_absent
            better.append(preference.text("label"))
            scorers[legacy.ADDED_AFFINITY] = max(weight, scorers.get(legacy.ADDED_AFFINITY, 0))
            self.notes.append(Note(about, f"is a part of {legacy.ADDED_AFFINITY}, and shares the weight of that"))
        elif service is not None:
            text = f"{legacy.REMOVED_PLUGINS['ServiceAffinity']}; it spread over the label {service.text('label')}"
            self.notes.append(Note(about, text))
        return not (ratio is None and preference is None and service is None)

    def _merge_spreading_priorities(self, scorers: dict[str, int]) -> None:
        """Spreading by services and by constraints is one plugin; by constraints alone it has none of its own."""
        by_service = scorers.pop("SelectorSpread", None)
        if by_service is not None:
            scorers.setdefault(legacy.SPREADING, by_service)
        elif legacy.SPREADING in scorers:
            self.plugins.args_of(legacy.SPREADING)["defaultingType"] = "List"

    def _convert_resource_priorities(self, scorers: dict[str, int]) -> None:
        """Merge priorities about resources into one strategy; the last one counts, the others become notes."""
        running = {name: scorers.pop(name) for name in legacy.STRATEGIES if name in scorers}
        if not running:
            return
        # The most explicit configuration wins.
        name = list(running)[-1]
        for other in running:
            if other != name:
                self.notes.append(Note(other, f"cannot be combined with {name}: a profile has one strategy"))
        scorers[legacy.RESOURCE_STRATEGIES] = running[name]
        if name == "NodeResourcesMostAllocated":
            self.plugins.args_of(legacy.RESOURCE_STRATEGIES)["scoringStrategy"] = {"type": legacy.STRATEGIES[name]}

    # All of it.

    def enable_plugins(self) -> None:
        """Enable the converted plugins where the Policy had them, and all default plugins newer than Policies."""
        everything = self.plugins.at(MULTI_POINT)
        everything.disabled.append(ALL)
        current = gates.set_gates({}, versions.effective((), ())).gates
        later: list[str] = []
        for plugin in defaults.default_plugins(current):
            name = plugin["name"]
            if name not in legacy.IN_POLICIES:
                later.append(name)
                everything.enable(name, plugin.get("weight"))
                continue
            if name in self.filters or name in self.scores:
                everything.enable(name, self.scores.get(name))
                for point in (PRE_SCORE, SCORE) if name not in self.scores else ():
                    self._disable_plugin_at_point(name, point)
                for point in ("preFilter", FILTER) if name not in self.filters else ():
                    self._disable_plugin_at_point(name, point)
        text = f"{', '.join(later)} run as by default: a Policy could neither name them nor leave them out"
        self.notes.append(Note("", text))

    def _disable_plugin_at_point(self, name: str, point: str) -> None:
        """Disable a plugin at a point, if it has that point."""
        if IN_TREE.implements(name, ExtensionPoint(point)):
            self.plugins.at(point).disable(name)
