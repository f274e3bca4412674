"""The profiles that golden decisions are asked of, as the phases get them.

One is the default profile of kube-scheduler, the others run one filter plugin alone; and all that once for each set of
plugin arguments that a case names. Plugins that are not there are left out and named, so that what they would have said
is not counted as a difference. Cases with other feature gates have a configuration of their own (`Setups`).
"""

import contextlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.golden_rows import Row
from trireme.config import gates, loading, profiles, scheduler_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import filter_plugins, score_plugins
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme_kube.apimachinery import configuration_files

# The arguments of plugins that a case names, as canonical JSON: a list as in a configuration file.
Arguments = str
DEFAULTS: Arguments = "[]"
# The feature gates that a case flips, as canonical JSON: an object of booleans.
Gates = str
DEFAULT_GATES: Gates = "{}"

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


def gates_of(case: Mapping[str, Any]) -> Gates:
    """The feature gates that are not at their default in a case."""
    return json.dumps(case.get("featureGates") or {}, sort_keys=True)


def feature_gates(flipped: Gates) -> gates.FeatureGates:
    """All feature gates, where a case flips these."""
    return gates.FeatureGates(values=json.loads(flipped))


def default_profile(arguments: Arguments = DEFAULTS) -> str:
    """The name of the default profile with these arguments."""
    return f"default-{zlib.crc32(arguments.encode()):08x}"


def only(plugin: str, arguments: Arguments = DEFAULTS) -> str:
    """The name of the profile that runs this filter plugin alone."""
    return f"only-{plugin}-{zlib.crc32(arguments.encode()):08x}"


class Setups:
    """The setups of cases with different feature gates, each made when the first case needs it."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        """`rows` are all cases that will be decided."""
        self._arguments: dict[Gates, set[Arguments]] = {}
        for row in rows:
            self._arguments.setdefault(gates_of(row["case"]), set()).add(arguments_of(row["case"]))
        self._made: dict[Gates, Setup] = {}

    @property
    def default(self) -> Setup:
        """The setup of cases where all gates are at their default."""
        return self._of(DEFAULT_GATES)

    def of(self, row: Row) -> Setup:
        """The setup of the row's case. Raises: ConfigurationError where a default plugin does not exist."""
        return self._of(gates_of(row["case"]))

    def _of(self, flipped: Gates) -> Setup:
        if flipped not in self._made:
            self._made[flipped] = make(self._arguments.get(flipped, ()), flipped)
        return self._made[flipped]


def make(arguments: Iterable[Arguments] = (), flipped: Gates = DEFAULT_GATES) -> Setup:
    """The configuration for cases that name these arguments and flip these gates.

    Raises: ConfigurationError where a default plugin does not exist.
    """
    chosen = feature_gates(flipped)
    default = completed_profile(DEFAULTS, chosen)
    completed = {DEFAULTS: default}
    for named in sorted(set(arguments) - {DEFAULTS}):
        # Arguments may belong to a gate that is off: then only the cases that name them cannot be decided.
        with contextlib.suppress(configuration_files.ConfigurationError):
            completed[named] = completed_profile(named, chosen)
    features = chosen.all()
    order = default.names(ExtensionPoint.FILTER)
    scoring = default.names(ExtensionPoint.SCORE)
    filters = tuple(name for name in order if _has(filter_plugins.make_filter_plugin, name, default, features))
    scores = tuple(name for name in scoring if _has(score_plugins.make_score_plugin, name, default, features))
    configuration = snapshot_pb2.Configuration(feature_gates=features)
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


def completed_profile(arguments: Arguments, features: gates.FeatureGates) -> scheduler_configuration.CompletedProfile:
    """The default profile with these arguments."""
    document = {
        "apiVersion": scheduler_configuration.API_VERSION,
        "kind": scheduler_configuration.KIND,
        "profiles": [{"pluginConfig": json.loads(arguments)}],
    }
    loaded = loading.load(json.dumps(document).encode(), features, _ignore)
    return profiles.construct_profiles(loaded, IN_TREE, features, _ignore).profiles[0]


def _has(
    make_plugin: object, name: str, profile: scheduler_configuration.CompletedProfile, features: Mapping[str, bool]
) -> bool:
    return callable(make_plugin) and make_plugin(name, profile.args_json(name), features) is not None


def _message(name: str, profile: scheduler_configuration.CompletedProfile, left_out: set[str]) -> snapshot_pb2.Profile:
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
