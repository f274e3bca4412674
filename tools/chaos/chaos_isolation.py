"""Namespaces of their own for a run: its network, mounts and processes end with it, whatever ends it.

In them the run may drop packets, fill a disk and name hosts, and nothing of that is seen outside or left behind: the
kernel kills every process of a PID namespace with its first one, and that one with the `unshare` that started it.
Needs root or unprivileged user namespaces, and `iptables`.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

INSIDE = "TRIREME_CHAOS_INSIDE"

_UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]

LOGS_MEGABYTES = 64


def _command() -> list[str]:
    return [*_UNSHARE, *([] if os.geteuid() == 0 else ["--map-root-user"]), "--"]


def missing() -> str:
    """Why a run is impossible on this machine; empty if it is possible."""
    if os.environ.get(INSIDE):
        return ""
    probe = "ip link set lo up && iptables -w -L -n && mount -t tmpfs none /mnt && echo x > /proc/sys/kernel/hostname"
    try:
        outcome = subprocess.run([*_command(), "sh", "-c", probe], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return outcome.stderr.strip() or f"exit code {outcome.returncode}" if outcome.returncode else ""


def enter(arguments: Sequence[str]) -> None:
    """Run this program with these arguments in namespaces of its own; returns within them."""
    if os.environ.get(INSIDE):
        _run("ip", "link", "set", "lo", "up")
        return
    command = [*_command(), sys.executable, *arguments]
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})


def _run(*command: str) -> None:
    # Ctrl-C at the terminal ends this program alone, which undoes what it has done: the other one ignores it. Until it
    # does, the signal is blocked; a process group of its own would come too late for one that has just been made.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(["env", "--ignore-signal=INT", *command])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code := process.wait():
        raise subprocess.CalledProcessError(code, command)


class Network:
    """Edges between processes, each an address of its own on loopback, on which packets can be dropped."""

    def address(self, client: int, server: int) -> str:
        """Where one client reaches one server; servers listen on all addresses."""
        return f"127.{client}.{server}.1"

    def cut(self, address: str, way: str) -> None:
        """Drop the packets of an edge: `requests` to the server, `replies` from it, or both."""
        self._change("-A", address, way)

    def heal(self, address: str, way: str) -> None:
        """Let them pass again."""
        self._change("-D", address, way)

    @staticmethod
    def _change(action: str, address: str, way: str) -> None:
        for side, dropped in (("-d", way != "replies"), ("-s", way != "requests")):
            if dropped:
                _run("iptables", "-w", action, "INPUT", side, address, "-j", "DROP")


class LogDisk:
    """A small disk for the logs of a side, which can be full."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        folder.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={LOGS_MEGABYTES}m", "none", str(folder))

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def empty(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove it, with what is on it, so that its folder can be removed."""
        _run("umount", "--lazy", str(self.folder))
