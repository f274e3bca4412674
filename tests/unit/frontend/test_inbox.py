"""Which waiting callers the events of informers wake."""

from tests.helpers.frontend_world import one_node
from trireme.scheduling import pre_binding
from trireme_kube.client.informers.watch import EventKind


def test_a_change_of_a_pod_counts_for_those_who_wait_for_it() -> None:
    """If this fails, a PreBind that waits for its pod, or for another one, is called again only after ten seconds."""
    with one_node() as world:
        for name in ("p", "other"):
            world.create(name, 1000)
        waits = world.frontend.cluster.waits
        with waits.record_changes() as recording:
            changed = dict(world.api.stored("pods")["p"])
            changed["metadata"] = {**changed["metadata"], "labels": {"warmed": "yes"}}
            world.api.record("pods", EventKind.MODIFIED, changed)
            world.deliver("pods", 1)
            assert waits.changed_since([(pre_binding.POD, "ns", "p")], recording.since)
            assert not waits.changed_since([(pre_binding.POD, "ns", "other")], recording.since)
