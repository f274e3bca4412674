"""The reasons of PodTopologySpread's refusals in words."""

TEXTS = {
    "topologyKeyMissing": "has no label {topologyKey}",
    "topologySpread": "one pod more would be too many for its {topologyKey}",
}
