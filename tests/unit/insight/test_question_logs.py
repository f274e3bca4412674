"""What questions to insight leave in its log."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.phase_calls import Aborted, context
from tests.helpers.simulated_insight import SimulatedInsight, manifest, stored
from trireme.insight.simulations import simulator
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, simulation_pb2
from trireme_kube.componentbase.logs import klog

WITHOUT_CLAIM: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]}


@pytest.fixture(name="written")
def _written() -> Iterator[io.StringIO]:
    """All that is logged at the highest verbosity; the logging of the test run comes back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:
        root.removeHandler(handler)
    stream = io.StringIO()
    klog.setup(klog.LogOptions(verbosity=10, packages=("trireme",)), stream, stream)
    yield stream
    klog.setup(klog.LogOptions(packages=("trireme",)))
    for handler in [*root.handlers]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("trireme").setLevel(logging.NOTSET)


async def _insight() -> SimulatedInsight:
    """One pod in the queue lacks its claim, one needs more than there is, and one preempts."""
    insight = await SimulatedInsight(n0="2").start()
    insight.builder.add_class(1, stored(**WITHOUT_CLAIM))
    insight.builder.add_class(2, stored(cpu="9"))
    insight.builder.add_class(3, stored(cpu="2", priority=5))
    insight.builder.add_class(4, stored(cpu="1"))
    insight.builder.place(4, "n0")
    insight.queue(("claimless", 1), ("large", 2), ("vip", 3))
    return insight


async def _ask_all(insight: SimulatedInsight) -> None:
    """Each kind of question."""
    for name in ("claimless", "large", "vip"):
        pod = cycle_pb2.PodIdentity(namespace="default", name=name)
        asked = insight_pb2.ExplainRequest(pod=pod, scores=True, proposals=True, preemption=True)
        assert (await insight.service.Explain(asked, context())).HasField("preemption")
    absent = cycle_pb2.PodIdentity(namespace="default", name="absent")
    with pytest.raises(Aborted, match="is neither in the queue"):
        await insight.service.Explain(insight_pb2.ExplainRequest(pod=absent), context())
    with pytest.raises(Aborted, match="is on no node"):
        await insight.service.ExplainDecision(decision_explanation_pb2.ExplainDecisionRequest(pod=absent), context())
    answer = await insight.change({"drain": {"nodeNames": ["n0"]}})
    assert len(answer.pending) >= 2
    await insight.ask(singlePods={"manifests": [manifest(**WITHOUT_CLAIM), manifest("big", cpu="9")]})
    await insight.ask(howMany={"manifest": manifest()})
    await insight.ask(compaction={})


async def test_questions_leave_nothing_in_the_log(written: io.StringIO) -> None:
    """Alerts on lines of errors would ring for a reader's click, and lines of attempts tell what never happened."""
    insight = await _insight()
    written.truncate(0)
    await _ask_all(insight)
    assert written.getvalue() == ""


async def test_the_same_work_for_the_scheduler_is_logged(written: io.StringIO) -> None:
    """The log of the frontend would miss what kube-scheduler's has."""
    insight = await _insight()
    made = simulator.Simulator(insight.service.cluster, insight.service._make_simulation_setup)
    await made.simulate(simulation_pb2.SimulateRequest(scenario=simulation_pb2.Scenario()), "a")
    text = written.getvalue()
    assert '"Status after running PostFilter plugins for pod"' in text
    assert "Attempting to schedule pod" in text
