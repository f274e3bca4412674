"""Each defect can be put into the product as it is now, changes what it names, and is documented."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.simulation import defect_search, defects_document
from tests.simulation.claims import CLAIMS
from tests.simulation.defects import mutations
from tests.simulation.defects.catalogue import DEFECTS
from trireme.config.gates import FeatureGates
from trireme.evaluation.scoring import score_column
from trireme.plugin_api.interfaces import Dependency
from trireme.plugins.dynamic_resources import extended_claims
from trireme.registry import default_profile
from trireme.rpc import dialing, fencing
from trireme.scheduling import relists
from trireme.v1 import cycle_pb2
from trireme_kube.client.informers import listwatch, resources
from trireme_kube.client.informers.watch import EventKind
from trireme_kube.client.rest.errors import ApiError
from trireme_kube.componentbase import clocks, supervision

INJECTORS = (defect_search.ROOT / "tests/simulation/simulated_faults.py").read_text(encoding="utf-8")
STEADY = clocks.steady
"""As modules take it: as the default of a parameter."""


@pytest.fixture(autouse=True)
def _product_as_it_was() -> Iterator[None]:
    yield
    mutations.undo_all()


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_applies(name: str) -> None:
    """An error says which name is gone: make the same defect where the code is now."""
    DEFECTS[name].put_into_product()
    assert mutations.undo_all()


def _relist() -> list[str]:
    tracker, removed = relists.RelistTracker(), list[str]()
    for kind in (EventKind.LIST_START, EventKind.LIST_END):
        tracker.on_list_marker(kind, "pods", lambda: {"gone"}, removed.append)
    return removed


def _claim_name() -> str:
    one: Any = SimpleNamespace(requests=[], allocation={}, stale="")
    return extended_claims._generated_claim_name(cycle_pb2.PodIdentity(name="pod", uid="1"), one, 0)


def _refuses_older_epoch() -> bool:
    guard = fencing.EpochGuard()
    guard.admit(2, "scheduler")
    try:
        guard.check(1, "scheduler")
    except fencing.Refusal:
        return True
    return False


def _looks_for_new_certificates() -> bool:
    looked: list[str] = []
    dialer = SimpleNamespace(is_outdated=lambda address, reloads: looked.append(address))
    channel: Any = SimpleNamespace(_dialer=dialer, _address="address", _reloads=0)
    dialing.RenewableChannel.renew(channel)
    return bool(looked)


def _looks_for_changed_pods() -> list[bool]:
    looked: list[bool] = []

    def changed_since(generation: int, pods: bool) -> Any:
        looked.append(pods)
        return np.zeros(0, np.intp)

    nodes = SimpleNamespace(alive=np.ones(1, np.bool_), size=1, changed_since=changed_since)
    snap: Any = SimpleNamespace(generation=2, nodes=nodes)
    score_column.ScoreColumn(None, 1, generation=1).due_slots(Dependency.NODE_PODS, snap)
    return looked


def _lists_after_expiry() -> bool:
    informer = listwatch.ListWatch(resources.PODS, lambda: 0.5)
    informer.state = listwatch.State.WATCHING
    informer.failed(ApiError(410, "Expired", "too old"))
    return informer.state is not listwatch.State.WATCHING


def _weights() -> list[tuple[str, int | None]]:
    return default_profile.default_plugins(FeatureGates(values={}))


ANSWERS: dict[str, Callable[[], object]] = {
    "certificates-not-renewed": _looks_for_new_certificates,
    "duplicate-claim": _claim_name,
    "expired-watch-goes-on": _lists_after_expiry,
    "frozen-leader": supervision.is_being_cancelled,
    "late-binding-of-a-former-leader": _refuses_older_epoch,
    "relist-forgets-deletions": _relist,
    "scores-not-renewed": _looks_for_changed_pods,
    "wall-clock-in-the-queue": lambda: STEADY() > 0,
    "wrong-weight": _weights,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_defect_changes_what_the_product_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defects whose answers show without a cluster; the simulation finds all of them."""
    monkeypatch.setattr(clocks, "wall", lambda: 0.0)
    monkeypatch.setattr(supervision.asyncio, "current_task", lambda: None)
    right = ANSWERS[name]()
    DEFECTS[name].put_into_product()
    wrong = ANSWERS[name]()
    mutations.undo_all()
    assert wrong != right
    assert ANSWERS[name]() == right


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_the_faults_that_show_a_defect_exist(name: str) -> None:
    assert [kind for kind in DEFECTS[name].faults if f"self._{kind})" not in INJECTORS] == []


def test_the_page_of_checks_is_up_to_date() -> None:
    assert defects_document.write() == defects_document.DOCUMENT.read_text(encoding="utf-8"), "run `make docs`"


def test_each_kind_of_fault_says_what_it_does() -> None:
    kinds = defects_document.fault_kinds()
    assert len(kinds) > 20
    assert [kind for kind in kinds if f"`{kind}` |  |" in defects_document.write()] == []


def test_each_defect_belongs_to_a_claim() -> None:
    """The page shows for each check what shows that it can fail."""
    claims = [claim for group in CLAIMS.values() for claim in group]
    assert {name for claim in claims for name in claim.found_defects} == set(DEFECTS)
