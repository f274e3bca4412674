"""ResourceSlices as the allocator reads them: devices with their amounts parsed, where they are, what they draw on.

A slice is read once per version. The selectors' answers about a device are stored on the device, and so is forgotten
with it. A slice that cannot be read (an amount that is none) is left out: its pool is incomplete then.

Tests: tests/unit/plugins/dynamic_resources/test_allocator.py, tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trireme.framework import selectors
from trireme.plugins.dynamic_resources import expressions, node_selectors
from trireme.v1 import core_pb2, meta_pb2, resource_pb2
from trireme_kube.apimachinery import quantity, semver
from trireme_kube.cel import values as cel_values
from trireme_kube.cel.library import quantities_and_versions

DeviceId = tuple[str, str, str]  # driver, pool, device
_Entry = TypeVar("_Entry")

PoolId = tuple[str, str]  # driver, pool
Amounts = Mapping[str, int]  # nanos by name


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """The shares of a capacity that may be requested, as a range."""

    min: quantity.Quantity | None
    max: quantity.Quantity | None
    step: quantity.Quantity | None


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """Which shares of a capacity may be requested."""

    default: quantity.Quantity | None
    valid_values: tuple[quantity.Quantity, ...]
    valid_range: CapacityRange | None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """How much of something a device has."""

    value: quantity.Quantity
    policy: CapacityPolicy | None


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """Where devices are: on one node, on nodes that match, everywhere; nowhere if nothing is set.

    `problem` is why the selector cannot be read, if it cannot.
    """

    node_name: str
    all_nodes: bool
    selector: core_pb2.NodeSelector | None
    terms: tuple[selectors.NodeTerm, ...] = ()
    problem: str = ""

    @property
    def is_set(self) -> bool:
        """Whether anything is set."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None


@dataclass(slots=True, eq=False)
class Device:
    """One device of one version of its slice, with its amounts parsed and its answers to expressions cached."""

    id: DeviceId
    message: resource_pb2.Device
    slice: "DeviceSlice"
    capacity: Mapping[str, DeviceCapacity]
    allow_multiple: bool
    consumes: tuple[tuple[str, Amounts], ...]
    placement: DevicePlacement
    taints: tuple[resource_pb2.DeviceTaint, ...]
    # By expression: whether it matches, or why that is unknown.
    matched: dict[str, "bool | expressions.DeviceExpressionError"] = field(default_factory=dict)
    # By expression: the attribute that it computes, or why it cannot.
    derived: dict[str, "resource_pb2.DeviceAttribute | expressions.DeviceExpressionError"] = field(default_factory=dict)
    _values: "cel_values.Map | None" = None

    @property
    def name(self) -> str:
        """The device's full name, `driver/pool/device`."""
        return "/".join(self.id)

    def matches(self, expression: str, known: expressions.CompiledExpressions, expired: Callable[[], bool]) -> bool:
        """Return whether the device meets the expression; the answer, or the error, is computed once for each device.

        Raises: CompileError, DeviceExpressionError, InterruptedEvaluationError if it is `expired` before that.
        """
        result = self.matched.get(expression)
        if result is None:
            known.compiled(expression)
            try:
                result = known.matches(expression, self.cel_values(), expired)
            except expressions.DeviceExpressionError as error:
                result = error
            self.matched[expression] = result
        if isinstance(result, expressions.DeviceExpressionError):
            raise result
        return result

    def cel_values(self) -> cel_values.Map:
        """Return the `device` variable of expressions."""
        if self._values is None:
            self._values = _cel_attributes_and_capacity(self)
        return self._values

    def status_name(self, capacity: str) -> str:
        """Return a capacity's name as a claim's status has it: without the driver's domain if its slice has none."""
        domain, _, bare = capacity.partition("/")
        return bare if domain == self.id[0] and capacity not in self.message.capacity else capacity

    def derived_attribute(
        self, expression: str, known: expressions.CompiledExpressions, expired: Callable[[], bool]
    ) -> resource_pb2.DeviceAttribute:
        """Return the attribute that the expression computes, computed once for each device; so is an error.

        Raises: CompileError, DeviceExpressionError, InterruptedEvaluationError if it is `expired` before that.
        """
        computed = self.derived.get(expression)
        if computed is None:
            known.compiled(expression, attribute=True)
            try:
                computed = known.attribute(expression, self.cel_values(), expired)
            except expressions.DeviceExpressionError as error:
                computed = error
            self.derived[expression] = computed
        if isinstance(computed, expressions.DeviceExpressionError):
            raise computed
        return computed

    def attribute(self, name: str) -> resource_pb2.DeviceAttribute | None:
        """Return the attribute of this full name; the driver may state it without its domain. None: there is none."""
        attributes = self.message.attributes
        if name in attributes:
            return attributes[name]
        domain, slash, bare = name.partition("/")
        if slash and domain == self.id[0] and bare in attributes:
            return attributes[bare]
        return None


