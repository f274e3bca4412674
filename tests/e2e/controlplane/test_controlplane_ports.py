"""Ports for what tests start: each is given away once."""

import subprocess
import sys
from pathlib import Path

from tools.controlplane import launcher, ports

_ASK = "import sys; from tools.controlplane import ports; print(*ports.free_ports(70), flush=True); sys.stdin.read()"


def test_no_two_processes_are_given_the_same_port() -> None:
    """Workers of pytest would start two servers on one port, and each would talk to the other's."""
    command = [sys.executable, "-c", _ASK]
    asking = [
        subprocess.Popen(command, cwd=launcher.REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    try:
        given = ports.free_ports(70)
        for process in asking:
            assert process.stdout is not None
            given += map(int, process.stdout.readline().split())
    finally:
        for process in asking:
            process.communicate()
    assert len(given) == len(set(given)) == 4 * 70


def test_the_ports_are_outside_the_ephemeral_range() -> None:
    """A client that connects would take a port between the moment that it was found free and the server's start."""
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not any(lowest <= port <= highest for port in ports.free_ports(100))
