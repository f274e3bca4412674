"""TopologyPlacementGenerator: proposes the domains of a node label as placements of a pod group."""
