"""Assembles the extenders of a configuration: HTTP session, object store and calls.

Without extenders nothing is made.

Tests: tests/e2e/test_e2e_extenders.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from trireme.cache import class_registry, cluster_cache, extender_objects
from trireme.config import scheduler_configuration
from trireme.extenders import extender_client, extenders

# Pods are filtered and scored one at a time, but bound concurrently. More than `bind_limits.MAX_BOUND_BY_EXTENDERS`.
MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class OpenExtenders:
    """The configured extenders with their HTTP session, and the objects stored for them; held by the frontend."""

    extenders: extenders.Extenders
    objects: extender_objects.ExtenderObjects
    session: aiohttp.ClientSession

    async def close(self) -> None:
        """Close the connections."""
        await self.session.close()


def assemble_extenders(
    configured: Sequence[scheduler_configuration.Extender],
    registry: class_registry.ClassRegistry,
    cache: cluster_cache.ClusterCache,
) -> OpenExtenders | None:
    """Make the clients of all extenders, and what stores objects for them; None without extenders.

    Raises: OSError or ValueError: a certificate or key cannot be used.
    """
    if not configured:
        return None
    whole = [each for each in configured if not each.node_cache_capable]
    objects = extender_objects.ExtenderObjects(
        nodes=any(each.filter_verb or each.prioritize_verb for each in whole),
        placed=any(each.preempt_verb for each in whole),
    )
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS))
    clients = [(each, extender_client.ExtenderClient(session, each)) for each in configured]
    return OpenExtenders(extenders.Extenders(clients, registry, cache, objects), objects, session)
