"""Writes that the API server refuses are in the log: what was refused and why, once."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from trireme_kube.apimachinery import api_writes
from trireme_kube.client import writes
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError

FORBIDDEN = ApiError(403, "Forbidden", 'pods "a" is forbidden')
INVALID = ApiError(422, "Invalid", "denied by a webhook")


class Api:
    """Answers as the test says: by method and path, or else by method; `None`: it happens."""

    def __init__(self) -> None:
        self.errors: dict[str, ApiError | None] = {}

    def _answer(self, method: str) -> Callable[..., Any]:
        async def send(path: str, *_: Any, **__: Any) -> client.ApiResponse:
            error = self.errors.get(f"{method} {path}", self.errors.get(method))
            if error is not None:
                raise error
            return client.ApiResponse(200, {}, b"")

        return send

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._answer(name)


def _pod(name: str) -> api_writes.PodName:
    return api_writes.PodName("ns", name, f"uid-{name}")


@pytest.fixture(name="api")
def _api() -> Api:
    return Api()


@pytest.fixture(name="writer")
def _writer(api: Api, caplog: pytest.LogCaptureFixture) -> writes.Writer:
    caplog.set_level(logging.INFO)
    return writes.Writer(api)  # as much of a client as a writer needs


def _logged(caplog: pytest.LogCaptureFixture) -> list[tuple[object, ...]]:
    values = [record.__dict__["values"] for record in caplog.records]
    return [(each["verb"], each["resource"], str(each["object"]), each["status"]) for each in values]


async def test_a_refused_write_says_which_and_why(
    api: Api, writer: writes.Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a missing permission of bind is nowhere but in the events of pods."""
    api.errors = dict.fromkeys(("post", "patch", "delete", "put"), FORBIDDEN)
    await writer.bind(_pod("a"), "n1", 5.0)
    await writer.patch_pod_status(_pod("a"), {}, 5.0)
    await writer.delete_pod(_pod("a"), 5.0)
    await writer.put("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status", {}, 5.0)
    await writer.patch("/api/v1/persistentvolumes/v", {}, 5.0)
    assert _logged(caplog) == [
        ("create", "pods/binding", "ns/a", 403),
        ("patch", "pods/status", "ns/a", 403),
        ("delete", "pods", "ns/a", 403),
        ("update", "resourceclaims/status", "ns/c", 403),
        ("patch", "persistentvolumes", "v", 403),
    ]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    values = caplog.records[0].__dict__["values"]
    assert (values["err"], values["see"]) == (
        FORBIDDEN.message,
        "https://trireme.dev/docs/troubleshooting.html#missing-permissions",
    )


async def test_a_repeated_refusal_is_logged_once(
    api: Api, writer: writes.Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a missing role writes a line for every pod of the cluster and attempt."""
    api.errors = {"post": FORBIDDEN}
    for name in ("a", "b", "a", "c"):
        await writer.bind(_pod(name), "n1", 5.0)
    assert _logged(caplog) == [("create", "pods/binding", "ns/a", 403)]
    api.errors = {"post": INVALID}
    await writer.bind(_pod("a"), "n1", 5.0)
    api.errors = {}
    await writer.bind(_pod("a"), "n1", 5.0)
    api.errors = {"post": FORBIDDEN}
    await writer.bind(_pod("a"), "n1", 5.0)
    assert [status for *_, status in _logged(caplog)] == [403, 422, 403]


async def test_single_objects_are_logged_once_among_others_that_are_written(
    api: Api, writer: writes.Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a pod that a webhook refuses is logged with every attempt, or the second such pod never is."""
    for name in ("bad", "worse"):
        api.errors[f"post {_pod(name).path}/binding"] = INVALID
    for name in ("bad", "good", "bad", "worse", "good", "bad", "worse"):
        await writer.bind(_pod(name), "n1", 5.0)
    assert [name for _, _, name, _ in _logged(caplog)] == ["ns/bad", "ns/worse"]


@pytest.mark.parametrize(
    "error", [ApiError(404, "NotFound", "gone"), ApiError(409, "Conflict", "bound")], ids=["gone", "conflict"]
)
async def test_an_object_that_changed_is_no_refusal(
    api: Api, writer: writes.Writer, caplog: pytest.LogCaptureFixture, error: ApiError
) -> None:
    """If this fails, pods that users delete look like a fault of the scheduler."""
    api.errors = {"post": error}
    await writer.bind(_pod("a"), "n1", 5.0)
    assert not caplog.records
