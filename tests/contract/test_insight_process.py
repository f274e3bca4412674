"""The insight process behind the frontend's links: it follows the cluster and the queue, and explains or refuses."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract import certificates, followed_frontend
from tests.contract.contract_services import DEADLINE
from tests.helpers import polling
from trireme.frontend.phase_clients import decision_log, insight_replicas
from trireme.rpc import dialing
from trireme.v1 import (
    cycle_pb2,
    decision_explanation_pb2,
    decision_pb2,
    insight_pb2,
    snapshot_pb2,
    status_pb2,
)

pytestmark = pytest.mark.processes


async def test_it_follows_the_cluster_and_the_queue_and_explains(tmp_path: Path) -> None:
    """The whole way, from the frontend's cache to an answer, and what changes on the way."""
    with followed_frontend.process(f"unix:{tmp_path}/insight.sock") as address:
        frontend = followed_frontend.Frontend(address)
        frontend.add_node("small", "2")
        frontend.add_node("large", "8")
        async with frontend.leading():
            frontend.enqueue("wide", "9")
            response = await frontend.explained("wide")
            (refusal,) = response.refusals
            assert sorted(refusal.nodes) == ["large", "small"]
            assert refusal.status.plugin == "NodeResourcesFit"
            assert refusal.status.code == status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
            assert response.queued_pod.attempts == 2
            assert response.disconnected_ms == 0

            frontend.add_node("huge", "16")
            frontend.publisher.publish()
            response = await frontend.explained("wide", scores=True)
            assert [node.name for node in response.feasible_nodes] == ["huge"]
            assert [plugin.name for plugin in response.score_plugins] == ["NodeResourcesFit"]

            frontend.assume("wide", "9", "huge")
            frontend.publisher.publish()
            gone = snapshot_pb2.QueueDelta(removed_pods=["uid-wide"])
            frontend.insight.publish_queue(gone, frontend.cache.generation)
            response = await frontend.explained("wide")
            assert response.node_name == "huge" or (await frontend.explained("wide")).node_name == "huge"


async def test_it_remembers_decisions_and_explains_them(tmp_path: Path) -> None:
    """Over the stream and back: it asks for decisions though it records nothing, and has them when a pod is bound."""
    with followed_frontend.process(f"unix:{tmp_path}/insight.sock") as address:
        frontend = followed_frontend.Frontend(address)
        frontend.add_node("small", "2")
        frontend.add_node("large", "8")
        log = decision_log.DecisionLog(lambda: frontend.cache.generation)
        frontend.insight.send_decisions(log)
        async with frontend.leading():
            frontend.enqueue("web", "1")
            await polling.until(log.wanted)
            generation, number = frontend.cache.generation, frontend.registry.intern(frontend.base_of("web", "1"), ())
            slot = frontend.cache.slot_of("large")
            for part in ({"filter": decision_pb2.FilterDecision(count=1)}, {"place": _placed(slot)}):
                decision = decision_pb2.Decision(profile=followed_frontend.PROFILE, pod_class=number, **part)
                log.add((followed_frontend.PROFILE, number), generation, decision)
            frontend.assume("web", "1", "large")
            frontend.publisher.publish()
            gone = snapshot_pb2.QueueDelta(removed_pods=["uid-web"])
            frontend.insight.publish_queue(gone, frontend.cache.generation)
            await frontend.explained("web")
            pod = cycle_pb2.PodIdentity(namespace="ns", name="web")
            request = decision_explanation_pb2.ExplainDecisionRequest(pod=pod)
            response = await frontend.insight.explain_decision(request)
            assert (response.node_name, response.generation, response.differs) == ("large", generation, False)
            assert [node.name for node in response.feasible_nodes] == ["large", "small"]
            request.pod.name = "nobody"
            with pytest.raises(insight_replicas.InsightRefusal, match="is on no node"):
                await frontend.insight.explain_decision(request)


def _placed(slot: int) -> decision_pb2.PlaceDecision:
    return decision_pb2.PlaceDecision(count=1, slots=[slot])


