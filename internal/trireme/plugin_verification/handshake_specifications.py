"""GetPluginInfo: what a plugin declares.

Tests: tests/contract/test_plugin_verification.py.
"""

from trireme.framework import cluster_event
from trireme.plugin_api import contract_features, plugin_info_validation, pod_fields
from trireme.plugin_verification import check_factories, exchanges, outcomes, rpcs
from trireme.plugin_verification.sentences import PROTOCOL, Sentence
from trireme.plugin_verification.session import Session
from trireme.plugin_verification.specification import specification
from trireme.v1 import plugin_pb2

_GROUP = "handshake"
_UNKNOWN_VALUE = Sentence(PROTOCOL, "in a plugin's description an unknown value is refused at the handshake")


def _handshake(session: Session) -> exchanges.Exchange:
    """The handshake. Raises: NotChecked if it failed."""
    if session.handshake is None or session.handshake.response is None:
        raise outcomes.NotChecked("GetPluginInfo fails")
    return session.handshake


@specification("P001", _GROUP, Sentence(PROTOCOL, "every phase and plugin serves `PluginService`"))
async def get_plugin_info_is_served(session: Session) -> None:
    """GetPluginInfo is served."""
    if session.handshake is None:
        raise outcomes.NotChecked("GetPluginInfo was not called")
    if session.handshake.failure is not None:
        text = f"GetPluginInfo fails with {session.handshake.failure}"
        raise outcomes.Violation(text, session.handshake)


@specification(
    "P002", _GROUP, Sentence("GetPluginInfoResponse.plugins", "REQUIRED. A plugin service names itself alone")
)
async def one_plugin_is_described(session: Session) -> None:
    """GetPluginInfo describes one plugin."""
    each = _handshake(session)
    assert isinstance(each.response, plugin_pb2.GetPluginInfoResponse)
    count = len(each.response.plugins)
    if count != 1:
        raise outcomes.Violation(f"plugins has {count} entries; expected 1", each)


@specification("P003", _GROUP, Sentence("PluginInfo.name", "REQUIRED. The name that profiles use."))
async def the_name_is_set(session: Session) -> None:
    """The plugin has the name that profiles use."""
    each = _handshake(session)
    expected = session.settings.name
    if not session.info.name:
        raise outcomes.Violation("plugins.name is not set", each)
    if expected and session.info.name != expected:
        raise outcomes.Violation(f"plugins.name is {session.info.name!r}; expected {expected!r}, as --name says", each)


@specification(
    "P004", _GROUP, Sentence("PluginInfo.extension_points", "REQUIRED. The steps it takes part in, at least one.")
)
async def there_is_an_extension_point(session: Session) -> None:
    """The plugin lists at least one extension point."""
    each = _handshake(session)
    if not session.info.extension_points:
        raise outcomes.Violation("plugins.extension_points is empty", each)


@specification(
    "P005", _GROUP, Sentence("ExtensionPoint.EXTENSION_POINT_UNSPECIFIED", "Not set; refused with INVALID_ARGUMENT.")
)
async def extension_points_are_known(session: Session) -> None:
    """Every extension point is one of the contract."""
    each = _handshake(session)
    for at, point in enumerate(session.info.extension_points):
        if point not in plugin_pb2.ExtensionPoint.values() or not point:
            raise outcomes.Violation(
                f"plugins.extension_points[{at}] is {point}, which the contract does not have", each
            )


@specification("P006", _GROUP, _UNKNOWN_VALUE)
async def enum_values_are_known(session: Session) -> None:
    """`node_data`, `depends_on` and `normalization` have values of the contract."""
    each = _handshake(session)
    enums = (
        ("node_data", plugin_pb2.NodeData.values()),
        ("depends_on", plugin_pb2.Dependency.values()),
        ("normalization", plugin_pb2.Normalization.values()),
    )
    for name, allowed in enums:
        value = getattr(session.info, name)
        if value not in allowed:
            raise outcomes.Violation(f"plugins.{name} is {value}, which the contract does not have", each)


@specification("P008", _GROUP, Sentence("ClusterEvent.resource", "REQUIRED. The resource as the framework names it"))
async def events_name_their_resource(session: Session) -> None:
    """Each registered event names a resource that the framework has."""
    each = _handshake(session)
    for at, event in enumerate(session.info.events_to_register):
        try:
            cluster_event.parse(event.resource, ["Add"])
        except ValueError as error:
            if str(error).startswith("resource"):
                raise outcomes.Violation(f"plugins.events_to_register[{at}].{error}", each) from error


@specification("P009", _GROUP, Sentence("ClusterEvent.actions", "REQUIRED. The actions as the framework names them"))
async def events_name_their_actions(session: Session) -> None:
    """Each registered event names actions that the framework has."""
    each = _handshake(session)
    for at, event in enumerate(session.info.events_to_register):
        try:
            cluster_event.parse(event.resource, event.actions)
        except ValueError as error:
            if str(error).startswith("actions"):
                raise outcomes.Violation(f"plugins.events_to_register[{at}].{error}", each) from error


