"""The reasons of PodTopologySpread's refusals in words.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_texts.py.
"""

TEXTS = {
    "topologyKeyMissing": "has no label {topologyKey}",
    "topologySpread": "one pod more would be too many for its {topologyKey}",
}
