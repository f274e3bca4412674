"""The client-side rate limit lets a burst through and then spaces requests evenly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.client.rest import ratelimit


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    """If this fails, the API server sees more requests than qps and burst allow, or we are slower than allowed."""
    bucket = ratelimit.TokenBucket(qps=10, burst=3)
    assert [bucket.take(100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert bucket.take(100.3) == pytest.approx(0.0)
    assert bucket.take(200.0) == 0.0


def test_a_returned_token_serves_the_next_request() -> None:
    """If this fails, requests that gave up still slow down those that come after."""
    bucket = ratelimit.TokenBucket(qps=1, burst=1)
    assert bucket.take(0.0) == 0.0
    assert bucket.take(0.0) == pytest.approx(1.0)
    bucket.give_back()
    assert bucket.take(0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("qps", [-1.0, 0.0])
def test_without_a_rate_there_is_no_limit(qps: float) -> None:
    """If this fails, qps: -1 in the configuration throttles instead of lifting the limit."""
    bucket = ratelimit.TokenBucket(qps, 1)
    assert [bucket.take(0.0) for _ in range(100)] == [0.0] * 100


@given(st.floats(0.5, 1000), st.integers(1, 50), st.lists(st.floats(0, 2), min_size=1, max_size=60), st.floats(0.1, 5))
def test_no_window_ever_sees_more_than_burst_and_rate(qps: float, burst: int, gaps: list[float], window: float) -> None:
    """If this fails, some pattern of calls gets more through than the bucket holds."""
    bucket, now, granted = ratelimit.TokenBucket(qps, burst), 1000.0, []
    for gap in gaps:
        now += gap
        granted.append(now + bucket.take(now))
    for start in granted:
        inside = sum(start <= time <= start + window for time in granted)
        assert inside <= burst + window * qps + 1 + 1e-6
