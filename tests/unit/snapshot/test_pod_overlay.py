"""Pods removed and added in thought, against plain lists."""

import random

import numpy as np
import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.snapshot import pod_overlay, pods

CLASSES = 3
NODES = 4


def _cluster(draw: random.Random) -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for number in range(NODES):
        builder.set_node(f"n{number}")
    for number in range(1, CLASSES + 1):
        builder.add_class(number, pod_of())
    for _ in range(12):
        flags = draw.choice((0, pods.TERMINATING))
        builder.place(draw.randint(1, CLASSES), f"n{draw.randrange(NODES)}", flags=flags)
    return builder


@pytest.mark.parametrize("semantics", pod_overlay.Semantics, ids=lambda each: each.name)
@pytest.mark.parametrize("seed", range(6))
def test_an_overlay_knows_what_is_removed_restored_and_added(seed: int, semantics: pod_overlay.Semantics) -> None:
    """Preemption would count a victim that stays, or overlook a node that has room again."""
    draw = random.Random(seed)
    snap = _cluster(draw).snap
    table = snap.pods
    over = pod_overlay.OverlaidPods(table, semantics)
    removed, touched, added = dict[int, None](), set[int](), list[tuple[int, int]]()
    versions = {over.version}
    for step in range(1, 30):
        kind = draw.choice(("remove", "restore", "add", "drop"))
        if kind == "remove":
            rows = draw.sample(sorted(set(range(12)) - set(removed)), min(2, 12 - len(removed)))
            over.remove(np.array(rows, dtype=np.intp))
            removed |= dict.fromkeys(rows)
            touched |= set(rows)
        elif kind == "restore":
            rows = draw.sample(sorted(removed), min(2, len(removed)))
            over.restore(np.array(rows, dtype=np.intp))
            for row in rows:
                del removed[row]
        elif kind == "add":
            new = [(draw.randint(1, CLASSES), draw.randrange(NODES)) for _ in range(2)]
            indices = [snap.classes[number].index for number, _ in new]
            over.add([number for number, _ in new], indices, [slot for _, slot in new])
            added += new
        else:
            count = draw.randint(0, len(added))
            over.drop_added(count)
            del added[count:]
        versions.add(over.version)
        assert len(versions) == step + 1
        of = {row: (int(table.pod_class[row]), int(table.slot[row])) for row in range(12)}
        assert over.removed.tolist() == list(removed)
        assert [over.is_removed(row) for row in range(12)] == [row in removed for row in range(12)]
        assert list(zip(*(each.tolist() for each in over.added), strict=True)) == added
        assert over.added_count == len(added)
        changed = [*(of[row] for row in removed), *added]
        assert over.classes == sorted({number for number, _ in changed})
        assert over.slots.tolist() == sorted({slot for _, slot in changed})
        for number in range(1, CLASSES + 1):
            chosen = snap.class_mask([number])
            gone = [of[row][1] for row in touched if of[row][0] == number]
            back = [of[row][1] for row in touched - set(removed) if of[row][0] == number]
            assert sorted(over.slots_with_removed(chosen).tolist()) == sorted(gone)
            there = [*back, *(slot for one, slot in added if one == number)]
            assert sorted(over.slots_with_added(chosen).tolist()) == sorted(there)
            for live_only in (False, True):
                expected = [0] * NODES
                for row in removed:
                    ignored = semantics is pod_overlay.Semantics.HYPOTHETICAL and table.flags[row] & pods.TERMINATING
                    expected[of[row][1]] -= of[row][0] == number and not (live_only and ignored)
                for one, slot in added:
                    expected[slot] += one == number
                sums = over.adjusted(np.zeros(NODES, dtype=np.int64), chosen.astype(np.int64), live_only=live_only)
                assert sums.tolist() == expected
