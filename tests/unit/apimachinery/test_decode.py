"""Kubernetes JSON to messages and back: what is read how, what is refused where, and that nothing else happens."""

from typing import Any, cast

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from trireme.v1 import coordination_pb2, core_pb2, meta_pb2, policy_pb2, resource_pb2, storage_pb2
from trireme_kube.apimachinery.decode import decode
from trireme_kube.apimachinery.encode import encode
from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.apimachinery.normalization import is_inlined, map_value


def _pod(**spec: Any) -> core_pb2.Pod:
    return decode({"apiVersion": "v1", "kind": "Pod", "spec": spec}, core_pb2.Pod)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({}, core_pb2.PodSpec(), id="empty"),
        pytest.param({"priority": 0}, core_pb2.PodSpec(priority=0), id="zero-is-not-unset"),
        pytest.param({"priority": None, "containers": None}, core_pb2.PodSpec(), id="null-is-unset"),
        pytest.param({"dnsConfig": {"searches": [1]}, "x": 1}, core_pb2.PodSpec(), id="unknown-fields-are-ignored"),
        pytest.param(
            {"affinity": {"podAffinity": {}}},
            core_pb2.PodSpec(affinity=core_pb2.Affinity(pod_affinity=core_pb2.PodAffinity())),
            id="empty-object-is-present",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {"x": 1}}},
            core_pb2.PodSpec(affinity=core_pb2.Affinity(pod_affinity=core_pb2.PodAffinity())),
            id="object-of-unknown-fields-is-present",
        ),
        pytest.param(
            {"ephemeralContainers": [{"name": ""}]},
            core_pb2.PodSpec(ephemeral_containers=[core_pb2.EphemeralContainer()]),
            id="what-is-inlined-is-not-there-while-it-is-empty",
        ),
        pytest.param(
            {"containers": [None, {"name": "b"}]},
            core_pb2.PodSpec(containers=[core_pb2.Container(), core_pb2.Container(name="b")]),
            id="null-in-list-is-an-empty-element",
        ),
        pytest.param(
            {"nodeSelector": {"a": None, "b": "c"}},
            core_pb2.PodSpec(node_selector={"a": "", "b": "c"}),
            id="null-in-map-is-an-empty-value",
        ),
        pytest.param(
            {"overhead": {"cpu": "250m", "memory": 1048576, "example.com/x": 0.5, "y": " 1 ", "z": None}},
            core_pb2.PodSpec(
                overhead={
                    "cpu": meta_pb2.Quantity(string="250m"),
                    "memory": meta_pb2.Quantity(string="1048576"),
                    "example.com/x": meta_pb2.Quantity(string="0.5"),
                    "y": meta_pb2.Quantity(string="1"),
                    "z": meta_pb2.Quantity(),
                }
            ),
            id="quantity-as-text-or-number",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}]},
            core_pb2.PodSpec(
                volumes=[
                    core_pb2.Volume(
                        name="v",
                        volume_source=core_pb2.VolumeSource(
                            persistent_volume_claim=core_pb2.PersistentVolumeClaimVolumeSource(claim_name="c")
                        ),
                    ),
                    core_pb2.Volume(name="w"),
                ]
            ),
            id="inlined-source",
        ),
    ],
)
def test_pod_spec_reads_as(value: Any, expected: core_pb2.PodSpec) -> None:
    """A pod would be scheduled by something other than what its author wrote."""
    assert _pod(**value).spec == expected


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("1970-01-01T00:00:01Z", 1, 0),
        ("2024-02-29T12:00:00Z", 1709208000, 0),
        ("2024-02-29T14:00:00+02:00", 1709208000, 0),
        ("2024-02-29T12:00:00.5Z", 1709208000, 500_000_000),
        ("2024-02-29T12:00:00.1234567899Z", 1709208000, 123_456_789),
        ("0001-01-01T00:00:00Z", -62135596800, 0),
    ],
)
def test_times_read_as(text: str, seconds: int, nanos: int) -> None:
    """Pods would be ordered by the wrong start, and leases believed too long or too short."""
    assert decode(text, meta_pb2.Time) == meta_pb2.Time(seconds=seconds, nanos=nanos)


def test_lease_times_keep_microseconds() -> None:
    """A lease's holder would not recognise its own renewal."""
    value = {"spec": {"holderIdentity": "a", "renewTime": "2024-02-29T12:00:00.000001Z"}}
    assert encode(decode(value, coordination_pb2.Lease)) == value


