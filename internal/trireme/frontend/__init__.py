"""The frontend: the process that watches the cluster, holds the scheduling queue and drives each scheduling cycle."""