@dataclass(slots=True, eq=False)
class DeviceSlice:
    """One version of a ResourceSlice."""

    name: str
    pool: PoolId
    generation: int
    pool_size: int
    placement: DevicePlacement
    per_device: bool
    message: resource_pb2.ResourceSlice
    counter_sets: tuple[tuple[str, Amounts], ...] = ()
    devices: Sequence[Device] = ()
    # Whether a device stands for a resource of its node, or costs some of one in addition.
    stands_for_resources: bool = False

    @property
    def uses_groups(self) -> bool:
        """Whether a device names compatibility groups."""
        return any(
            consumption.compatibility_groups
            for device in self.message.spec.devices
            for consumption in device.consumes_counters
        )


def read_slice(
    message: resource_pb2.ResourceSlice,
    rules: Iterable[resource_pb2.DeviceTaintRule],
    *,
    corrected: bool = False,
) -> DeviceSlice:
    """The slice, with the taints that the rules put on its devices.

    `corrected`: a slice or device with a malformed node selector is on no node. Otherwise it is an error of those that
    come upon it.

    Raises: ValueError where it cannot be read.
    """
    spec = message.spec
    pool = (spec.driver, spec.pool.name)
    out = DeviceSlice(
        message.metadata.name,
        pool,
        spec.pool.generation,
        spec.pool.resource_slice_count,
        _read_placement(spec, corrected),
        spec.per_device_node_selection,
        message,
        tuple((entry.name, _counter_amounts(entry.counters)) for entry in spec.shared_counters),
    )
    out.stands_for_resources = any(device.node_allocatable_resources for device in spec.devices)
    applying = [rule for rule in rules if _rule_applies_to_pool(rule.spec, pool)]
    out.devices = tuple(_read_device(device, out, applying, corrected=corrected) for device in spec.devices)
    return out


def _read_device(
    message: resource_pb2.Device,
    owner: DeviceSlice,
    rules: Sequence[resource_pb2.DeviceTaintRule],
    *,
    corrected: bool,
) -> Device:
    """A device of a slice with its amounts parsed, and the taints that rules add to it."""
    added = [
        rule.spec.taint
        for rule in rules
        if not rule.spec.device_selector.HasField("device") or rule.spec.device_selector.device == message.name
    ]
    return Device(
        (*owner.pool, message.name),
        message,
        owner,
        {
            qualified_name(name, owner.pool[0]): _read_capacity(entry)
            for name, entry in _unqualified_first(message.capacity.items())
        },
        message.allow_multiple_allocations,
        tuple((entry.counter_set, _counter_amounts(entry.counters)) for entry in message.consumes_counters),
        _read_placement(message, corrected),
        (*message.taints, *added),
    )


def _rule_applies_to_pool(spec: resource_pb2.DeviceTaintRuleSpec, pool: PoolId) -> bool:
    """Whether a rule is about devices of the pool; one without a selector is about none, an empty one about all."""
    if not spec.HasField("device_selector"):
        return False
    selector = spec.device_selector
    if selector.HasField("driver") and selector.driver != pool[0]:
        return False
    return not selector.HasField("pool") or selector.pool == pool[1]


def _read_placement(spec: resource_pb2.ResourceSliceSpec | resource_pb2.Device, corrected: bool) -> DevicePlacement:
    """Read where a slice or a device is; `problem` says why a node selector is invalid.

    `corrected`: an invalid selector, or one with several terms, which an allocation cannot state, selects no node.
    """
    selector = spec.node_selector if spec.HasField("node_selector") else None
    if selector is None or spec.node_name or spec.all_nodes:
        return DevicePlacement(spec.node_name, spec.all_nodes, selector)
    problem = node_selectors.selector_problem(selector)
    if corrected and (problem or len(selector.node_selector_terms) > 1):
        return DevicePlacement("", False, selector)
    return DevicePlacement("", False, selector, selectors.parse_terms(selector.node_selector_terms), problem)


