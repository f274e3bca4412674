"""Named checks, and the documents that /healthz, /livez and /readyz make of them.

A check answers nothing, or what is wrong. The list says only the names of those that fail, because anybody may read it;
why is in the log and at the check's own path. Checks that kube-scheduler does not have are quiet: they are listed where
they fail, so that a list without faults reads as kube-scheduler's.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trireme_kube.componentbase import instruments, klog

log = logging.getLogger(__name__)

_SUCCESS, _ERROR = "success", "error"


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `problem` answers why it fails, or empty text."""

    name: str
    problem: Callable[[], str]
    #: Listed only where it fails.
    quiet: bool = False
    #: What `?verbose` adds behind `ok`; empty: nothing.
    note: Callable[[], str] = lambda: ""


PING = Check("ping", lambda: "")


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to a question about health."""

    healthy: bool
    text: str
    #: Whether the answer is about one check.
    single: bool = False


class Health:
    """The checks of one process, by the path that lists them."""

    def __init__(
        self, checks: Mapping[str, Sequence[Check]], notes: Mapping[str, Callable[[], Sequence[str]]] | None = None
    ) -> None:
        """`checks` by path without its slash: `healthz`, `livez`, `readyz`. `notes` are further lines of a path with
        `?verbose`; they do not decide about health.
        """
        self._notes = notes or {}
        self._checks = {path: tuple(listed) for path, listed in checks.items()}
        self._results: Counter[tuple[str, str, str]] = Counter()
        self._last: dict[tuple[str, str], int] = {}

    def paths(self) -> list[str]:
        """The paths that are answered, without those of single checks."""
        return [f"/{path}" for path in self._checks]

    def report(self, path: str, query: Mapping[str, Sequence[str]]) -> Report | None:
        """The answer at a path, None where there is none."""
        name, _, single = path.removeprefix("/").partition("/")
        checks = self._checks.get(name)
        if checks is None:
            return None
        if path == f"/{name}":
            return self._all(name, checks, query)
        for check in checks:
            if check.name == single:
                problem = check.problem()
                return Report(not problem, f"internal server error: {problem}\n" if problem else "ok", single=True)
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

    def _all(self, name: str, checks: Sequence[Check], query: Mapping[str, Sequence[str]]) -> Report:
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
