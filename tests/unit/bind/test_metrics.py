"""The metrics of bind: each shows the count that its name says."""

from typing import Any

import pytest

from tests.helpers import metric_values
from trireme.bind import metrics, service
from trireme.bind.binding_writer import BindingWriterStatistics
from trireme.bind.leadership import LeadershipStatistics
from trireme.remote import remote_connection
from trireme_kube.client.rest import client
from trireme_kube.componentbase.metrics.instruments import CountedElsewhere, Gauge


class _Service:
    """Counts each thing differently."""

    def __init__(self) -> None:
        binder = BindingWriterStatistics(
            bound=1, failed=2, unknown=3, posts=4, conflicts=5, read_back=6, joined=7, in_flight=8, waiting=9
        )
        actions = {("evict", "success"): 10, ("nominate", "error"): 11}
        leaders = LeadershipStatistics(epoch=12, readings=13, refused=14)
        self.counts = service.BindStatistics(binder, leaders, actions, configured=False)

    def statistics(self) -> service.BindStatistics:
        return self.counts


class _Counted:
    """An API client, or the connections to remote plugins, with these statistics."""

    def __init__(self, counts: Any) -> None:
        self._counts = counts

    def statistics(self) -> Any:
        return self._counts


def test_each_metric_shows_its_count() -> None:
    bind: Any = _Service()
    api: Any = _Counted(client.ClientStatistics(21, 22, 23, 24, 25.5))
    remote = remote_connection.ConnectionStatistics({}, 31, 32, 33, 34, 35, "")
    connections: Any = _Counted({"Quota": remote})
    found = list(metrics.instruments(bind, api, connections))
    own = {each.name: metric_values.counts(each) for each in found if "_plugin_" not in each.name}
    assert own == {
        "trireme_bind_pods_total": {"bound": 1, "failed": 2, "unknown": 3},
        "trireme_bind_posts_total": {"": 4},
        "trireme_bind_conflicts_total": {"": 5},
        "trireme_bind_read_back_total": {"": 6},
        "trireme_bind_joined_total": {"": 7},
        "trireme_bind_in_flight": {"": 8},
        "trireme_bind_waiting": {"": 9},
        "trireme_bind_actions_total": {"evict success": 10, "nominate error": 11},
        "trireme_epoch": {"": 12},
        "trireme_bind_lease_readings_total": {"": 13},
        "trireme_stale_calls_total": {"": 14},
        "trireme_bind_api_requests_total": {"": 21},
        "trireme_bind_api_failures_total": {"": 22},
        "trireme_bind_api_throttled_total": {"": 24},
        "trireme_bind_api_throttled_seconds_total": {"": 25.5},
    }
    kinds = {each.name: type(each) for each in found}
    assert all((kind is CountedElsewhere) is name.endswith("_total") for name, kind in kinds.items() if name in own)
    assert kinds["trireme_bind_waiting"] is Gauge
    assert any(metric_values.counts(each).get("Quota answered") == 31 for each in found)


@pytest.mark.parametrize(("configured", "why"), [(True, ""), (False, "no leader has brought a configuration yet")])
def test_a_replica_is_ready_once_a_leader_has_configured_it(configured: bool, why: str) -> None:
    bind: Any = _Service()
    counts = bind.counts
    bind.counts = service.BindStatistics(counts.binder, counts.leadership, counts.actions, configured=configured)
    assert metrics.why_not_ready(bind) == why
