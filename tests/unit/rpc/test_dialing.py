"""Connections whose certificate files go, or are renewed, while they are in use."""

import gc
from pathlib import Path

import pytest

from tests.contract import certificates
from trireme.rpc import dialing, listen_flags


def _settings(folder: Path) -> dialing.TlsSettings:
    """Settings with files that exist."""
    authority = certificates.Authority()
    (folder / "ca.crt").write_bytes(authority.certificate)
    return dialing.TlsSettings(str(folder / "ca.crt"), identities=("plugin",), owner="plugin P")


def test_who_connects_anew_needs_no_file_that_others_have_read(tmp_path: Path) -> None:
    """If this fails, a Secret that is renewed while a plugin's endpoints change ends the scheduler."""
    settings = _settings(tmp_path)
    first = dialing.Dialer(settings)
    (tmp_path / "ca.crt").unlink()
    second = dialing.Dialer(_settings_again(settings))
    assert second._watched is first._watched


def test_a_file_that_nobody_has_read_is_missed(tmp_path: Path) -> None:
    """If this fails, a plugin is connected to by certificates of a configuration that is long gone."""
    settings = _settings(tmp_path)
    dialing.Dialer(settings)
    gc.collect()
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(listen_flags.ListenError, match=r"plugin P: tls\.caFile"):
        dialing.Dialer(settings)


def _settings_again(settings: dialing.TlsSettings) -> dialing.TlsSettings:
    """Equal settings, as another message of the configuration has them."""
    return dialing.TlsSettings(settings.ca_file, identities=settings.identities, owner=settings.owner)
