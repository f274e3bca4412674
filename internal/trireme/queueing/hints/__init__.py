"""Queueing hints: what each in-tree plugin wants to hear of, and whether an event helps a pod that it refused.

One module for each plugin, or for plugins that look at the same objects; `registrations` puts them together. What a
hint answers is kube-scheduler's to the letter, because a pod that is woken in vain costs an attempt, and one that is
not woken sleeps.
"""

from trireme.queueing.hints.cluster_view import CacheView
from trireme.queueing.hints.dynamic_resources import claims_of
from trireme.queueing.hints.registrations import of_extenders, registrations

__all__ = ["CacheView", "claims_of", "of_extenders", "registrations"]
