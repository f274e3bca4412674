"""The process that shows what was recorded: how much memory it may take."""

import pathlib
import subprocess
import sys

import pytest

_CHILD = """
import pathlib, resource, sys
from trireme.insight.http_api import recorded_console_process
print(recorded_console_process.limit_memory([pathlib.Path(each) for each in sys.argv[1:]]))
try:
    bytes(500 << 20)
    print("has it")
except MemoryError:
    print("has not")
"""


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("838860800\n", None, ["419430400", "has not"]),
        (None, "838860800\n", ["419430400", "has not"]),
        ("max\n", None, ["None", "has it"]),
        (None, "9223372036854771712\n", ["None", "has it"]),
        (None, None, ["None", "has it"]),
    ],
    ids=["version 2", "version 1", "version 2 without", "version 1 without", "neither"],
)
def test_it_takes_half_of_what_the_container_may_have(
    tmp_path: pathlib.Path, first: str | None, second: str | None, said: list[str]
) -> None:
    """The container would be ended as a whole, and insight with it, because somebody looked back."""
    files = [tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"]
    for file, text in zip(files, (first, second), strict=True):
        if text is not None:
            file.write_text(text)
    done = subprocess.run([sys.executable, "-c", _CHILD, *map(str, files)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == said
