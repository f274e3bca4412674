"""A run: a fresh control plane, one side's processes, a steady load, and one fault after another."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

from tools.chaos import chaos_checks, chaos_etcd, chaos_faults, chaos_load, chaos_processes, chaos_sides, chaos_strikes
from tools.chaos.chaos_faults import API_SERVER, CLOCK, CONTROL_PLANE, ETCD, FOLLOWER, LEADER, PHASES
from tools.controlplane import launcher

RECOVERY_SECONDS = 90.0
"""The longest wait after a fault; then the next one comes, and the report says that this one was not recovered from."""

CALM_SECONDS = 60.0
"""After the last fault: while pods are bound those that are left may be; so long without any, and they are lost."""

START_SECONDS = 300.0
COMPARE_SECONDS = 20.0

_POLL_SECONDS = 0.1
_UNDER_WAY = 0.2
"""A write that a process sent before it died may be seen so much later. Units: seconds."""

_ADVERTISED = "10.0.77.1"


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What to run. `interval_seconds`: faults begin so often, whatever they do to each other; 0: one after another."""

    side: str
    count: int
    seed: int
    lease_seconds: int = 4
    pods_per_second: float = 20.0
    interval_seconds: float = 0.0
    limit_seconds: float = float("inf")
    clocks: bool = True
    """Whether clocks are moved; kube-scheduler has to be built for that."""


@dataclasses.dataclass(slots=True)
class Injection:
    """A fault as it happened. Units: seconds of the run's clock."""

    fault: chaos_faults.Fault
    target: str
    """The process it met."""
    start: float
    end: float = 0.0
    recovered: float | None = None
    """When all processes were ready again and pods were bound; None: not within `RECOVERY_SECONDS`."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """What a run came to, as it was seen. Units: seconds of the run's clock."""

    injections: list[Injection]
    outages: list[tuple[float, float]]
    """When the API server or etcd did not work."""
    checks: chaos_checks.Checks
    exits: list[chaos_processes.Exit]
    seconds: float
    lateness: list[tuple[float, float]]
    """When this program itself came late, and by how much: the machine was busy."""
    pressure_percent: float = 0.0
    """The share of the time in which some process of the machine waited for a processor."""


