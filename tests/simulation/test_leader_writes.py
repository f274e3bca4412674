"""The check of who has pods deleted, their status written and claims reserved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation import simulated_process
from tests.simulation.leader_writes import PRE_BIND, LeaderWrites
from tests.simulation.simulated_workloads import DEVICE_CLAIMS
from trireme_kube.embedded.api.resources import PODS, Object
from trireme_kube.embedded.storage.store import Store


def _pod(node: str = "", deleted: bool = False, **status: Any) -> Object:
    metadata = {"name": "one", "namespace": "default", "uid": "one"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


@pytest.mark.parametrize(
    ("actions", "after", "text"),
    [
        ([], _pod(deleted=True), "pod one was deleted without a leader's request"),
        ([(3, "evict")], _pod(deleted=True), "pod one was deleted for epoch 3 after epoch 4 had bound a pod"),
        ([(3, "evict"), (4, "evict")], _pod(deleted=True), ""),
        ([(4, "set_condition")], _pod(deleted=True), "pod one was deleted without a leader's request"),
        ([], None, "pod one was deleted without a leader's request"),
        ([(4, "evict")], None, ""),
        ([], _pod(conditions=[{}]), "pod one was given another status without a leader's request"),
        ([(4, "set_condition")], _pod(conditions=[{}]), ""),
        ([(3, "nominate")], _pod(nominatedNodeName="a"), "pod one was given another status for epoch 3 after"),
        ([(4, "nominate")], _pod(nominatedNodeName="a"), ""),
        ([], _pod("node-1", conditions=[{}]), ""),
        ([], _pod(phase="Running"), ""),
    ],
)
def test_only_who_leads_has_pods_written(actions: list[tuple[int, str]], after: Object | None, text: str) -> None:
    """If this fails, simulations miss what a former leader has written, or pods that vanish; or report a binding."""
    store, checks = Store(), LeaderWrites(lambda: 4)
    store.listen_to_all(checks.on_write)
    store.put(PODS, _pod())
    for epoch, kind in actions:
        checks.on_actions(epoch, [("one", kind)])
    server = simulated_process.Process("apiserver", "127.0.0.1", 0.0)
    if after is None:
        server.context.run(store.remove, PODS, "default", "one")
    else:
        server.context.run(store.put, PODS, after)
    assert [found.startswith(text) for found in checks.violations] == [True] * bool(text)


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        ((), "claim devices was reserved without a leader's request"),
        ((3,), "claim devices was reserved for epoch 3 after epoch 4 had bound a pod"),
        ((3, 4), ""),
    ],
)
def test_only_who_leads_has_claims_reserved(epochs: tuple[int, ...], text: str) -> None:
    """If this fails, simulations miss that a former leader's PreBind goes on."""
    store, checks = Store(), LeaderWrites(lambda: 4)
    store.listen_to_all(checks.on_write)
    metadata = {"name": "devices", "namespace": "default", "uid": "devices"}
    store.put(DEVICE_CLAIMS, {"metadata": dict(metadata), "status": {"reservedFor": [{"uid": "earlier"}]}})
    for epoch in epochs:
        checks.on_actions(epoch, [("one", PRE_BIND)])
    server = simulated_process.Process("apiserver", "127.0.0.1", 0.0)
    users = [{"uid": "earlier"}, {"uid": "one"}]
    server.context.run(store.put, DEVICE_CLAIMS, {"metadata": dict(metadata), "status": {"reservedFor": users}})
    assert checks.violations == [text] * bool(text)


def test_what_is_not_written_by_a_client_of_the_api_server_is_left_out() -> None:
    """If this fails, simulations report what the load and the kubelets do."""
    store, checks = Store(), LeaderWrites(lambda: 4)
    store.listen_to_all(checks.on_write)
    store.put(PODS, _pod())
    store.put(PODS, _pod(conditions=[{}]))
    store.remove(PODS, "default", "one")
    assert checks.violations == []