async def test_it_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    """The message names the field, and what can be done."""
    with followed_frontend.process(f"unix:{tmp_path}/insight.sock") as address:
        frontend = followed_frontend.Frontend(address)
        frontend.add_node("small", "2")
        async with frontend.leading():
            with pytest.raises(
                insight_replicas.InsightRefusal, match=r"ns/unknown is neither in the queue nor .* check"
            ):
                await frontend.explain("unknown")
            frontend.enqueue("a", "1")
            await frontend.explained("a")
            with pytest.raises(insight_replicas.InsightRefusal, match="nodes: there is no node other"):
                await frontend.explain("a", nodes=["small", "other"])


async def test_victims_of_a_trial_stay_for_it(tmp_path: Path) -> None:
    """What the frontend hides while it tries a group is not gone."""
    with followed_frontend.process(f"unix:{tmp_path}/insight.sock") as address:
        frontend = followed_frontend.Frontend(address)
        frontend.add_node("small", "2")
        frontend.assume("victim", "2", "small")
        async with frontend.leading():
            frontend.enqueue("a", "1")
            assert (await frontend.explained("a")).feasible_count == 0
            frontend.cache.begin_trial()
            frontend.cache.hide_from_replicas(["uid-victim"])
            hidden = frontend.publisher.publish()
            await asyncio.sleep(0.3)
            during = await frontend.explain("a")
            assert during.feasible_count == 0
            assert during.evaluated_generation < hidden
            frontend.cache.show_to_replicas(["uid-victim"])
            frontend.cache.end_trial()
            shown = frontend.publisher.publish()
            response = await frontend.explained("a")
            assert response.feasible_count == 0
            assert response.evaluated_generation == shown
            assert (await frontend.explain("victim")).node_name == "small"


async def test_it_says_how_old_its_state_is_once_the_stream_is_broken(tmp_path: Path) -> None:
    """Before there was a stream it answers UNAVAILABLE; after it broke, with the age of what it knows."""
    with followed_frontend.process(f"unix:{tmp_path}/insight.sock") as address:
        async with aio.insecure_channel(address) as channel:
            call: Any = channel.unary_unary(
                "/trireme.v1.InsightService/Explain",
                request_serializer=insight_pb2.ExplainRequest.SerializeToString,
                response_deserializer=insight_pb2.ExplainResponse.FromString,
            )
            request = insight_pb2.ExplainRequest(pod=cycle_pb2.PodIdentity(namespace="ns", name="a"))
            with pytest.raises(aio.AioRpcError) as caught:
                await call(request, timeout=DEADLINE)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

            frontend = followed_frontend.Frontend(address)
            frontend.add_node("small", "2")
            async with frontend.leading():
                frontend.enqueue("a", "1")
                await frontend.explained("a")
            await asyncio.sleep(0.3)
            response = await call(request, timeout=DEADLINE)
            assert response.feasible_count == 1
            assert 0 < response.disconnected_ms < 60_000


async def test_only_allowed_identities_are_answered(tmp_path: Path) -> None:
    """An explanation names nodes and pods of everybody: who may not read those must not get it here."""
    authority = certificates.Authority()
    certificate, key = authority.issue("insight", "insight").write(tmp_path, "insight")
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    arguments = (
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={tmp_path / 'ca.crt'}",
        "--allowed-identities=frontend",
    )

    def caller(name: str) -> dialing.Dialer:
        files = [str(path) for path in authority.issue(name, name).write(tmp_path, name)]
        return dialing.Dialer(dialing.TlsSettings(str(tmp_path / "ca.crt"), *files, ("insight",)))

    with followed_frontend.process("127.0.0.1:0", *arguments) as address:
        frontend = followed_frontend.Frontend(address, caller("frontend"))
        async with frontend.leading():
            with pytest.raises(insight_replicas.InsightRefusal, match="neither in the queue"):
                await frontend.explain("a")
        stranger = followed_frontend.Frontend(address, caller("stranger"))
        stranger.insight.replicas.set_endpoints([address])
        await polling.until(lambda: "PERMISSION_DENIED" in stranger.insight.replicas.statistics()[0].last_error)
        assert not stranger.insight.replicas.available
        await stranger.insight.replicas.close()
