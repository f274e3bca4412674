"""When a preemptor is tried again whose victims stay."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.scheduling import preemption_retries

FORGET = preemption_retries.FORGET_SECONDS


class Bench:
    """Retries at once the first time, then after 10, 20, … seconds; what was tried, by second."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time
        self.started = self.now()
        self.tried: list[tuple[float, str]] = []
        self.retries = preemption_retries.PreemptionRetries(lambda failures: 10.0 * failures, self._activate, self.now)

    def _activate(self, pods: Sequence[tuple[str, str]]) -> None:
        self.tried += [(self.now() - self.started, key) for key, _ in pods]

    def fail(self, uid: str = "u", reason: str = "refused") -> None:
        """A victim of the pod stays."""
        self.retries.on_failure(f"ns/{uid}", uid, reason)


@on_virtual_time
async def test_the_first_retry_is_at_once_and_each_further_one_later() -> None:
    """A preemptor whose victims are never deleted would be tried dozens of times a second."""
    bench = Bench()
    bench.fail()
    assert bench.retries.delayed_retry("u") is None
    for reason in ("second", "third"):
        bench.fail(reason=reason)
        found = bench.retries.delayed_retry("u")
        assert found is not None
        assert found[0] == reason
        await asyncio.sleep(found[1] - bench.now() + 0.01)
        assert bench.retries.delayed_retry("u") is None
    assert [key for _, key in bench.tried] == ["ns/u"] * 3
    assert [at for at, _ in bench.tried] == pytest.approx([0.0, 10.0, 30.0], abs=0.1)
    assert len(bench.retries) == 1


@pytest.mark.parametrize("failures", [1, 2])
@on_virtual_time
async def test_failures_are_forgotten_some_time_after_the_retry(failures: int) -> None:
    """A pod that failed yesterday would wait as long as one that fails all the time, or failures never add up."""
    bench = Bench()
    for _ in range(failures):
        bench.fail()
    await asyncio.sleep(10.0 * (failures - 1) + FORGET - 1.0)
    assert "u" in bench.retries
    await asyncio.sleep(2.0)
    assert "u" not in bench.retries
    assert len(bench.tried) == failures


@on_virtual_time
async def test_a_preemption_before_its_time_needs_no_retry() -> None:
    """The pod would be tried twice; its failures still count for a while."""
    bench = Bench()
    bench.retries.on_preemption("u")
    bench.fail()
    bench.fail()
    await asyncio.sleep(5.0)
    bench.retries.on_preemption("u")
    assert bench.retries.delayed_retry("u") is None
    await asyncio.sleep(FORGET - 1.0)
    assert ("u" in bench.retries, len(bench.tried)) == (True, 1)
    bench.fail()
    found = bench.retries.delayed_retry("u")
    assert found is not None
    assert found[1] - bench.now() == pytest.approx(20.0)


@on_virtual_time
async def test_a_preemption_after_the_retry_does_not_prolong_the_memory() -> None:
    bench = Bench()
    bench.fail()
    await asyncio.sleep(FORGET / 2)
    bench.retries.on_preemption("u")
    await asyncio.sleep(FORGET / 2 + 1.0)
    assert "u" not in bench.retries


@on_virtual_time
async def test_a_pod_that_is_gone_is_not_tried() -> None:
    bench = Bench()
    for uid in ("u", "v", "w"):
        bench.fail(uid)
        bench.fail(uid)
    bench.retries.forget("u")
    bench.retries.forget("unknown")
    assert [uid in bench.retries for uid in "uvw"] == [False, True, True]
    bench.retries.close()
    assert len(bench.retries) == 0
    await asyncio.sleep(2 * FORGET)
    assert [key for _, key in bench.tried] == ["ns/u", "ns/v", "ns/w"]
