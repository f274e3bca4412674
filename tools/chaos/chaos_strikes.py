"""How each fault is done to its process, edge, clock or disk, and undone."""

from __future__ import annotations

import asyncio
import signal

from tools.chaos import chaos_faults, chaos_processes, chaos_sides
from tools.chaos.chaos_faults import CLOCK, CONTROL_PLANE, CUT, FILL, KILL, PHASES, RESTART, STOP
from tools.controlplane import launcher


class Striker:
    """Does faults to the processes of a side and of the control plane."""

    def __init__(self, plane: launcher.ControlPlane, side: chaos_sides.Side) -> None:
        self._plane = plane
        self._side = side

    async def strike(self, fault: chaos_faults.Fault, target: str) -> None:
        """Do it to the process of that name; returns when it is undone, or has nothing to be undone."""
        if fault.kind.target in CONTROL_PLANE:
            await self._strike_control_plane(fault)
        elif fault.kind.verb == FILL:
            await self._fill(fault)
        else:
            await self._strike_program(self._side.programs[target], fault)

    async def _strike_control_plane(self, fault: chaos_faults.Fault) -> None:
        program = fault.kind.target
        if fault.kind.verb == RESTART:
            self._plane.restart_program(program)
            return
        process = self._plane.children[program].process
        process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            process.send_signal(signal.SIGCONT)

    async def _fill(self, fault: chaos_faults.Fault) -> None:
        self._side.disk.fill()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._side.disk.empty()

    async def _strike_program(self, program: chaos_processes.Program, fault: chaos_faults.Fault) -> None:
        verb = fault.kind.verb
        if verb == KILL:
            program.kill()
        elif verb == STOP:
            program.signal(signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            program.signal(signal.SIGCONT)
        elif verb == CLOCK:
            program.clock.shift(fault.shift)
            await asyncio.sleep(fault.seconds)
            program.clock.shift(0.0)
        elif verb == CUT:
            await self._cut(program.name, fault)

    async def _cut(self, client: str, fault: chaos_faults.Fault) -> None:
        server = fault.kind.server
        if server in PHASES:
            server = f"{server}-{fault.replica}"
        address = self._side.address(client, server)
        self._side.network.cut(address, fault.way)
        await asyncio.sleep(fault.seconds)
        self._side.network.heal(address, fault.way)
