"""Configure: the arguments of a plugin, and the calls under them.

Tests: tests/contract/test_plugin_verification.py.
"""

from collections.abc import Sequence

import grpc

from trireme.plugin_verification import check_factories, exchanges, outcomes, rpcs, sample_requests
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import CONFIG_HASH, Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import plugin_pb2

_GROUP = "configuration"
_UNKNOWN_HASH = 0xDEAD
_OTHER_HASH = 0xBEEF
# Arguments that few plugins accept: lists, numbers and fields of no plugin.
_ODD_ARGUMENTS = (b"[]", b"7", b'{"triremeVerifyUnknownField":{"nested":[null,-1]}}')


def make_request(session: Session, args_json: bytes, config_hash: int = CONFIG_HASH) -> plugin_pb2.ConfigureRequest:
    """The configuration of the plugin for the profile."""
    return plugin_pb2.ConfigureRequest(
        plugin=session.info.name,
        config_hash=config_hash,
        profile=session.settings.profile,
        args_json=args_json,
        feature_gates=session.settings.feature_gates,
    )


def _require_configure(session: Session) -> exchanges.Exchange:
    """The first call of Configure. Raises: NotApplicable, NotChecked."""
    if session.configuration is None:
        raise outcomes.NotChecked("Configure was not called")
    if not session.takes_configuration:
        raise outcomes.NotApplicable("the plugin takes no arguments: it does not serve Configure")
    return session.configuration


async def _responses(session: Session) -> Sequence[exchanges.Exchange]:
    """The answers to the configuration and to odd arguments, which are given for a hash of their own."""
    first = _require_configure(session)
    requests = [make_request(session, args, _OTHER_HASH) for args in _ODD_ARGUMENTS]
    calls = [first, *[await session.call(rpcs.CONFIGURE, request) for request in requests]]
    return [each for each in calls if each.response is not None]


@specification("P020", _GROUP, Sentence(PROTOCOL, "A gRPC error means that the call could not be answered."))
async def configure_is_answered(session: Session) -> None:
    """Configure answers the configuration without a gRPC error, or is not served at all."""
    check_factories.require_answer(_require_configure(session))


@specification(
    "P021",
    _GROUP,
    Sentence("ConfigureResponse.errors", "OPTIONAL. All errors; none: the plugin accepts the configuration."),
)
async def wrong_arguments_are_errors(session: Session) -> None:
    """Arguments that the plugin does not take are listed as errors, not answered by a gRPC error."""
    first = _require_configure(session)
    if first.failure is not None:
        raise outcomes.NotChecked("Configure fails")
    for args in _ODD_ARGUMENTS:
        each = await session.call(rpcs.CONFIGURE, make_request(session, args, _OTHER_HASH))
        if each.failure is not None:
            text = f"arguments {args.decode()} are answered with {each.failure}; expected a response with errors"
            raise outcomes.Violation(text, each)


@specification("P022", _GROUP, Sentence("FieldError.field", "REQUIRED. Path of the field from `args` on"))
async def errors_name_their_field(session: Session) -> None:
    """Each error of Configure names its field by the path from `args` on."""
    for each in await _responses(session):
        assert isinstance(each.response, plugin_pb2.ConfigureResponse)
        for at, error in enumerate(each.response.errors):
            if error.field != "args" and not error.field.startswith(("args.", "args[")):
                raise outcomes.Violation(f"errors[{at}].field is {error.field!r}; expected a path from `args` on", each)


@specification("P023", _GROUP, Sentence("FieldError.message", "REQUIRED. What is wrong, in one line."))
async def errors_have_a_message(session: Session) -> None:
    """Each error of Configure says in one line what is wrong."""
    for each in await _responses(session):
        assert isinstance(each.response, plugin_pb2.ConfigureResponse)
        for at, error in enumerate(each.response.errors):
            if not error.message.strip():
                raise outcomes.Violation(f"errors[{at}].message is not set", each)
            if len(error.message.strip().splitlines()) > 1:
                raise outcomes.Violation(f"errors[{at}].message has several lines", each)


@specification(
    "P024",
    _GROUP,
    Sentence(
        "PluginService.Configure",
        "Configure gives a plugin its configuration for one profile; phases do not serve it. Idempotent.",
    ),
)
async def configure_may_be_repeated(session: Session) -> None:
    """Configure answers a repeated call as it answered the first one."""
    first = _require_configure(session)
    if first.failure is not None:
        raise outcomes.NotChecked("Configure fails")
    again = await session.call(rpcs.CONFIGURE, make_request(session, session.settings.args_json))
    if again.failure is not None or again.response != first.response:
        text = f"the repeated call is answered in another way; the first answer: {first.answer_text()}"
        raise outcomes.Violation(text, again)


@specification(
    "P025",
    _GROUP,
    Sentence(
        "PluginService.Configure",
        "A plugin refuses a call with that reason if it does not have the configuration that the call's config_hash "
        "names.",
    ),
    Sentence("Cycle.config_hash", "on a mismatch: FAILED_PRECONDITION"),
)
async def an_unknown_configuration_is_refused(session: Session) -> None:
    """A call under a configuration that the plugin was not given is refused, with the reason `config-mismatch`."""
    _require_configure(session)
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    cycle.config_hash = _UNKNOWN_HASH
    each = await session.call(rpc, await sample_requests.with_cycle(session, rpc, cycle))
    if each.failure is None or each.failure.code is not grpc.StatusCode.FAILED_PRECONDITION:
        raise outcomes.Violation("config_hash names an unknown configuration; expected FAILED_PRECONDITION", each)
    if each.failure.reason != "config-mismatch":
        text = f"trireme-reason is {each.failure.reason!r} in the trailing metadata; expected 'config-mismatch'"
        raise outcomes.Violation(text, each)


@specification(
    "P026",
    _GROUP,
    Sentence(
        "PluginService.Configure",
        "Several schedulers may use one plugin, so it holds the configurations of several hashes.",
    ),
)
async def several_configurations_are_held(session: Session) -> None:
    """After another scheduler's Configure the calls under the configuration before are answered."""
    first = _require_configure(session)
    if first.failure is not None:
        raise outcomes.NotChecked("Configure fails")
    rpc, cycle = await sample_requests.any_rpc_with_cycle(session)
    other = await session.call(rpcs.CONFIGURE, make_request(session, session.settings.args_json, _OTHER_HASH + 1))
    each = await session.call(rpc, await sample_requests.with_cycle(session, rpc, cycle))
    # A plugin that holds one configuration gets the first one back, as a caller does that is refused.
    await session.call(rpcs.CONFIGURE, make_request(session, session.settings.args_json))
    if other.failure is None and each.failure is not None and each.failure.reason == "config-mismatch":
        raise outcomes.Violation("the configuration of the first hash is gone", each)
