"""Repeated events become one series."""

from trireme_kube.client.events import event_series
from trireme_kube.client.events.event_series import ObjectReference, Series, SeriesCache, SeriesKey

POD = event_series.pod_reference("default", "web", "u1", "7")
KEY = SeriesKey("Warning", "Scheduling", "FailedScheduling", "default-scheduler", POD)


def _series(now: float) -> Series:
    return Series("web.1", "default", {"apiVersion": "events.k8s.io/v1"}, now, "t0")


def test_repetitions_are_counted_in_one_series() -> None:
    """If this fails, each attempt of a pod that waits makes a new event."""
    cache = SeriesCache()
    assert cache.count_if_repeated(KEY, 0.0, "t0") is None
    cache.begin(KEY, _series(0.0))
    counts = [
        (series.count, series.last_seen_text)
        for at in (1, 2)
        if (series := cache.count_if_repeated(KEY, float(at), f"t{at}"))
    ]
    assert counts == [(2, "t1"), (3, "t2")]
    assert [series.count for series in cache.repeating()] == [3]


def test_a_changed_pod_begins_a_new_event() -> None:
    """If this fails, the message of a later attempt is lost behind the first one's."""
    cache = SeriesCache()
    cache.begin(KEY, _series(0.0))
    assert cache.count_if_repeated(KEY._replace(regarding=POD._replace(resource_version="8")), 1.0, "t1") is None
    assert cache.count_if_repeated(KEY._replace(reason="Preempted"), 1.0, "t1") is None


def test_an_ended_series_is_written_once_more_and_dropped() -> None:
    """If this fails, memory grows with every pod that ever failed, or a series ends with a wrong count."""
    cache = SeriesCache()
    other = KEY._replace(reason="Preempted")
    cache.begin(KEY, _series(0.0))
    cache.begin(other, _series(0.0))
    cache.count_if_repeated(KEY, 10.0, "t10")
    assert list(cache.drop_finished(event_series.FINISH_SECONDS)) == []
    assert list(cache.drop_finished(event_series.FINISH_SECONDS + 5)) == []  # the single event goes without a write
    assert len(cache) == 1
    assert [series.count for series in cache.drop_finished(event_series.FINISH_SECONDS + 11)] == [2]
    assert len(cache) == 0


def test_the_oldest_series_go_when_there_are_too_many() -> None:
    """If this fails, a cluster with very many failing pods fills the memory."""
    cache = SeriesCache(limit=2)
    keys = [KEY._replace(reason=reason) for reason in "abc"]
    for key in keys:
        cache.begin(key, _series(0.0))
    assert [cache.count_if_repeated(key, 1.0, "t1") is not None for key in keys] == [False, True, True]


def test_a_reference_leaves_out_what_is_empty() -> None:
    """If this fails, events of objects without a namespace differ from kube-scheduler's."""
    assert ObjectReference("Node", "", "n1", "u", "v1", "").as_json() == {
        "kind": "Node",
        "name": "n1",
        "uid": "u",
        "apiVersion": "v1",
    }
