"""The log of placements against a list of all of them."""

import random

import numpy as np
import pytest

from trireme.snapshot import placement_log, pods

Entry = tuple[int, int, int, int, bool]  # generation, class, slot, sign, whether it is being deleted


def _append(log: placement_log.PlacementLog, everything: list[Entry], entries: list[Entry]) -> None:
    generation, *_, sign, _ = entries[0]
    flags = [pods.TERMINATING if terminating else pods.PREEMPTED for *_, terminating in entries]
    classes, slots = ([each[at] for each in entries] for at in (1, 2))
    of = np.array(classes, dtype=np.int32), np.array(slots, dtype=np.int32), np.array(flags, dtype=np.uint8)
    log.append(generation, *of, sign)
    everything += entries


@pytest.mark.parametrize("keep", [4, 50, placement_log.LOG_ENTRIES])
@pytest.mark.parametrize("seed", range(4))
def test_what_the_log_answers_is_all_that_changed_since(keep: int, seed: int) -> None:
    """A change that it leaves out would be missing in a count forever."""
    draw, log, everything = random.Random(seed), placement_log.PlacementLog(keep), list[Entry]()
    generation, largest = 0, 0
    for _ in range(150):
        generation += draw.randint(0, 2)
        sign, count = draw.choice((-1, 1)), draw.choice((1, 1, 2, 5, 60))
        entry = [(generation, draw.randint(0, 9), draw.randint(0, 9), sign, draw.random() < 0.3) for _ in range(count)]
        _append(log, everything, entry)
        largest = max(largest, count)
        for since in {max(0, generation - back) for back in (0, 1, 3, 20, 1000)}:
            for live_only in (False, True):
                found = log.since(since, live_only)
                after = [each for each in everything if each[0] > since]
                if found is None:
                    together = sum(each[0] >= since for each in everything)
                    assert together > keep // 2 - largest or count > keep, "it keeps half of what it may at least"
                    continue
                live = [each for each in after if not (live_only and each[-1])]
                rows = list(zip(*(column.tolist() for column in found), strict=True))
                assert rows == [(of, slot, sign) for _, of, slot, sign, _ in live]


def test_the_log_reaches_back_as_far_as_it_keeps_and_no_longer_than_twice_that() -> None:
    """Without the one, counters count all pods again for each change; without the other, the log grows forever."""
    log, everything = placement_log.PlacementLog(100), list[Entry]()
    for generation in range(1, 2000):
        _append(log, everything, [(generation, 1, 1, 1, False)])
        assert log.since(max(0, generation - 50), live_only=False) is not None
        assert log._generation.shape[0] <= 200
        assert log.floor >= generation - 200
    _append(log, everything, [(2000, 1, 1, 1, False)] * 101)
    assert log.since(1999, live_only=False) is None
    found = log.since(2000, live_only=False)
    assert found is not None
    assert found[0].size == 0


def test_a_new_log_reaches_back_to_the_beginning() -> None:
    log = placement_log.PlacementLog()
    _append(log, [], [(7, 1, 2, 1, False)])
    assert log._generation.shape[0] < 1000, "an empty cluster takes no memory for it"
    found = log.since(0, live_only=True)
    assert found is not None
    assert [column.tolist() for column in found] == [[1], [2], [1]]
