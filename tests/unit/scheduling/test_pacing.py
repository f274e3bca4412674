"""When the next batch goes."""

import pytest

from tests.helpers.virtual_time import Clock
from trireme.scheduling import batch_limit, pacing


def _pacer(pods_per_second: float, linger: float = 0.5, max_pods: int = 100) -> tuple[pacing.Pacer, Clock]:
    """A pacer that has seen pods arrive at this rate for two seconds, the last just now."""
    clock = Clock(100.0)
    pacer = pacing.Pacer(clock, linger, batch_limit.BatchLimit(max_pods))
    for _ in range(int(2 * pods_per_second)):
        clock.now += 1 / pods_per_second
        pacer.record_arrivals(1)
    return pacer, clock


@pytest.mark.parametrize(
    ("rate", "waiting", "classes", "oldest", "binding", "waits"),
    [
        pytest.param(400, 1, 1, 0.0, 10, True, id="under-load-a-batch-grows"),
        pytest.param(400, 1, 1, 0.0, 0, False, id="nothing-under-way-so-nobody-else-is-served-meanwhile"),
        pytest.param(20, 1, 1, 0.0, 10, False, id="pods-are-rare"),
        pytest.param(400, batch_limit.GROWTH_TARGET, 1, 0.0, 10, False, id="it-is-as-large-as-wished"),
        pytest.param(400, 1, 1, 0.2, 10, False, id="it-has-waited-for-as-long-as-a-batch-takes-to-come-together"),
        pytest.param(400, 1, 20, 0.2, 10, True, id="of-many-classes-each-takes-longer"),
        pytest.param(400, 1, 20, 0.6, 10, False, id="no-pod-waits-beyond-the-limit"),
    ],
)
def test_a_batch_grows_only_where_that_pays(
    rate: float, waiting: int, classes: int, oldest: float, binding: int, waits: bool
) -> None:
    """If this fails, single pods wait for company that does not come, or a busy scheduler makes a batch of each pod."""
    pacer, _ = _pacer(rate)
    assert (pacer.batch_delay(waiting, classes, oldest, binding) > 0) is waits


def test_a_batch_grows_to_no_more_than_it_may_have() -> None:
    """If this fails, pods wait for others that cannot share their batch."""
    pacer, _ = _pacer(400, max_pods=4)
    assert pacer.batch_delay(3, 1, 0.0, 10) > 0
    assert pacer.batch_delay(4, 1, 0.0, 10) == 0


def test_nothing_is_waited_for_once_the_load_is_over() -> None:
    """If this fails, the last pods of every burst wait in vain."""
    pacer, clock = _pacer(400)
    assert pacer.batch_delay(1, 1, 0.0, 10) > 0
    clock.now += 0.03
    assert pacer.batch_delay(1, 1, 0.0, 10) == 0


def test_the_rate_forgets() -> None:
    """If this fails, one burst has batches linger for minutes."""
    pacer, clock = _pacer(400)
    assert pacer.rate == pytest.approx(400, rel=0.2)
    clock.now += 1
    assert pacer.rate == 0


@pytest.mark.parametrize(("oldest", "delay"), [(0.3, 0.01), (0.495, 0.005), (0.5, 0.0)])
def test_a_batch_is_looked_at_again_soon_and_no_later_than_its_oldest_pod_may_wait(oldest: float, delay: float) -> None:
    pacer, _ = _pacer(400)
    assert pacer.batch_delay(1, 20, oldest, 10) == pytest.approx(delay)


@pytest.mark.parametrize(("rate", "quiet", "waits"), [(400, 0.019, True), (400, 0.021, False), (100, 0.035, True)])
def test_a_load_is_over_after_several_times_the_usual_gap(rate: float, quiet: float, waits: bool) -> None:
    """And not within a few milliseconds, whatever the rate."""
    pacer, clock = _pacer(rate)
    clock.now += quiet
    assert (pacer.batch_delay(1, 20, 0.0, 10) > 0) is waits
