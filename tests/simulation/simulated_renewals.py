"""Faults of what is renewed while processes run: configuration files that are replaced, and certificates."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.simulated_certificates import Authority, Holder
from tests.simulation.simulated_cluster import Cluster
from tests.simulation.simulated_configuration import ConfigurationFiles, Documents, Draw

# How long it takes until all processes have got a renewed file. Units: seconds.
_SPREAD = 30.0
# How long one of two files is ahead of the other, where they are not replaced at once.
_APART = (0.0, 6.0)
_RELOAD_SIGNAL = 1

Later = Callable[[float, Callable[[], None]], None]
"""Does something after some seconds, unless all faults are to end before."""


class Renewals:
    """Replaces files, at a time of its own for each process."""

    def __init__(self, cluster: Cluster, pick: random.Random, later: Later) -> None:
        self._cluster = cluster
        self._pick = pick
        self._later = later
        self._configurations = 0

    # The frontends' configuration

    def reload_configuration(self) -> bool:
        """Give the frontends a configuration, with or without a signal; returns whether it is a valid one."""
        cluster, pick = self._cluster, self._pick
        draw = Draw(pick, cluster.base, cluster.second_plugin())
        if pick.random() < 0.6:
            documents, what = draw.valid(), "valid"
        else:
            documents, what = draw.invalid()
        cluster.note(f"another configuration: {what}")
        self._configurations += 1
        apart = pick.random() < 0.2
        for name, files in cluster.configurations.items():
            delay, between = pick.uniform(0.0, _SPREAD), pick.uniform(*_APART) if apart else 0.0
            own_first, signalled = pick.random() < 0.5, pick.random() < 0.5
            self._later(delay, self._writing(files, documents, own_first))
            self._later(delay + between, self._writing(files, documents, not own_first))
            if signalled:
                self._later(delay + between, self._signalling(name))
        return what == "valid"

    def _writing(self, files: ConfigurationFiles, documents: Documents, own: bool) -> Callable[[], None]:
        write, number = files.write_own if own else files.write_scheduler, self._configurations

        def unless_replaced() -> None:
            if number == self._configurations:
                write(documents, self._cluster.loop.now)

        return unless_replaced

    def _signalling(self, name: str) -> Callable[[], None]:
        def signal() -> None:
            process = self._cluster.processes[name].current
            if process is not None:
                process.signal(_RELOAD_SIGNAL)

        return signal

    def restore_configuration(self) -> None:
        """Give all frontends the configuration outside of storms."""
        self._configurations += 1
        self._cluster.configure(self._cluster.base)

    # Certificates

    def rotate_certificates(self) -> None:
        """Renew some certificates, or all of them and their authority, one process after the other."""
        certificates, pick = self._cluster.certificates, self._pick
        if pick.random() < 0.5:
            chosen = [name for name in certificates.holders if pick.random() < 0.5]
            self._cluster.note(f"renew the certificates of {' '.join(chosen)}")
            for name in chosen:
                self._renew_leaf(name, pick.uniform(0.0, _SPREAD))
            return
        old, new = certificates.newest, certificates.add_authority()
        self._cluster.note("renew the authority of all certificates")
        for name, holder in certificates.holders.items():
            both, own, alone = sorted(pick.uniform(0.0, _SPREAD) for _ in range(3))
            self._later(both, self._trusting(holder, old, new))
            self._renew_leaf(name, own)
            self._later(alone, self._trusting(holder, new))

    def _renew_leaf(self, name: str, delay: float) -> None:
        """Give a holder another certificate of the newest authority, perhaps first a key that does not belong to it."""
        pick, holder = self._pick, self._cluster.certificates.holders[name]
        between, resets = pick.choice((0.0, 0.0, 3.0)), pick.random() < 0.5

        def write_key() -> None:
            holder.renew_key_only(self._cluster.certificates.newest, self._cluster.loop.now)

        def renew() -> None:
            holder.renew(self._cluster.certificates.newest, self._cluster.loop.now)
            if resets and name in self._cluster.processes:
                self._reset_connections(self._cluster.processes[name].host)

        if between:
            self._later(delay, write_key)
        self._later(delay + between, renew)

    def _reset_connections(self, host: str) -> None:
        """Have all connections of a process be made again, with the certificates that there are now."""
        others = {process.host: None for process in self._cluster.processes.values() if process.host != host}
        for other in others:
            self._cluster.loop.network.reset_connections(host, other)

    def _trusting(self, holder: Holder, *authorities: Authority) -> Callable[[], None]:
        return lambda: holder.trust(authorities, self._cluster.loop.now)

    def settle_certificates(self) -> None:
        """Let all have certificates of the newest authority, and trust no other."""
        self._cluster.certificates.settle(self._cluster.loop.now)
