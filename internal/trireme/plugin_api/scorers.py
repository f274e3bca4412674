"""What an in-tree plugin of Score is, over columns instead of nodes.

It answers raw scores for many slots at once, as filter plugins answer verdicts (`interfaces`). Where a placement
changes the score of the node it went to, the plugin also says what the score will be after each further copy, so that a
whole batch is placed by one evaluation.

Also change: internal/trireme/evaluation/scoring/copy_scores.py,
internal/trireme/plugins/inter_pod_affinity/joint_scores.py,
internal/trireme/plugins/pod_topology_spread/joint_scores.py (the joint scores).

Tests: tests/unit/evaluation/test_scoring.py, tests/unit/evaluation/test_placement.py.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, node_usage, snapshot

# A score that nobody has found out; lower than every raw score.
UNKNOWN = np.iinfo(np.int64).min


class _AllZero:
    """The type of ALL_ZERO."""


#: PreScore's state of a plugin that is not to be called, as it scores all nodes 0.
ALL_ZERO = _AllZero()


class Normalization(enum.IntEnum):
    """How raw scores become 0 to 100; numbers as in trireme.v1.Normalization."""

    NONE = 1
    MAX = 2
    MAX_REVERSED = 3
    CUSTOM = 4


@runtime_checkable
class ScorePlugin(Protocol):
    """Ranks the nodes that passed.

    Implementers: trireme.plugins.*.score, trireme.plugin_kit.resource_scorer.ResourceScorer.
    """

    name: str
    depends_on: interfaces.Dependency
    normalization: Normalization
    reads: tuple[str, ...]

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """State for score; None: the plugin has nothing to say about the class; ALL_ZERO: it scores all nodes 0.

        A status: the plugin cannot score the class, and the pod fails by that error.
        """
        ...

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Raw scores of the slots, ascending or rolled, which all hold nodes. Shape: (given slot,)."""
        ...


@runtime_checkable
class PreparingScore(ScorePlugin, Protocol):
    """A score plugin whose scores may take seconds to find: they are prepared in advance, in time slices.

    Implementers: trireme.plugins.dynamic_resources.score.DynamicResourcesScore.
    """

    async def prepare(self, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray) -> None:
        """Find what scores of these slots will be about."""
        ...


@dataclass(frozen=True, slots=True)
class PreparedScores:
    """What an AsyncScore found. `state` is handed to its `score`, and to its next `prepare`.

    `silent`: it has nothing to say about the class, or could not be called, which is ignored: it adds nothing, and is
    prepared again next time. `failure` fails the pod.
    """

    state: Any
    silent: bool = False
    failure: "status.Status | None" = None


