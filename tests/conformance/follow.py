"""What another version of Kubernetes changes: `make follow VERSION=v1.38.0`.

It builds that version's scheduler, asks it the golden cases anew, and prints which answers are not the recorded ones,
by plugin, and what of all that can be set or measured (`surface` in oracle/surface.go) is new, gone or changed. It
builds the control plane too, for `make test-versions` and `make sig-scheduling`, or says why that cannot be built.

Following a patch release takes an hour, a minor one days: what is printed is what is left to do.
"""

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance import golden_rows, real_framework
from tools.controlplane import build_controlplane

RUNS = 4
# With all of them, so that the metrics of each are registered.
_GATES = "AllAlpha=true,AllBeta=true"


def surface_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """A line for each name of any part that is new, gone or changed."""
    for part in before:
        old, new = before[part], after[part]
        for name in sorted({*old, *new}):
            if name not in old:
                yield f"{part}: {name} is new: {new[name]}"
            elif name not in new:
                yield f"{part}: {name} is gone"
            elif old[name] != new[name]:
                yield f"{part}: {name} was {old[name]}, is {new[name]}"


def changed_parts(recorded: Mapping[str, Any], answered: Mapping[str, Any]) -> Iterator[str]:
    """The fields of an answer, or the plugins in it, that are not as recorded."""
    for field in sorted({*recorded, *answered}):
        old, new = _comparable(recorded.get(field)), _comparable(answered.get(field))
        if old == new:
            continue
        if field == "byPlugin":
            yield from (f"byPlugin {name}" for name in sorted({*(old or {}), *(new or {})}) if _differ(old, new, name))
        elif field == "scores":
            nodes = [node for node in {*(old or {}), *(new or {})} if _differ(old, new, node)]
            plugins = {name for node in nodes for side in (old, new) for name in (side or {}).get(node, {})}
            for name in sorted(plugins):
                if any(_differ((old or {}).get(node), (new or {}).get(node), name) for node in nodes):
                    yield f"scores {name}"
        else:
            yield field


def _comparable(answer: Any, field: str = "") -> Any:
    """An answer in a form that can be compared: the order of reasons is a Go map's."""
    if isinstance(answer, dict):
        return {key: _comparable(value, key) for key, value in answer.items()}
    return sorted(answer) if field == "reasons" else answer


def _differ(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, name: str) -> bool:
    return (old or {}).get(name) != (new or {}).get(name)


def surface(binary: Path) -> dict[str, Any]:
    """What an administrator can set of the program's kube-scheduler, and measure of it, by part and name."""
    command = [str(binary), "-surface", "-feature-gates", _GATES]
    done = subprocess.run(command, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _print_changed_answers(binary: Path) -> None:
    """Ask all golden rows; rows about gates that the version lacks count as failed."""
    for path in (golden_rows.DECISIONS, golden_rows.GATES, golden_rows.HINTS):
        rows = [row for row in golden_rows.read(path) if "event" in row["case"] or "plugin" not in row["case"]]
        with real_framework.Oracle(RUNS, binary=binary) as oracle:
            answers = oracle.ask(rows)
        counts: Counter[str] = Counter()
        names: dict[str, str] = {}
        for row, answer in zip(rows, answers, strict=True):
            left_out = {text.partition(".")[0] for text in answer.get("varies") or ()}
            expect = {key: value for key, value in row["expect"].items() if key not in left_out}
            said = {key: value for key, value in (answer.get("expect") or {}).items() if key in expect}
            parts = ["failed"] if "error" in answer else list(changed_parts(expect, said))
            counts.update(parts)
            names.update((part, row["name"]) for part in parts if part not in names)
        print(f"{path.name}: {len(rows)} rows")
        for part, count in sorted(counts.items()):
            print(f"  {part}: {count} changed, such as {names[part]}")


def main() -> int:
    """Build the version, and print what it changes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("version", help="such as v1.38.0")
    version = parser.parse_args().version
    try:
        binary = real_framework.build_version(version)
    except real_framework.OracleError as error:
        what = "change tests/conformance/oracle first, if it is newer; an older version cannot be followed"
        raise SystemExit(f"{error}\nThe oracle is written for {real_framework.reference()}: {what}.") from None
    print(f"from {real_framework.reference()} to {version}:")
    for line in surface_changes(surface(real_framework.build()), surface(binary)):
        print(f"  {line}")
    _print_changed_answers(binary)
    try:
        plane = build_controlplane.build_version(version)
        print(f"control plane: {plane.relative_to(build_controlplane.REPOSITORY)}")
    except SystemExit as error:
        print(f"control plane: not built: {error}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