@specification("P010", _GROUP, Sentence("PluginInfo.pod_fields", "OPTIONAL. Paths of the pod's fields that it reads"))
async def pod_fields_exist(session: Session) -> None:
    """Each of `pod_fields` is a field of a pod."""
    each = _handshake(session)
    try:
        pod_fields.PodFields(session.info.pod_fields)
    except ValueError as error:
        raise outcomes.Violation(f"plugins.pod_fields: {error}", each) from error


@specification("P011", _GROUP, Sentence(PROTOCOL, "Do not name `metadata.name` or `metadata.uid` in `pod_fields`"))
async def pod_fields_name_no_single_pod(session: Session) -> None:
    """`pod_fields` names neither the pod's name nor its UID."""
    each = _handshake(session)
    for path in session.info.pod_fields:
        if path in ("metadata.name", "metadata.uid"):
            raise outcomes.Violation(f"plugins.pod_fields has {path}: each pod would be a class of its own", each)


@specification(
    "P012", _GROUP, Sentence(PROTOCOL, "`NormalizeScore` (with `NORMALIZATION_CUSTOM`)"), points=(rpcs.NORMALIZE_POINT,)
)
async def own_normalization_is_custom(session: Session) -> None:
    """A plugin with the extension point NormalizeScore declares NORMALIZATION_CUSTOM."""
    each = _handshake(session)
    if session.info.normalization != plugin_pb2.NORMALIZATION_CUSTOM:
        raise outcomes.Violation("NormalizeScore would never be called: plugins.normalization is not CUSTOM", each)


@specification(
    "P013", _GROUP, Sentence("PluginInfo.normalization", "OPTIONAL. How its scores are normalised; unset: not at all.")
)
async def only_scores_are_normalized(session: Session) -> None:
    """A plugin that declares a normalisation has the extension point Score."""
    each = _handshake(session)
    none = (plugin_pb2.NORMALIZATION_UNSPECIFIED, plugin_pb2.NORMALIZATION_NONE)
    known = session.info.normalization in plugin_pb2.Normalization.values()
    if known and session.info.normalization not in none and not session.declares(rpcs.SCORE_POINT):
        raise outcomes.Violation("plugins.normalization is set, but the plugin has no scores", each)


@specification(
    "P014",
    _GROUP,
    Sentence("Normalization.NORMALIZATION_CUSTOM", "By the plugin's own NormalizeScore; batches of one pod only."),
)
async def custom_normalization_is_listed(session: Session) -> None:
    """A plugin that declares NORMALIZATION_CUSTOM has the extension point NormalizeScore."""
    each = _handshake(session)
    custom = session.info.normalization == plugin_pb2.NORMALIZATION_CUSTOM
    # Without Score there is nothing to normalise, which P013 reports.
    if custom and session.declares(rpcs.SCORE_POINT) and not session.declares(rpcs.NORMALIZE_POINT):
        raise outcomes.Violation("plugins.extension_points lacks EXTENSION_POINT_NORMALIZE_SCORE", each)


@specification(
    "P015", _GROUP, Sentence("PluginInfo.events_to_register", "OPTIONAL. Which events may help a pod that it refused.")
)
async def only_refusing_plugins_register_events(session: Session) -> None:
    """A plugin that registers events has an extension point that refuses pods."""
    each = _handshake(session)
    if session.info.events_to_register and not session.declares(*plugin_info_validation.REFUSING):
        raise outcomes.Violation("plugins.events_to_register is set, but the plugin cannot refuse a pod", each)


@specification(
    "P016",
    _GROUP,
    Sentence("PluginService.GetPluginInfo", "GetPluginInfo describes what the service hosts. Idempotent."),
)
async def the_description_stays(session: Session) -> None:
    """GetPluginInfo answers the same again, where the plugin has not changed."""
    first = _handshake(session)
    again = await session.call(rpcs.GET_PLUGIN_INFO, contract_features.handshake_request())
    check_factories.require_answer(again)
    assert isinstance(first.response, plugin_pb2.GetPluginInfoResponse)
    assert isinstance(again.response, plugin_pb2.GetPluginInfoResponse)
    if list(first.response.plugins) != list(again.response.plugins):
        raise outcomes.Violation(f"the description is another one; the first: {first.answer_text()}", again)


@specification(
    "P017",
    _GROUP,
    Sentence(
        "GetPluginInfoResponse.instance",
        "OPTIONAL. Identifies this run of the service; another value: it was restarted.",
    ),
)
async def the_instance_stays(session: Session) -> None:
    """The instance stays the same while the service runs."""
    first = _handshake(session)
    again = await session.call(rpcs.GET_PLUGIN_INFO, contract_features.handshake_request())
    check_factories.require_answer(again)
    assert isinstance(first.response, plugin_pb2.GetPluginInfoResponse)
    assert isinstance(again.response, plugin_pb2.GetPluginInfoResponse)
    if first.response.instance != again.response.instance:
        text = f"instance is {again.response.instance!r}, was {first.response.instance!r}"
        raise outcomes.Violation(f"{text}: a scheduler takes each answer for a restart", again)
