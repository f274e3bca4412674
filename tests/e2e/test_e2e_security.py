"""The four processes on TCP with mutual TLS, as in pods of their own; and anybody else who would call them."""

import asyncio
import pathlib
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc import aio

from tests.e2e import clusters, installation
from tests.e2e.installation import make_certificates, pod
from trireme.v1 import (
    bind_phase_pb2,
    bind_phase_pb2_grpc,
    filter_phase_pb2,
    filter_phase_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
)

pytestmark = pytest.mark.timeout(180)

embedded_only = pytest.mark.parametrize("cluster", ["embedded"], indirect=True)


def _credentials(authority: pathlib.Path, caller: pathlib.Path | None) -> grpc.ChannelCredentials:
    pair = ((caller / "tls.key").read_bytes(), (caller / "tls.crt").read_bytes()) if caller else (None, None)
    return grpc.ssl_channel_credentials((authority / "ca.crt").read_bytes(), *pair)


async def _silence() -> AsyncIterator[snapshot_pb2.SyncRequest]:
    """A stream on which nothing is ever sent."""
    await asyncio.Event().wait()
    yield snapshot_pb2.SyncRequest()


async def _codes(address: str, name: str, credentials: grpc.ChannelCredentials) -> set[grpc.StatusCode]:
    """How the calls end that would do the most harm, of those that are served there."""
    override = (("grpc.ssl_target_name_override", name),)
    codes = set()
    async with aio.secure_channel(address, credentials, options=override) as channel:
        binding, filtering = bind_phase_pb2_grpc.BindPhaseStub(channel), filter_phase_pb2_grpc.FilterPhaseStub(channel)
        syncing = snapshot_pb2_grpc.SnapshotFollowerStub(channel)
        for call in (
            binding.Apply(bind_phase_pb2.ApplyRequest(), timeout=20).read(),
            binding.Fence(bind_phase_pb2.FenceRequest(), timeout=20),
            filtering.Filter(filter_phase_pb2.FilterPhaseFilterRequest(), timeout=20),
            # Who writes into a call that was refused by then hears of that instead.
            syncing.Sync(_silence(), timeout=20).read(),
        ):
            try:
                await call
            except aio.AioRpcError as error:
                codes.add(error.code())
            else:
                codes.add(grpc.StatusCode.OK)
    return codes - {grpc.StatusCode.UNIMPLEMENTED}


@embedded_only
async def test_mutual_tls_between_all_services(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    """Pods are scheduled over mutual TLS, no wrong party is answered, and renewed certificates stop nothing.

    Without this the phases cannot be apart, because bind deletes pods for every caller that it admits.
    """
    async with cluster(nodes=3) as here:
        certificates = here.certificates = make_certificates(tmp_path / "certificates")
        await here.start()
        await here.create_pods(pod(f"p{n}") for n in range(20))
        await here.bound(20)
        await here.check_promises(f"p{n}" for n in range(20))
        others = make_certificates(tmp_path / "others")
        refused, nobody = {grpc.StatusCode.PERMISSION_DENIED}, {grpc.StatusCode.UNAVAILABLE}
        for phase in ("filter", "bind"):
            ours, address, name = certificates / phase, here.socket(phase, 0), f"trireme-{phase}.trireme-system.svc"
            assert await _codes(address, name, _credentials(ours, None)) == nobody, "no certificate"
            assert await _codes(address, name, _credentials(ours, others / "frontend")) == nobody, "another authority"
            assert await _codes(address, name, _credentials(ours, certificates / "score")) == refused, "score calls"
        bind, name = here.socket("bind", 0), "trireme-bind.trireme-system.svc"
        filter_calls = _credentials(certificates / "bind", certificates / "filter")
        assert await _codes(bind, name, filter_calls) == refused, "a filter calls bind"
        # All have new certificates; a replica that starts again has, and is given, the new ones.
        syncs = [here.welcomes(phase, 0) for phase in here.phases]
        make_certificates(certificates)
        await here.create_pods(pod(f"q{n}") for n in range(10))
        await here.bound(30)
        assert [here.welcomes(phase, 0) for phase in here.phases] == syncs
        for phase, replicas in here.phases.items():
            replicas[0].kill()
            replicas[0].start()
            await replicas[0].listening()
            await installation.until(lambda phase=phase: here.welcomes(phase, 0) == 2, 30, lambda: "it is not used")
        await here.create_pods(pod(f"r{n}") for n in range(10))
        await here.bound(40)


@embedded_only
async def test_a_phase_under_another_name_is_not_used(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    """Score at bind's address, with a certificate of the same authority, gets no pod and binds none."""
    async with cluster(nodes=1) as here:
        here.certificates = make_certificates(tmp_path / "certificates")
        for file in ("tls.crt", "tls.key"):
            score, bind = here.certificates / "score" / file, here.certificates / "bind" / file
            bind.write_bytes(score.read_bytes())
        for phase in here.phases:
            here.add_phase(phase).start()
        for replicas in here.phases.values():
            await replicas[0].listening()
        frontend = here.add_frontend()
        frontend.start()
        await here.logged(frontend, "its certificate is not for trireme-bind")
        await installation.until(lambda: here.welcomes("filter", 0), 30, lambda: "filter is not used either")
        assert not here.welcomes("bind", 0)
