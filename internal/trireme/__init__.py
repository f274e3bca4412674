"""Trireme: a Kubernetes scheduler built as gRPC microservices, one per scheduling phase."""

import os

# With its older poller gRPC wakes half as many threads for a message, which is a quarter of what a call costs, and most
# of what a pod costs that comes alone. gRPC reads this when it is imported.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
