"""The admin socket's file: whose it is, and who may remove it.

Two frontends may be configured with the same path. The file belongs to the one that listens there; one that a killed
process left behind is replaced.
"""

import contextlib
import errno
import logging
import os
import pathlib
import socket
from collections.abc import Iterator

log = logging.getLogger(__name__)

_PROBE_SECONDS = 1.0


@contextlib.contextmanager
def listener(path: str) -> Iterator[socket.socket | None]:
    """Listen at the path within the block, for this user only; None while another process listens there.

    Raises: OSError: the file cannot be made there.
    """
    if _is_in_use(path):
        log.error(
            "admin.socket: %s: another process listens there, so this frontend has no admin socket: "
            "configure another path and start it again",
            path,
        )
        yield None
        return
    own = _bind(path)
    where = pathlib.Path(path)
    file = where.stat()
    try:
        yield own
    finally:
        own.close()
        with contextlib.suppress(OSError):
            if os.path.samestat(where.stat(), file):
                where.unlink()


def _is_in_use(path: str) -> bool:
    """Whether a process listens at the path."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        # EAGAIN: so many wait to be accepted already.
        return probe.connect_ex(path) in (0, errno.EAGAIN)


def _bind(path: str) -> socket.socket:
    """Listen at the path, for this user only; a file left behind there is replaced."""
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
