"""The search for devices, on pools and claims alone: what is found first, what is not found, and what is wrong."""

import pytest

from tests.helpers.device_searches import (
    DRIVER,
    Json,
    all_devices,
    claim_of,
    either,
    exactly,
    held_device,
    named,
    search,
    selected,
    slices_of,
)
from trireme.plugins.dynamic_resources import allocated_devices, devices, features
from trireme.plugins.dynamic_resources.allocation_errors import AllocationError, TimedOutError, UnusablePoolsError
from trireme.v1 import resource_pb2


def test_the_first_devices_are_taken_in_the_order_of_slices_and_devices() -> None:
    """Drivers influence by names what is taken first."""
    slices = slices_of(named("z", "y"), named("a"))
    assert search(slices, claim_of(exactly(count=2), exactly("other"))) == [["r=z", "r=y", "other=a"]]


def test_an_allocated_device_is_available_to_admin_access_only() -> None:
    """Dedicated devices go to one claim; admin access sees all of them."""
    slices = slices_of(named("a", "b"))
    assert search(slices, claim_of(exactly()), taken=[held_device("a")]) == [["r=b"]]
    assert search(slices, claim_of(exactly(count=2)), taken=[held_device("a")]) is None
    assert search(slices, claim_of(all_devices(adminAccess=True)), taken=[held_device("a")]) == [["r=a", "r=b"]]


def test_an_earlier_choice_is_revised_for_a_later_request() -> None:
    """Backtracking: the first request could have either device, the second only one."""
    slices = slices_of(
        {
            "devices": [
                {"name": "a", "attributes": {"fast": {"bool": True}}},
                {"name": "b", "attributes": {"fast": {"bool": False}}},
            ]
        }
    )
    fast = selected(f'device.attributes["{DRIVER}"].fast')
    assert search(slices, claim_of(exactly("any"), exactly("fast", **fast))) == [["any=b", "fast=a"]]


def test_all_means_all_and_none_is_not_enough() -> None:
    """Mode All fails where one that matches is taken, and where nothing matches."""
    slices = slices_of(named("a", "b"))
    assert search(slices, claim_of(all_devices())) == [["r=a", "r=b"]]
    assert search(slices, claim_of(all_devices()), taken=[held_device("b")]) is None
    assert search(slices, claim_of(all_devices(**selected("false")))) is None


def test_the_first_alternative_that_can_be_had_is_taken() -> None:
    """A prioritized list, where the first is too much and the second enough."""
    slices = slices_of(named("a", "b"))
    claim = claim_of(either({"count": 3}, {"count": 2}, {}))
    assert search(slices, claim) == [["r/s1=a", "r/s1=b"]]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        pytest.param({"matchAttribute": f"{DRIVER}/root"}, [["r=b", "r=c"]], id="alike"),
        pytest.param({"distinctAttribute": f"{DRIVER}/root"}, [["r=a", "r=b"]], id="unlike"),
        pytest.param({"matchAttribute": f"{DRIVER}/nosuch"}, None, id="no such attribute"),
        pytest.param({"matchAttribute": f"{DRIVER}/nosuch", "requests": ["other"]}, [["r=a", "r=b"]], id="others"),
    ],
)
def test_constraints(constraint: Json, expected: list[list[str]] | None) -> None:
    """Devices that must have an attribute alike, or each otherwise; one without it cannot be had."""
    spec = [("a", "x"), ("b", "y"), ("c", "y")]
    slices = slices_of({"devices": [{"name": name, "attributes": {"root": {"string": root}}} for name, root in spec]})
    assert search(slices, claim_of(exactly(count=2), constraints=[constraint])) == expected


@pytest.mark.parametrize("constraint", ["matchAttribute", "distinctAttribute"])
@pytest.mark.parametrize("value", [{}, {"version": "1"}], ids=["none", "no version"])
@pytest.mark.parametrize("on", [features.Features(), features.Features(list_attributes=True)], ids=["one", "lists"])
def test_a_constraint_over_an_attribute_without_a_valid_value_ends_the_search(
    constraint: str, value: Json, on: features.Features
) -> None:
    """Also for the first device, which there is nothing to compare with."""
    slices = slices_of({"devices": [{"name": "a", "attributes": {"root": value}}, {"name": "b"}]})
    wanted = claim_of(exactly(), constraints=[{constraint: f"{DRIVER}/root"}])
    with pytest.raises(
        AllocationError, match=f"device {DRIVER}/pool/a: unsupported attribute value for {DRIVER}/root$"
    ):
        search(slices, wanted, on=on)
    assert search(slices, claim_of(exactly(), constraints=[{constraint: f"{DRIVER}/root", "requests": ["s"]}])) == [
        ["r=a"]
    ]


