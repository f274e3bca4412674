"""Mutation tests: each small change of the product's code must fail a test.

    make mutation FOLDER=internal/trireme/queueing       all mutants of a folder or a file
    make mutation FOLDER=... SAMPLE=200 SEED=1           some, and what that says about all
    make mutation-changed BASE=main                      those of functions that differ from another commit's

Mutants that no test can tell from the original are accepted in `survivors.yaml`, with the reason. The run fails for any
other that survives; for a folder as a whole also for entries of that list that hold no more.
"""

import argparse
import math
import os
import pathlib
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence

import pytest
import yaml

from tools.mutation import related_tests
from tools.mutation.mutants import ROOT, Mutant, MutatedFile
from tools.mutation.tried_mutants import TriedMutants

SURVIVORS = pathlib.Path(__file__).parent / "survivors.yaml"
_GENERATED = re.compile(r"internal/trireme(_kube)?/v1/|_pb2")
QUIET = (
    *("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:warnings", "-p", "no:xdist"),
    *("-o", "timeout=0", "--capture=no", "--no-header", "--no-summary", "-m", "not processes and not controlplane"),
)
Key = tuple[str, str, str, str]


def main(argv: Sequence[str] | None = None) -> int:
    """Try the mutants; returns the exit code."""
    chosen = _arguments(argv)
    os.chdir(ROOT)
    lines = _changed_lines(chosen.base) if chosen.base else None
    files = [MutatedFile(path) for path in (sorted(lines) if lines is not None else files_of(chosen.folder))]
    mutants = [each for file in files for each in file.mutants if lines is None or _is_changed(each, lines[each.path])]
    sampled = bool(chosen.sample) and chosen.sample < len(mutants)
    if sampled:
        mutants = random.Random(chosen.seed).sample(mutants, chosen.sample)
    if not mutants:
        print("no function of the product is changed: no mutants")
        return 0
    tests = chosen.tests or related_tests.of({each.path for each in mutants})
    plugin = TriedMutants(files, mutants, chosen.jobs)
    out = os.dup(1)
    code = pytest.main([*QUIET, *tests], plugins=[plugin])
    os.dup2(out, 1)
    if plugin.failed or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print("these tests fail without any mutant:", *plugin.failed, sep="\n", file=sys.stderr)
        return 2
    known = accepted()
    unexplained = _report(plugin, known, sampled=sampled)
    stale = [] if sampled or lines is not None or chosen.tests else _stale(known, plugin, {file.path for file in files})
    for key in stale:
        print(f"found now: remove it from {SURVIVORS.name}\n{_entry(key)}")
    return 1 if unexplained or stale else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--folder", nargs="+", help="folders or files of internal/")
    what.add_argument("--base", help="a commit: only functions that differ from its")
    parser.add_argument("--sample", type=int, default=0, help="try so many, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time")
    parser.add_argument("--tests", nargs="+", help="test files in place of those that belong to the code")
    return parser.parse_args(argv)


def files_of(folders: Sequence[str]) -> list[str]:
    found = {
        str(file.relative_to(ROOT))
        for folder in folders
        for file in ([ROOT / folder] if folder.endswith(".py") else (ROOT / folder).rglob("*.py"))
    }
    return sorted(path for path in found if not _GENERATED.search(path) and "/templates/" not in path)


def _changed_lines(base: str) -> dict[str, list[int]]:
    """The lines of the product's files that differ from a commit's, by file."""
    command = ("git", "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", "internal/*.py")
    out: dict[str, list[int]] = {}
    path = ""
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif found := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(found[1]), int(found[2] or 1)
            # Where lines were only removed, the ones around them are what changed.
            out.setdefault(path, []).extend(range(first, first + count) if count else (first, first + 1))
    return {each: lines for each, lines in out.items() if (ROOT / each).exists() and not _GENERATED.search(each)}


def _is_changed(mutant: Mutant, lines: Collection[int]) -> bool:
    return any(mutant.first_line <= line <= mutant.last_line for line in lines)


def _report(plugin: TriedMutants, known: Collection[Key], *, sampled: bool) -> int:
    """Print the scores and the survivors; returns how many survivors nobody explains."""
    tried = Counter(each.path for each in (*plugin.found, *plugin.survivors, *plugin.not_reached))
    found = Counter(each.path for each in plugin.found)
    explained = [each for each in (*plugin.survivors, *plugin.not_reached) if each.key in known]
    excused = Counter(each.path for each in explained)
    for title, mutants in (("no test notices", plugin.survivors), ("no test gets there", plugin.not_reached)):
        for each in sorted(mutants, key=lambda mutant: (mutant.path, mutant.change.line)):
            if each.key not in known:
                print(f"{title}: {each}")
    for path in sorted(tried):
        print(f"{_score(found[path], tried[path] - excused[path])} {path}")
    left = tried.total() - excused.total()
    print(f"{_score(found.total(), left)} in all" + (f", {len(explained)} accepted" if explained else ""))
    if sampled:
        low, high = interval(found.total(), left)
        print(f"of all mutants it is {low:.1%} to {high:.1%}, at 95% confidence")
    return left - found.total()


def _score(found: int, tried: int) -> str:
    return f"{found / tried if tried else 1:6.1%} ({found} of {tried})"


def interval(found: int, tried: int) -> tuple[float, float]:
    """Wilson's interval of a share, at 95 %."""
    if not tried:
        return 0.0, 1.0
    z, share = 1.96, found / tried
    middle = share + z * z / (2 * tried)
    spread = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    below = 1 + z * z / tried
    return (middle - spread) / below, (middle + spread) / below


def _stale(known: Collection[Key], plugin: TriedMutants, paths: Collection[str]) -> list[Key]:
    alive = {each.key for each in (*plugin.survivors, *plugin.not_reached)}
    return sorted(key for key in known if key[0] in paths and key not in alive)


def accepted() -> dict[Key, str]:
    """The survivors that are accepted, with the reason."""
    return {
        (path, entry["inside"], entry["before"], entry["after"]): group["because"]
        for group in yaml.safe_load(SURVIVORS.read_text()) or ()
        for path, entries in group["survivors"].items()
        for entry in entries
    }


def _entry(key: Key) -> str:
    path, *rest = key
    fields = dict(zip(("inside", "before", "after"), rest, strict=True))
    return f"{path}:\n" + yaml.safe_dump([fields], width=1000, sort_keys=False, allow_unicode=True).rstrip()


if __name__ == "__main__":
    raise SystemExit(main())