def test_device_parameters_pass_through_unread() -> None:
    """A driver would receive other parameters than the claim states."""
    value = {"driver": "d", "parameters": {"apiVersion": "x/v1", "n": [1, 2.5, None, {"ü": ""}]}}
    message = decode(value, resource_pb2.OpaqueDeviceConfiguration)
    assert message.parameters.raw == '{"apiVersion":"x/v1","n":[1,2.5,null,{"ü":""}]}'.encode()
    assert encode(message) == value


@pytest.mark.parametrize("value", [3, "50%"], ids=["number", "percentage"])
def test_disruption_budgets_take_numbers_and_percentages(value: int | str) -> None:
    """A budget would protect another number of pods than it says."""
    budget = {"spec": {"minAvailable": value}}
    assert encode(decode(budget, policy_pb2.PodDisruptionBudget)) == budget


QUANTITY_FORM = "quantities must match the regular expression"


@pytest.mark.parametrize(
    ("message_class", "value", "path", "problem"),
    [
        (core_pb2.Pod, [], "", "expected an object, not list"),
        (core_pb2.Pod, {"spec": "x"}, "spec", "expected an object, not str"),
        (core_pb2.Pod, {"spec": {"nodeName": 7}}, "spec.nodeName", "expected a string, not int"),
        (core_pb2.Pod, {"spec": {"hostNetwork": 1}}, "spec.hostNetwork", "expected true or false, not int"),
        (core_pb2.Pod, {"spec": {"priority": True}}, "spec.priority", "expected an integer, not bool"),
        (core_pb2.Pod, {"spec": {"priority": 1.0}}, "spec.priority", "expected an integer, not float"),
        (core_pb2.Pod, {"spec": {"priority": 2**31}}, "spec.priority", "out of range"),
        (core_pb2.Pod, {"spec": {"containers": {}}}, "spec.containers", "expected a list, not dict"),
        (core_pb2.Pod, {"spec": {"containers": [{}, 3]}}, "spec.containers[1]", "expected an object, not int"),
        (
            core_pb2.Pod,
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "1 core"}}}]}},
            "spec.containers[0].resources.requests.cpu",
            QUANTITY_FORM,
        ),
        (
            core_pb2.Pod,
            {"spec": {"overhead": {"cpu": True}}},
            "spec.overhead.cpu",
            "a quantity as a string or a number",
        ),
        (core_pb2.Pod, {"spec": {"overhead": {"cpu": float("nan")}}}, "spec.overhead.cpu", QUANTITY_FORM),
        (core_pb2.Pod, {"spec": {"overhead": 1}}, "spec.overhead", "expected an object, not int"),
        (core_pb2.Pod, {"metadata": {"labels": {"a": 1}}}, "metadata.labels.a", "expected a string, not int"),
        (core_pb2.Pod, {"metadata": {"finalizers": ["a", 1]}}, "metadata.finalizers[1]", "expected a string, not int"),
        (core_pb2.Pod, {"metadata": {"name": "\ud800"}}, "metadata.name", "surrogates not allowed"),
        (core_pb2.Pod, {"metadata": {"creationTimestamp": 0}}, "metadata.creationTimestamp", "a time as a string"),
        (core_pb2.Pod, {"status": {"startTime": "2024-01-01"}}, "status.startTime", "RFC 3339"),
        (core_pb2.Pod, {"status": {"startTime": "2024-13-01T00:00:00Z"}}, "status.startTime", "RFC 3339"),
        (core_pb2.Pod, {"status": {"startTime": "2024-01-01T00:00:00+99:00"}}, "status.startTime", "RFC 3339"),
        (core_pb2.Pod, {"status": {"startTime": "0001-01-01T00:00:00+01:00"}}, "status.startTime", "years 1 and 9999"),
        (
            core_pb2.Pod,
            {"spec": {"volumes": [{"csi": {"driver": []}}]}},
            "spec.volumes[0].csi.driver",
            "expected a string, not list",
        ),
        (
            policy_pb2.PodDisruptionBudget,
            {"spec": {"minAvailable": 1.5}},
            "spec.minAvailable",
            "expected an integer or a string",
        ),
        (
            resource_pb2.OpaqueDeviceConfiguration,
            {"parameters": {"n": 2**70}},
            "parameters",
            "Integer exceeds 64-bit range",
        ),
    ],
)
def test_values_of_a_wrong_type_are_refused_with_their_path(
    message_class: type[Message], value: Any, path: str, problem: str
) -> None:
    """One malformed object would stop the informer, or be reported without saying which field to mend."""
    with pytest.raises(FieldError) as caught:
        decode(value, message_class)
    assert caught.value.path == path
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("message", "path"),
    [
        pytest.param(
            core_pb2.Pod(metadata=meta_pb2.ObjectMeta(creation_timestamp=meta_pb2.Time(seconds=2**62))),
            "metadata.creationTimestamp",
            id="time",
        ),
        pytest.param(
            resource_pb2.DeviceClass(
                spec=resource_pb2.DeviceClassSpec(
                    config=[
                        resource_pb2.DeviceClassConfiguration(
                            device_configuration=resource_pb2.DeviceConfiguration(
                                opaque=resource_pb2.OpaqueDeviceConfiguration(
                                    parameters=meta_pb2.RawExtension(raw=b"{")
                                )
                            )
                        )
                    ]
                )
            ),
            "spec.config.opaque.parameters",
            id="raw-json-behind-an-inlined-field",
        ),
    ],
)
def test_bytes_that_json_cannot_represent_are_refused_with_their_path(message: Message, path: str) -> None:
    """A message from a broken peer would stop the program that shows it."""
    with pytest.raises(FieldError) as caught:
        encode(message)
    assert caught.value.path == path


