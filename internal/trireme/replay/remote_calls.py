"""Which decisions can be made again where plugins are services, and the evaluators that make them.

The answers of remote filter plugins are in the recorded answer of Filter. Those of others, and of filter plugins about
nodes without a victim, are in `Decision.remote`; recordings of earlier releases lack them, and calls that need them are
left out.

Tests: tests/unit/replay/test_decision_replay.py.
"""

from collections.abc import Mapping

from trireme.evaluation import engine
from trireme.framework import amounts
from trireme.in_process import in_process_evaluators
from trireme.registry import filter_profiles, score_profiles
from trireme.remote import recorded_makers
from trireme.snapshot import snapshot
from trireme.v1 import decision_pb2, plugin_pb2, snapshot_pb2
from trireme.wire import profile_messages

_FILTER = (plugin_pb2.EXTENSION_POINT_PRE_FILTER, plugin_pb2.EXTENSION_POINT_FILTER)
_POST_FILTER = (plugin_pb2.EXTENSION_POINT_POST_FILTER,)
_SCORE = (
    plugin_pb2.EXTENSION_POINT_PRE_SCORE,
    plugin_pb2.EXTENSION_POINT_SCORE,
    plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE,
)
_RESERVE = (plugin_pb2.EXTENSION_POINT_RESERVE,)
# By the field of Decision the extension points at which answers of remote plugins are needed; none for others.
_POINTS: Mapping[str, tuple[plugin_pb2.ExtensionPoint.ValueType, ...]] = {
    "place": _SCORE,
    "post_filter": _FILTER + _POST_FILTER,
    "candidates": _FILTER + _POST_FILTER,
    "candidate_choice": _FILTER + _POST_FILTER,
    "group_reprieval": _FILTER,
    "reserve": _RESERVE,
}


class RemoteCalls:
    """Knows what of the profiles of a configuration is remote."""

    def __init__(self, configuration: snapshot_pb2.Configuration) -> None:
        self._configuration = configuration
        self._profiles = frozenset(profile.scheduler_name for profile in configuration.profiles)

    def is_known(self, decision: decision_pb2.Decision) -> bool:
        """Whether the decision is of a profile of the configuration, and of a kind that this release knows."""
        return decision.profile in self._profiles and decision.WhichOneof("decision") is not None

    def can_be_made(self, decision: decision_pb2.Decision) -> bool:
        """Whether no answer of a remote plugin is missing, of a decision that `is_known`."""
        kind = decision.WhichOneof("decision") or ""
        if kind == "filter":
            return self._can_be_filtered(decision.profile, decision.filter)
        return decision.remote.complete or not self._has_remote(decision.profile, _POINTS.get(kind, ()))

    def _can_be_filtered(self, profile: str, about: decision_pb2.FilterDecision) -> bool:
        known = about.HasField("pre_filter") or about.HasField("columns")
        return known or not self._has_remote(profile, _FILTER)

    def _has_remote(self, profile: str, points: tuple[plugin_pb2.ExtensionPoint.ValueType, ...]) -> bool:
        return profile_messages.has_remote_plugin(self._configuration, profile, *points)


def make_evaluators(
    snap: snapshot.Snapshot, configuration: snapshot_pb2.Configuration, recorded: recorded_makers.RecordedMakers
) -> in_process_evaluators.InProcessEvaluators:
    """Make the evaluators of a configuration, whose remote plugins look for what they answered.

    Raises: ValueError.
    """
    snap.amount_rules = amounts.rules_of(configuration.feature_gates)
    filters = filter_profiles.make_profiles(
        configuration, recorded.make_filter, recorded.make_reserver, recorded.make_post_filter
    )
    scores = score_profiles.make_profiles(configuration, recorded.make_score)
    return in_process_evaluators.InProcessEvaluators(engine.Engine(snap, filters, scores))
