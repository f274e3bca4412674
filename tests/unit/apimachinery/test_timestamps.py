"""Times are written as Kubernetes writes them."""

import pytest

from trireme_kube.apimachinery import timestamps


@pytest.mark.parametrize(
    ("nanoseconds", "seconds", "micro"),
    [
        pytest.param(0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z", id="epoch"),
        pytest.param(
            1_767_322_800_000_001_999, "2026-01-02T03:00:00Z", "2026-01-02T03:00:00.000001Z", id="truncated-not-rounded"
        ),
        pytest.param(
            1_767_322_800_999_999_999, "2026-01-02T03:00:00Z", "2026-01-02T03:00:00.999999Z", id="end-of-second"
        ),
    ],
)
def test_the_two_forms_of_a_time(nanoseconds: int, seconds: str, micro: str) -> None:
    """If this fails, the API server refuses our Leases, events and conditions, or shows wrong times."""
    assert timestamps.rfc3339_seconds(nanoseconds) == seconds
    assert timestamps.rfc3339_micros(nanoseconds) == micro
