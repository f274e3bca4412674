"""`trireme replay FILE --at TIME explain POD`: what insight would have said of the pod at that time."""

import argparse
import asyncio
import sys
from typing import Any

from trireme.cli import display, explain_command
from trireme.frontend.serving import decision_report, insight_report
from trireme.insight import recorded_insight
from trireme.recording import frame_times, segment_reader
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, snapshot_pb2
from trireme_kube.apimachinery import timestamps

_STATES = {
    snapshot_pb2.QUEUED_POD_STATE_ACTIVE: "waited for its turn",
    snapshot_pb2.QUEUED_POD_STATE_BACKOFF: "was backing off",
    snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE: "was refused, and waited for an event",
    snapshot_pb2.QUEUED_POD_STATE_GATED: "was held back before the queue",
    snapshot_pb2.QUEUED_POD_STATE_PRE_ENQUEUE_PENDING: (
        "waited for plugins called before the queue (PreEnqueue, QueueSort)"
    ),
    snapshot_pb2.QUEUED_POD_STATE_WAITING_FOR_GROUP: "waited for the rest of its group",
    snapshot_pb2.QUEUED_POD_STATE_GROUP_IN_FLIGHT: "waited for the attempt of its group to end",
    snapshot_pb2.QUEUED_POD_STATE_IN_FLIGHT: "was being tried",
}


def run(options: argparse.Namespace) -> int:
    """Print the explanation as of then. Returns the exit code."""
    try:
        report = asyncio.run(_report(options))
    except OSError as error:
        print(f"Error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except (segment_reader.RecordingError, recorded_insight.NotExplained, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1

    async def found() -> display.Report:
        return report

    shown = argparse.Namespace(output=options.output, watch=False)
    asyncio.run(display.show_report(shown, found, explain_command.render))
    return 0


async def _report(options: argparse.Namespace) -> dict[str, Any]:
    """The explanation, in the form of the frontend's. Raises: OSError, RecordingError, NotExplained, ValueError."""
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
    response = await insight.explain(insight_pb2.ExplainRequest(pod=pod, scores=True, preemption=True))
    when = timestamps.rfc3339_micros(insight.time_ns)
    moment = when if options.at is None else timestamps.rfc3339_micros(options.at)
    report: dict[str, Any] = {"pod": options.pod, "at": when, "moment": moment}
    if gap is not None:
        report["gap"] = {
            "from": timestamps.rfc3339_micros(gap.from_ns),
            "to": timestamps.rfc3339_micros(gap.to_ns),
            "reason": gap.reason.value,
        }
    if response.HasField("queued_pod"):
        state = _STATES.get(response.queued_pod.state, "was in the queue")
        report["summary"] = f"{state} at {when}"
        report["attempts"] = response.queued_pod.attempts
        report["evaluation"] = insight_report.evaluation_json(response)
        return report
    report["summary"] = f"was on node {response.node_name} at {when}"
    request = decision_explanation_pb2.ExplainDecisionRequest(pod=pod)
    try:
        report["decision"] = decision_report.decision_json(await insight.explain_decision(request))
    except recorded_insight.NotExplained as error:
        report["decision"] = {"error": str(error)}
    return report
