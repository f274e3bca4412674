"""What an in-tree plugin is at PlacementGenerate, PlacementFeasible and PlacementScore.

It generates the placements of a group of pods, decides whether the group may still fit in one, and ranks them.

Tests: tests/unit/scheduling/test_pod_group_cycle.py, tests/unit/scheduling/test_pod_group_placements.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from trireme.framework import status
from trireme.snapshot import snapshot
from trireme.v1 import score_phase_pb2


class NodesOfDomain(NamedTuple):
    """A placement: the name of a domain, and the slots of its nodes."""

    domain: str
    slots: tuple[int, ...]


class PlacedMember(NamedTuple):
    """A member of the group that has a node: its namespace/name, and the node's name."""

    key: str
    node: str


class NoPlacementError(Exception):
    """The members that have a node are in no placement, or in several: an error of the group. The text says why."""


class PlacementGeneratePlugin(Protocol):
    """Says among which placements the best one for a group is chosen.

    Where a profile has several, each placement is one of each plugin's, intersected.

    Implementers: trireme.plugins.topology_placement_generator.placement_generate.TopologyPlacementGenerator.
    """

    def generate(
        self,
        topology: str,
        nodes: Iterable[tuple[int, Mapping[str, str]]],
        placed: Iterable[PlacedMember],
        labels_of: Callable[[str], Mapping[str, str] | None],
    ) -> Sequence[NodesOfDomain] | None:
        """The placements of a group that names this topology key (empty: none). Raises: NoPlacementError.

        None: the plugin does not restrict the group; an empty sequence: there is no placement for it. Their names are
        distinct and have no slash. `nodes` are the slots that come in question, with labels; `labels_of` returns the
        labels of any node by name.
        """
        ...


class PlacementProgress(NamedTuple):
    """How far the trial of a group in a placement has come: its pods, or the groups of a group of groups, by result.

    `scheduled` pods include those that had a node before.
    """

    remaining: int
    scheduled: int
    unschedulable: int

    def after(self, fits: bool) -> "PlacementProgress":
        """The progress once one more was tried, which fits or does not."""
        return PlacementProgress(self.remaining - 1, self.scheduled + fits, self.unschedulable + (not fits))


class PlacementFeasiblePlugin(Protocol):
    """Decides before the first pod of a group is tried in a placement, and after each, whether the group may fit there.

    Implementers: trireme.plugins.gang_scheduling.placement_feasible.GangPlacementFeasible.
    """

    def placement_feasible(self, min_count: int, progress: PlacementProgress) -> status.Status:
        """SUCCESS: the group fits. WAIT: it does if more of it fits. UNSCHEDULABLE: it will not, and the trial ends.

        `min_count` is how many pods, or groups, have to fit by the group's policy.
        """
        ...


class PlacementScorePlugin(Protocol):
    """Ranks placements by their nodes and by the pods that would be on them.

    Implementers: trireme.plugins.node_resources_fit.placement_score.NodeResourcesFitPlacementScore,
    trireme.plugins.pod_group_pods_count.placement_score.PodGroupPodsCount.
    """

    def score_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest, snap: snapshot.Snapshot
    ) -> Sequence[int] | status.Status:
        """A score from 0 to MAX_SCORE for each placement of the request; a status: the group fails by that error."""
        ...