@runtime_checkable
class AsyncScore(Protocol):
    """A score plugin whose scores come from elsewhere, such as a service.

    They are prepared while the cluster goes on changing, and `score` then returns them at once. What to do about a
    failed call is the plugin's own policy.

    Implementers: trireme.registry.canary_shares._LimitedScore, trireme.remote.remote_score.RemoteScorePlugin,
    trireme.remote.recorded_plugins.RecordedScorePlugin.
    """

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    @property
    def depends_on(self) -> interfaces.Dependency:
        """How long a score stays true."""
        ...

    @property
    def normalization(self) -> Normalization:
        """How raw scores become 0 to 100; CUSTOM: by `normalize`."""
        ...

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> PreparedScores:
        """Find the raw scores of these slots as they are now. `state` is the last one of the class, None at first."""
        ...

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """The raw scores that were prepared. Shape: (given slot,)."""
        ...

    async def normalize(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> "arrays.Int64Array | status.Status":
        """Raw scores of all feasible slots brought into 0 to 100; the status where that failed, and the pod with it."""
        ...


@runtime_checkable
class AsyncCopyScore(AsyncScore, Protocol):
    """An AsyncScore that may also find out what a node's score will be with copies of the pod on it.

    Only for NODE_PODS: a placement changes the score of the node it goes to, and of no other.

    Implementers: trireme.registry.canary_shares._LimitedScore, trireme.remote.remote_score.RemoteScorePlugin,
    trireme.remote.recorded_plugins.RecordedScorePlugin.
    """

    @property
    def scores_copies(self) -> bool:
        """Whether it does."""
        ...

    async def prepare_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> "arrays.Int64Array | None":
        """Raw scores of these slots with one copy of the pod there, with two, …: `copies` of them.

        `state` is that of `prepare`. Shape: (slot, copy). UNKNOWN from where on it cannot say; None: it cannot say
        anything now.
        """
        ...


@runtime_checkable
class OwnNodeScore(Protocol):
    """A score plugin for which a placement changes only the score of its own node.

    Implementers: trireme.plugin_kit.resource_scorer.ResourceScorer.
    """

    def score_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> arrays.Int64Array:
        """Raw scores for the first copy, the second, … each with the ones before it there. Shape: (slot, copy).

        The slots are ascending or rolled.
        """
        ...


@runtime_checkable
class NodeTermsScore(Protocol):
    """A score plugin that looks at nothing of a class but its `node_terms`: classes with equal ones share its scores.

    Only where its `depends_on` is NODE.

    Implementers: trireme.plugins.taint_toleration.score.TaintTolerationScore,
    trireme.plugins.node_affinity.score.NodeAffinityScore, trireme.plugins.image_locality.score.ImageLocality.
    """

    reads_node_terms_only: Literal[True]


@runtime_checkable
class UsageScore(ScorePlugin, Protocol):
    """An OwnNodeScore that looks at nothing of the pods on a node but what they use of its resources.

    Only where its `depends_on` is NODE_PODS.

    Implementers: trireme.plugin_kit.resource_scorer.ResourceScorer.
    """

    def pods_of_classes(self, states: Sequence[Any]) -> Any:
        """What `score_pods` needs of a pod of each of these classes, one at least.

        `states` are PreScore's answers about them, none of which is None.
        """
        ...

    def score_pods(self, usage: node_usage.NodeUsage, pods: Any) -> arrays.Int64Array:
        """As score, of nodes with this usage: a column for each of the pods. Shape: (node, pod)."""
        ...


class JointScores(Protocol):
    """One plugin's scores of some nodes together, numbered 0 … n−1, while a batch is placed. Shapes: all (node,).

    Implementers: trireme.evaluation.scoring.copy_scores.CopyJointScores,
    trireme.plugins.inter_pod_affinity.joint_scores.AffinityScores,
    trireme.plugins.pod_topology_spread.joint_scores.SpreadScores.
    """

    def distinguishing_columns(self) -> Sequence[npt.NDArray[Any]]:
        """Columns of integers or booleans in which nodes are equal only if their scores are and remain so.

        They remain so as long as nothing is placed on either.
        """
        ...

    def restricted_to(self, nodes: arrays.SlotArray, stands_for: arrays.Int64Array) -> "JointScores":
        """The scores of these nodes alone, each of which stands for so many that are alike.

        To be called before all below; this one is of no use then.
        """
        ...

    def set_feasible(self, feasible: arrays.BoolArray) -> None:
        """Set which nodes take more pods now. To be called first, and whenever that changes."""
        ...

    def raw_scores(self) -> arrays.Int64Array:
        """Raw scores; they mean something for feasible nodes alone. Not to be written to."""
        ...

    def normalized_scores(self, raw: arrays.Int64Array) -> arrays.Int64Array:
        """Raw scores brought into 0 to 100 over the feasible nodes; the others' mean nothing."""
        ...

    def place(self, node: int) -> None:
        """Count one more pod of the class on this node."""
        ...


class JointState(Protocol):
    """State of a joint score plugin, which may have nothing to say as things are, but something after a placement.

    Implementers: trireme.plugins.inter_pod_affinity.score._ScoreState,
    trireme.plugins.pod_topology_spread.score._SoftConstraints.
    """

    @property
    def skipped(self) -> bool:
        """Whether it adds nothing now."""
        ...


@runtime_checkable
class JointScorePlugin(Protocol):
    """A score plugin whose scores depend on which nodes passed; a placement changes many of them.

    Implementers: trireme.plugins.inter_pod_affinity.score.InterPodAffinityScore,
    trireme.plugins.pod_topology_spread.score.PodTopologySpreadScore.
    """

    name: str
    depends_on: interfaces.Dependency
    normalization: Normalization
    reads: tuple[str, ...]

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> "JointState | status.Status | None":
        """Return the state for `joint`; None: the plugin adds nothing to the scores of the class, whatever is placed.

        A status: the plugin cannot score the class, and the pod fails by that error.
        """
        ...

    def joint(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> JointScores:
        """The scores of these slots, ascending or rolled, which all hold nodes."""
        ...


AnyScorePlugin = ScorePlugin | JointScorePlugin | AsyncScore
