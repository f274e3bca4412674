"""Names by which callers are known: of users, and of the headers in which a proxy passes them on."""

from typing import Final

ANONYMOUS: Final = "system:anonymous"

USER_HEADER: Final = "X-Remote-User"
GROUP_HEADER: Final = "X-Remote-Group"
EXTRA_HEADER_PREFIX: Final = "X-Remote-Extra-"