class Run:
    """One run."""

    def __init__(
        self, options: Options, plane: launcher.ControlPlane, side: chaos_sides.Side, report: Callable[[str], None]
    ) -> None:
        self._options = options
        self._plane = plane
        self._side = side
        self._report = report
        self._checks = chaos_checks.Checks(
            {node["metadata"]["name"]: chaos_checks.room(node) for node in chaos_load.nodes()}
        )
        self._holder = ""
        self._renewed_at = 0.0
        self._began = time.monotonic()
        self._outcome = Outcome([], [], self._checks, [], 0.0, [])
        self._striker = chaos_strikes.Striker(plane, side)
        self._load: chaos_load.Load

    async def run(self) -> Outcome:
        """Start everything, inject the faults, wait for calm, and stop."""
        etcd = next(flag for flag in _flags(self._plane, ETCD) if flag.startswith("--listen-client-urls="))
        url, pressure = etcd.partition("=")[2], _pressure_seconds()
        async with contextlib.AsyncExitStack() as stack:
            connecting = chaos_load.Load.connect(
                self._plane, self._checks, self._options.seed, self._options.pods_per_second
            )
            self._load = await stack.enter_async_context(connecting)
            background = await stack.enter_async_context(_background())
            background(chaos_etcd.follow(url, chaos_etcd.PODS, self._on_pod))
            background(chaos_etcd.follow(url, chaos_etcd.LEASE, self._on_lease))
            background(self._watch_clock())
            await self._load.create_nodes()
            stack.callback(self._side.end)
            self._side.start()
            stack.callback(background(chaos_processes.supervise(self._side.programs)).cancel)
            await self._load.fill()
            await self._until(lambda: not self._checks.waiting, START_SECONDS)
            loading = background(self._load.run())
            await asyncio.sleep(2.0)
            await self._inject_all()
            self._load.stop()
            await loading
            await self._calm()
            self._checks.end(self._now())
            await self._compare()
            self._outcome.exits = [
                dataclasses.replace(each, at=each.at - self._began)
                for program in self._side.programs.values()
                for each in program.exits
            ]
            self._outcome.seconds = self._now()
            self._outcome.pressure_percent = round(100 * (_pressure_seconds() - pressure) / self._outcome.seconds, 1)
        return self._outcome

    # Faults

    def _faults(self) -> Iterator[chaos_faults.Fault]:
        """Those that this side can have."""
        count = 0
        for fault in chaos_faults.draw(self._options.seed, self._options.lease_seconds):
            if count == self._options.count:
                return
            if self._applies(fault.kind):
                count += 1
                yield fault

    def _applies(self, kind: chaos_faults.Kind) -> bool:
        if kind.verb == CLOCK and not self._options.clocks:
            return False
        if self._side.name == chaos_sides.TRIREME:
            return True
        return not {kind.target, kind.server} & set(PHASES)

    async def _inject_all(self) -> None:
        deadline = time.monotonic() + self._options.limit_seconds
        async with asyncio.TaskGroup() as group:
            for fault in self._faults():
                if time.monotonic() > deadline:
                    break
                await self._injectable()
                await asyncio.sleep(fault.pause)
                injection = Injection(fault, self._target(fault), self._now())
                self._outcome.injections.append(injection)
                self._report(f"{injection.start:7.1f}  {fault.number:4}  {fault} [{injection.target}]")
                injecting = group.create_task(self._inject(injection))
                if self._options.interval_seconds:
                    await asyncio.sleep(self._options.interval_seconds - fault.pause)
                else:
                    await injecting
        # Whatever overlapped has ended.
        if self._options.interval_seconds:
            await self._recovered(self._now())

    async def _injectable(self) -> None:
        """A leader is there to be struck."""
        with contextlib.suppress(TimeoutError):
            await self._until(lambda: self._leader() is not None, RECOVERY_SECONDS)

    async def _inject(self, injection: Injection) -> None:
        await self._striker.strike(injection.fault, injection.target)
        if injection.fault.kind.target in CONTROL_PLANE:
            await self._load.answered()
            self._outcome.outages.append((injection.start, self._now()))
        injection.end = self._now()
        if not self._options.interval_seconds:
            injection.recovered = await self._recovered(injection.end)

    def _target(self, fault: chaos_faults.Fault) -> str:
        """The process that a fault meets."""
        target = fault.kind.target
        if target in PHASES:
            return f"{target}-{fault.replica}"
        if target not in (LEADER, FOLLOWER):
            return target
        first, second = self._side.schedulers
        leader, follower = (second, first) if self._leader() is second else (first, second)
        return (leader if target == LEADER else follower).name

    # What is seen

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _leader(self) -> chaos_processes.Program | None:
        return next((each for each in self._side.schedulers if self._holder.startswith(f"{each.name}_")), None)

    def _on_lease(self, _: str, lease: dict[str, Any] | None) -> None:
        self._renewed_at = self._now()
        self._holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""

    def _on_pod(self, key: str, pod: dict[str, Any] | None) -> None:
        if pod is not None:
            self._checks.write(pod, self._now())
        else:
            self._checks.delete(key.rpartition("/")[2], self._now())

    async def _watch_clock(self) -> None:
        """Note when this program comes late, and look for forgotten pods."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(_POLL_SECONDS)
            late = time.monotonic() - before - _POLL_SECONDS
            if late > _POLL_SECONDS:
                self._outcome.lateness.append((self._now(), late))
            self._checks.check_waiting(self._now())

    async def _recovered(self, since: float) -> float | None:
        """Wait until a leader lives, pods are bound and every process is ready; answers when that was."""
        try:
            # The Lease names a leader that is dead until another one writes it.
            await self._until(lambda: self._holder != "" and self._renewed_at > since + _UNDER_WAY, RECOVERY_SECONDS)
            bound = self._checks.bound
            await self._until(lambda: self._checks.bound > bound or not self._checks.waiting, RECOVERY_SECONDS)
            async with asyncio.timeout(RECOVERY_SECONDS):
                for program in self._side.programs.values():
                    while not await asyncio.to_thread(program.ready):
                        await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            self._report(f"{self._now():7.1f}        not recovered from what ended at {since:.1f}")
            return None
        return self._now()

    async def _calm(self) -> None:
        """Wait until no pod waits, or none of those that wait is bound any more."""
        while left := len(self._checks.waiting):
            with contextlib.suppress(TimeoutError):
                await self._until(lambda left=left: len(self._checks.waiting) < left, CALM_SECONDS)
            if len(self._checks.waiting) == left:
                return

    async def _until(self, true: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                await asyncio.sleep(_POLL_SECONDS)

    async def _compare(self) -> None:
        """What was followed is what the API server has, once all of it has come.

        Raises: TimeoutError if it is not; then nothing that was checked is worth anything.
        """
        listed = await self._load.get("/api/v1/namespaces/default/pods")
        there = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in listed["items"]}
        await self._until(
            lambda: there == {**dict.fromkeys(self._checks.waiting, ""), **self._checks.placed}, COMPARE_SECONDS
        )


@contextlib.asynccontextmanager
async def _background() -> Any:
    """A function that starts tasks, which end with the block; one that fails ends it."""
    tasks: list[asyncio.Task[None]] = []
    owner = asyncio.current_task()
    assert owner is not None
    failures: list[BaseException] = []

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception():
            failures.append(task.exception())
            owner.cancel()

    def start(work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        tasks.append(task)
        return task

    try:
        yield start
    except asyncio.CancelledError:
        if failures:
            raise failures[0] from None
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _pressure_seconds() -> float:
    """How long so far some process has waited for a processor."""
    try:
        return int(pathlib.Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) / 1e6
    except OSError:
        return 0.0


def _flags(plane: launcher.ControlPlane, program: str) -> list[str]:
    return list(map(str, plane.children[program].process.args))


def run(options: Options, folder: pathlib.Path, report: Callable[[str], None]) -> Outcome:
    """Carry out one run in a folder. Within the namespaces of `chaos_isolation`."""
    flags = (*chaos_etcd.STORAGE_FLAGS, f"--advertise-address={_ADVERTISED}")
    plane = launcher.ControlPlane(launcher.Options(extra={API_SERVER: flags}), directory=folder / "controlplane")
    with plane:
        # Its certificate is made out for loopback at its first start. From now on each edge has an address of its own.
        plane.restart_program(API_SERVER, "--bind-address=0.0.0.0")
        side = chaos_sides.Side(options.side, plane, folder, options.lease_seconds, options.clocks)
        try:
            return asyncio.run(Run(options, plane, side, report).run())
        finally:
            for child in plane.children.values():
                child.process.kill()  # nobody needs it to end in order
            shutil.copytree(side.disk.folder, folder / "last-logs")
            side.disk.close()
