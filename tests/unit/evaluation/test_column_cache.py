"""The cache of columns: what it holds and drops."""

from types import SimpleNamespace
from typing import Any

import pytest

from trireme.evaluation import column_cache


class Columns:
    """Columns of ten bytes, which count how often they are measured."""

    measured = 0

    @property
    def nbytes(self) -> int:
        """Ten."""
        Columns.measured += 1
        return 10


def make_cache(classes: int) -> tuple[column_cache.ColumnCache[Columns], Any]:
    """A cache for a snapshot without nodes that has so many classes."""
    known = {"classes": set(range(classes)), "classes_generation": 1}
    snap: Any = SimpleNamespace(incarnation=1, nodes=SimpleNamespace(capacity=0), **known)
    return column_cache.ColumnCache(snap, Columns), snap


def test_what_it_costs_to_add_a_class_does_not_grow_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of classes would make each further one slow."""
    cache, _ = make_cache(2000)
    monkeypatch.setattr(Columns, "measured", 0)
    for number in range(2000):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
    assert len(cache) == 2000
    assert Columns.measured < 10 * 2000


def test_classes_that_come_and_go_cost_the_same_however_many_stay() -> None:
    """Each new class would be compared with all others, and each gone one would stay."""
    cache, snap = make_cache(1000)
    for number in range(1000):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))

    class Counted(set[int]):
        looked_at = 0

        def __contains__(self, number: object) -> bool:
            Counted.looked_at += 1
            return super().__contains__(number)

    snap.classes = Counted(range(1000))
    for number in range(1000, 3000):
        snap.classes.add(number)
        snap.classes.discard(number - 10)
        snap.classes_generation += 1
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
    assert Counted.looked_at < 20 * 2000
    assert len(cache) < 1000 * 9 // 8 + 10


def test_columns_are_hardly_measured_where_there_is_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation of hundreds of new classes would spend its time on that."""
    cache, _ = make_cache(2000)
    monkeypatch.setattr(Columns, "measured", 0)
    for number in range(2000):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
    assert Columns.measured < 100


def test_only_classes_that_were_used_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of all others are as large as they were."""
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 1000)
    cache, _ = make_cache(2000)
    monkeypatch.setattr(Columns, "measured", 0)
    for number in range(2000):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
    assert Columns.measured <= 2000
    cache.drop("default", 1999)
    assert cache.nbytes == 10 * len(cache)


def test_a_class_that_is_used_again_and_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, columns are dropped though there is room for them."""
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 1000)
    cache, _ = make_cache(2000)
    for number in range(20, 500):
        for known in range(20):
            cache.columns_of("default", SimpleNamespace(id=known, family=b""))
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
        cache.drop("default", number)
    assert all(("default", known) in cache for known in range(20))


def test_memory_stays_within_an_eighth_of_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used longest ago are dropped."""
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 1000)
    cache, _ = make_cache(2000)
    for number in range(2000):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
        assert cache.nbytes <= 1000 * 9 / 8 + 10
    assert ("default", 1999) in cache
    assert ("default", 0) not in cache


def test_classes_that_knew_nothing_at_first_count_when_they_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, pods that are each a class of their own take memory without limit when all are tried again."""
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 1000)
    cache, _ = make_cache(2000)
    known = [SimpleNamespace(id=number, family=b"") for number in range(2000)]
    cache.columns_of("default", known[0])
    cache.join_family("default", known[0])
    monkeypatch.setattr(Columns, "nbytes", 0)
    for each in known[1:]:
        cache.columns_of("default", each)
    assert len(cache) == 2000
    monkeypatch.setattr(Columns, "nbytes", 10)
    for each in known:
        cache.columns_of("default", each)
        cache.join_family("default", each)
    assert 10 * len(cache) <= 1000 * 9 / 8 + 10


