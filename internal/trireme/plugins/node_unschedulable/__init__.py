"""NodeUnschedulable: refuses cordoned nodes, unless the pod tolerates their taint."""
