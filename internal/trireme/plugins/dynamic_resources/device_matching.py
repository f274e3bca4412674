"""Whether a device is what a request asks for: the selectors of its class and its own, and attributes it computes.

What is found out about a device holds for the whole search.

Tests: tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from collections.abc import Callable, Sequence

from trireme.plugins.dynamic_resources import devices, expressions, features
from trireme.plugins.dynamic_resources.allocation_errors import AllocationError, TimedOutError, claim_name
from trireme.plugins.dynamic_resources.device_request import DeviceRequest
from trireme.v1 import resource_pb2
from trireme_kube.cel.interpreter import program


class DeviceMatcher:
    """Matches devices with requests. Its methods raise AllocationError and TimedOutError."""

    def __init__(
        self,
        selectors: expressions.CompiledExpressions,
        on: features.Features,
        reachable: Callable[[devices.Device], bool],
        out_of_time: Callable[[], bool],
    ) -> None:
        """`reachable` narrows devices of slices where each states for itself on which nodes it is."""
        self._selectors = selectors
        self._on = on
        self._reachable = reachable
        self._out_of_time = out_of_time
        self._matching: dict[tuple[int, devices.DeviceId], bool] = {}

    def matches(self, claim: resource_pb2.ResourceClaim, request: DeviceRequest, device: devices.Device) -> bool:
        """Return whether the device meets the selectors of its class and of the request, and the node reaches it."""
        if device.message.binding_conditions and not self._on.binding_conditions:
            return False
        key = (id(request), device.id)
        known = self._matching.get(key)
        if known is None:
            device_class = request.device_class
            known = self._matching[key] = (
                self._meets_selectors(f"class {device_class.metadata.name}", device_class.spec.selectors, device)
                and self._meets_selectors(f"claim {claim_name(claim)}", request.spec.selectors, device)
                and (not device.slice.per_device or self._is_reachable(device))
            )
        return known

    def attribute(
        self, request: DeviceRequest, device: devices.Device, name: str
    ) -> resource_pb2.DeviceAttribute | None:
        """Return the device's attribute of that name, None if it has none; one that the request derives comes first."""
        expression = request.derived_attributes.get(name)
        if expression is None:
            return device.attribute(name)
        try:
            return device.derived_attribute(expression, self._selectors, self._out_of_time)
        except program.InterruptedEvaluationError as error:
            raise TimedOutError from error
        except expressions.CompileError as error:
            raise AllocationError(f"compile derived attribute {name} failed: {error}") from error
        except expressions.DeviceExpressionError as error:
            text = f"evaluate derived attribute {name} on device {device.name} failed: {error}"
            raise AllocationError(text) from error

    def _is_reachable(self, device: devices.Device) -> bool:
        """Whether the node reaches the device. Raises: AllocationError where the device's node selector is invalid."""
        if device.placement.problem:
            raise AllocationError(device.placement.problem)
        return self._reachable(device)

    def _meets_selectors(
        self, where: str, selectors: Sequence[resource_pb2.DeviceSelector], device: devices.Device
    ) -> bool:
        """Return whether the device meets all selectors. `where` begins the text of errors.

        Raises: AllocationError for an expression that fails, TimedOutError.
        """
        for at, selector in enumerate(selectors):
            try:
                if not device.matches(selector.cel.expression, self._selectors, self._out_of_time):
                    return False
            except program.InterruptedEvaluationError as error:
                raise TimedOutError from error
            except expressions.CompileError as error:
                raise AllocationError(f"{where}: selector #{at}: CEL compile error: {error}") from error
            except expressions.DeviceExpressionError as error:
                text = f"{where}: selector #{at} on device {device.name}: CEL runtime error: {error}"
                raise AllocationError(text) from error
        return True
