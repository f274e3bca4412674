"""Runs `trireme replay`: what is replayed, and what is printed of it.

Also change: docs/recording.md.
Also change: internal/trireme/recording/verification.py (what a torn file is).

Tests: tests/unit/cli/test_replay_command.py.
"""

import argparse
import asyncio
import json
import sys
from typing import TypedDict

from trireme.cli import replay_configuration
from trireme.recording import decision_numbers, segment_reader
from trireme.replay import decision_replay
from trireme_kube.apimachinery import configuration_files, timestamps

# How many nodes or lines of an outcome are shown as text.
_SHOWN_LINES = 20


class DifferenceReport(TypedDict):
    """A decision that is another one now; the outcomes are lines of text."""

    decision: int
    time: str
    generation: int
    profile: str
    call: str
    pods: str
    recorded: list[str]
    replayed: list[str]


class ReplayReport(TypedDict):
    """What `-o json` prints: decisions that are the same, that differ, and that were not made again, by the reason."""

    same: int
    different: int
    placedPods: int
    inexact: int
    remote: int
    incomplete: int
    missing: int
    gaps: int
    uncountedGaps: int
    bindings: int
    calls: dict[str, int]
    differences: list[DifferenceReport]


def run(options: argparse.Namespace) -> int:
    """Replay a recording. Returns the exit code: 1 if a decision differs, or the recording cannot be read."""
    try:
        counts, differences = asyncio.run(_replay(options))
    except OSError as error:
        print(f"Error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except configuration_files.ConfigurationError as error:
        print(f"Error: --config: {options.config}: {error}", file=sys.stderr)
        return 1
    except segment_reader.RecordingError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"Error: {options.file}: {error}", file=sys.stderr)
        return 1
    if options.output == "json":
        print(json.dumps(_report(counts, differences), ensure_ascii=False, indent=2))
    else:
        print(_counts_text(counts))
    return 1 if differences else 0


async def _replay(
    options: argparse.Namespace,
) -> tuple[decision_replay.ReplayCounts, list[DifferenceReport]]:
    """Replay the file; prints each difference as it is found, unless all is to be JSON.

    Raises: OSError, RecordingError, ValueError.
    """
    differences: list[DifferenceReport] = []
    with options.file.open("rb") as file:
        reader = segment_reader.SegmentReader(file, str(options.file))
        if reader.header is None:
            raise ValueError("the file ends within its header")
        configuration = None
        if options.config is not None:
            configuration = replay_configuration.load(options.config, reader.header.hello.configuration)
        replay = decision_replay.DecisionReplay(reader.header, configuration)
        with reader.errors_located():
            complete = await _compare(replay, reader, differences, options)
        if complete:
            _check_end(reader)
    return replay.counts, differences


async def _compare(
    replay: decision_replay.DecisionReplay,
    reader: segment_reader.SegmentReader,
    differences: list[DifferenceReport],
    options: argparse.Namespace,
) -> bool:
    """Replay all frames, or those up to a difference; whether it was all. Raises: RecordingError, ValueError."""
    async for difference in replay.replay(reader.frames()):
        differences.append(_difference_json(difference))
        if options.output == "text":
            print(_difference_text(difference))
        if not (options.all or options.config):
            return False
    return True


def _check_end(reader: segment_reader.SegmentReader) -> None:
    """Check that the file, which has been read, is whole. Raises: ValueError."""
    if reader.torn_at is not None:
        raise ValueError(f"the file ends within a frame at byte {reader.torn_at}")
    if reader.header is not None and not reader.header.segment and not reader.ended:
        raise ValueError(f"the exported file ends at byte {reader.offset}, and was not copied whole")


def _counts_text(counts: decision_replay.ReplayCounts) -> str:
    """What was replayed, by call, and what could not be, each as a line."""
    lines = [f"{counts.same} decisions are the same, {counts.different} differ; {counts.placed_pods} pods placed"]
    if counts.calls:
        lines.append(f"Calls: {', '.join(f'{call} {number}' for call, number in sorted(counts.calls.items()))}")
    left_out = {
        "the cluster changed meanwhile": counts.inexact,
        "remote plugins took part": counts.remote,
        "what they build on is not recorded": counts.incomplete,
    }
    named = [f"{number} ({why})" for why, number in left_out.items() if number]
    if named:
        lines.append(f"Not decided again: {', '.join(named)}")
    if counts.gaps or counts.missing:
        gaps = "1 gap" if counts.gaps == 1 else f"{counts.gaps} gaps"
        missing = decision_numbers.missing_text(counts.missing, counts.uncounted_gaps)
        lines.append(f"The recording is not complete: {gaps} in which nothing was recorded; decisions: {missing}")
    return "\n".join(lines)


def _report(counts: decision_replay.ReplayCounts, differences: list[DifferenceReport]) -> ReplayReport:
    """What `-o json` prints."""
    return {
        "same": counts.same,
        "different": counts.different,
        "placedPods": counts.placed_pods,
        "inexact": counts.inexact,
        "remote": counts.remote,
        "incomplete": counts.incomplete,
        "missing": counts.missing,
        "gaps": counts.gaps,
        "uncountedGaps": counts.uncounted_gaps,
        "bindings": counts.bindings,
        "calls": counts.calls,
        "differences": differences,
    }


def _difference_json(difference: decision_replay.Difference) -> DifferenceReport:
    """A difference as JSON."""
    return {
        "decision": difference.number,
        "time": timestamps.rfc3339_micros(difference.time_ns),
        "generation": difference.generation,
        "profile": difference.profile,
        "call": difference.call,
        "pods": difference.pods,
        "recorded": list(difference.recorded),
        "replayed": list(difference.replayed),
    }


def _difference_text(difference: decision_replay.Difference) -> str:
    """A difference as lines."""
    head = (
        f"decision {difference.number} at {timestamps.rfc3339_micros(difference.time_ns)} "
        f"(generation {difference.generation}, profile {difference.profile}): {difference.call} of {difference.pods}"
    )
    lines = [head]
    for name, outcome in (("recorded", difference.recorded), ("replayed", difference.replayed)):
        lines.append(f"  {name}:")
        lines += [f"    {line}" for line in outcome[:_SHOWN_LINES]]
        if len(outcome) > _SHOWN_LINES:
            lines.append(f"    and {len(outcome) - _SHOWN_LINES} more")
    return "\n".join(lines)
