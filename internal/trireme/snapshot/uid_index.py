"""Finds the row of a pod by its UID, in twelve bytes a pod, where a dict takes eighty.

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_shared_columns.py.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from trireme.snapshot import arrays

# Once so many pods, or this part of those at the beginning, have come since, the index is to be made again.
_SLACK = 1024
_PART = 4


class UidIndex:
    """The rows of UIDs at one time, and those written since; the caller checks what a row holds now."""

    __slots__ = ("_hashes", "_rows", "_since")

    def __init__(self, uids: Sequence[str]) -> None:
        """`uids` are the UIDs of all rows."""
        hashes = np.fromiter(map(hash, uids), dtype=np.int64, count=len(uids))
        order = np.argsort(hashes, kind="stable")
        self._hashes: arrays.Int64Array = hashes[order]
        self._rows: arrays.Int32Array = order.astype(np.int32)
        self._since: dict[str, int] = {}

    @property
    def is_crowded(self) -> bool:
        """Whether many pods have come since the index was made."""
        return len(self._since) > _SLACK + self._hashes.shape[0] // _PART

    def write(self, uid: str, row: int) -> None:
        """The row has this UID now."""
        self._since[uid] = row

    def discard(self, uid: str) -> None:
        """No row has this UID any more: else what comes and goes fills the memory until somebody looks for a pod."""
        self._since.pop(uid, None)

    def rows_with(self, uid: str) -> Iterator[int]:
        """The rows that may have this UID, the latest first."""
        row = self._since.get(uid)
        if row is not None:
            yield row
        wanted = hash(uid)
        at = int(np.searchsorted(self._hashes, wanted))
        while at < self._hashes.shape[0] and self._hashes[at] == wanted:
            yield int(self._rows[at])
            at += 1