@pytest.mark.parametrize("on", [features.Features(), features.Features(list_attributes=True)], ids=["one", "lists"])
def test_versions_that_differ_in_build_metadata_are_alike(on: features.Features) -> None:
    versions = {"a": "1.0.0+x", "b": "1.0.0-rc.1+x", "c": "1.0.0+y"}
    spec = [{"name": name, "attributes": {"v": {"version": text}}} for name, text in versions.items()]
    slices = slices_of({"devices": spec})
    alike, unlike = ([{constraint: f"{DRIVER}/v"}] for constraint in ("matchAttribute", "distinctAttribute"))
    assert search(slices, claim_of(exactly(count=2), constraints=alike), on=on) == [["r=a", "r=c"]]
    assert search(slices, claim_of(exactly(count=2), constraints=unlike), on=on) == [["r=a", "r=b"]]
    assert search(slices, claim_of(exactly(count=3), constraints=unlike), on=on) is None


def _partitions(slots: str, *draws: str, rest: Json | None = None) -> list[devices.DeviceSlice]:
    counters = {"sharedCounters": [{"name": "all", "counters": {"slots": {"value": slots}}}], **(rest or {})}
    drawing = [
        {"name": f"p{number}", "consumesCounters": [{"counterSet": "all", "counters": {"slots": {"value": amount}}}]}
        for number, amount in enumerate(draws)
    ]
    return slices_of(counters, {"devices": drawing})


def test_counters_are_consumed_and_restored() -> None:
    """Partitions share counters, those in use draw on them too, and one that was tried is put back."""
    assert search(_partitions("4", "3", "2", "2"), claim_of(exactly(count=2))) == [["r=p1", "r=p2"]]
    assert search(_partitions("4", "3", "2", "2"), claim_of(exactly(count=2)), taken=[held_device("p0")]) is None
    assert search(_partitions("2", "3", "1"), claim_of(exactly())) == [["r=p1"]]


def test_a_counter_that_is_not_there_makes_the_pool_invalid() -> None:
    """It is said where nothing else is found, and all devices cannot be asked for."""
    slices = slices_of(
        {"sharedCounters": []}, {"devices": [{"name": "a", "consumesCounters": [{"counterSet": "no", "counters": {}}]}]}
    )
    with pytest.raises(UnusablePoolsError, match=r"^invalid resource pools were encountered$"):
        search(slices, claim_of(exactly()))
    with pytest.raises(UnusablePoolsError, match=r"^claim ns/c, request r: asks for all devices, but resource pool"):
        search(slices, claim_of(all_devices()))


def test_a_pool_that_is_not_complete_gives_nothing() -> None:
    """A slice is missing: what it has may change, so nothing is taken."""
    slices = slices_of({**named("a"), "pool": {"resourceSliceCount": 2}})
    assert search(slices, claim_of(exactly())) is None
    with pytest.raises(UnusablePoolsError, match=rf"resource pool {DRIVER}/pool is currently being updated$"):
        search(slices, claim_of(all_devices()))


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], [["r=c"]], id="none"),
        pytest.param([{"key": "k", "operator": "Exists"}], [["r=a"]], id="exists"),
        pytest.param([{"key": "k", "operator": "Equal", "value": "v"}], [["r=a"]], id="equal"),
        pytest.param([{"key": "k", "operator": "Equal", "value": "w"}], [["r=c"]], id="another value"),
        pytest.param([{"key": "k", "operator": "Exists", "effect": "NoExecute"}], [["r=c"]], id="another effect"),
        pytest.param([{"operator": "Exists"}], [["r=a"]], id="everything"),
    ],
)
def test_taints_keep_claims_away(tolerations: list[Json], expected: list[list[str]]) -> None:
    """Those on devices and those by rules; an effect that is None keeps nobody away."""
    tainted = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    untroubled = {"taints": [{"key": "k", "effect": "None"}]}
    spec = {"devices": [{"name": "a", **tainted}, {"name": "b"}, {"name": "c", **untroubled}]}
    rule = {"deviceSelector": {"driver": DRIVER, "device": "b"}, "taint": {"key": "rule", "effect": "NoExecute"}}
    slices = slices_of(spec, rules=[rule])
    assert search(slices, claim_of(exactly(tolerations=tolerations))) == expected


def test_devices_that_must_be_prepared_come_last() -> None:
    """Pools with binding conditions are only taken from where nothing else is left."""
    waits = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
    slices = [*slices_of(named("a", **waits)), *slices_of({**named("b"), "pool": {"name": "z"}})]
    assert search(slices, claim_of(exactly(count=2))) == [["r=b", "r=a"]]
    off = features.Features(binding_conditions=False)
    assert search(slices, claim_of(exactly(count=2)), on=off) is None


