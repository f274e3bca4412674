"""Counts what would be different if the answers of a plugin in mode Shadow counted."""

from dataclasses import dataclass


@dataclass(slots=True)
class ComparisonCounts:
    """Comparisons of a plugin's answers about a class of pods with those of the plugins that count."""

    compared: int = 0
    differed: int = 0
    failed: int = 0
    skipped: int = 0  # too many waited
    refused_nodes: int = 0  # that the others let pass, in all comparisons together
