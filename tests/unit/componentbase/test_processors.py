"""A process counts the processors that it may use: a machine's own number is no measure in a container."""

import pathlib

import pytest

from trireme_kube.componentbase import processors


@pytest.mark.parametrize(
    ("bound_to", "limit", "expected"),
    [
        (8, None, 8),
        (8, "max 100000", 8),
        (8, "200000 100000", 2),
        (8, "150000 100000", 2),
        (8, "10000 100000", 1),
        (2, "400000 100000", 2),
        (3, "unreadable", 3),
        (3, "", 3),
    ],
)
def test_processors_are_those_of_the_process_and_its_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, bound_to: int, limit: str | None, expected: int
) -> None:
    file = tmp_path / "cpu.max"
    if limit is not None:
        file.write_text(limit)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(bound_to)))
    monkeypatch.setattr(processors, "_LIMIT", file)
    assert processors.usable() == expected
