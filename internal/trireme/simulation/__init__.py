"""What would happen: the scheduler's own algorithm on a copy of the cluster, with nothing written anywhere."""
