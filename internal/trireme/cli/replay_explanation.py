"""`trireme replay FILE --at TIME explain POD`: the explanation of the pod at that time.

Tests: tests/unit/cli/test_replay_command.py.
"""

import argparse
import asyncio
import sys

from trireme.cli import display, explain_command
from trireme.insight import recorded_insight, service
from trireme.recording import frame_times, segment_reader
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2
from trireme.wire import json_documents
from trireme_kube.apimachinery import timestamps


def run(options: argparse.Namespace) -> int:
    """Print the explanation as of that time. Returns the exit code."""
    try:
        report = json_documents.document(asyncio.run(_explain_by_recording(options)))
    except OSError as error:
        print(f"Error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except (segment_reader.RecordingError, service.NotAnsweredError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1

    async def found() -> display.Report:
        return report

    shown = argparse.Namespace(output=options.output, watch=False)
    asyncio.run(display.show_report(shown, found, explain_command.render))
    return 0


async def _explain_by_recording(options: argparse.Namespace) -> insight_pb2.ExplainResponse:
    """Replay to the moment and explain. Raises: OSError, RecordingError, NotAnsweredError, ValueError."""
    with options.file.open("rb") as file:
        reader = segment_reader.SegmentReader(file, str(options.file))
        if reader.header is None:
            raise ValueError(f"{options.file}: the file ends within its header")
        times = frame_times.of_file(reader)
        if options.at is not None and options.at < times.begin_ns:
            raise ValueError(f"--at: the recording begins at {timestamps.rfc3339_micros(times.begin_ns)}")
        insight = recorded_insight.RecordedInsight(reader.header)
        file.seek(0)
        again = segment_reader.SegmentReader(file, str(options.file))
        with again.errors_located():
            insight.follow(frame_times.frames_of_file(again, times), options.at)
    gap = None if options.at is None else times.gap_at(options.at)
    namespace, _, name = options.pod.partition("/")
    pod = cycle_pb2.PodIdentity(namespace=namespace, name=name)
    out = await insight.explain(insight_pb2.ExplainRequest(pod=pod, scores=True, preemption=True))
    out.recorded.known_at = timestamps.rfc3339_micros(insight.time_ns)
    out.recorded.at = out.recorded.known_at if options.at is None else timestamps.rfc3339_micros(options.at)
    if gap is not None:
        out.recorded.gap.since = timestamps.rfc3339_micros(gap.from_ns)
        out.recorded.gap.until = timestamps.rfc3339_micros(gap.to_ns)
        out.recorded.gap.reason = gap.reason.value
    if not out.HasField("queued_pod"):
        request = decision_explanation_pb2.ExplainDecisionRequest(pod=pod)
        try:
            out.decision.CopyFrom(await insight.explain_decision(request))
        except service.NotAnsweredError as error:
            out.insight_error = str(error)
    return out