def test_shares_are_given_as_far_as_they_go() -> None:
    """What others consume counts, and what one search gives itself."""
    shared = {"allowMultipleAllocations": True, "capacity": {"lanes": {"value": "10"}}}
    slices = slices_of(named("a", **shared))
    asks = {"capacity": {"requests": {"lanes": "4"}}}
    assert search(slices, claim_of(exactly("x", **asks), exactly("y", **asks))) == [["x=a", "y=a"]]
    held = [held_device("a", shared=True, lanes=3 * 10**9)]
    assert search(slices, claim_of(exactly("x", **asks), exactly("y", **asks)), taken=held) is None
    with pytest.raises(AllocationError, match=r"the DRAConsumableCapacity feature is disabled$"):
        search(slices, claim_of(exactly(**asks)), on=features.Features(consumable=False))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        pytest.param(exactly(allocationMode="Some"), "claim ns/c, request r: unsupported count mode Some", id="mode"),
        pytest.param(
            exactly(deviceClassName="no"),
            'claim ns/c, request r: could not retrieve device class no: deviceclass.resource.k8s.io "no" not found',
            id="class",
        ),
        pytest.param(
            exactly(count=33),
            "claim ns/c, request r: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for",
            id="too many",
        ),
        pytest.param(
            exactly(selectors=[{}]),
            "claim ns/c, request r, selector #0: CEL expression empty (unsupported selector type?)",
            id="selector of an unknown kind",
        ),
        pytest.param(
            exactly(**selected("device.driver")),
            "claim ns/c: selector #0: CEL compile error: must evaluate to bool or the unknown type, not string",
            id="selector that is none",
        ),
        pytest.param(
            exactly(**selected("1 / 0 == 1")),
            f"claim ns/c: selector #0 on device {DRIVER}/pool/a: CEL runtime error: division by zero",
            id="selector without an answer",
        ),
    ],
)
def test_an_invalid_claim_has_the_message_of_kube_scheduler(request_: Json, text: str) -> None:
    """In kube-scheduler's words: the text goes into the event of the pod."""
    with pytest.raises(AllocationError) as failed:
        search(slices_of(named("a")), claim_of(request_))
    assert str(failed.value) == text


def test_very_many_devices_at_once() -> None:
    """A pod may have many claims, and each as many devices as an allocation holds."""
    slices = slices_of(named(*(f"d{number:04}" for number in range(40 * 32))))
    found = search(slices, *(claim_of(exactly(count=32)) for _ in range(40)))
    assert found is not None
    assert len({device for claim in found for device in claim}) == 40 * 32


def test_an_endless_search_times_out() -> None:
    """The filter timeout."""
    with pytest.raises(TimedOutError):
        search(slices_of(named("a")), claim_of(exactly()), out_of_time=True)


def test_a_slice_with_an_invalid_amount_is_refused_as_a_whole() -> None:
    """Readers of slices leave it out, and nothing else suffers."""
    with pytest.raises(ValueError, match="quantities must match"):
        slices_of(named("a", capacity={"lanes": {"value": "10x"}}))


def _sharing(**capacity: Json) -> Json:
    return {"devices": [{"name": "a", "allowMultipleAllocations": True, "capacity": capacity}]}


@pytest.mark.parametrize("stated", ["memory", f"{DRIVER}/memory"])
@pytest.mark.parametrize("requested", ["memory", f"{DRIVER}/memory"])
def test_a_capacity_has_one_name_with_its_domain_and_without(stated: str, requested: str) -> None:
    """What a claim's status has counts as well, in either spelling."""
    slices = slices_of(_sharing(**{stated: {"value": "2"}}))
    claim = claim_of(exactly(capacity={"requests": {requested: "1"}}))
    assert search(slices, claim) == [["r=a"]]
    held = allocated_devices.AllocatedDevices()
    allocation = resource_pb2.AllocationResult()
    result = allocation.devices.results.add(driver=DRIVER, pool="pool", device="a", share_id="s")
    result.consumed_capacity[requested].string = "2"
    (share,) = allocated_devices.claimed_devices(allocation, consumable=True)
    held.add(share)
    assert held.consumed_amounts((DRIVER, "pool", "a")) == {f"{DRIVER}/memory": 2 * 10**9}
    assert search(slices, claim, taken=[share]) is None
    assert slices[0].devices[0].status_name(f"{DRIVER}/memory") == stated


def test_a_capacity_that_is_requested_twice_is_an_error() -> None:
    claim = claim_of(exactly(capacity={"requests": {"memory": "1", f"{DRIVER}/memory": "1"}}))
    with pytest.raises(AllocationError, match=r'capacity "memory" requested both as "memory" and as'):
        search(slices_of(_sharing(memory={"value": "2"})), claim)


def test_a_capacity_below_zero_is_an_error() -> None:
    """A policy could round it up to a valid value."""
    claim = claim_of(exactly(capacity={"requests": {"memory": "-1"}}))
    with pytest.raises(AllocationError, match=rf'capacity "{DRIVER}/memory": capacity value is negative: request -1$'):
        search(slices_of(_sharing(memory={"value": "2"})), claim)


@pytest.mark.parametrize("value", [{"version": "one"}, {}], ids=["malformed", "unknown"])
def test_an_attribute_without_a_valid_value_fails_those_selectors_that_look_it_up(value: Json) -> None:
    slices = slices_of({"devices": [{"name": "a", "attributes": {"bad": value, "good": {"int": 1}}}]})
    of = f'device.attributes["{DRIVER}"]'
    for fine in (f"{of}.good == 1", f'!("bad" in {of})', f"size({of}) == 2"):
        assert search(slices, claim_of(exactly(**selected(fine)))) == [["r=a"]]
    for failing in (f"{of}.bad == 1", f"has({of}.bad)"):
        with pytest.raises(AllocationError, match="attribute bad: value is invalid or its type is not supported"):
            search(slices, claim_of(exactly(**selected(failing))))
