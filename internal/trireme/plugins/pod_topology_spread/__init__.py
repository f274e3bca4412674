"""PodTopologySpread: spreads pods over the values of a node label, as a rule or as a preference."""
