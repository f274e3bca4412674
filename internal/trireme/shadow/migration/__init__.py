"""The migration check: what of a cluster's kube-scheduler carries over to Trireme, and what differs."""
