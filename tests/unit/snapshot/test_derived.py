"""The store of derived values: what is shared, refreshed, dropped and kept."""

import itertools

import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.snapshot import derived, snapshot
from trireme.v1 import snapshot_pb2


class _Entry:
    """A value of some size that counts how often it was refreshed."""

    def __init__(self, nbytes: int | None = 1) -> None:
        self.nbytes = nbytes
        self.generations: list[int] = []

    def refresh(self, snap: snapshot.Snapshot) -> None:
        self.generations.append(snap.generation)


def _get(snap: snapshot.Snapshot, key: object, nbytes: int | None = 1) -> _Entry:
    return snap.derived(key, lambda _: _Entry(nbytes))


def test_a_value_is_made_once_and_refreshed_whenever_it_is_read() -> None:
    """Callers share one value, and never see an old one."""
    builder = SnapshotBuilder()
    made = _get(builder.snap, "one")
    builder.set_node("n0")
    assert _get(builder.snap, "one") is made
    assert made.generations == [1, 2]


def test_a_reset_drops_all_values() -> None:
    """Slots and classes are numbered anew, so that an earlier value would be about others."""
    builder = SnapshotBuilder()
    made = _get(builder.snap, "one", None)
    builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=9))
    assert _get(builder.snap, "one", None) is not made


def test_values_are_seldom_measured_where_there_is_room_and_at_once_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each new class makes values: to measure those of all classes for each of them takes longer than to make them."""
    measured = 0

    class Measured:
        """A value that counts how often any is measured."""

        def __init__(self, size: int) -> None:
            self._size = size

        @property
        def nbytes(self) -> int:
            nonlocal measured
            measured += 1
            return self._size

        def refresh(self, _: snapshot.Snapshot) -> None:
            """It follows nothing."""

    snap = SnapshotBuilder().snap
    for number in range(1000):
        snap.derived(number, lambda _: Measured(100))
    assert measured < 4000
    monkeypatch.setattr(derived, "MAX_BYTES", 200_000)
    for number in range(1000, 1400):
        snap.derived(number, lambda _: Measured(50_000))
    assert snap._derived.nbytes <= 200_000 + 50_000 * (1400 // 8 + 1)


def test_beyond_the_limit_the_values_read_longest_ago_are_dropped_but_for_those_without_a_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory is bounded, and an index of all volumes is not made anew for each class."""
    monkeypatch.setattr(derived, "MAX_BYTES", 100)
    monkeypatch.setattr(derived, "MIN_ENTRIES", 4)
    snap = SnapshotBuilder().snap
    index, first, read = _get(snap, "index", None), _get(snap, "first", 10), _get(snap, "read", 10)
    for number in range(60):
        _get(snap, number, 10)
        assert _get(snap, "read", 10) is read
    assert _get(snap, "index", None) is index
    assert _get(snap, "first", 10) is not first
    cached = itertools.takewhile(lambda number: len(_get(snap, number, 10).generations) > 1, range(59, -1, -1))
    assert 3 <= len(list(cached)) <= 12


def test_a_few_values_stay_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "MAX_BYTES", 10)
    monkeypatch.setattr(derived, "MIN_ENTRIES", 4)
    snap = SnapshotBuilder().snap
    for number in range(60):
        _get(snap, number, 100)
        assert min(number, 4) + 1 <= len(snap._derived) <= 9


def test_values_made_for_a_class_are_dropped_with_it() -> None:
    """They hold the class. While pods of ever other classes came and went, memory grew without end."""
    builder = SnapshotBuilder()
    snap = builder.snap
    index = _get(snap, "index", None)
    for number in range(1, 200):
        builder.add_class(number, pod_of())
        made = snap.derived(("of", number), lambda _: _Entry(1), number)
        assert snap.derived(("of", number), lambda _: _Entry(1), number) is made
        snap.derived(("also of", number), lambda _: _Entry(1), number)
        builder.apply(removed_classes=[number])
        assert len(snap._derived) == 1
    assert _get(snap, "index", None) is index
    assert not snap._derived._keys_of_class


def test_a_value_that_cannot_be_refreshed_raises_each_time() -> None:
    """A pod whose selector is invalid fails by it at each attempt, not at the first alone."""

    class Failing(_Entry):
        def refresh(self, snap: snapshot.Snapshot) -> None:
            raise ValueError("invalid")

    snap = SnapshotBuilder().snap
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid"):
            snap.derived("failing", lambda _: Failing())


def test_large_values_that_are_new_are_measured_before_as_many_have_come_as_there_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What each took when it was made counts: they may fill the limit long before."""
    monkeypatch.setattr(derived, "MAX_BYTES", 1000)
    monkeypatch.setattr(derived, "MIN_ENTRIES", 4)
    snap = SnapshotBuilder().snap
    for number in range(80):
        _get(snap, number)
    for number in range(80, 100):
        _get(snap, number, 500)
    assert snap._derived.nbytes <= 1000 + 500 * (100 // 8 + 1)
