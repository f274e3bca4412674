"""The admin socket's file: whose it is, and who may remove it.

Two frontends may be configured with the same path. The file belongs to the one that listens there; one that a killed
process left behind is replaced.
"""

import contextlib
import errno
import os
import pathlib
import socket

_PROBE_SECONDS = 1.0


class SocketInUse(Exception):
    """Another process listens at the path."""


class AdminSocket:
    """A socket that listens at the path, for this user only."""

    def __init__(self, path: str) -> None:
        """Raises: SocketInUse: another process listens there. OSError: the file cannot be made there."""
        if _is_in_use(path):
            raise SocketInUse
        self.listener = _listen_for_this_user(path)
        self._path = pathlib.Path(path)
        self._file: os.stat_result | None = self._path.stat()

    def remove_file(self) -> None:
        """Remove the file, unless it is another one by now.

        To be called before the socket is closed: from then on another process may listen there, and its file may have
        the number of ours.
        """
        ours, self._file = self._file, None
        with contextlib.suppress(OSError):
            if ours is not None and os.path.samestat(self._path.stat(), ours):
                self._path.unlink()

    def close(self) -> None:
        """Remove the file, if that was not done, and listen no more."""
        self.remove_file()
        self.listener.close()


def _is_in_use(path: str) -> bool:
    """Whether a process listens at the path."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        # EAGAIN: so many wait to be accepted already.
        return probe.connect_ex(path) in (0, errno.EAGAIN)


def _listen_for_this_user(path: str) -> socket.socket:
    """Make a Unix socket that listens at the path, for this user only; a file that is there is replaced."""
    own = socket.socket(socket.AF_UNIX)
    # Nobody else may connect, not even between making the file and setting its mode.
    before = os.umask(0o177)
    try:
        pathlib.Path(path).unlink(missing_ok=True)
        own.bind(path)
        own.listen()
    except OSError:
        own.close()
        raise
    finally:
        os.umask(before)
    return own
