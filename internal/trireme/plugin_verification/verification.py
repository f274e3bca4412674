"""Runs all specifications against one plugin.

Also change: internal/trireme/cli/plugin_command.py,
internal/trireme/plugin_verification/reports.py (the report's JSON).
Also change: docs/plugin-verification.md.

Tests: tests/contract/test_plugin_verification.py.
"""

import enum
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

from trireme.plugin_api import contract_features
from trireme.plugin_verification import (
    catalogue,
    configuration_specifications,
    exchanges,
    followed_cluster,
    latency,
    outcomes,
    rpcs,
)
from trireme.plugin_verification.sentences import Sentence
from trireme.plugin_verification.session import CONFIG_HASH, Session, Settings
from trireme.plugin_verification.specification import Specification
from trireme.remote import remote_endpoint
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2


class Outcome(enum.StrEnum):
    """How the check of a specification ended."""

    MET = "met"
    VIOLATED = "violated"
    NOT_APPLICABLE = "notApplicable"
    #: A call that it needs fails or is not answered as it should be; the text says which.
    NOT_CHECKED = "notChecked"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one specification; `text` says why it is not met, and `exchange` shows it."""

    specification: Specification
    outcome: Outcome
    text: str = ""
    exchange: exchanges.Exchange | None = None
    #: Of the contract, those that the plugin does not meet; empty: those of the specification.
    violated: tuple[Sentence, ...] = ()

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The sentences of the contract that the outcome is about."""
        return self.violated or self.specification.sentences


@dataclass(frozen=True, slots=True)
class Verification:
    """What was verified, and the results in the order of the numbers."""

    address: str
    info: plugin_pb2.PluginInfo
    results: Sequence[Result]
    profile: latency.LatencyProfile | None = None

    @property
    def violations(self) -> Sequence[Result]:
        """The specifications that the plugin violates."""
        return self.having(Outcome.VIOLATED)

    @property
    def conformant(self) -> bool:
        """Whether every specification that applies was checked, and is met."""
        return not self.violations and not self.having(Outcome.NOT_CHECKED)

    def having(self, outcome: Outcome) -> Sequence[Result]:
        """The results with this outcome."""
        return [each for each in self.results if each.outcome is outcome]


# What gRPC quotes of the operating system, about ports and about sockets of Unix.
_NOTHING_LISTENS = (os.strerror(errno.ECONNREFUSED), os.strerror(errno.ENOENT))


async def verify(settings: Settings, latency_calls: int = 0) -> Verification:
    """Verify the plugin at the address.

    Raises:
        ValueError: the address is no gRPC target, or a TLS file cannot be used.
        ConnectionRefusedError: nothing listens at the address.
    """
    remote_endpoint.check_target(settings.address, "ADDRESS")
    connection = dialing.Dialer(settings.tls).open(settings.address, remote_endpoint.OPTIONS)
    session = Session(connection.channel, settings)
    try:
        handshake = await session.call(rpcs.GET_PLUGIN_INFO, contract_features.handshake_request())
        if handshake.failure is not None and any(text in handshake.failure.details for text in _NOTHING_LISTENS):
            raise ConnectionRefusedError(f"nothing listens at {settings.address}: has the plugin started?")
        session = Session(connection.channel, settings, handshake)
        problem = await _prepare(session)
        results = [await _check(session, each, problem) for each in catalogue.SPECIFICATIONS]
        profile = None if problem else await latency.measure(session, latency_calls)
        return Verification(settings.address, session.info, results, profile)
    finally:
        if session.followed is not None:
            await session.followed.close()
        await connection.close()


async def _prepare(session: Session) -> str:
    """Configure the plugin and send it the cluster, as a scheduler does.

    Returns why it cannot be called; empty: it can.
    """
    if session.handshake is None or session.handshake.failure is not None:
        return "GetPluginInfo fails"
    request = configuration_specifications.make_request(session, session.settings.args_json)
    session.configuration = await session.call(rpcs.CONFIGURE, request)
    if session.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT:
        session.followed = followed_cluster.FollowedCluster(
            session.channel, session.cluster, session.cycle(0).fence, CONFIG_HASH, session.settings.profile
        )
        await session.followed.open(session.settings.deadline_seconds)
    answer = session.configuration.response
    if isinstance(answer, plugin_pb2.ConfigureResponse) and answer.errors:
        errors = ", ".join(f"{error.field}: {error.message}" for error in answer.errors)
        return f"the plugin refuses the arguments (`{errors}`). Give others by --args."
    return ""


_BEFORE_CALLS = ("handshake", "configuration", "TLS")


async def _check(session: Session, specification: Specification, problem: str) -> Result:
    if specification.points and not session.declares(*specification.points):
        names = ", ".join(plugin_pb2.ExtensionPoint.Name(point) for point in sorted(specification.points))
        return Result(specification, Outcome.NOT_APPLICABLE, f"the plugin does not list {names}")
    if problem and specification.group not in _BEFORE_CALLS:
        return Result(specification, Outcome.NOT_CHECKED, problem)
    try:
        await specification.check(session)
    except outcomes.Violation as violation:
        return Result(specification, Outcome.VIOLATED, str(violation), violation.exchange, violation.sentences)
    except outcomes.NotApplicable as reason:
        return Result(specification, Outcome.NOT_APPLICABLE, str(reason))
    except outcomes.NotChecked as reason:
        return Result(specification, Outcome.NOT_CHECKED, str(reason))
    return Result(specification, Outcome.MET)
