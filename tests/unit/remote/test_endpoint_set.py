"""The replicas of a plugin follow what their names stand for, and nothing is left of those that are gone."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.virtual_time import Clock, on_virtual_time
from trireme.remote import endpoint_set, remote_endpoint

NAME = "dns:///plugin:1"


class Endpoint:
    """An endpoint that takes a second to retire."""

    made: list["Endpoint"]

    def __init__(self, target: str, *_: object) -> None:
        self.target = target
        self.retired = self.closed = False
        self.made.append(self)

    async def retire(self) -> None:
        await asyncio.sleep(1.0)
        self.retired = True

    async def close(self) -> None:
        self.closed = True


class Names:
    """What names stand for, or why they cannot be looked up; a look-up takes a tenth of a second."""

    def __init__(self) -> None:
        self.found: dict[str, Sequence[str] | Exception] = {}
        self.asked: list[str] = []

    async def find(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        await asyncio.sleep(0.1)
        found = self.found[name]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Endpoint]:
    """The endpoints that were ever made."""
    monkeypatch.setattr(remote_endpoint, "Endpoint", Endpoint)
    monkeypatch.setattr(Endpoint, "made", [], raising=False)
    return Endpoint.made


def targets(endpoints: endpoint_set.EndpointSet) -> set[str]:
    return {each.target for each in endpoints.current}


def endpoints_of(names: Names, clock: Clock, *of: str, expands: bool = True) -> endpoint_set.EndpointSet:
    unused: Any = None
    return endpoint_set.EndpointSet(of, unused, 3, clock, expands=expands, find=names.find)


@on_virtual_time
async def test_each_address_of_a_name_is_an_endpoint(made: list[Endpoint]) -> None:
    names, clock = Names(), Clock(100.0)
    names.found = {"plugin:1": ["a:1", "b:1", "c:1"]}
    endpoints = endpoints_of(names, clock, NAME, "other:1")
    assert targets(endpoints) == {NAME, "other:1"}
    assert names.asked == []
    await asyncio.sleep(0.2)
    assert names.asked == ["plugin:1"]
    assert targets(endpoints) == {"a:1", "b:1", "c:1", "other:1"}
    kept = endpoints.current[-1]
    # Two go and one comes; the others stay as they are.
    names.found = {"plugin:1": ["c:1", "d:1"]}
    clock.now += endpoint_set.RESOLVE_SECONDS
    assert targets(endpoints) == {"a:1", "b:1", "c:1", "other:1"}
    await asyncio.sleep(0.2)
    assert targets(endpoints) == {"c:1", "d:1", "other:1"}
    assert kept in endpoints.current
    await asyncio.sleep(2.0)
    assert {each.target for each in made if each.retired} == {NAME, "a:1", "b:1"}


@on_virtual_time
async def test_names_are_looked_up_now_and_then_and_not_twice_at_once(made: list[Endpoint]) -> None:
    names, clock = Names(), Clock(100.0)
    names.found = {"plugin:1": ["a:1"]}
    endpoints = endpoints_of(names, clock, NAME)
    for _ in range(3):
        assert endpoints.current
        await asyncio.sleep(0.06)
    assert len(names.asked) == 1
    clock.now += endpoint_set.RESOLVE_SECONDS - 0.01
    assert endpoints.current
    clock.now += 0.01
    assert endpoints.current
    clock.now += endpoint_set.RESOLVE_SECONDS
    assert endpoints.current
    await asyncio.sleep(0.2)
    assert len(names.asked) == 2, "while one is under way"
    assert endpoints.current
    await asyncio.sleep(0.2)
    assert len(names.asked) == 3


@pytest.mark.parametrize("answer", [OSError("no such name"), TimeoutError(), ()], ids=["error", "late", "no address"])
@on_virtual_time
async def test_a_name_without_an_answer_keeps_its_endpoints(
    answer: Exception | Sequence[str], made: list[Endpoint]
) -> None:
    """A name server that is down must not take plugins with it; and the next name is looked up as well."""
    names, clock = Names(), Clock(100.0)
    names.found = {"plugin:1": ["a:1"], "second:1": ["x:1"]}
    endpoints = endpoints_of(names, clock, NAME, "dns:///second:1")
    assert endpoints.current
    await asyncio.sleep(0.5)
    names.found = {"plugin:1": answer, "second:1": ["y:1"]}
    clock.now += endpoint_set.RESOLVE_SECONDS
    assert endpoints.current
    await asyncio.sleep(0.5)
    assert targets(endpoints) == {"a:1", "y:1"}


@on_virtual_time
async def test_names_that_stand_for_themselves_are_not_looked_up(made: list[Endpoint]) -> None:
    names = Names()
    endpoints = endpoints_of(names, Clock(100.0), NAME, expands=False)
    assert targets(endpoints) == {NAME}
    await asyncio.sleep(0.2)
    assert names.asked == []


@on_virtual_time
async def test_closing_ends_what_is_under_way(made: list[Endpoint]) -> None:
    """Look-ups and calls of endpoints that are gone: a task that stays is destroyed while pending."""
    names, clock = Names(), Clock(100.0)
    names.found = {"plugin:1": ["a:1", "b:1"]}
    endpoints = endpoints_of(names, clock, NAME)
    assert endpoints.current
    await asyncio.sleep(0.2)
    names.found = {"plugin:1": ["c:1"]}
    clock.now += endpoint_set.RESOLVE_SECONDS
    assert endpoints.current
    await asyncio.sleep(0.2)
    clock.now += endpoint_set.RESOLVE_SECONDS
    assert endpoints.current
    await asyncio.sleep(0)
    await endpoints.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [each.target for each in made if each.closed] == ["c:1"]
    assert not any(each.retired for each in made)
