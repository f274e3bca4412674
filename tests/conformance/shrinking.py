"""Making a situation small: parts are left out as long as it stays interesting.

Large parts go first (half of the placed pods), small ones last (a label). Candidates are judged in batches, because
the answering side may take several at a time.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.conformance.situation_mutations import KEPT, REQUIRED

Json = Any

# A path into the case, and how many elements from there go (of a list).
Cut = tuple[tuple[str | int, ...], int]

# What only exists as one of some that are known.
_WHOLE = frozenset({"pluginConfig", "fitStrategy", "featureGates"})

# How many candidates are judged at a time.
BATCH = 16


def shrink(case: Json, interesting: Callable[[Sequence[Json]], int | None], rounds: int = 4) -> Json:
    """The smallest case found. `interesting` answers the index of a candidate that still is, if there is one."""
    for _ in range(rounds):
        before = case
        case = _pass(case, interesting)
        if case == before:
            break
    return case


def _pass(case: Json, interesting: Callable[[Sequence[Json]], int | None]) -> Json:
    done = 0
    while True:
        cuts = list(_cuts(case))[done:]
        if not cuts:
            return case
        candidates = [_without(case, cut) for cut in cuts[:BATCH]]
        found = interesting(candidates)
        if found is None:
            done += len(candidates)
        else:
            # What was tried before stays tried: it is still before this in the order, or is gone.
            case, done = candidates[found], done + found


def _cuts(case: Json) -> Iterator[Cut]:
    """What may be left out, the largest first."""
    for name in sorted(case):
        if isinstance(case[name], list):
            size = len(case[name])
            while size > 1:
                for start in range(0, len(case[name]), size):
                    if name != "nodes" or size < len(case[name]):
                        yield (name, start), size
                size //= 2
    for name in sorted(case):
        # Without nodes nothing is decided.
        if isinstance(case[name], list) and (name != "nodes" or len(case[name]) > 1):
            yield from (((name, index), 1) for index in reversed(range(len(case[name]))))
    for name in sorted(case.keys() - _WHOLE):
        yield from _inner(case[name], (name,))


def _inner(value: Json, path: tuple[str | int, ...]) -> Iterator[Cut]:
    if isinstance(value, dict):
        for key in sorted(value):
            if key not in KEPT and key not in REQUIRED:
                yield (*path, key), 1
        for key in sorted(value):
            yield from _inner(value[key], (*path, key))
    elif isinstance(value, list):
        if len(path) > 1:
            # An API server takes no pod without containers.
            least = 1 if path[-1] == "containers" else 0
            yield from (((*path, index), 1) for index in reversed(range(least, len(value))))
        for index, inner in enumerate(value):
            yield from _inner(inner, (*path, index))


def _without(case: Json, cut: Cut) -> Json:
    path, size = cut
    out = copy.deepcopy(case)
    parent = out
    for key in path[:-1]:
        parent = parent[key]
    last = path[-1]
    if isinstance(parent, list):
        assert isinstance(last, int)
        del parent[last : last + size]
    else:
        del parent[last]
    return out
