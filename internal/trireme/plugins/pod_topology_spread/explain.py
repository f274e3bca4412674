"""The reasons of PodTopologySpread's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "topologyKeyMissing": ReasonCode(
        "The node is in no domain of a spread constraint.",
        {"topologyKey": Kind.LABEL_KEY},
        "has no label {topologyKey}",
    ),
    "topologySpread": ReasonCode(
        "One pod more would skew the domain of the node too far.",
        {"topologyKey": Kind.LABEL_KEY},
        "one pod more would be too many for its {topologyKey}",
    ),
}
