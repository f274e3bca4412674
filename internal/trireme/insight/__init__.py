"""The insight process: follows the cluster and the queue, and explains why pods are where they are. It is read-only."""
