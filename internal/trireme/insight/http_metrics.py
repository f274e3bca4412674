"""Metrics of insight's HTTP requests: how many by page and code, and how long they took.

Tests: tests/security/test_insight_http.py.
"""

from collections.abc import Sequence

from trireme_kube.componentbase.metrics.instruments import Counter, Histogram, Instrument, exponential

NO_PAGE = "none"
"""The page of a request that is for no page."""
CONSOLE = "console"
"""The page of all requests for the console's views and files."""
SIMULATIONS = "simulations"
"""The page of requests for simulations."""
RECORDED = "recorded"
"""The page of requests for what was recorded."""


class HttpMetrics:
    """The instruments of one replica; nothing is counted where no HTTP is served."""

    def __init__(self) -> None:
        self._requests = Counter(
            "trireme_insight_http_requests_total",
            "HTTP requests answered, by page (none: there is no such page) and code.",
            ("page", "code"),
        )
        self._seconds = Histogram(
            "trireme_insight_http_request_duration_seconds",
            "Time until an HTTP request was answered, reviews of its caller included, by page.",
            exponential(0.001, 2, 15),
            ("page",),
        )

    def record(self, page: str, code: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.add((page, str(code)))
        self._seconds.observe(seconds, (page,))

    def instruments(self) -> Sequence[Instrument]:
        """All of them."""
        return self._requests, self._seconds