def _counter_amounts(counters: Mapping[str, resource_pb2.Counter]) -> Amounts:
    """Return the amounts of counters in nanos, by name. Raises: ValueError."""
    return {name: parse_quantity_or_zero(counter.value).nanos for name, counter in counters.items()}


def _read_capacity(message: resource_pb2.DeviceCapacity) -> DeviceCapacity:
    """Read a capacity with its request policy, if it has one. Raises: ValueError."""
    policy = None
    if message.HasField("request_policy"):
        stated = message.request_policy
        limits = stated.valid_range
        policy = CapacityPolicy(
            _optional_amount(stated, "default"),
            tuple(parse_quantity_or_zero(value) for value in stated.valid_values),
            CapacityRange(
                _optional_amount(limits, "min"), _optional_amount(limits, "max"), _optional_amount(limits, "step")
            )
            if stated.HasField("valid_range")
            else None,
        )
    return DeviceCapacity(parse_quantity_or_zero(message.value), policy)


def _optional_amount(message: Any, name: str) -> quantity.Quantity | None:
    """Parse the quantity in an optional field; None if it is not set. Raises: ValueError."""
    if not message.HasField(name):
        return None
    return parse_quantity_or_zero(getattr(message, name))


def parse_quantity_or_zero(message: meta_pb2.Quantity) -> quantity.Quantity:
    """Parse a quantity; an empty one is 0. Raises: ValueError."""
    return quantity.parse_quantity(message.string) if message.string else quantity.Quantity(0)


def _cel_attributes_and_capacity(device: Device) -> cel_values.Map:
    """Make the `device` variable of expressions; one that looks up an attribute without a valid value fails."""
    driver = device.id[0]
    attributes: dict[str, dict[str, Any]] = {}
    for full, attribute in _unqualified_first(device.message.attributes.items()):
        domain, _, name = qualified_name(full, driver).partition("/")
        try:
            value = _attribute_value(attribute)
        except ValueError:
            problem = f"attribute {name}: value is invalid or its type is not supported by this version"
            value = cel_values.Unreadable(problem)
        attributes.setdefault(domain, {})[name] = value
    capacity: dict[str, dict[str, Any]] = {}
    for full, entry in _unqualified_first(device.message.capacity.items()):
        domain, _, name = qualified_name(full, driver).partition("/")
        capacity.setdefault(domain, {})[name] = quantities_and_versions.quantity_of(entry.value.string or "0")
    return expressions.cel_device(driver, device.allow_multiple, attributes, capacity)


def qualified_name(name: str, driver: str) -> str:
    """Return the name of an attribute or capacity with its domain; one without is in the driver's."""
    return name if "/" in name else f"{driver}/{name}"


def _unqualified_first(entries: Iterable[tuple[str, _Entry]]) -> list[tuple[str, _Entry]]:
    """Order entries so that of two spellings of one name, the one with a domain wins."""
    return sorted(entries, key=lambda entry: "/" in entry[0])


def _attribute_value(attribute: resource_pb2.DeviceAttribute) -> Any:
    """Return the attribute's value as CEL has it, lists included. Raises: ValueError where it is of no known kind."""
    for name in ("ints", "bools", "strings"):
        if getattr(attribute, name):
            return list(getattr(attribute, name))
    if attribute.versions:
        return [_parse_version(text) for text in attribute.versions]
    stated = scalar_value(attribute)
    if stated is None:
        raise ValueError("unsupported attribute value")
    kind, value = stated
    return _parse_version(str(value)) if kind == "version" else value


def scalar_value(attribute: resource_pb2.DeviceAttribute) -> tuple[str, int | bool | str] | None:
    """Kind and value of an attribute that is one value; None where it is none of a known kind."""
    if attribute.HasField("int"):
        return "int", attribute.int
    if attribute.HasField("bool"):
        return "bool", attribute.bool
    if attribute.HasField("string"):
        return "string", attribute.string
    return ("version", attribute.version) if attribute.HasField("version") else None


def _parse_version(text: str) -> Any:
    """Parse a semantic version. Raises: ValueError with Kubernetes' message."""
    try:
        return semver.parse(text)
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from error
