"""Suites of tests/contract, which are about real gRPC and real sockets, again on the simulated ones."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract import (
    test_kube_client,
    test_kube_informer,
    test_kube_informer_catching_up,
    test_kube_write_pool,
    test_replica_channels,
    test_replica_dialing,
    test_replica_grpc_server,
    test_replica_stream,
)
from tests.simulation import simulated_grpc_client, simulated_grpc_server, simulated_tls, virtual_loop

SUITES = (
    test_replica_channels,
    test_replica_dialing,
    test_replica_grpc_server,
    test_replica_stream,
    test_kube_client,
    test_kube_informer,
    test_kube_informer_catching_up,
    test_kube_write_pool,
)

# The simulated network has TLS for gRPC alone, no files for its sockets and no other processes.
NEEDS_THE_REAL_THING = {
    "test_a_credential_plugin_is_run_again_when_its_token_is_rejected",
    "test_a_credential_plugin_that_fails_is_reported",
    "test_a_plugin_may_renew_the_client_certificate",
    "test_a_renewed_certificate_is_used_by_all_connections",
    "test_a_socket_left_behind_is_no_obstacle",
    "test_a_unix_socket_is_accessible_to_its_owner_only",
    "test_an_address_that_is_taken_is_refused",
    "test_the_service_account_is_used_inside_a_cluster",
    "test_tls_with_client_certificates",
}
# These look at `time.monotonic` or at how long a computation takes; here time passes only while everybody waits.
NEEDS_REAL_TIME = {
    "test_a_call_ends_at_the_deadline_of_its_phase",
    "test_a_placed_pod_costs_each_replica_less_than_200_bytes",
    "test_a_quiet_collection_is_watched_without_a_gap",
    "test_a_rotated_token_file_is_read_again_when_the_old_token_is_rejected",
    "test_the_next_page_is_made_while_one_is_worked_in",
    "test_the_rate_limit_spaces_requests_and_never_outlasts_a_deadline",
}
LEFT_OUT = NEEDS_THE_REAL_THING | NEEDS_REAL_TIME


@pytest.fixture(autouse=True)
def simulated_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels and servers are simulated."""
    monkeypatch.setattr(aio, "insecure_channel", simulated_grpc_client.insecure_channel)
    monkeypatch.setattr(aio, "server", simulated_grpc_server.server)
    for owner, name in ((aio, "secure_channel"), *((grpc, name) for name in simulated_tls.REPLACED)):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that they are set back
    simulated_tls.install(simulated_grpc_client.secure_channel)


def _on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def whole(**named: Any) -> None:
        virtual_loop.run(lambda loop: test(**named))

    whole.__signature__ = inspect.signature(test)
    del whole.__wrapped__
    return whole


def _tests(suite: ModuleType) -> dict[str, Callable[..., None]]:
    tests = inspect.getmembers(suite, inspect.iscoroutinefunction)
    return {name: _on_virtual_time(test) for name, test in tests if name.startswith("test_") and name not in LEFT_OUT}


for _suite in SUITES:
    globals().update(_tests(_suite))
