"""Classes are compared one after the other, each once for all requests that wait, and never too many wait."""

import asyncio

import pytest

from trireme.remote import comparison_queue


class Comparisons:
    """Compares a class whenever the test allows it."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.skipped: list[str] = []
        self.at_once = self.most_at_once = 0
        self.may_end = asyncio.Semaphore(0)
        self.fails = False
        self.queue = comparison_queue.ComparisonQueue(self._compare, self.skipped.append)

    async def _compare(self, _: str, class_id: int) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.may_end.acquire()
        finally:
            self.at_once -= 1
        self.done.append(class_id)
        if self.fails:
            raise ValueError("broken")

    def request(self, *class_ids: int) -> None:
        for class_id in class_ids:
            self.queue.request("p", class_id)

    async def finish(self) -> None:
        for _ in range(100):
            self.may_end.release()
        async with asyncio.timeout(1):
            await self.queue.wait_until_idle()


async def test_each_class_is_compared_once_and_alone() -> None:
    comparisons = Comparisons()
    comparisons.request(1, 2, 1, 3, 2)
    await asyncio.sleep(0)
    comparisons.request(1)  # that comparison began before
    await comparisons.finish()
    assert (comparisons.done, comparisons.most_at_once) == ([1, 2, 3, 1], 1)
    comparisons.request(2)
    await comparisons.finish()
    assert comparisons.done == [1, 2, 3, 1, 2]


async def test_a_class_is_left_out_where_too_many_wait_unless_it_waits_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison_queue, "MAX_WAITING", 2)
    comparisons = Comparisons()
    comparisons.request(1, 2, 2, 1)
    assert comparisons.skipped == []
    comparisons.request(3)
    assert comparisons.skipped == ["p"]
    await comparisons.finish()
    assert comparisons.done == [1, 2]


async def test_a_comparison_that_fails_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    comparisons = Comparisons()
    comparisons.fails = True
    comparisons.request(1, 2)
    await comparisons.finish()
    assert comparisons.done == [1, 2]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_nothing_is_compared_after_closing() -> None:
    comparisons = Comparisons()
    comparisons.request(1, 2)
    await asyncio.sleep(0)
    comparisons.queue.close()
    await comparisons.finish()
    assert comparisons.done == []


async def test_a_queue_that_nobody_used_closes() -> None:
    comparisons = Comparisons()
    comparisons.queue.close()
    await comparisons.finish()
    assert comparisons.done == []
