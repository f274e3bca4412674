"""SnapshotFollower: plugins that follow the cluster. And TLS, which all services share.

Tests: tests/unit/plugin_verification/test_stream_specifications.py, tests/contract/test_plugin_verification.py.
"""

import grpc
from grpc import aio

from trireme.plugin_api import contract_features
from trireme.plugin_verification import exchanges, followed_cluster, outcomes, rpcs
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.remote import plugin_control, remote_endpoint
from trireme.rpc import dialing

_GROUP = "snapshot stream"


def _followed(session: Session) -> followed_cluster.FollowedCluster:
    """The stream. Raises: NotApplicable: the plugin does not follow the cluster."""
    if session.followed is None:
        raise outcomes.NotApplicable("node_data is not NODE_DATA_SNAPSHOT")
    return session.followed


@specification("P200", _GROUP, Sentence(PROTOCOL, "| any, with `NODE_DATA_SNAPSHOT` | `SnapshotFollower.Sync` |"))
async def the_stream_is_served(session: Session) -> None:
    """A plugin with NODE_DATA_SNAPSHOT serves the stream."""
    failure = _followed(session).failure
    if failure is not None:
        raise outcomes.Violation(f"Sync fails with {failure.code().name}: {failure.details()}")


@specification(
    "P201",
    _GROUP,
    Sentence(
        "SyncResponse.applied_generation",
        "REQUIRED. The generation that the replica has applied; 0 before the full sync is complete.",
    ),
)
async def the_full_sync_is_acknowledged(session: Session) -> None:
    """The plugin acknowledges the full sync."""
    stream = _followed(session)
    if stream.failure is not None:
        raise outcomes.NotChecked("Sync fails")
    if not await stream.is_acknowledged(followed_cluster.FULL_SYNC_GENERATION, session.settings.deadline_seconds):
        raise outcomes.Violation(f"generation {followed_cluster.FULL_SYNC_GENERATION} is not acknowledged in time")


@specification("P202", _GROUP, Sentence("SyncResponse.instance", "REQUIRED. Identifies this run of the replica."))
async def acknowledgements_name_the_instance(session: Session) -> None:
    """Each acknowledgement names the instance, the same each time."""
    names = {each.instance for each in _followed(session).acknowledgements}
    if "" in names or len(names) > 1:
        raise outcomes.Violation(f"SyncResponse.instance is {' and '.join(map(repr, sorted(names)))}")


@specification("P203", _GROUP, Sentence(PROTOCOL, "the replica acknowledges a generation that it was not sent"))
async def no_generation_is_made_up(session: Session) -> None:
    """The plugin acknowledges no generation that it was not sent."""
    stream = _followed(session)
    ahead = [each.applied_generation for each in stream.acknowledgements if each.applied_generation > stream.generation]
    if ahead:
        raise outcomes.Violation(f"generation {ahead[0]} is acknowledged, but {stream.generation} is the last one sent")


@specification("P204", _GROUP, Sentence(PROTOCOL, "the stream does not begin with `Hello` | `INVALID_ARGUMENT`"))
async def a_stream_begins_with_hello(session: Session) -> None:
    """A stream without Hello replaces no other: the calls are answered as before."""
    stream = _followed(session)
    if stream.failure is not None:
        raise outcomes.NotChecked("Sync fails")
    try:
        await plugin_control.serves_snapshot_follower(session.channel, session.settings.deadline_seconds)
    except aio.AioRpcError as error:
        raise outcomes.Violation(f"Sync without Hello fails with {error.code().name}: {error.details()}") from error
    if not await stream.place_pods([0], session.settings.deadline_seconds):
        raise outcomes.Violation("a stream without Hello has ended the one before it")


@specification("P210", "TLS", Sentence(PROTOCOL, "**TLS** is mutual, between the services and towards plugins."))
async def callers_without_a_certificate_are_refused(session: Session) -> None:
    """With TLS a caller without a certificate gets no answer."""
    tls = session.settings.tls
    if tls is None or not tls.cert_file:
        raise outcomes.NotApplicable("the plugin is called without TLS, or without a certificate")
    if session.handshake is None or session.handshake.failure is not None:
        raise outcomes.NotChecked("GetPluginInfo fails, with a certificate too")
    nameless = dialing.TlsSettings(ca_file=tls.ca_file, identities=tls.identities)
    connection = dialing.Dialer(nameless).open(session.settings.address, remote_endpoint.OPTIONS)
    try:
        answer = await plugin_control.get_plugin_info(connection.channel, session.settings.deadline_seconds)
    except aio.AioRpcError as error:
        refused = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
        if error.code() in refused:
            return
        raise outcomes.NotChecked(f"GetPluginInfo fails with {error.code().name}: {error.details()}") from error
    finally:
        await connection.close()
    each = exchanges.Exchange(rpcs.GET_PLUGIN_INFO, contract_features.handshake_request(), answer, None)
    raise outcomes.Violation("a caller without a certificate is answered", each)
