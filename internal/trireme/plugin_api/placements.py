"""What a plugin is at PlacementGenerate and PlacementScore.

It generates the placements of a group of pods, and ranks them.
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

    Implementers: trireme.plugins.topology_placement_generator.placement_generate.TopologyPlacementGenerator.
    """

    def generate(
        self,
        topology: str,
        nodes: Iterable[tuple[int, Mapping[str, str]]],
        placed: Iterable[PlacedMember],
        labels_of: Callable[[str], Mapping[str, str] | None],
    ) -> Sequence[NodesOfDomain]:
        """The placements of a group that names this topology key. Raises: NoPlacementError.

        `nodes` are the slots that come in question, with labels; `labels_of` returns the labels of any node by name.
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
