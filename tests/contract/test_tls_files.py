"""Certificate files of the Python SDK, phases and frontend: what is in use after a change, and what is logged."""

import logging
from pathlib import Path

import pytest

from tests.contract.certificates import Authority
from trireme.rpc import tls_files


def _watch(folder: Path) -> tls_files.WatchedFiles:
    """The pair `plugin` of the folder, as a server watches it."""
    certificate = tls_files.NamedFile("--tls-cert-file", folder / "plugin.crt")
    return tls_files.WatchedFiles(
        tls_files.Files(certificate, tls_files.NamedFile("--tls-private-key-file", folder / "plugin.key"), None)
    )


def test_a_pair_in_two_steps_is_used_once_it_matches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, replacing the certificate before its key ends all connections, or takes a restart."""
    one, two = Authority().issue("one"), Authority().issue("two")
    one.write(tmp_path, "plugin")
    watched = _watch(tmp_path)
    (tmp_path / "plugin.crt").write_bytes(two.certificate + b"\n")  # another size, whatever the clock's resolution
    assert not watched.reload_if_changed()
    assert not watched.reload_if_changed()
    assert watched.content.certificate == one.certificate
    assert len(caplog.records) == 1
    key, certificate = tmp_path / "plugin.key", tmp_path / "plugin.crt"
    assert f"{key}: not the key of {certificate}: use the key that" in caplog.records[0].getMessage()
    key.write_bytes(two.key + b"\n")
    assert watched.reload_if_changed()
    assert watched.content.private_key == two.key + b"\n"


@pytest.mark.parametrize(("hours", "entries"), [(1.0, 0), (-0.5, 1)], ids=["valid", "expired"])
def test_an_expired_certificate_is_used_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hours: float, entries: int
) -> None:
    """If this fails, only the other side knows why no connection is made."""
    Authority().issue("plugin", hours=hours).write(tmp_path, "plugin")
    with caplog.at_level(logging.WARNING):
        _watch(tmp_path)
    expired = [entry.getMessage() for entry in caplog.records if "expired at" in entry.getMessage()]
    assert len(expired) == entries
    assert all(f"--tls-cert-file: {tmp_path}/plugin.crt" in line for line in expired)
    assert all(line.endswith("(https://trireme.dev/docs/runbooks#triremecertificateexpires)") for line in expired)
