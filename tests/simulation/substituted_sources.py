"""Puts the simulation's time, chance and transports in place of the real ones, before the product is imported.

Many modules take `time.monotonic` or `random.random` as the default of a parameter, so whatever runs a simulation calls
`install` first and imports the product then, in an interpreter of its own. What is replaced is replaced for the whole
interpreter; each simulated process sees its own clocks, for `VirtualLoop.time` and `wall` ask which one runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import os
import random
import socket
import sys
import time
import weakref
from collections.abc import Callable, Set
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.simulated_process import WALL_START
from tests.simulation.virtual_loop import VirtualLoop

# So many events are decoded once for all frontends; those that lag further behind decode them again.
_SHARED_EVENTS = 2048
# How often a process measures how late its loop is, which it never is here.
_LAG_SECONDS = 3600.0


def install(loop: VirtualLoop, seed: int) -> None:
    """Replace clocks, random sources, the garbage collector's own times, and grpc.aio's transports."""
    if "trireme" in sys.modules or "trireme_kube" in sys.modules:
        raise RuntimeError("the product was imported before its sources were replaced")
    _replace_clocks(loop)
    _replace_chance(loop)
    reseed(loop, seed)
    # Collections at times of their own would run finalizers at times of their own.
    gc.disable()
    gc.enable = lambda: None
    gc.freeze = lambda: None
    # Each simulated process knows its tasks, and nobody else asks for them: a weak set of all takes time for each.
    if (tasks := getattr(asyncio.tasks, "_all_tasks", None)) is not None:  # later versions of Python have none
        tasks.add = lambda task: None
    from grpc import aio

    from tests.simulation import simulated_grpc_client, simulated_grpc_server, simulated_tls

    aio.insecure_channel = simulated_grpc_client.insecure_channel
    aio.server = simulated_grpc_server.server
    simulated_tls.install(simulated_grpc_client.secure_channel)


def reseed(loop: VirtualLoop, seed: int) -> None:
    """Let all that is left to chance follow from that seed from now on."""
    random.seed(seed)
    loop.random.seed(seed)


def replace_what_leaves_the_process() -> None:
    """Replace what the product does with threads, sockets and the terminal; to be called once it can be imported."""
    from trireme.rpc import dialing, grpc_server
    from trireme_kube.client.leaderelection import lease
    from trireme_kube.componentbase import event_loop
    from trireme_kube.componentbase.logs import klog

    grpc_server._check_address_is_free = lambda address: None
    lease.LeaseElector.start = _start_election
    event_loop.PERIOD_SECONDS = _LAG_SECONDS
    klog.setup = lambda options: None
    klog.announce = lambda text: None
    dialing._watched_files = _OfEachProcess()
    _share_decoded_events()
    let_computations_know_their_process()


class _OfEachProcess(weakref.WeakValueDictionary[Any, Any]):
    """What a process remembers in a dictionary of a module; another one, and one that is started again, does not."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((simulated_process.current(), key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((simulated_process.current(), key), value)


def let_computations_know_their_process() -> None:
    """Have a computation that pauses read its own process's clock: a greenlet begins with an empty context."""
    from trireme.framework import pausing

    class Computation(pausing._PausableComputation):
        def __init__(self, compute: Callable[[], Any]) -> None:
            super().__init__(compute)
            self.gr_context = contextvars.copy_context()

    pausing._PausableComputation = Computation


def _share_decoded_events() -> None:
    """Decode an event that several frontends get once: what comes of it is never changed."""
    from trireme.cache import pod_projection
    from trireme_kube.client.informers import watch

    watch._decode_event = functools.lru_cache(_SHARED_EVENTS)(watch._decode_event)
    parse = pod_projection.parse
    parsed: dict[tuple[int, frozenset[str]], tuple[Any, Any]] = {}

    def parse_once(raw: Any, extra: Set[str] = frozenset(), shares: Any = None) -> Any:
        if shares is not None and shares._shares:
            return parse(raw, extra, shares)  # which canary answers for a pod differs while frontends reload
        key = (id(raw), frozenset(extra))
        known = parsed.get(key)
        if known is None:
            if len(parsed) >= _SHARED_EVENTS:
                parsed.clear()
            known = parsed[key] = (parse(raw, extra), raw)  # the latter stays, so no other object has its id
        return known[0]

    pod_projection.parse = parse_once


def _replace_clocks(loop: VirtualLoop) -> None:
    def wall() -> float:
        process = simulated_process.current()
        return WALL_START + loop.now if process is None else process.wall(loop.now)

    def sleep(_: float) -> None:
        raise RuntimeError("time.sleep would stop the simulation")

    time.monotonic = time.perf_counter = loop.time
    time.monotonic_ns = time.perf_counter_ns = lambda: int(loop.time() * 1e9)
    time.time = wall
    time.time_ns = lambda: int(wall() * 1e9)
    # How much a computation may take is decided by what it takes here, which is nothing.
    time.thread_time = loop.time
    time.sleep = sleep


def _replace_chance(loop: VirtualLoop) -> None:
    os.urandom = loop.random.randbytes
    random._urandom = loop.random.randbytes
    socket.gethostname = _hostname


def _hostname() -> str:
    process = simulated_process.current()
    return "simulation" if process is None else process.name


def _start_election(elector: Any) -> None:
    """Start an election as a task, in place of a thread with a loop of its own."""
    elector._owner = asyncio.get_running_loop()
    elector._ended = elector._owner.create_future()

    async def contend() -> None:
        error: BaseException | None = None
        try:
            await elector._execute_until_over()
        except BaseException as raised:
            error = raised
        elector._report_end(error)

    elector.task = elector._owner.create_task(contend())
