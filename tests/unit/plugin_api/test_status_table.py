"""The table of a class's statuses, which columns refer to by number."""

from trireme.framework import status
from trireme.plugin_api import interfaces


def test_more_statuses_than_a_column_can_number_are_merged() -> None:
    table = interfaces.StatusTable()
    detailed = [
        status.unresolvable("P", "no", reasons=(status.Reason.of("r", {"node": number}),))
        for number in range(interfaces.DETAILED_STATUSES + 50)
    ]
    numbers = [table.intern(entry) for entry in detailed]
    assert len(set(numbers)) == interfaces.DETAILED_STATUSES + 1
    assert table.statuses[numbers[-1] - 1] == status.unresolvable("P", "no")
    for number in range(interfaces.MAX_STATUSES):
        index = table.intern(status.unschedulable("Q", f"text {number}"))
        assert table.statuses[index - 1].plugin == "Q"
        assert index <= interfaces.MAX_STATUSES
    assert [table.intern(entry) for entry in detailed] == numbers


def test_a_status_beyond_those_that_can_be_numbered_keeps_its_plugin_and_code() -> None:
    """An error became a refusal, so that other nodes were taken, or a refusal an error, so that none was."""
    table = interfaces.StatusTable()
    for number in range(interfaces.MAX_STATUSES):
        table.intern(status.unschedulable("P", f"text {number}"))
    table.intern(status.error("P", "broken"))
    for entry in (
        status.unschedulable("Q", "no"),
        status.unresolvable("P", "no"),
        status.error("Q", "broken"),
        status.error("Q", "broken in another way"),
    ):
        index = table.intern(entry)
        known = table.statuses[index - 1]
        assert (known.code, known.plugin) == (entry.code, entry.plugin)
    assert len(table.statuses) == interfaces.MAX_STATUSES + 4
