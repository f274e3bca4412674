"""How long victims gate their preemptor: until the last one goes, and no longer."""

import types
from typing import Any, cast

import pytest

from trireme.cache.pod_projection import TERMINATING
from trireme.scheduling import preemptions_under_way


class Bench:
    """One preemption, and the last victim as the cache has it: None: gone; else its flags."""

    def __init__(self, victim: int | None, **progress: bool) -> None:
        pod = None if victim is None else types.SimpleNamespace(flags=victim)
        cache: Any = types.SimpleNamespace(pod={"victim": pod}.get)
        self.stopped: list[str] = []
        self.under_way = preemptions_under_way.PreemptionsUnderWay(cache)
        self.preemption = self.preemption_of("u", **progress)
        self.under_way.begin("u", self.preemption)

    def preemption_of(self, name: str, **progress: bool) -> preemptions_under_way.Preemption:
        """A preemption with two victims."""
        return preemptions_under_way.Preemption(
            f"ns/{name}",
            (0, 0),
            ("ns/other", "ns/victim"),
            "victim",
            {},
            {},
            stop_waiting=lambda: self.stopped.append(name),
            **cast(Any, progress),
        )


@pytest.mark.parametrize(
    ("victim", "progress", "gates", "kept"),
    [
        pytest.param(None, {}, True, True, id="others-are-still-there"),
        pytest.param(0, {"others_deleted": True}, True, True, id="the-last-one-is-there"),
        pytest.param(TERMINATING, {"others_deleted": True}, True, True, id="it-terminates-and-may-go-any-moment"),
        pytest.param(0, {"others_deleted": True, "finished": True}, True, True, id="its-end-was-not-seen-yet"),
        pytest.param(TERMINATING, {"others_deleted": True, "finished": True}, False, False, id="it-terminates"),
        pytest.param(None, {"others_deleted": True, "finished": True}, False, False, id="it-is-gone"),
        pytest.param(None, {"others_deleted": True}, False, True, id="it-is-gone-before-bind-knows"),
    ],
)
def test_victims_gate_their_preemptor_until_the_last_one_goes(
    victim: int | None, progress: dict[str, bool], gates: bool, kept: bool
) -> None:
    """Its room would look taken, and the same victims be deleted again; or it would wait for nothing."""
    bench = Bench(victim, **progress)
    assert bench.under_way.still_gates("u") is gates
    assert (bench.under_way.get("u") is not None) is kept
    assert bench.stopped == ([] if kept else ["u"])


def test_another_pod_is_not_gated() -> None:
    assert not Bench(0).under_way.still_gates("another")


def test_the_next_preemption_takes_the_place_of_the_one_before() -> None:
    bench = Bench(0)
    following = bench.preemption_of("again")
    bench.under_way.begin("u", following)
    assert (bench.under_way.get("u"), bench.stopped) == (following, ["u"])
    bench.under_way.drop("u")
    bench.under_way.drop("u")
    assert (bench.under_way.get("u"), bench.stopped) == (None, ["u", "again"])


def test_victims_are_named_while_their_deletion_is_under_way() -> None:
    bench = Bench(0)
    assert bench.under_way.victims_of("u") == ("ns/other", "ns/victim")
    bench.preemption.finished = True
    assert bench.under_way.victims_of("u") == ()
    assert bench.under_way.victims_of("another") == ()
