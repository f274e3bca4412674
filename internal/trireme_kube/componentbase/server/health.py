"""Named checks, and the documents that /healthz, /livez and /readyz make of them.

A check returns its problem, or empty text. The list has only the names of those that fail, because anybody may read it;
the reason is in the log and at the check's own path. Checks that kube-scheduler does not have are quiet: they are
listed only if they fail or warn, so that a list without failures equals kube-scheduler's.

Also change: internal/trireme/config/serving_flags.py,
internal/trireme/frontend/serving/serving_site.py (the health paths).

Tests: tests/contract/test_serving_http.py, tests/unit/componentbase/server/test_health.py.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trireme_kube.componentbase import documents
from trireme_kube.componentbase.logs import failure_log, klog
from trireme_kube.componentbase.metrics import instruments

log = logging.getLogger(__name__)

_SUCCESS, _ERROR = "success", "error"

# How often `HealthLog` looks at the checks; what it finds twice in a row is logged, so that a start or rollout is not.
LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `problem` returns why it fails, or empty text."""

    name: str
    problem: Callable[[], str]
    #: Listed only if it fails.
    quiet: bool = False
    #: Text that `?verbose` adds after `ok`; empty: nothing.
    note: Callable[[], str] = lambda: ""
    #: What is wrong though the process goes on; empty: nothing. The list says that there is a warning, and no more.
    warning: Callable[[], str] = lambda: ""


PING = Check("ping", lambda: "")


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a health request."""

    healthy: bool
    text: str
    #: Whether the outcome is about one check.
    single: bool = False


class HealthLog:
    """Logs why checks fail or warn, without anybody asking.

    There is a line when it begins, one for each other reason, and one when it is over.
    """

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._found: set[str] = set()
        self._logged: dict[str, failure_log.FailureLog] = {}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Log what was wrong at the last look too, and what is right again."""
        found = {check.name: found for check in self._checks if (found := _state_of(check))[1]}
        for name, (kind, why) in found.items():
            if name in self._found:
                failures = self._logged.setdefault(name, failure_log.FailureLog(log))
                failures.log_failure(kind, documents.with_page(f"{name}: {why}", documents.NOTHING_IS_SCHEDULED))
        for name in sorted(self._logged.keys() - found.keys()):
            del self._logged[name]
            log.info("%s: ok again", name)
        self._found = set(found)


def _state_of(check: Check) -> tuple[str, str]:
    """Whether the check fails or warns, and why; a check that raises must not end the process."""
    try:
        if problem := check.problem():
            return "fails", problem
        return "warns", check.warning()
    except Exception as error:
        return "raises", f"the check itself failed: {error!r}"


class Health:
    """The checks of one process, by the path that lists them."""

    def __init__(
        self, checks: Mapping[str, Sequence[Check]], notes: Mapping[str, Callable[[], Sequence[str]]] | None = None
    ) -> None:
        """`checks` by path without its slash: `healthz`, `livez`, `readyz`.

        `notes` are further lines of a path with `?verbose`; they do not affect health.
        """
        self._notes = notes or {}
        self._checks = {path: tuple(entries) for path, entries in checks.items()}
        self._results: Counter[tuple[str, str, str]] = Counter()
        self._last: dict[tuple[str, str], int] = {}

    def paths(self) -> list[str]:
        """The paths, without those of single checks."""
        return [f"/{path}" for path in self._checks]

    def report(self, path: str, query: Mapping[str, Sequence[str]]) -> Report | None:
        """The report at a path, None if there is none."""
        name, _, single = path.removeprefix("/").partition("/")
        checks = self._checks.get(name)
        if checks is None:
            return None
        if path == f"/{name}":
            return self._report_of_all(name, checks, query)
        for check in checks:
            if check.name == single:
                if problem := check.problem():
                    return Report(False, f"internal server error: {problem}\n", single=True)
                warning = check.warning()
                return Report(True, f"ok, but {warning}\n" if warning else "ok", single=True)
        return None

    def instruments(self) -> list[instruments.Instrument]:
        """kubernetes_healthcheck(s) for /metrics/slis."""
        return [
            instruments.Gauge(
                "kubernetes_healthcheck",
                "This metric records the result of a single healthcheck.",
                lambda: dict(self._last),
                ("name", "type"),
                instruments.STABLE,
            ),
            instruments.CountedElsewhere(
                "kubernetes_healthchecks_total",
                "This metric records the results of all healthcheck.",
                lambda: dict(self._results),
                ("name", "type", "status"),
                instruments.STABLE,
            ),
        ]

    def _report_of_all(self, name: str, checks: Sequence[Check], query: Mapping[str, Sequence[str]]) -> Report:
        """Run all checks that the query does not exclude, and count and log their results."""
        excluded = set(query.get("exclude", ()))
        unknown = excluded - {check.name for check in checks}
        lines = []
        failed = []
        for check in checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok\n")
                continue
            problem = check.problem()
            self._results[check.name, name, _ERROR if problem else _SUCCESS] += 1
            self._last[check.name, name] = 0 if problem else 1
            if problem:
                lines.append(f"[-]{check.name} failed: reason withheld\n")
                failed.append((check.name, problem))
            elif check.warning():
                lines.append(f"[+]{check.name} ok, with a warning: reason withheld\n")
            elif not check.quiet:
                note = check.note()
                lines.append(f"[+]{check.name} ok{f': {note}' if note else ''}\n")
        if unknown:
            quoted = ", ".join(f'"{entry}"' for entry in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if name in self._notes and "verbose" in query:
            lines += [f"{note}\n" for note in self._notes[name]()]
        if failed:
            klog.info(log, 2, f"{name} check failed", **{check.replace("-", "_"): why for check, why in failed})
            return Report(False, f"{''.join(lines)}{name} check failed\n")
        if "verbose" not in query:
            return Report(True, "ok")
        return Report(True, f"{''.join(lines)}{name} check passed\n")
