"""The check of who may take the Lease of a leader."""

import pytest

from tests.simulation.lease_checks import LeaseChecks
from trireme_kube.embedded.api.resources import BY_KEY
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Store

LEASES = BY_KEY["leases.coordination.k8s.io"]
NAMESPACES = BY_KEY["namespaces"]


@pytest.mark.parametrize(
    ("holder", "successor", "age", "violated"),
    [
        ("one", "other", 14.0, True),
        ("one", "other", 15.0, False),
        ("one", "one", 2.0, False),
        ("one", "", 2.0, False),
        ("", "other", 0.0, False),
    ],
    ids=["early", "run out", "renewed", "released", "free"],
)
def test_who_may_take_a_lease(holder: str, successor: str, age: float, violated: bool) -> None:
    """If this fails, simulations miss a leader that is replaced while it works, or report one that is not."""
    store, now = Store(), [100.0]
    checks = LeaseChecks(lambda: now[0])
    store.listen_to_all(checks.on_write)
    registry = Registry(store, ClockAndIds())
    registry.create(NAMESPACES, "", {"metadata": {"name": "kube-system"}})
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    record = registry.create(LEASES, "kube-system", {"metadata": {"name": "kube-scheduler"}, "spec": spec})
    now[0] += age
    registry.store_update(LEASES, record, {**record.object, "spec": {**spec, "holderIdentity": successor}})
    assert [text.partition(":")[0] for text in checks.violations] == ["other takes the Lease of one"] * violated
