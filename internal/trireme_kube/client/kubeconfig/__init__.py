"""Kubeconfig files: read strictly, checked, and made a connection, as kubectl and kube-scheduler do."""
