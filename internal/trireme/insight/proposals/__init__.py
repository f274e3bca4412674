"""Proposals: changes of a pending pod or of the cluster that let the pod be scheduled, each verified by simulation."""
