"""Where a file is to be written that is replaced as a whole, by a rename.

Tests: tests/unit/shadow/test_report.py.
"""

import errno
import pathlib
import stat


def resolve(path: pathlib.Path) -> pathlib.Path:
    """The file that the path stands for, behind symbolic links: a rename onto a link would replace the link.

    Raises: OSError: something is there that is no regular file, such as a device, which a rename would replace too.
    """
    target = path.resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory; name a file in it", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is no regular file, and is left as it is", str(path))
    return target
