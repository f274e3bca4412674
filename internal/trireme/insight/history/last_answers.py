"""What remote plugins answered last about a class, for insight that cannot call them, as on a recording.

Tests: tests/contract/test_recorded_dry_runs.py.
"""

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import engine
from trireme.evaluation.filtering import filter_chain
from trireme.insight.history import cluster_history, decision_history
from trireme.plugin_api import interfaces
from trireme.remote import recorded_makers
from trireme.snapshot import arrays, snapshot
from trireme.v1 import decision_pb2, insight_pb2


@dataclass(frozen=True, slots=True)
class LastAnswers:
    """An engine in whose filters remote plugins answer what they answered last; there are none at Score.

    `is_unanswered` marks slots without an answer of the remote plugin. Shape: (slot,).
    """

    engine: engine.Engine
    recorded: recorded_makers.RecordedMakers
    filters: Sequence[str]
    scores: Sequence[str]
    not_known: Sequence[str]
    is_unanswered: arrays.BoolArray

    def add_not_known(self, response: insight_pb2.ExplainResponse, feasible: arrays.SlotArray) -> None:
        """Add what the evaluation lacks. Shape: feasible (node,)."""
        response.not_known.extend(self.not_known)
        response.feasible_at_most = bool(self.filters) and bool(self.is_unanswered[feasible].any())
        if feasible.size:
            response.not_known.extend(f"what the remote plugin {name} would have scored" for name in self.scores)


async def last_answers(
    clusters: cluster_history.ClusterHistory,
    decisions: decision_history.DecisionHistory,
    snap: snapshot.Snapshot,
    profile: str,
    pod_class: int,
) -> LastAnswers | None:
    """The engine for a class, with the last answer of Filter about it; None: no remote plugin of the profile counts."""
    plugins = clusters.plugins
    if plugins is None or plugins.recorded is None:
        return None
    filters, scores = plugins.remote_filters.get(profile, ()), plugins.remote_scores.get(profile, ())
    if not filters and not scores:
        return None
    recorded, filter_profiles = plugins.recorded.plugins, plugins.filters
    is_unanswered = np.ones(snap.nodes.capacity, dtype=np.bool_)
    not_known = [f"what the remote plugin {name} would have answered at Filter" for name in filters]
    made = decisions.last_filter_of(profile, pod_class)
    past = None if made is None or made.era != clusters.era else await _cluster_of(clusters, made)
    if made is not None and past is not None and filters and _take(recorded, made.decision):
        filter_profiles = plugins.recorded.filters
        post_filter = decisions.last_post_filter_of(profile, pod_class)
        _take_dry_runs(recorded, (made, post_filter), snap.generation)
        of_nodes = _plugins_of_nodes(filter_profiles.chains[profile])
        await _take_verdicts_on_nodes(clusters, recorded, post_filter, snap, of_nodes)
        is_unanswered = _only_same_nodes(recorded, past, snap, filters)
        if made.decision.generation == snap.generation:
            not_known = []
        else:
            text = f"then: its answer at the last attempt counts, at generation {made.decision.generation}"
            not_known = [f"what the remote plugin {name} would have answered {text}" for name in filters]
    evaluating = engine.Engine(snap, filter_profiles, plugins.scores)
    return LastAnswers(evaluating, recorded, filters, scores, not_known, is_unanswered)


async def _cluster_of(
    clusters: cluster_history.ClusterHistory, made: decision_history.Made
) -> snapshot.Snapshot | None:
    """The cluster that was decided on; None: it is not in memory."""
    past = await clusters.replay_cluster_to(made.era, made.decision.generation)
    return None if past is None else past.snap


def _take(recorded: recorded_makers.RecordedMakers, decision: decision_pb2.Decision) -> bool:
    """Have the plugins answer what they answered in Filter; return whether that is known."""
    try:
        recorded.answer.take(decision.pod_class, decision.filter)
    except ValueError:
        return False
    recorded.answer.filtering = True
    return decision.filter.HasField("pre_filter") or decision.filter.HasField("columns")


def _take_dry_runs(
    recorded: recorded_makers.RecordedMakers, decisions: Sequence[decision_history.Made | None], generation: int
) -> None:
    """Have the plugins answer what they answered in dry runs on this generation: on another one, rows are others."""
    recorded.answers.take(decision_pb2.Decision(generation=generation))
    for made in decisions:
        if made is not None and made.decision.generation == generation:
            with contextlib.suppress(ValueError):
                recorded.answers.take(made.decision)


def _plugins_of_nodes(chain: filter_chain.FilterChain) -> Sequence[str]:
    """The remote plugins whose verdicts hold as long as the nodes are the same."""
    return [each.name for each in chain.asynchronous if each.depends_on is interfaces.Dependency.NODE]


async def _take_verdicts_on_nodes(
    clusters: cluster_history.ClusterHistory,
    recorded: recorded_makers.RecordedMakers,
    made: decision_history.Made | None,
    snap: snapshot.Snapshot,
    plugins: Sequence[str],
) -> None:
    """Have these plugins say in dry runs what they said in the last preemption for the class, of nodes as they were."""
    if made is None or made.era != clusters.era or made.decision.generation == snap.generation:
        return
    past = await _cluster_of(clusters, made)
    if past is not None:
        with contextlib.suppress(ValueError):
            recorded.answers.take_verdicts(made.decision, plugins, _same_nodes(past, snap, snap.nodes.capacity))


def _same_nodes(past: snapshot.Snapshot, snap: snapshot.Snapshot, size: int) -> arrays.BoolArray:
    """Which of so many slots have the node that they had. Shape: (slot,)."""
    out = np.zeros(size, dtype=np.bool_)
    for name, slot in past.nodes.slot_of_name.items():
        out[slot : slot + 1] = snap.nodes.slot_of_name.get(name) == slot
    return out


def _only_same_nodes(
    recorded: recorded_makers.RecordedMakers, past: snapshot.Snapshot, snap: snapshot.Snapshot, filters: Sequence[str]
) -> arrays.BoolArray:
    """Drop the answers about slots that have another node now; return which slots lack one. Shape: (slot,)."""
    unanswered = np.ones(snap.nodes.capacity, dtype=np.bool_)
    columns = recorded.answer.columns
    if columns is None:
        return np.zeros(snap.nodes.capacity, dtype=np.bool_)  # PreFilter refused all nodes
    recorded.answer.same_nodes = kept = _same_nodes(past, snap, columns.size)
    # Behind another plugin's refusal nothing is known of what a remote one said.
    is_known = np.array([True, *(entry.plugin in filters for entry in columns.statuses)], dtype=np.bool_)
    size = min(columns.size, unanswered.size)
    unanswered[:size] = ~(kept & is_known[columns.index])[:size]
    index = np.where(kept, columns.index, 0).astype(columns.index.dtype)
    capacity = np.where(kept, columns.capacity, interfaces.UNLIMITED).astype(columns.capacity.dtype)
    recorded.answer.columns = dataclasses.replace(columns, index=index, capacity=capacity)
    return unanswered
