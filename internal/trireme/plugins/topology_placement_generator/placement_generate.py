"""TopologyPlacementGenerator: each value of the node label that a group names is a placement.

Source: pkg/scheduler/framework/plugins/topologyaware.

Tests: tests/unit/scheduling/test_pod_group_placements.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from trireme.plugin_api.placements import NodesOfDomain, NoPlacementError, PlacedMember
from trireme_kube.apimachinery import golang

_PREFIX = "cannot determine domain for already scheduled pods: "


class TopologyPlacementGenerator:
    """TopologyPlacementGenerator at PlacementGenerate: a placement for each domain of the group's topology key."""

    def generate(
        self,
        topology: str,
        nodes: Iterable[tuple[int, Mapping[str, str]]],
        placed: Iterable[PlacedMember],
        labels_of: Callable[[str], Mapping[str, str] | None],
    ) -> Sequence[NodesOfDomain] | None:
        """Make one placement for each domain; only that of the members that have a node, where there are such.

        Nodes without the label, or with an empty one, are in none. None: the group names no key.

        Raises: NoPlacementError if placed members are in no domain, or in several.
        """
        if not topology:
            return None
        domains: dict[str, list[int]] = {}
        for slot, labels in nodes:
            if labels.get(topology):
                domains.setdefault(labels[topology], []).append(slot)
        required = _domain_of(topology, placed, labels_of)
        return [
            NodesOfDomain(domain, tuple(slots))
            for domain, slots in domains.items()
            if required is None or domain == required
        ]


def _domain_of(
    topology: str, placed: Iterable[PlacedMember], labels_of: Callable[[str], Mapping[str, str] | None]
) -> str | None:
    """Return the domain of the members that have a node; None: none has one. Raises: NoPlacementError."""
    found: str | None = None
    for pod in placed:
        labels = labels_of(pod.node)
        if labels is None:
            raise NoPlacementError(f"{_PREFIX}getting node for pod {pod.key}: node {pod.node} not found")
        domain = labels.get(topology)
        if domain is None:
            raise NoPlacementError(f"{_PREFIX}no topology domain found for pod {pod.key}")
        if not domain:
            raise NoPlacementError(f"{_PREFIX}empty topology domain found for pod {pod.key}")
        if found is not None and found != domain:
            both = f"{golang.quote(found)}, {golang.quote(domain)}"
            raise NoPlacementError(f"{_PREFIX}more than 1 domain found for pod group: {both}")
        found = domain
    return found


def make() -> TopologyPlacementGenerator:
    """Make the plugin."""
    return TopologyPlacementGenerator()
