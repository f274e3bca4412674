"""Requests the lists of pods and nodes while the frontend still imports its modules.

Listing a large cluster takes an API server as long as the imports take, so doing both at once halves the time. This
module imports little, and the reader of the lists (`cluster_informers`) continues with those requested here. Lists that
the configuration delays (`delayCacheUntilActive`) or reads in another encoding (extenders) are not requested here.

Tests: tests/contract/test_frontend_early_lists.py.
"""

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Mapping

from trireme.config import commandline
from trireme.framework import release
from trireme_kube.client.informers import list_prefetch, listwatch, resources
from trireme_kube.client.rest import client, content_types, credentials


@dataclasses.dataclass(frozen=True, slots=True)
class EarlyLists:
    """The connection that the cluster is read over, and the lists requested on it."""

    settings: client.ClientSettings
    api: client.ApiClient
    lists: Mapping[resources.Resource, list_prefetch.ListPrefetch]
    _requests: list[tuple[str, int, float, float]]

    def observe(self, observer: client.Observer) -> None:
        """Report every request to `observer`, earlier ones first."""
        for request in self._requests:
            observer(*request)
        self.api.observe(observer)


@contextlib.asynccontextmanager
async def request_lists(completed: commandline.CompletedConfig) -> AsyncIterator[EarlyLists]:
    """Connect to the API server, and request the first lists while the rest of the frontend is still imported.

    Only pods and nodes are requested early, and only where lists come by watch (the gate), the cache is filled before
    election and there are no extenders; otherwise the informers list for themselves, and `lists` is empty. Requests
    that were not taken over end with the block.

    Raises:
        ConfigurationError: naming the file and the field at fault.
    """
    configuration = completed.configuration
    connection = configuration.client_connection
    settings = client.ClientSettings(
        credentials.Source(connection.kubeconfig, completed.options.misc.master),
        release.user_agent("scheduler", completed.version),
        connection.qps,
        connection.burst,
        accept=content_types.accept_header(connection.accept_content_types, connection.content_type),
    )
    requests: list[tuple[str, int, float, float]] = []

    def remember_request(*request: *tuple[str, int, float, float]) -> None:
        """Remember a request that was made before an observer is there."""
        requests.append(request)

    streams = completed.gates.enabled(listwatch.STREAMS_GATE)
    at_once = streams and not configuration.delay_cache_until_active and not configuration.extenders
    async with await client.connect(settings, remember_request) as api, contextlib.AsyncExitStack() as stack:
        lists = {}
        for resource in (resources.PODS, resources.NODES) if at_once else ():
            seconds = listwatch.watch_seconds(random.random)
            lists[resource] = list_prefetch.ListPrefetch(api, resource, api.accept, seconds)
            stack.push_async_callback(lists[resource].end)
        yield EarlyLists(settings, api, lists, requests)
