"""What a scheduler costs: processor time and memory of its processes and their children, read from /proc.

Sampled from outside while it runs, because a scheduler under test is not asked to count itself. The time of a process
that ended still counts, so a child that was replaced was not free; its memory is not used any more. Times are the
kernel's, in ticks of 10 ms: fine for thousands of pods, and not for one.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

TICK = 1.0 / os.sysconf("SC_CLK_TCK")
CPUS = len(os.sched_getaffinity(0))
PROC = Path("/proc")
# Calm: so many seconds in which less than this share of the machine was used.
CALM_SECONDS, CALM_SHARE = 3, 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One process, as last seen."""

    label: str
    cpu_s: float
    pss_mb: float
    """Its proportional set size: a page that several processes share counts in parts."""


class ProcessTree:
    """The processes under some roots, now and before."""

    def __init__(self, roots: Iterable[int], proc: Path = PROC, descend: bool = True) -> None:
        self._proc = proc
        self._descend = descend
        self._known: set[int] = set(roots)
        self._samples: dict[int, Sample] = {}

    def sample(self) -> Mapping[int, Sample]:
        """Reads every process of the tree again; those that ended keep their time."""
        parents = self._parents()
        grown = self._descend
        while grown:  # a child may be listed before its parent is known
            found = {pid for pid, parent in parents.items() if parent in self._known} - self._known
            self._known |= found
            grown = bool(found)
        for pid in self._known:
            sample = self._read(pid)
            if sample is not None:
                self._samples[pid] = sample
            elif pid in self._samples:
                self._samples[pid] = dataclasses.replace(self._samples[pid], pss_mb=0.0)
        return dict(self._samples)

    def cpu_s(self) -> float:
        """Processor seconds, user and system, that the tree has used until now."""
        return sum(each.cpu_s for each in self.sample().values())

    def _parents(self) -> dict[int, int]:
        result = {}
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                fields = _stat(entry)
                if fields:
                    result[int(entry.name)] = int(fields[1])
        return result

    def _read(self, pid: int) -> Sample | None:
        entry = self._proc / str(pid)
        fields = _stat(entry)
        try:
            memory = (entry / "smaps_rollup").read_text()
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            return None
        pss = next((int(line.split()[1]) for line in memory.splitlines() if line.startswith("Pss:")), None)
        if not fields or pss is None:  # a zombie has no memory any more
            return None
        return Sample(label(command), (int(fields[11]) + int(fields[12])) * TICK, pss / 1024)


def _stat(entry: Path) -> list[str]:
    """The fields of /proc/PID/stat after the command (which may hold spaces and brackets); empty once it is gone."""
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def label(command: list[str]) -> str:
    """What to call a process in a report: its script, module or program."""
    if not command:
        return "?"
    name = Path(command[0]).name
    if name.startswith("python"):
        rest = command[1:]
        while rest and rest[0].startswith("-") and rest[0] != "-m":
            rest = rest[1:]
        if rest[:1] == ["-m"]:
            return rest[1].removesuffix(".__main__") if len(rest) > 1 else name
        return Path(rest[0]).name.removesuffix(".py") if rest else name
    if name == "controlplane" and len(command) > 1:
        return command[1]
    return name


def machine_cpu_s(proc: Path = PROC) -> float:
    """Processor seconds that the whole machine has spent doing anything, to see who else was busy.

    In a virtual one also those in which its host was busy with others (`steal`).
    """
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(
        int, (proc / "stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) * TICK


def wait_until_idle(
    patience: float,
    busy_s: Callable[[], float] = machine_cpu_s,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Waits until the machine has little to do for a few seconds together; False where it never had, in `patience`.

    For a machine that is shared: what others do in the middle of a run shows as a slow scheduler.
    """
    calm, waited, before = 0, 0.0, busy_s()
    while calm < CALM_SECONDS:
        if waited >= patience:
            return False
        sleep(1.0)
        waited += 1.0
        now = busy_s()
        calm = calm + 1 if now - before < CALM_SHARE * CPUS else 0
        before = now
    return True
