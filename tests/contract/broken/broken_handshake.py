"""Plugins that describe themselves wrongly, or deal wrongly with their configuration."""

from typing import Any, ClassVar

import grpc

from tests.contract.broken.reference_plugin import ReferencePlugin, Refused
from trireme.plugin_verification import rpcs
from trireme.v1 import plugin_pb2


class _Filters(ReferencePlugin):
    points = (rpcs.FILTER_POINT,)


class _Described(_Filters):
    """Differs in its description."""

    changes: ClassVar[dict[str, Any]] = {}

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        for name, value in self.changes.items():
            info.ClearField(name)  # type: ignore[arg-type]  # a name of the fields
            info.MergeFrom(plugin_pb2.PluginInfo(**{name: value}))
        return info


class NoHandshake(_Filters):
    """Serves no handshake."""

    violates = "P001"

    def GetPluginInfo(self, request: plugin_pb2.GetPluginInfoRequest) -> plugin_pb2.GetPluginInfoResponse:
        raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not here")


class TwoPlugins(_Filters):
    """Describes another plugin beside itself."""

    violates = "P002"

    def GetPluginInfo(self, request: plugin_pb2.GetPluginInfoRequest) -> plugin_pb2.GetPluginInfoResponse:
        return plugin_pb2.GetPluginInfoResponse(plugins=[self.info(), plugin_pb2.PluginInfo(name="Other")])


class ChangingVersion(_Filters):
    """Has another version in each answer."""

    violates = "P016"

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        self.calls += 1
        info.version = str(self.calls)
        return info


class ChangingInstance(_Filters):
    """Has another instance in each answer."""

    violates = "P017"

    def GetPluginInfo(self, request: plugin_pb2.GetPluginInfoRequest) -> plugin_pb2.GetPluginInfoResponse:
        self.calls += 1
        return plugin_pb2.GetPluginInfoResponse(plugins=[self.info()], instance=str(self.calls))


class ArgumentsEndTheCall(_Filters):
    """Answers wrong arguments with a gRPC error."""

    violates = "P021"

    def Configure(self, request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        if super().Configure(request).errors:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "wrong arguments")
        return plugin_pb2.ConfigureResponse()


class _Errors(_Filters):
    field = "args"
    message = "must be an object"

    def Configure(self, request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        if super().Configure(request).errors:
            return plugin_pb2.ConfigureResponse(errors=[{"field": self.field, "message": self.message}])
        return plugin_pb2.ConfigureResponse()


class ErrorWithoutField(_Errors):
    """Does not say which argument is wrong."""

    violates = "P022"
    field = ""


class ErrorWithoutMessage(_Errors):
    """Does not say what is wrong with an argument."""

    violates = "P023"
    message = ""


class ConfiguredOnce(_Filters):
    """Takes a configuration once."""

    violates = "P024"

    def Configure(self, request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        if request.config_hash in self.hashes:
            return plugin_pb2.ConfigureResponse(errors=[{"field": "args", "message": "is configured already"}])
        return super().Configure(request)


class AnyConfiguration(_Filters):
    """Answers under a configuration that it was not given."""

    violates = "P025"

    def admit(self, request: Any) -> None:
        self.hashes.add(request.cycle.config_hash)
        super().admit(request)


class OneConfiguration(_Filters):
    """Holds the last configuration alone."""

    violates = "P026"

    def Configure(self, request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        response = super().Configure(request)
        if not response.errors:
            self.hashes = {request.config_hash}
        return response


def _described(name: str, violates: str, changes: dict[str, Any], **fields: Any) -> type[ReferencePlugin]:
    """Describes itself with other values of these fields."""
    return type(name, (_Described,), {"violates": violates, "changes": changes, **fields})


PLUGINS = (
    _described("NoExtensionPoint", "P004", {"extension_points": [], "events_to_register": []}),
    _described("UnknownExtensionPoint", "P005", {"extension_points": [rpcs.FILTER_POINT, 77]}),
    _described("UnknownDependency", "P006", {"depends_on": 9}),
    _described(
        "UnknownResource",
        "P008",
        {"events_to_register": [plugin_pb2.ClusterEvent(resource="Machine", actions=["Add"])]},
    ),
    _described("EventWithoutActions", "P009", {"events_to_register": [plugin_pb2.ClusterEvent(resource="Node")]}),
    _described("MisspeltPodField", "P010", {"pod_fields": ["metadata.label"]}),
    _described("NameOfThePod", "P011", {"pod_fields": ["metadata.name"]}),
    _described(
        "OwnNormalizationNotDeclared",
        "P012",
        {"normalization": plugin_pb2.NORMALIZATION_MAX},
        points=(rpcs.SCORE_POINT, rpcs.NORMALIZE_POINT),
    ),
    _described("NormalizationWithoutScores", "P013", {"normalization": plugin_pb2.NORMALIZATION_MAX}),
    _described(
        "CustomNormalizationNotListed",
        "P014",
        {"normalization": plugin_pb2.NORMALIZATION_CUSTOM},
        points=(rpcs.SCORE_POINT,),
    ),
    _described(
        "EventsOfAScorer",
        "P015",
        {"events_to_register": [plugin_pb2.ClusterEvent(resource="Node", actions=["Add"])]},
        points=(rpcs.SCORE_POINT,),
    ),
)
