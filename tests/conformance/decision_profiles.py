"""The profiles that golden decisions are asked of, as the phases get them.

One is the default profile of kube-scheduler, the others run one filter plugin alone; and all that once for each set of
plugin arguments that a case names. Plugins that are not there are left out and named, so that what they would have said
is not counted as a difference.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from golden_rows import Row

from trireme.config import gates, loading, model, profiles
from trireme.framework.registry import IN_TREE, ExtensionPoint
from trireme.plugins import catalog
from trireme.v1 import plugin_pb2, snapshot_pb2

# The arguments of plugins that a case names, as canonical JSON: a list as in a configuration file.
Arguments = str
DEFAULTS: Arguments = "[]"

_POINTS = {
    ExtensionPoint.PRE_FILTER: plugin_pb2.EXTENSION_POINT_PRE_FILTER,
    ExtensionPoint.FILTER: plugin_pb2.EXTENSION_POINT_FILTER,
    ExtensionPoint.POST_FILTER: plugin_pb2.EXTENSION_POINT_POST_FILTER,
    ExtensionPoint.RESERVE: plugin_pb2.EXTENSION_POINT_RESERVE,
    ExtensionPoint.PRE_SCORE: plugin_pb2.EXTENSION_POINT_PRE_SCORE,
    ExtensionPoint.SCORE: plugin_pb2.EXTENSION_POINT_SCORE,
}


@dataclass(frozen=True, slots=True)
class Setup:
    """A configuration of the phases, and the plugins of the default profile that it has and has not, in order."""

    configuration: snapshot_pb2.Configuration
    filters: tuple[str, ...]
    missing_filters: frozenset[str]
    scores: tuple[str, ...]
    missing_scores: frozenset[str]
    # All filter plugins of the default profile, in order.
    filter_order: tuple[str, ...]

    @property
    def missing(self) -> frozenset[str]:
        """The plugins that are left out somewhere."""
        return self.missing_filters | self.missing_scores


def arguments_of(case: Mapping[str, Any]) -> Arguments:
    """The arguments that a case names: `pluginConfig`, and the strategy of NodeResourcesFit by a field of its own."""
    named = list(case.get("pluginConfig") or ())
    if case.get("fitStrategy"):
        resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        strategy = {"type": case["fitStrategy"], "resources": resources}
        named.append({"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}})
    return json.dumps(named, sort_keys=True)


def arguments_in(rows: Iterable[Row]) -> frozenset[Arguments]:
    """All that the cases name."""
    return frozenset(arguments_of(row["case"]) for row in rows)


def default_profile(arguments: Arguments = DEFAULTS) -> str:
    """The name of the default profile with these arguments."""
    return f"default-{zlib.crc32(arguments.encode()):08x}"


def only(plugin: str, arguments: Arguments = DEFAULTS) -> str:
    """The name of the profile that runs this filter plugin alone."""
    return f"only-{plugin}-{zlib.crc32(arguments.encode()):08x}"


def make(arguments: Iterable[Arguments] = ()) -> Setup:
    """The configuration for cases that name these arguments."""
    feature_gates = gates.FeatureGates()
    completed = {named: completed_profile(named, feature_gates) for named in sorted({DEFAULTS, *arguments})}
    default = completed[DEFAULTS]
    features = feature_gates.all()
    order = default.names(ExtensionPoint.FILTER)
    scoring = default.names(ExtensionPoint.SCORE)
    filters = tuple(name for name in order if _has(catalog.filter_plugin, name, default, features))
    scores = tuple(name for name in scoring if _has(catalog.score_plugin, name, default, features))
    configuration = snapshot_pb2.Configuration(feature_gates=features, tie_seed=1)
    for named, profile in completed.items():
        left_out = {*order, *scoring} - {*filters, *scores}
        configuration.profiles.append(_message(default_profile(named), profile, left_out))
        for name in filters:
            alone = snapshot_pb2.Profile(scheduler_name=only(name, named))
            for point in (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER):
                alone.plugin_sets.add(extension_point=_POINTS[point]).plugins.add(name=name)
            alone.plugin_args.add(name=name, args_json=profile.args_json(name))
            configuration.profiles.append(alone)
    return Setup(configuration, filters, frozenset(order) - {*filters}, scores, frozenset(scoring) - {*scores}, order)


def completed_profile(arguments: Arguments, feature_gates: gates.FeatureGates) -> model.CompletedProfile:
    """The default profile with these arguments."""
    document = {
        "apiVersion": model.API_VERSION,
        "kind": model.KIND,
        "profiles": [{"pluginConfig": json.loads(arguments)}],
    }
    loaded = loading.load(json.dumps(document).encode(), feature_gates, _ignore)
    return profiles.construct(loaded, IN_TREE, feature_gates, _ignore).profiles[0]


def _has(make_plugin: object, name: str, profile: model.CompletedProfile, features: Mapping[str, bool]) -> bool:
    return callable(make_plugin) and make_plugin(name, profile.args_json(name), features) is not None


def _message(name: str, profile: model.CompletedProfile, left_out: set[str]) -> snapshot_pb2.Profile:
    message = snapshot_pb2.Profile(scheduler_name=name)
    for point, number in _POINTS.items():
        plugins = message.plugin_sets.add(extension_point=number).plugins
        for plugin in profile.plugins[point]:
            if plugin.name not in left_out:
                plugins.add(name=plugin.name, weight=plugin.weight)
    for plugin in profile.all_names():
        message.plugin_args.add(name=plugin, args_json=profile.args_json(plugin))
    return message


def _ignore(line: str) -> None:
    """What is logged of a configuration is of no interest here."""
