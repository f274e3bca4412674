"""Queueing hints: what each in-tree plugin wants to hear of, and whether an event helps a pod that it refused."""

from trireme.frontend.hints.cluster_view import CacheView
from trireme.frontend.hints.registrations import registrations

__all__ = ["CacheView", "registrations"]
