"""Epochs only grow, and a tenure that is over stays over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.replica.fencing import EpochGuard, Refusal, RefusalReason, Tenure


@given(st.lists(st.integers(min_value=1, max_value=6), max_size=20))
def test_the_epoch_in_force_is_the_highest_seen(epochs: list[int]) -> None:
    """Whoever asks with a lower epoch than any seen before is refused, and changes nothing."""
    guard = EpochGuard()
    highest = refused = 0
    for epoch in epochs:
        if epoch < highest:
            refused += 1
            with pytest.raises(Refusal) as caught:
                guard.admit(epoch)
            assert caught.value.reason is RefusalReason.STALE_EPOCH
            assert not caught.value.transient
        else:
            assert guard.admit(epoch) is (epoch > highest)
            highest = epoch
        assert (guard.epoch, guard.refused) == (highest, refused)


def test_a_tenure_ends_with_its_time_or_its_epoch() -> None:
    """Work may begin until the time is over or a successor is seen, whichever is first."""
    now = 10.0
    guard = EpochGuard()
    guard.admit(3)
    timed = Tenure(guard, lambda: now, 3, 12.0)
    unlimited = Tenure(guard, lambda: now, 3, float("inf"))
    assert timed.active
    assert unlimited.active
    now = 12.0
    assert (timed.active, unlimited.active) == (False, True)
    guard.admit(4)
    assert not unlimited.active
    assert "epoch 4" in unlimited.ended_because
