"""The file of the admin socket: its owner keeps it, and removes nobody else's."""

import logging
import pathlib
import socket

import pytest

from trireme.frontend.serving import admin_socket


def _is_listening(path: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_a_second_frontend_leaves_the_first_one_s(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """It took the socket without a word and removed it at its end: nobody could reach the first one any more."""
    path = tmp_path / "admin.sock"
    with admin_socket.listener(str(path)) as first:
        assert first is not None
        with caplog.at_level(logging.ERROR), admin_socket.listener(str(path)) as second:
            assert second is None
        assert "admin.socket" in caplog.text
        assert str(path) in caplog.text
        assert _is_listening(path)
    assert not path.exists()


def test_a_socket_with_a_full_queue_is_in_use(tmp_path: pathlib.Path) -> None:
    """A frontend that is too busy to accept connections still owns its file."""
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waits:
        busy.bind(str(path))
        busy.listen(0)
        waits.connect(str(path))
        with admin_socket.listener(str(path)) as listener:
            assert listener is None
    assert path.exists()


def test_the_socket_of_a_killed_process_is_replaced(tmp_path: pathlib.Path) -> None:
    """A frontend that was killed could not remove it; its successor must not do without for that."""
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
        stale.listen()
    with admin_socket.listener(str(path)) as listener:
        assert listener is not None
        assert _is_listening(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_another_file_at_the_end_stays(tmp_path: pathlib.Path) -> None:
    """Somebody removed ours and listens there now."""
    path, other = tmp_path / "admin.sock", tmp_path / "other.sock"
    with admin_socket.listener(str(path)), socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(other))
        successor.listen()
        other.replace(path)
    assert path.exists()


def test_a_folder_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    """The caller names the field."""
    with pytest.raises(OSError, match="No such file"), admin_socket.listener(str(tmp_path / "none" / "admin.sock")):
        pass
