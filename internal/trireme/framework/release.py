"""Which release this is, and of which kube-scheduler the behaviour is."""

TRIREME = "0.1.0"
KUBERNETES = "v1.37.0"
