"""Which fields of an answer a caller sees who may read the pod, but not list all nodes or pods.

The fields are listed: one that is not here, such as a new one, is shown to those alone who may list both. Texts of
plugins may name nodes and pods; such names are replaced.

Also change: docs/explain.md.
Also change: protos/trireme/v1/insight.proto (the messages).
Also change: protos/trireme/v1/decision_explanation.proto (the messages).
"""

import enum
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf import message

from trireme.insight import observed_cluster
from trireme.insight.console.documents import SOME_GROUP, SOME_NODE, SOME_POD
from trireme.v1 import decision_explanation_pb2, insight_pb2

#: Implementers: trireme.insight.service.InsightService.remembered_names.
PastNames = Callable[[], tuple[frozenset[str], frozenset[str]]]
"""Returns the names of nodes and of pods that the cluster had, as far as they are remembered."""

MessageT = TypeVar("MessageT", bound=message.Message)

# A name, behind the namespace or kind that it may be written with: web, default/web, node/n0.
_NAME = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?")


_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a caller may list in the whole cluster."""

    lists_nodes: bool
    lists_pods: bool

    @property
    def sees_all(self) -> bool:
        """Whether nothing is hidden."""
        return self.lists_nodes and self.lists_pods


class Show(enum.Enum):
    """How a field is shown."""

    ALWAYS = enum.auto()
    TO_LISTERS_OF_NODES = enum.auto()
    # `(a node)` to all others.
    AS_NODE_NAME = enum.auto()
    WITHOUT_NAMES = enum.auto()


_FIELDS: Mapping[str, Mapping[str, Show]] = {
    "trireme.v1.ExplainResponse": {
        "queued_pod": Show.ALWAYS,
        "node_name": Show.AS_NODE_NAME,
        "evaluated_generation": Show.ALWAYS,
        "disconnected_ms": Show.ALWAYS,
        "node_count": Show.ALWAYS,
        "feasible_count": Show.ALWAYS,
        "pre_filter": Show.ALWAYS,
        "refusals": Show.ALWAYS,
        "feasible_nodes": Show.TO_LISTERS_OF_NODES,
        "score_plugins": Show.ALWAYS,
        "score_failure": Show.ALWAYS,
        "preemption": Show.ALWAYS,
        "not_known": Show.WITHOUT_NAMES,
        "feasible_at_most": Show.ALWAYS,
        "pod": Show.ALWAYS,
    },
    "trireme.v1.ExplainDecisionResponse": {
        "node_name": Show.AS_NODE_NAME,
        "kind": Show.ALWAYS,
        "generation": Show.ALWAYS,
        "decided_unix_ms": Show.ALWAYS,
        "profile": Show.ALWAYS,
        "inexact": Show.ALWAYS,
        "differs": Show.ALWAYS,
        "not_known": Show.WITHOUT_NAMES,
        "node_count": Show.ALWAYS,
        "feasible_count": Show.ALWAYS,
        "refusals": Show.ALWAYS,
        "score_plugins": Show.ALWAYS,
        "feasible_nodes": Show.TO_LISTERS_OF_NODES,
        "margin": Show.ALWAYS,
        "tied_count": Show.ALWAYS,
        "batch_size": Show.ALWAYS,
        "preemption": Show.ALWAYS,
        "steps": Show.ALWAYS,
        "longest_step": Show.ALWAYS,
        "attempts": Show.ALWAYS,
        "feasible_at_most": Show.ALWAYS,
    },
    "trireme.v1.DecisionRefusal": {
        "status": Show.ALWAYS,
        "node_count": Show.ALWAYS,
        "nodes": Show.TO_LISTERS_OF_NODES,
    },
    "trireme.v1.DecisionScorePlugin": {"name": Show.ALWAYS, "weight": Show.ALWAYS, "skipped": Show.ALWAYS},
    "trireme.v1.DecisionNode": {
        "name": Show.ALWAYS,
        "total": Show.ALWAYS,
        "scores": Show.ALWAYS,
        "extender_score": Show.ALWAYS,
    },
    "trireme.v1.DecisionStep": {"name": Show.ALWAYS, "duration_us": Show.ALWAYS},
    # The pods of the node, those evicted and those not, are for who may list both.
    "trireme.v1.PreemptionExplanation": {
        "reason": Show.WITHOUT_NAMES,
        "reasons": Show.ALWAYS,
        "node_name": Show.AS_NODE_NAME,
        "budget_violations": Show.ALWAYS,
        "candidates": Show.TO_LISTERS_OF_NODES,
        "candidate_count": Show.ALWAYS,
        "decided_by": Show.ALWAYS,
        "unresolvable_count": Show.ALWAYS,
        "without_victims_count": Show.ALWAYS,
        "not_enough_count": Show.ALWAYS,
        "decided_unix_ms": Show.ALWAYS,
        "pod_group": Show.ALWAYS,
    },
    "trireme.v1.PreemptionNode": {
        "name": Show.ALWAYS,
        "victims": Show.ALWAYS,
        "budget_violations": Show.ALWAYS,
        "highest_priority": Show.ALWAYS,
        "priority_sum": Show.ALWAYS,
    },
    "trireme.v1.QueuedPod": {
        "pod": Show.ALWAYS,
        "pod_class": Show.ALWAYS,
        "profile": Show.ALWAYS,
        "state": Show.ALWAYS,
        "attempts": Show.ALWAYS,
        "plugins": Show.ALWAYS,
        "backoff_until_ms": Show.ALWAYS,
        "pod_group": Show.ALWAYS,
        "reason": Show.WITHOUT_NAMES,
    },
    "trireme.v1.PodIdentity": {"namespace": Show.ALWAYS, "name": Show.ALWAYS, "uid": Show.ALWAYS},
    "trireme.v1.NodeRefusal": {
        "status": Show.ALWAYS,
        "nodes": Show.TO_LISTERS_OF_NODES,
        "node_count": Show.ALWAYS,
    },
    "trireme.v1.FeasibleNode": {"name": Show.ALWAYS, "total": Show.ALWAYS, "scores": Show.ALWAYS},
    "trireme.v1.WeightedScorePlugin": {"name": Show.ALWAYS, "weight": Show.ALWAYS, "skipped": Show.ALWAYS},
    "trireme.v1.Status": {
        "code": Show.ALWAYS,
        "plugin": Show.ALWAYS,
        "messages": Show.WITHOUT_NAMES,
        "reasons": Show.ALWAYS,
    },
    "trireme.v1.Reason": {"code": Show.WITHOUT_NAMES, "parameters": Show.WITHOUT_NAMES},
}


class NameReplacer:
    """Replaces the names of nodes, of other pods and of other groups in texts, as far as the viewer may not list them.

    Groups are listed by who may list pods.
    """

    def __init__(
        self,
        cluster: observed_cluster.ObservedCluster,
        viewer: Viewer,
        own_pod: str,
        past_names: PastNames,
        *,
        own_namespace: str = "",
    ) -> None:
        """`own_pod` and `own_namespace` are the name and the namespace of the pod that the caller may read.

        `past_names`: the texts may have these beside those of the cluster now, as a pod's reason stays that of its last
        attempt.
        """
        self._cluster = cluster
        self._past_names = past_names
        self._viewer = viewer
        self._own_pod = own_pod
        self._own_namespace = own_namespace
        self._hidden_nodes: frozenset[str] | None = None
        self._hidden_pods: frozenset[str] | None = None
        self._hidden_groups: frozenset[str] | None = None
        self._done: dict[str, str] = {}

    def without_names(self, text: str) -> str:
        """The text with `(a node)`, `(a pod)` and `(a group)` in place of names."""
        if self._viewer.sees_all:
            return text
        done = self._done.get(text)
        if done is None:
            done = self._done[text] = _NAME.sub(self._replacement, text)
        return done

    def _replacement(self, found: "re.Match[str]") -> str:
        """What stands in place of something that may be a name."""
        text = found.group()
        prefix, slash, name = text.rpartition("/")
        if _is_among(name, self._nodes()):
            return f"{prefix}{slash}{SOME_NODE}" if prefix in ("", "node", "nodes") else SOME_NODE
        if name != self._own_pod and _is_among(name, self._pods()):
            return SOME_POD
        if _is_among(name, self._groups()):
            return SOME_GROUP
        return f"{SOME_NODE}/{name}" if slash and _is_among(prefix, self._nodes()) else text

    def _nodes(self) -> frozenset[str]:
        """The names of nodes to replace, in lower case: whole, and up to the first dot as hosts call themselves."""
        if self._hidden_nodes is None:
            names: Iterable[str] = ()
            if not self._viewer.lists_nodes:
                names = itertools.chain(self._cluster.snap.nodes.slot_of_name, self._past_names()[0])
            self._hidden_nodes = frozenset(part for name in names for part in (name, name.partition(".")[0]))
        return self._hidden_nodes

    def _pods(self) -> frozenset[str]:
        """The names of pods to replace, placed ones and those in the queue."""
        if self._hidden_pods is None:
            names: Iterable[str] = ()
            if not self._viewer.lists_pods:
                now = itertools.chain(self._cluster.snap.pods.names, self._cluster.queue.names())
                names = itertools.chain(now, self._past_names()[1])
            self._hidden_pods = frozenset(names)
        return self._hidden_pods

    def _groups(self) -> frozenset[str]:
        """The names of groups to replace: not that of the pod's own, which the pod has."""
        if self._hidden_groups is None:
            self._hidden_groups = frozenset()
            if not self._viewer.lists_pods:
                own = self._cluster.group_of(self._own_namespace, self._own_pod) if self._own_pod else ""
                self._hidden_groups = frozenset(self._cluster.group_names()) - {own, ""}
        return self._hidden_groups


