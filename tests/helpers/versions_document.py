"""The end of docs/kubernetes-versions.md: the end-to-end tests on several versions, and what came of them.

`make docs` writes it from the results of `make test-versions`, and a test compares.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.controlplane import versions_run

DOCUMENT = Path(__file__).parents[2] / "docs/kubernetes-versions.md"
_MARK = "<!-- From here on written by `make docs`, from what `make test-versions` found. -->"
_HEAD = """
## Control planes

The end-to-end tests of Trireme on the real control plane (`tests/e2e`), with the
API server, the controllers and etcd of each version. Without an API what needs it
is off; `trireme status` and a line of the log at the start name it. APIs that are
served later are found within minutes.

Supported are API servers from the oldest version here to one minor version newer than
the one that Trireme decides as. Of another version `/readyz` warns
(`api-server-version`), with a line in the log; pods are scheduled as far as the server
has the APIs. An API that Trireme cannot do without is waited for: `sched-handler-sync`
fails, and names it.

| version | passed | failed | skipped | APIs that Trireme reads and the version lacks | files not run |
| --- | --- | --- | --- | --- | --- |
"""

Json = Mapping[str, Any]


def write() -> str:
    """The document's text: what is written by hand, and what follows from the results."""
    by_hand, _, _ = DOCUMENT.read_text().partition(_MARK)
    results = json.loads(versions_run.RESULTS.read_text())
    return by_hand + _MARK + "\n" + table(results)


def table(results: Mapping[str, Json]) -> str:
    """A row for each version, and below why tests were skipped, failed or were not run."""
    return _HEAD + "".join(_row(name, results[name]) for name in sorted(results)) + "".join(_notes(results))


def _row(version: str, result: Json) -> str:
    files = result["files"].values()
    counts = [sum(each["passed"] for each in files), sum(len(each["failed"]) for each in files), _skips(result).total()]
    absent = ", ".join(f"`{api}`" for api in result["absent"]) or "none"
    return f"| {version} | {' | '.join(map(str, counts))} | {absent} | {len(result['not run']) or 'none'} |\n"


def _skips(result: Json) -> Counter[str]:
    skips: Counter[str] = Counter()
    for each in result["files"].values():
        skips.update(each["skipped"])
    return skips


def _notes(results: Mapping[str, Json]) -> Iterator[str]:
    skipped = [
        f"- {version}, {count} tests: {reason}\n"
        for version in sorted(results)
        for reason, count in sorted(_skips(results[version]).items())
    ]
    failed = [
        f"- {version}: `{name}` of `tests/e2e/{file}`\n"
        for version in sorted(results)
        for file, each in sorted(results[version]["files"].items())
        for name in each["failed"]
    ]
    absent = [
        f"- {version}: {', '.join(f'`tests/e2e/{file}`' for file in results[version]['not run'])}\n"
        for version in sorted(results)
        if results[version]["not run"]
    ]
    for title, lines in (("Skipped", skipped), ("Failed", failed), ("Not run", absent)):
        if lines:
            yield f"\n{title}:\n\n{''.join(lines)}"


if __name__ == "__main__":
    DOCUMENT.write_text(write())
