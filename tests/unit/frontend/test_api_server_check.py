"""What is wrong with the API server has a text that says what to do."""

from typing import Any

import pytest

from trireme.frontend import api_server_check
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiUnreachable

NOON = "Mon, 30 Nov 2026 12:00:00 GMT"
AT_NOON = 1796040000.0


class Api:
    """An API server of a version, which answers at noon by its clock, or not at all."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.answers = True

    async def get(self, path: str, deadline: float) -> client.ApiResponse:
        """As ApiClient.get."""
        if not self.answers:
            raise ApiUnreachable("no answer", sent=True)
        return client.ApiResponse(200, {"Date": NOON}, b'{"gitVersion": "%s"}' % self.version.encode())


def checked(version: str, at: float) -> tuple[api_server_check.ApiServerCheck, Any, list[float]]:
    """A check of such a server; the clock is the list's last time."""
    api: Any = Api(version)
    times = [at]
    return api_server_check.ApiServerCheck(api, lambda: times[-1]), api, times


@pytest.mark.parametrize(
    ("ahead", "text"),
    [(0.0, ""), (6.0, ""), (-5.0, ""), (43.0, "42 s ahead of that of the API server"), (-42.0, "42 s behind that of")],
)
async def test_clocks_that_differ_are_named(ahead: float, text: str) -> None:
    check, _, _ = checked("v1.37.2", AT_NOON + ahead)
    await check.check()
    assert (text in check.clock_problem(), bool(check.clock_problem())) == (True, bool(text))


@pytest.mark.parametrize(
    ("version", "what"),
    [
        ("v1.34.9", "supports 1.35 to 1.39: upgrade the cluster"),
        ("v1.35.0", ""),
        ("v1.39.1", ""),
        ("v1.40.0", "supports 1.35 to 1.39: upgrade Trireme"),
        ("", ""),
    ],
)
async def test_a_version_that_is_not_supported_is_named(version: str, what: str) -> None:
    check, _, _ = checked(version, AT_NOON)
    await check.check()
    problem = check.version_problem()
    assert (what in problem, bool(problem)) == (True, bool(what))
    assert not what or f"version {version}, " in problem


async def test_without_an_answer_the_last_one_counts() -> None:
    check, api, times = checked("v1.34.1", AT_NOON + 60.0)
    assert (check.clock_problem(), check.version_problem(), check.clock_ahead_seconds) == ("", "", None)
    await check.check()
    api.answers = False
    times.append(AT_NOON)
    await check.check()
    assert (check.clock_ahead_seconds, bool(check.clock_problem()), bool(check.version_problem())) == (59.0, True, True)