def _is_among(text: str, names: frozenset[str]) -> bool:
    """Whether a text is one of the names, or begins with one and a dot."""
    parts = text[:_LONGEST_NAME].lower().split(".")
    return any(".".join(parts[: length + 1]) in names for length in range(len(parts)))


def limit(answer: MessageT, viewer: Viewer, names: NameReplacer) -> MessageT:
    """The answer as the viewer may see it: itself, or a copy without what is hidden."""
    if viewer.sees_all:
        return answer
    out = _limited(answer, viewer, names)
    refused = (insight_pb2.ExplainResponse, decision_explanation_pb2.ExplainDecisionResponse)
    if isinstance(out, refused) and not viewer.lists_nodes:
        _merge_refusals(out)
    return out


def _limited(whole: MessageT, viewer: Viewer, names: NameReplacer) -> MessageT:
    """A copy of the message with the fields that the viewer sees."""
    out = type(whole)()
    rules = _FIELDS.get(whole.DESCRIPTOR.full_name, {})
    for field, value in whole.ListFields():
        rule = rules.get(field.name)
        if rule is None or (rule is Show.TO_LISTERS_OF_NODES and not viewer.lists_nodes):
            continue
        if rule is Show.AS_NODE_NAME:
            _copy_plain(out, field, value if viewer.lists_nodes else SOME_NODE)
        elif rule is Show.WITHOUT_NAMES:
            _copy_texts(out, field, value, names.without_names)
        elif field.message_type is None:
            _copy_plain(out, field, value)
        elif field.is_repeated:
            getattr(out, field.name).extend(_limited(entry, viewer, names) for entry in value)
        else:
            getattr(out, field.name).CopyFrom(_limited(value, viewer, names))
    return out


def _copy_plain(out: message.Message, field: Any, value: Any) -> None:
    """Copy a field of numbers or texts, or a list of them."""
    if field.is_repeated:
        getattr(out, field.name).extend(value)
    else:
        setattr(out, field.name, value)


def _copy_texts(out: message.Message, field: Any, value: Any, change: Callable[[str], str]) -> None:
    """Copy a text, a list of texts or a map of texts, each changed."""
    if field.message_type is not None:
        getattr(out, field.name).update({change(key): change(text) for key, text in value.items()})
    elif field.is_repeated:
        getattr(out, field.name).extend(change(text) for text in value)
    else:
        setattr(out, field.name, change(value))


def _merge_refusals(
    response: insight_pb2.ExplainResponse | decision_explanation_pb2.ExplainDecisionResponse,
) -> None:
    """Add up the refusals whose statuses differed by names alone, the one of most nodes first."""
    counts: dict[bytes, int] = {}
    for refusal in response.refusals:
        key = refusal.status.SerializeToString(deterministic=True)
        counts[key] = counts.get(key, 0) + refusal.node_count
    del response.refusals[:]
    for key, nodes in sorted(counts.items(), key=lambda entry: -entry[1]):
        response.refusals.add(node_count=nodes).status.MergeFromString(key)
