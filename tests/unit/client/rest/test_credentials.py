"""Credentials that rotate are read again when they are due, and when the server rejects them."""

import base64
import datetime
import pathlib
import types
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from kubernetes.aio.config import incluster_config, kube_config

from tests.helpers import virtual_time
from trireme_kube.client.rest import credentials


class _EarlierDatetime(datetime.datetime):
    """The time of a wall clock that was set back by six hours."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "_EarlierDatetime":
        """As datetime.now."""
        return cls.fromtimestamp(super().now(tz).timestamp() - 6 * 3600, tz)


@pytest.fixture
def account(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of a pod's service account."""
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("not read before a connection is made")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    return tmp_path


async def _of_account(clock: Callable[[], float]) -> credentials.Credentials:
    made = await credentials.load(credentials.Source(), clock)
    assert made.headers["Authorization"] == "bearer first"
    return made


async def test_a_token_is_read_again_whatever_the_wall_clock_says(
    account: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a clock that is set back keeps a token that has expired, and every request is refused."""
    clock = virtual_time.Clock()
    found = await _of_account(clock)
    earlier = types.SimpleNamespace(datetime=_EarlierDatetime, timedelta=datetime.timedelta)
    monkeypatch.setattr(incluster_config, "datetime", earlier)
    (account / "token").write_text("second")
    assert not await found.refresh()  # not due
    clock.now += credentials.RENEWAL_SECONDS
    assert await found.refresh()
    assert found.headers["Authorization"] == "bearer second"


async def test_a_token_that_was_rejected_is_read_again_at_once(account: pathlib.Path) -> None:
    """If this fails, a token that was revoked is sent for another minute."""
    found = await _of_account(virtual_time.Clock())
    (account / "token").write_text("second")
    assert await found.refresh(found.headers.copy())
    assert found.headers["Authorization"] == "bearer second"
    assert not await found.refresh(found.headers.copy())  # nothing newer


async def test_a_new_token_is_used_though_the_authority_cannot_be_read(
    account: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a CA file that is gone, while connections go on, makes every request fail within the hour."""
    clock = virtual_time.Clock()
    found = await _of_account(clock)
    (account / "ca.crt").unlink()
    (account / "token").write_text("second")
    clock.now += credentials.RENEWAL_SECONDS
    assert await found.refresh()
    assert found.headers["Authorization"] == "bearer second"
    assert "could not be renewed" in caplog.text


async def test_a_token_file_that_is_gone_keeps_the_token(
    account: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a moment in which the kubelet exchanges the volume ends the process or its requests."""
    clock = virtual_time.Clock()
    found = await _of_account(clock)
    (account / "token").unlink()
    clock.now += credentials.RENEWAL_SECONDS
    assert not await found.refresh()
    assert found.headers["Authorization"] == "bearer first"
    assert "could not be renewed" in caplog.text


def _id_token(subject: str) -> str:
    """An id token that has not expired."""
    claims = {"sub": subject, "exp": 32_503_680_000}  # the year 3000
    return f"e30.{base64.b64encode(orjson.dumps(claims)).decode().rstrip('=')}.signature"


async def test_an_identity_providers_token_that_was_rejected_is_refreshed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a clock that is behind keeps a token as long as it is behind, though the server refuses it."""
    first, second = _id_token("first"), _id_token("second")
    requested: list[Any] = []

    class Provider:
        def __init__(self, *_: Any) -> None:
            """As OpenIDRequestor."""

        async def refresh_token(self, token: str) -> dict[str, str]:
            """As OpenIDRequestor's."""
            requested.append(token)
            if len(requested) > 1:
                raise kube_config.ConfigException("the provider is down")
            return {"id_token": second, "refresh_token": "r2"}

    monkeypatch.setattr(kube_config, "OpenIDRequestor", Provider)
    provider = {
        "client-id": "c",
        "client-secret": "s",
        "idp-issuer-url": "https://127.0.0.1:1",
        "id-token": first,
        "refresh-token": "r1",
    }
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {"auth-provider": {"name": "oidc", "config": provider}}}],
    }
    (tmp_path / "kubeconfig").write_bytes(orjson.dumps(document))
    clock = virtual_time.Clock()
    found = await credentials.load(credentials.Source(str(tmp_path / "kubeconfig")), clock)
    clock.now += credentials.RENEWAL_SECONDS
    assert not await found.refresh()  # it has not expired
    assert requested == []
    assert await found.refresh(found.headers.copy())
    assert found.headers["Authorization"] == f"Bearer {second}"
    assert not await found.refresh(found.headers.copy())
    assert found.headers["Authorization"] == f"Bearer {second}"
    assert requested == ["r1", "r2"]
