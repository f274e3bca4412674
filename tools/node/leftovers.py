"""Ends what containerd and the kubelet leave behind when they end: containers, mounts, cgroups.

All of it is found by the folder of the cluster, or by its name; so a cluster whose owner was killed is removed by the
next one.

Tests: tools/node/test_node_cluster.py.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_SECONDS = 20.0


def remove(folder: Path, cgroup: str) -> None:
    """End all processes of the cgroup and all shims of the folder, and remove mounts, cgroups and the folder."""
    _end_shims(folder)
    _end_processes(cgroup)
    for place in _mounts_below(folder):
        subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
    for each in cgroups(cgroup):
        with contextlib.suppress(OSError):
            each.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def make_cgroup(name: str) -> None:
    """Make a cgroup in each hierarchy, with the processors and memory of the machine."""
    for hierarchy in _hierarchies():
        group = hierarchy
        for part in name.split("/"):
            inherited, group = group, group / part
            group.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (group / setting).exists() and not (group / setting).read_text().strip():
                    (group / setting).write_text((inherited / setting).read_text())


def _end_shims(folder: Path) -> None:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
            if "containerd-shim" in command and f"{folder}/" in command:
                os.kill(int(entry.name), signal.SIGKILL)


def _end_processes(cgroup: str) -> None:
    ends = time.monotonic() + _SECONDS
    while (processes := {pid for each in cgroups(cgroup) for pid in _processes(each)}) and time.monotonic() < ends:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _processes(group: Path) -> list[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:  # it went
        return []


def _mounts_below(folder: Path) -> list[str]:
    """The deepest first."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((place for place in places if place.startswith(f"{folder}/")), reverse=True)


def cgroups(name: str) -> Iterator[Path]:
    """The deepest first."""
    for hierarchy in _hierarchies():
        yield from sorted((path for path in (hierarchy / name).rglob("*") if path.is_dir()), reverse=True)
        if (hierarchy / name).is_dir():
            yield hierarchy / name


def _hierarchies() -> list[Path]:
    """Those of version 1, or the one of version 2."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]
