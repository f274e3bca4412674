"""`trireme plugin verify` finds what is wrong with a plugin, and nothing that is not."""

import pathlib
from collections.abc import Sequence

import grpc
import pytest

from tests.contract import certificates
from tests.contract.broken import broken_followers, broken_plugins, reference_plugin
from trireme.plugin_verification import rpcs, session, verification
from trireme.rpc import dialing
from trireme.v1 import bind_pb2, plugin_pb2, status_pb2

# A plugin that hangs is found after this time.
_DEADLINE_SECONDS = 2.0


async def _verify(plugin: type[reference_plugin.ReferencePlugin], folder: pathlib.Path) -> verification.Verification:
    """The verification of a plugin."""
    async with reference_plugin.serving(plugin, folder) as address:
        deadline = getattr(plugin, "deadline_seconds", _DEADLINE_SECONDS)
        return await verification.verify(session.Settings(address, deadline_seconds=deadline))


def _numbers(results: Sequence[verification.Result]) -> dict[str, str]:
    """The numbers of the results, with what is wrong."""
    return {each.specification.number: each.text for each in results}


async def test_a_plugin_without_fault_conforms(tmp_path: pathlib.Path) -> None:
    """If this fails, an author looks for a mistake that is not there."""
    done = await _verify(reference_plugin.ReferencePlugin, tmp_path)
    assert _numbers(done.violations) == {}
    assert _numbers(done.having(verification.Outcome.NOT_CHECKED)) == {}
    assert len(done.having(verification.Outcome.MET)) > 110


async def test_a_plugin_without_fault_that_follows_the_cluster_conforms(tmp_path: pathlib.Path) -> None:
    """If this fails, the checks of the stream find something in every plugin."""
    done = await _verify(broken_followers.FollowingPlugin, tmp_path)
    assert _numbers(done.violations) == {}
    assert _numbers(done.having(verification.Outcome.NOT_CHECKED)) == {}
    met = {each.specification.number for each in done.having(verification.Outcome.MET)}
    assert {"P081", "P082", "P200", "P201", "P202", "P203", "P204"} <= met


@pytest.mark.parametrize("plugin", broken_plugins.PLUGINS, ids=lambda plugin: plugin.__name__)
async def test_a_broken_plugin_violates_its_specification_alone(
    plugin: type[reference_plugin.ReferencePlugin], tmp_path: pathlib.Path
) -> None:
    """If this fails, an author is not told what is wrong, or is told something else."""
    done = await _verify(plugin, tmp_path)
    assert set(_numbers(done.violations)) == {plugin.violates}, _numbers(done.violations)
    assert not done.conformant


class _NodeByItsPods(broken_followers.FollowingPlugin):
    """Scores a node by its pods, and declares that it depends on the node alone."""

    points = (rpcs.SCORE_POINT,)

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        info.depends_on = plugin_pb2.DEPENDENCY_NODE
        return info


@pytest.mark.parametrize(
    ("plugin", "text", "source"),
    [
        (_NodeByItsPods, "100 before a pod came to it: it declares", "Dependency.DEPENDENCY_NODE"),
        (
            broken_followers.CountsAllPodsAtScore,
            " before a pod came to node verify-1",
            "Dependency.DEPENDENCY_NODE_PODS",
        ),
    ],
)
async def test_the_pods_that_an_answer_may_not_depend_on_are_named(
    plugin: type[reference_plugin.ReferencePlugin], text: str, source: str, tmp_path: pathlib.Path
) -> None:
    """If this fails, an author who declares NODE reads of a pod on another node, and of what NODE_PODS means."""
    (violation,) = (await _verify(plugin, tmp_path)).violations
    assert violation.specification.number == "P082"
    assert text in violation.text
    assert [sentence.source for sentence in violation.sentences] == [source]


class _PreparesFewPods(reference_plugin.ReferencePlugin):
    """PreBind has work for one of the sample pods, and cannot answer about the other."""

    points = (rpcs.PRE_BIND_POINT,)
    works_for = ("pod-1",)

    def PreBindPreFlight(self, request: bind_pb2.PreBindPreFlightRequest) -> bind_pb2.PreBindPreFlightResponse:
        skip = status_pb2.Status(code=status_pb2.CODE_SKIP)
        statuses = [reference_plugin.SUCCESS if item.pod.name in self.works_for else skip for item in request.items]
        return bind_pb2.PreBindPreFlightResponse(statuses=statuses)

    def PreBind(self, request: bind_pb2.PreBindRequest) -> bind_pb2.PreBindResponse:
        response = super().PreBind(request)
        for item, result in zip(request.items, response.results, strict=True):
            if item.pod.name not in self.works_for:
                result.ClearField("wait_for")
        return response


class _PreparesNoPod(_PreparesFewPods):
    works_for = ()


@pytest.mark.parametrize("plugin", [_PreparesFewPods, _PreparesNoPod])
async def test_pre_bind_is_called_for_pods_with_work_alone(
    plugin: type[_PreparesFewPods], tmp_path: pathlib.Path
) -> None:
    """If this fails, a plugin violates a specification by its answer to a call that the scheduler never makes."""
    done = await _verify(plugin, tmp_path)
    assert _numbers(done.violations) == {}
    left_out = {each.specification.number for each in done.having(verification.Outcome.NOT_APPLICABLE)}
    assert ("P154" in left_out) is (not plugin.works_for)


class _ServedWithTls(reference_plugin.ReferencePlugin):
    points = (rpcs.POST_BIND_POINT,)


@pytest.mark.parametrize("mutual", [True, False])
async def test_a_plugin_that_answers_callers_without_a_certificate_violates_tls(
    mutual: bool, tmp_path: pathlib.Path
) -> None:
    """If this fails, an author believes that TLS protects a plugin which everybody may call."""
    authority = certificates.Authority()
    server, client = authority.issue("plugin", "plugin.test"), authority.issue("scheduler")
    credentials = grpc.ssl_server_credentials(
        [(server.key, server.certificate)], root_certificates=authority.certificate, require_client_auth=mutual
    )
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(authority.certificate)
    certificate, key = client.write(tmp_path, "client")
    tls = dialing.TlsSettings(
        ca_file=str(ca_file), cert_file=str(certificate), key_file=str(key), identities=("plugin.test",)
    )
    async with reference_plugin.serving(_ServedWithTls, tmp_path, credentials) as address:
        done = await verification.verify(session.Settings(address, tls=tls, deadline_seconds=10.0))
    assert set(_numbers(done.violations)) == (set() if mutual else {"P210"}), _numbers(done.violations)


def test_enough_specifications_have_a_plugin_that_violates_them() -> None:
    """If this fails, specifications came without a plugin that shows what they find."""
    assert len({plugin.violates for plugin in broken_plugins.PLUGINS}) >= 137
