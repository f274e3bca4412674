"""Similar core/v1 events, and too many of them."""

from trireme_kube.client.events.event_correlation import COMBINED, SIMILAR_SECONDS, Correlator
from trireme_kube.client.events.event_series import SeriesKey, pod_reference


def _key(message: str = "m", *, name: str = "p", version: str = "1", reason: str = "Failed") -> SeriesKey:
    return SeriesKey("Warning", "", reason, "scheduler", pod_reference("ns", name, f"uid-{name}", version), message)


def test_from_the_tenth_message_on_events_are_one() -> None:
    """If this fails, a message that counts something makes an event a time."""
    correlator = Correlator()
    told = [correlator.aggregate(_key(f"m{number}", version=str(number)), 0.0) for number in range(12)]
    assert [each.message for each in told[:9]] == [f"m{number}" for number in range(9)]
    assert [each.message for each in told[9:]] == [f"{COMBINED}m{number}" for number in range(9, 12)]
    assert len({each.key for each in told[9:]}) == 1


def test_the_same_message_again_is_the_same_event() -> None:
    """If this fails, an event that only repeats is called a combination, or is counted apart after each change."""
    correlator = Correlator()
    told = {correlator.aggregate(_key(version=str(number)), 0.0) for number in range(50)}
    assert [each.message for each in told] == ["m"]


def test_old_events_are_not_aggregated() -> None:
    """If this fails, a pod's events of yesterday make those of today unreadable."""
    correlator = Correlator()
    for number in range(20):
        correlator.aggregate(_key(f"m{number}"), 0.0)
    assert correlator.aggregate(_key("again"), SIMILAR_SECONDS).message == f"{COMBINED}again"
    assert correlator.aggregate(_key("later"), 2 * SIMILAR_SECONDS + 1).message == "later"


def test_an_object_has_twenty_five_events_and_then_one_in_five_minutes() -> None:
    """If this fails, one pod that fails floods the server, or nothing more is heard of it."""
    correlator = Correlator()
    assert [correlator.is_spam(_key(reason=f"r{n}", version=str(n)), 0.0) for n in range(27)] == [False] * 25 + [
        True
    ] * 2
    assert not correlator.is_spam(_key(name="other"), 0.0)
    assert correlator.is_spam(_key(), 299.0)
    assert not correlator.is_spam(_key(), 301.0)
    assert correlator.is_spam(_key(), 302.0)


def test_the_memory_is_bounded() -> None:
    """If this fails, every object that ever had an event is remembered."""
    correlator = Correlator(limit=2)
    for name in "abc":
        for _ in range(25):
            correlator.is_spam(_key(name=name), 0.0)
    assert correlator.is_spam(_key(name="c"), 0.0)
    assert not correlator.is_spam(_key(name="a"), 0.0)
