"""Epochs only grow, and a tenure that is over stays over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.rpc.fencing import EpochGuard, Refusal, RefusalReason, SchedulerEpochs, Tenure


@given(st.lists(st.integers(min_value=1, max_value=6), max_size=20))
def test_the_epoch_in_force_is_the_highest_seen(epochs: list[int]) -> None:
    """A caller with a lower epoch than any seen before is refused, and changes nothing."""
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
    timed = Tenure(guard, lambda: now, guard.leader, 12.0)
    unlimited = Tenure(guard, lambda: now, guard.leader, float("inf"))
    assert timed.active
    assert unlimited.active
    now = 12.0
    assert (timed.active, unlimited.active) == (False, True)
    guard.admit(4)
    assert not unlimited.active
    assert "epoch 4" in unlimited.ended_because


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(min_value=1, max_value=6)), max_size=30))
def test_epochs_of_each_scheduler_only_grow(calls: list[tuple[str, int]]) -> None:
    guard, epochs = EpochGuard(), SchedulerEpochs()
    highest: dict[str, int] = {}
    current = ""
    for scheduler, epoch in calls:
        before = highest.get(scheduler, 0)
        # A plugin compares the epochs of one scheduler; a phase works for one scheduler at a time.
        if epoch < before:
            with pytest.raises(Refusal):
                epochs.admit(epoch, scheduler)
        else:
            epochs.admit(epoch, scheduler)
        if epoch < before or (epoch == before and scheduler != current):
            with pytest.raises(Refusal) as caught:
                guard.admit(epoch, scheduler)
            assert caught.value.reason is RefusalReason.STALE_EPOCH
        else:
            is_new = (scheduler, epoch) != (current, before)
            assert guard.admit(epoch, scheduler) is is_new
            current, highest[scheduler] = scheduler, epoch
        assert not current or guard.leader == (current, highest[current])
        highest[scheduler] = max(epoch, before)


def test_another_scheduler_resets_the_fence_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    """A replica that outlives a cluster follows the next one, and logs why."""
    caplog.set_level("INFO")
    guard = EpochGuard()
    guard.admit(1000, "old")
    assert not caplog.records
    assert guard.admit(5, "new")
    assert caplog.messages == [
        "scheduler 'new', epoch 5, replaces scheduler 'old', epoch 1000: epochs of another scheduler are not compared"
    ]
    with pytest.raises(Refusal, match="scheduler 'new' has replaced scheduler 'old'"):
        guard.admit(1000, "old")
    assert guard.admit(1001, "old")
    assert len(caplog.messages) == 2


def test_a_stale_epoch_error_explains_restored_backups() -> None:
    hint = "; restart this process if the cluster was restored from a backup"
    guard, epochs = EpochGuard(), SchedulerEpochs()
    for admit in (guard.admit, epochs.admit):
        admit(9000, "lease")
        with pytest.raises(Refusal) as caught:
            admit(8500, "lease")
        assert str(caught.value) == f"epoch 8500 is over: a leader of epoch 9000 has been seen{hint}"
        assert caught.value.reason is RefusalReason.STALE_EPOCH
    # The backup may also be of a time before the Lease was deleted and made anew.
    guard.admit(9500, "lease-2")
    with pytest.raises(Refusal) as caught:
        guard.admit(8600, "lease")
    seen = "a leader of epoch 9000 has been seen, and scheduler 'lease-2' has replaced scheduler 'lease'"
    assert str(caught.value) == f"epoch 8600 is over: {seen}{hint}"


def test_a_tenure_ends_with_another_scheduler() -> None:
    guard = EpochGuard()
    guard.admit(9, "old")
    tenure = Tenure(guard, lambda: 0.0, guard.leader, 1.0)
    assert tenure.active
    guard.admit(3, "new")
    assert not tenure.active


def test_a_plugin_is_called_by_several_schedulers_side_by_side(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    epochs = SchedulerEpochs()
    for _ in range(3):
        epochs.admit(1000, "one")
        epochs.admit(5, "two")
        epochs.admit(0, "one")  # names no leader
    assert caplog.messages == [
        "called by scheduler 'one' with epoch 1000",
        "called by scheduler 'two' with epoch 5, beside other schedulers (1)",
    ]


def test_the_number_of_known_schedulers_is_bounded() -> None:
    guard, epochs = EpochGuard(), SchedulerEpochs()
    for number in range(1000):
        guard.admit(number + 1, f"s{number}")
        epochs.admit(number + 1, f"s{number}")
    with pytest.raises(Refusal):
        guard.admit(998, "s997")
    with pytest.raises(Refusal):
        epochs.admit(900, "s999")
    assert guard.admit(1, "s1")
    epochs.admit(1, "s1")