def test_there_are_no_more_classes_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knows nothing takes memory, too, and time at each change of the classes."""
    monkeypatch.setattr(column_cache, "MAX_CLASSES", 50)
    cache, _ = make_cache(100)
    for number in range(100):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
    assert len(cache) == 50
    assert ("default", 49) not in cache


def test_columns_of_classes_that_are_gone_are_dropped() -> None:
    """They would be held for nothing."""
    cache, snap = make_cache(100)
    for number in range(50):
        cache.columns_of("default", SimpleNamespace(id=number, family=b""))
    snap.classes -= set(range(40))
    snap.classes_generation += 1
    cache.columns_of("default", SimpleNamespace(id=99, family=b""))
    assert len(cache) == 11


def _class(number: int, family: bytes = b"") -> Any:
    return SimpleNamespace(id=number, family=family)


def test_a_class_begins_where_the_one_of_its_family_is_that_joined_last(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, snap = make_cache(0)
    snap.classes = {number: _class(number, b"f") for number in range(4)}
    for number in (0, 1, 2):
        cache.columns_of("default", snap.classes[number])
    assert cache.sibling_of("default", snap.classes[3]) is None
    for number in (0, 1, 0):
        cache.join_family("default", snap.classes[number])
        found = cache.sibling_of("default", snap.classes[3])
        assert found is not None
        assert found[0].id == number
    assert cache.sibling_of("other", snap.classes[3]) is None
    assert cache.sibling_of("default", _class(3, b"g")) is None
    cache.drop("default", 1)
    found = cache.sibling_of("default", snap.classes[3])
    assert found is not None, "another class of it has gone"
    cache.drop("default", 0)
    assert cache.sibling_of("default", snap.classes[3]) is None


def test_the_class_used_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_cache, "MAX_CLASSES", 3)
    cache, _ = make_cache(9)
    for number in (0, 1, 2, 0, 3):
        cache.columns_of("default", _class(number))
    assert [number for number in range(4) if ("default", number) in cache] == [0, 2, 3]


def test_columns_are_of_one_profile_and_of_one_snapshot() -> None:
    cache, snap = make_cache(9)
    one, other = cache.columns_of("one", _class(0)), cache.columns_of("other", _class(0))
    assert one is not other
    assert cache.columns_of("one", _class(0)) is one
    cache.join_family("one", _class(0))
    snap.incarnation = 2
    assert cache.columns_of("one", _class(0)) is not one
    assert len(cache) == 1


def test_another_snapshot_has_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of the families and sizes of the one before."""
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 1000)
    cache, snap = make_cache(0)
    snap.classes = {number: _class(number, b"f") for number in range(100)}
    for number in range(90):
        cache.columns_of("default", snap.classes[number])
        cache.join_family("default", snap.classes[number])
    snap.incarnation = 2
    one = cache.columns_of("default", snap.classes[95])
    assert cache.columns_of("default", snap.classes[95]) is one
    assert cache.sibling_of("default", snap.classes[96]) is None
    for number in range(90):
        cache.columns_of("default", snap.classes[number])
    assert len(cache) == 91, "there is room for so many"


def test_a_class_that_is_gone_is_no_sibling() -> None:
    cache, snap = make_cache(0)
    snap.classes = {number: _class(number, b"f") for number in range(2)}
    cache.columns_of("default", snap.classes[0])
    cache.join_family("default", snap.classes[0])
    gone = snap.classes.pop(0)
    assert cache.sibling_of("default", snap.classes[1]) is None
    cache.drop("default", gone.id)
    cache.drop("default", gone.id)
    assert len(cache) == 0


def test_a_few_classes_are_cached_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 0)
    monkeypatch.setattr(column_cache, "MIN_CLASSES", 3)
    cache, _ = make_cache(20)
    for number in range(20):
        cache.columns_of("default", _class(number))
    # The last one came after the others were measured.
    assert [number for number in range(20) if ("default", number) in cache] == [16, 17, 18, 19]


def test_a_class_that_joins_its_family_again_is_no_other_one() -> None:
    """If this fails, columns are measured for each evaluation."""
    cache, snap = make_cache(0)
    snap.classes = {0: _class(0, b"f")}
    cache.columns_of("default", snap.classes[0])
    cache.join_family("default", snap.classes[0])
    before = Columns.measured
    for _ in range(100):
        cache.join_family("default", snap.classes[0])
    assert Columns.measured == before
