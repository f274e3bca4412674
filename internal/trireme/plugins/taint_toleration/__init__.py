"""TaintToleration: refuses nodes with hard taints that a pod does not tolerate, and prefers few soft ones."""
