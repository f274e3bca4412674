"""Reserve of several plugins: which is called about which pods, and what they assume together."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.evaluation import reserving
from trireme.evaluation.filtering import filter_chain
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.v1 import bind_phase_pb2, cycle_pb2, filter_pb2, plugin_pb2, snapshot_pb2, status_pb2

SUCCESS, REFUSED = status_pb2.CODE_SUCCESS, status_pb2.CODE_UNSCHEDULABLE
CYCLE = cycle_pb2.Cycle(profile="p")
ANY: Any = None


def placements(*uids: str) -> list[filter_pb2.Placement]:
    return [filter_pb2.Placement(pod=cycle_pb2.PodIdentity(uid=uid), node_name="n0") for uid in uids]


class Reserver:
    """Refuses the pods of these UIDs, and gives others a state."""

    must_be_called = True

    def __init__(self, name: str, calls: list[Any], *refused: str, state: bytes = b"") -> None:
        self.name = name
        self._calls, self._refused, self._state = calls, refused, state

    async def reserve(
        self, cycle: object, placed: Sequence[filter_pb2.Placement], *_: object
    ) -> list[filter_pb2.Reservation]:
        self._calls.append((self.name, [each.pod.uid for each in placed]))
        return [
            filter_pb2.Reservation(
                status=status_pb2.Status(code=REFUSED if each.pod.uid in self._refused else SUCCESS),
                assumed=[snapshot_pb2.ClusterObject()],
                state=self._state,
            )
            for each in placed
        ]

    async def unreserve(self, cycle: object, placed: Sequence[filter_pb2.Placement], *_: object) -> None:
        self._calls.append((f"not {self.name}", [each.pod.uid for each in placed]))


async def test_a_pod_that_a_plugin_refuses_is_no_business_of_the_next_ones() -> None:
    """Of such a pod nothing is assumed, whatever plugins before answered."""
    calls: list[Any] = []
    plugins = [
        Reserver("A", calls, state=b"a"),
        Reserver("B", calls, "q", state=b"b"),
        Reserver("C", calls),
    ]
    kept, refused, last = await reserving.reserve(plugins, CYCLE, placements("p", "q", "r"), ANY, ANY)
    assert calls == [("A", ["p", "q", "r"]), ("B", ["p", "q", "r"]), ("C", ["p", "r"])]
    assert last == kept
    assert (kept.status.code, len(kept.assumed)) == (SUCCESS, 3)
    states = bind_phase_pb2.PluginStates.FromString(kept.state)
    assert dict(states.plugin_states) == {"A": b"a", "B": b"b"}
    assert (refused.status.code, len(refused.assumed), refused.state) == (REFUSED, 0, b"")


async def test_no_plugin_is_called_once_all_pods_are_refused() -> None:
    calls: list[Any] = []
    plugins = [Reserver("A", calls, "p", "q"), Reserver("B", calls)]
    found = await reserving.reserve(plugins, CYCLE, placements("p", "q"), ANY, ANY)
    assert [each.status.code for each in found] == [REFUSED] * 2
    assert calls == [("A", ["p", "q"])]
    assert await reserving.reserve([], CYCLE, placements("p"), ANY, ANY) == [
        filter_pb2.Reservation(status=status_pb2.Status(code=SUCCESS))
    ]


async def test_unreserve_goes_backwards_through_all_plugins() -> None:
    calls: list[Any] = []
    await reserving.unreserve([Reserver("A", calls), Reserver("B", calls)], CYCLE, placements("p"), ANY)
    assert calls == [("not B", ["p"]), ("not A", ["p"])]


class InTree:
    """A plugin that filters and reserves, and prepares."""

    name = "InTree"
    depends_on = interfaces.Dependency.NODE
    reads: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.prepared: list[tuple[list[int], bool]] = []
        self.refusal: status.Status | None = None

    async def prepare(self, pod_class: object, snap: object, slots: Any, *, remembering: bool = True) -> None:
        self.prepared.append((slots.tolist(), remembering))

    def pre_filter(self, *_: object) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult()

    def filter(self, *_: object) -> Any:
        raise AssertionError("not part of these tests")

    def reserve(self, pod_class: object, pod: cycle_pb2.PodIdentity, snap: object, slot: int) -> Any:
        return SimpleNamespace(
            status=self.refusal, assumed=[], state=f"{pod.uid} at {slot}".encode(), claim_statuses=[]
        )


@pytest.mark.parametrize("slow", [False, True])
async def test_a_plugin_of_this_process_is_prepared_for_the_node_and_called(slow: bool) -> None:
    builder = SnapshotBuilder()
    for name in ("n9", "n0"):
        builder.set_node(name)
    builder.add_class(1, pod_of())
    plugin: Any = InTree()
    reserver = reserving.InTreeReserver(plugin, plugin if slow else None)
    pod_class = builder.snap.classes[1]
    (found,) = await reserver.reserve(CYCLE, placements("p"), pod_class, builder.snap)
    assert (found.status.code, found.state) == (SUCCESS, b"p at 1")
    assert plugin.prepared == ([([1], False)] if slow else [])
    plugin.refusal = status.unschedulable("InTree", "taken")
    (refused,) = await reserver.reserve(CYCLE, placements("p"), pod_class, builder.snap)
    assert list(refused.status.messages) == ["taken"]
    gone = filter_pb2.Placement(pod=cycle_pb2.PodIdentity(uid="p"), node_name="gone")
    (failed,) = await reserver.reserve(CYCLE, [gone], pod_class, builder.snap)
    assert failed.status.code == status_pb2.CODE_ERROR
    (reason,) = failed.status.reasons
    assert (reason.code, dict(reason.parameters)) == ("nodeGone", {"node": "gone"})
    assert list(failed.status.messages) == ['running Reserve plugin "InTree": node "gone" not found']


async def test_what_plugins_say_of_claims_is_said_together() -> None:
    class Claiming(Reserver):
        async def reserve(
            self, cycle: object, placed: Sequence[filter_pb2.Placement], *_: object
        ) -> list[filter_pb2.Reservation]:
            success = status_pb2.Status(code=SUCCESS)
            return [filter_pb2.Reservation(status=success, claim_statuses=[{}]) for _ in placed]

    (found,) = await reserving.reserve([Claiming("A", []), Claiming("B", [])], CYCLE, placements("p"), ANY, ANY)
    assert (len(found.claim_statuses), found.state) == (2, b"")


@pytest.mark.parametrize("remote", [False, True])
def test_the_plugins_at_reserve_are_those_of_the_profile_in_order(remote: bool) -> None:
    plugin: Any = InTree()
    configuration = snapshot_pb2.Configuration()
    configuration.remote_plugins.add(name="Far")
    profile = configuration.profiles.add(scheduler_name="p")
    at = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_RESERVE)
    for name in ("Far", "InTree", "Unknown"):
        at.plugins.add(name=name)
    made: list[str] = []

    def make(config: snapshot_pb2.RemotePlugin) -> Any:
        made.append(config.name)
        return SimpleNamespace(name=config.name)

    other: Any = SimpleNamespace(
        name="InTree", depends_on=interfaces.Dependency.NODE, reads=(), pre_filter=print, filter=print, reserve=print
    )
    at = configuration.profiles.add(scheduler_name="q").plugin_sets.add(
        extension_point=plugin_pb2.EXTENSION_POINT_RESERVE
    )
    at.plugins.add(name="InTree")
    chains = {"p": filter_chain.FilterChain([plugin]), "q": filter_chain.FilterChain([other])}
    found = reserving.make_reservers(configuration, chains, make if remote else None)
    assert [each.name for each in found["p"]] == (["Far", "InTree"] if remote else ["InTree"])
    assert made == (["Far"] if remote else [])
    local: Any = [*found["p"], *found["q"]]
    assert [each.preparing for each in local if each.name == "InTree"] == [plugin, None]