def test_maps_are_written_in_order() -> None:
    """Two writings of the same object would differ, and so would every file and hash made of them."""
    labels = {f"k{number}": "" for number in range(20)}
    metadata = decode({"labels": dict(reversed(labels.items()))}, meta_pb2.ObjectMeta)
    assert list(encode(metadata)["labels"]) == sorted(labels)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
SINGLE_VALUES = {
    "Time": st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds") + "Z"),
    "MicroTime": st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds") + "Z"),
    "Quantity": st.sampled_from(["1", "100m", "2Gi", "1e3", 5, 0.25]),
    "IntOrString": st.integers(0, 100) | st.sampled_from(["50%"]),
    "RawExtension": st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.none(), max_size=2),
}
SCALARS = {
    FieldDescriptor.TYPE_STRING: st.text(st.characters(codec="utf-8"), max_size=5),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
}
KINDS = [
    core_pb2.Pod,
    core_pb2.Node,
    core_pb2.PersistentVolume,
    policy_pb2.PodDisruptionBudget,
    storage_pb2.VolumeAttachment,
    resource_pb2.ResourceSlice,
    resource_pb2.ResourceClaim,
]


def _draw_field(data: st.DataObject, field: FieldDescriptor, junk: int) -> Any:
    if junk and data.draw(st.integers(0, junk)) == 0:
        return data.draw(JUNK)
    if (values := map_value(field)) is not None:
        return {key: _draw_field(data, values, junk) for key in data.draw(st.lists(st.text(max_size=3), max_size=2))}
    if field.is_repeated:
        return [_draw_element(data, field, junk) for _ in range(data.draw(st.integers(0, 2)))]
    return _draw_element(data, field, junk)


def _draw_element(data: st.DataObject, field: FieldDescriptor, junk: int) -> Any:
    if field.message_type is None:
        return data.draw(SCALARS[field.type])
    if (single := SINGLE_VALUES.get(field.message_type.name)) is not None:
        return data.draw(single)
    return _draw_object(data, field.message_type, junk)


def _draw_object(data: st.DataObject, descriptor: Descriptor, junk: int) -> dict[str, Any]:
    """An object with a few of the fields of a message; one value in `junk` is anything at all."""
    value: dict[str, Any] = {}
    for field in data.draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=3)) if descriptor.fields else []:
        if is_inlined(field) and field.message_type is not None:
            value.update(_draw_object(data, field.message_type, junk))
        else:
            value[field.json_name] = _draw_field(data, field, junk)
    return value


@pytest.mark.parametrize("message_class", KINDS)
@given(data=st.data())
def test_valid_objects_round_trip(message_class: type[Message], data: st.DataObject) -> None:
    """An object kept as JSON and read again would be another object."""
    value = _draw_object(data, cast(Descriptor, message_class.DESCRIPTOR), junk=0)
    message = decode(value, message_class)
    assert decode(encode(message), message_class) == message


@pytest.mark.parametrize("message_class", KINDS)
@given(data=st.data())
def test_malformed_objects_are_read_or_refused(message_class: type[Message], data: st.DataObject) -> None:
    """Somebody's malformed object would end the process."""
    value = _draw_object(data, cast(Descriptor, message_class.DESCRIPTOR), junk=8)
    try:
        message = decode(value, message_class)
    except FieldError:
        return
    encode(message)
