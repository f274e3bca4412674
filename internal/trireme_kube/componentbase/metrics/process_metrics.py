"""The kernel's statistics of this process, under the names that every Prometheus client uses.

Tests: tests/contract/test_serving_metrics.py.
"""

import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path

from trireme_kube.componentbase.metrics.instruments import Gauge, Instrument, Values

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/self/stat after the name in brackets.
_USER_TICKS, _SYSTEM_TICKS, _STARTED_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21


class _GaugeWithoutStability(Gauge):
    """A gauge without a stability level, as other programs have it."""

    def __init__(self, name: str, text: str, read: Callable[[], Mapping[Values, float]]) -> None:
        super().__init__(name, text, read, stability="")


class _KernelCounter(_GaugeWithoutStability):
    """A counter that the kernel keeps, so it cannot be reset."""

    kind = "counter"


def instruments() -> list[Instrument]:
    """Return the metrics process_* of this process."""
    return [
        _KernelCounter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", _cpu_seconds),
        _GaugeWithoutStability("process_max_fds", "Maximum number of open file descriptors.", _max_file_descriptors),
        _GaugeWithoutStability("process_open_fds", "Number of open file descriptors.", _open_file_descriptors),
        _KernelCounter(
            "process_network_receive_bytes_total", "Bytes received, of all of this network namespace.", _received_bytes
        ),
        _KernelCounter(
            "process_network_transmit_bytes_total", "Bytes sent, of all of this network namespace.", _sent_bytes
        ),
        _GaugeWithoutStability("process_resident_memory_bytes", "Resident memory size in bytes.", _resident_bytes),
        start_time_metric(""),
        _GaugeWithoutStability("process_virtual_memory_bytes", "Virtual memory size in bytes.", _virtual_bytes),
        _GaugeWithoutStability(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            _max_virtual_bytes,
        ),
    ]


def start_time_metric(stability: str) -> Instrument:
    """Return the start time of this process as a metric of the given stability."""
    text = "Start time of the process since unix epoch in seconds."
    return Gauge("process_start_time_seconds", text, lambda: _without_labels(start_time()), stability=stability)


def start_time() -> float:
    """The start time of this process. Units: seconds since 1970."""
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    return int(boot.split()[1]) + int(_read_process_stat()[_STARTED_TICKS]) / _CLOCK_TICKS


def _without_labels(value: float) -> Mapping[Values, float]:
    """Return a value as samples of a metric without labels."""
    return {(): value}


def _read_process_stat() -> list[str]:
    """Read the fields of /proc/self/stat after the program's name."""
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()


def _cpu_seconds() -> Mapping[Values, float]:
    """The CPU time that this process has used, as a sample without labels."""
    fields = _read_process_stat()
    return _without_labels((int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _CLOCK_TICKS)


def _max_file_descriptors() -> Mapping[Values, float]:
    """How many file descriptors this process may open, as a sample without labels."""
    return _without_labels(_resource_limit(resource.RLIMIT_NOFILE))


def _open_file_descriptors() -> Mapping[Values, float]:
    """How many file descriptors this process has open, as a sample without labels."""
    return _without_labels(sum(1 for _ in os.scandir("/proc/self/fd")))


def _resident_bytes() -> Mapping[Values, float]:
    """The resident memory of this process, as a sample without labels."""
    return _without_labels(int(_read_process_stat()[_RESIDENT_PAGES]) * _PAGE)


def _virtual_bytes() -> Mapping[Values, float]:
    """The virtual memory of this process, as a sample without labels."""
    return _without_labels(int(_read_process_stat()[_VIRTUAL_BYTES]))


def _max_virtual_bytes() -> Mapping[Values, float]:
    """How much virtual memory this process may have, as a sample without labels."""
    return _without_labels(_resource_limit(resource.RLIMIT_AS))


def _resource_limit(which: int) -> float:
    """Return a soft limit; without one the largest number that a Prometheus client of Go shows."""
    soft = resource.getrlimit(which)[0]
    return 1.8446744073709552e19 if soft == resource.RLIM_INFINITY else soft


def _received_bytes() -> Mapping[Values, float]:
    """The bytes that this network namespace has received, as a sample without labels."""
    return _without_labels(_read_network_bytes()[0])


def _sent_bytes() -> Mapping[Values, float]:
    """The bytes that this network namespace has sent, as a sample without labels."""
    return _without_labels(_read_network_bytes()[1])


def _read_network_bytes() -> tuple[int, int]:
    """Read the bytes in and out over all interfaces."""
    lines = Path("/proc/self/net/netstat").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        if names.startswith("IpExt:"):
            counts = dict(zip(names.split(), values.split(), strict=True))
            return int(counts["InOctets"]), int(counts["OutOctets"])
    return 0, 0
