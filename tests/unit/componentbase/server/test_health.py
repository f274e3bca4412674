"""What warns without failing, and what the log says about both."""

import pytest

from trireme_kube.componentbase import documents
from trireme_kube.componentbase.server import health

PAGE = f"({documents.NOTHING_IS_SCHEDULED})"
VERBOSE = {"verbose": [""]}


def test_a_warning_is_listed_without_its_reason_and_fails_nothing() -> None:
    """Anybody may read the list; who may read the check's own page learns why."""
    texts = ["the clock is 42 s behind"]
    found = health.Health({"readyz": [health.PING, health.Check("clock", str, quiet=True, warning=lambda: texts[-1])]})
    assert found.report("/readyz", {}) == health.Report(True, "ok")
    listed = found.report("/readyz", VERBOSE)
    assert listed is not None
    assert listed.text == "[+]ping ok\n[+]clock ok, with a warning: reason withheld\nreadyz check passed\n"
    assert found.report("/readyz/clock", {}) == health.Report(True, "ok, but the clock is 42 s behind\n", single=True)
    texts.append("")
    assert found.report("/readyz", VERBOSE) == health.Report(True, "[+]ping ok\nreadyz check passed\n")
    assert found.report("/readyz/clock", {}) == health.Report(True, "ok", single=True)


def test_what_lasts_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a replica that is rolled out is a warning, or a phase that is away is a line every few seconds."""
    caplog.set_level("INFO")
    problems, warnings = {"filter": "", "score": ""}, {"clock": ""}
    checks = [health.Check(name, lambda name=name: problems[name]) for name in problems]  # type: ignore[misc]
    entries = health.HealthLog([*checks, health.Check("clock", str, warning=lambda: warnings["clock"])])

    def logged_at_looks(count: int) -> list[str]:
        caplog.clear()
        for _ in range(count):
            entries.look()
        return caplog.messages

    assert logged_at_looks(2) == []
    problems["score"] = "gone for a moment"
    assert logged_at_looks(1) == []
    problems["score"], problems["filter"], warnings["clock"] = "", "no address", "42 s behind"
    assert logged_at_looks(4) == [f"filter: no address {PAGE}", f"clock: 42 s behind {PAGE}"]
    problems["filter"] = warnings["clock"] = ""
    assert logged_at_looks(2) == ["clock: ok again", "filter: ok again"]
    problems["filter"] = "no address"
    assert logged_at_looks(2) == [f"filter: no address {PAGE}"]


def test_another_reason_is_logged_and_another_number_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, the log has the warning of a Lease and not that the process may lead no more."""
    caplog.set_level("INFO")
    problem, warning = [""], ["the Lease was read 5 s ago"]
    entries = health.HealthLog([health.Check("lease", lambda: problem[0], warning=lambda: warning[0])])
    for text in ("the Lease was read 5 s ago", "the Lease was read 10 s ago", "no (403)", "no (403)"):
        warning[0] = text
        entries.look()
    problem[0] = "no (403)"
    entries.look()
    problem[0] = ""
    entries.look()
    assert caplog.messages == [
        f"lease: the Lease was read 10 s ago {PAGE}",
        f"lease: no (403) {PAGE}",
        f"lease: no (403) {PAGE}",
        f"lease: no (403) {PAGE}",
    ]


def test_a_check_that_raises_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a defect in a text ends a scheduler that works."""

    def fail() -> str:
        raise KeyError("filter")

    entries = health.HealthLog([health.Check("a", fail), health.Check("b", str, warning=fail)])
    for _ in range(3):
        entries.look()
    assert caplog.messages == [f"{name}: the check itself failed: KeyError('filter') {PAGE}" for name in "ab"]
