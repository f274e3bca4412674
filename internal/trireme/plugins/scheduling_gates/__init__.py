"""SchedulingGates: holds a pod until all of its scheduling gates are removed."""
