"""Queueing hints of a profile: what each of its plugins registers, evaluated for the classes that the queue has."""

from trireme.queueing.hints.cluster_view import CacheView
from trireme.queueing.hints.registrations import of_extenders, registrations

__all__ = ["CacheView", "of_extenders", "registrations"]
