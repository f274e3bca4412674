"""The statistics of remote plugins as messages."""

import pytest

from trireme.remote import comparison_counts, plugin_statistics, remote_connection

_NONE = remote_connection.ConnectionStatistics({}, 5, 2, 3, 0, 0, "down")


@pytest.mark.parametrize(
    ("age", "expected"), [(None, None), (0.0, 0), (1.2345, 1234), (-1.0, 0)], ids=["never", "now", "before", "clocks"]
)
def test_a_call_that_was_not_made_has_failed_and_the_last_error_has_an_age(
    age: float | None, expected: int | None
) -> None:
    statistics = remote_connection.ConnectionStatistics({}, 5, 2, 3, 0, 0, "down", last_error_age=age)
    message = plugin_statistics.to_message("Far", statistics)
    assert (message.plugin, message.answered, message.failed, message.last_error) == ("Far", 5, 5, "down")
    assert message.HasField("last_error_age_ms") is (expected is not None)
    assert message.last_error_age_ms == (expected or 0)


def test_comparisons_are_those_of_plugins_in_shadow() -> None:
    counts = comparison_counts.ComparisonCounts(compared=1, differed=2, failed=3, skipped=4, refused_nodes=5)
    shadow = remote_connection.ConnectionStatistics({}, 0, 0, 0, 0, 0, "", comparisons=counts)
    response = plugin_statistics.to_response({"Far": shadow, "Near": _NONE})
    found = [
        (
            each.plugin,
            each.shadow_compared,
            each.shadow_differed,
            each.shadow_failed,
            each.shadow_skipped,
            each.shadow_refused_nodes,
        )
        for each in response.plugins
    ]
    assert found == [("Far", 1, 2, 3, 4, 5), ("Near", 0, 0, 0, 0, 0)]
