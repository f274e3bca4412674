"""The flags of leader election, checks of locks that were removed and of impossible times, and the flags for bind.

The rules of a configuration file catch most of these earlier, but flags without a file are not held to them. The checks
run before anything connects, so that an instance that could never lead is no standby either.

Also change: internal/trireme/config/command_flags.py,
internal/trireme/config_convert/command_lines.py (the flags of kube-scheduler).
Also change: docs/beside-your-scheduler.md.
Also change: internal/trireme/bind/flags.py (the flags that name the Lease).
Also change: internal/trireme_kube/client/leaderelection/election.py (the jitter).
Also change: internal/trireme/config/scheduler_configuration.py (the defaults).
Also change: internal/trireme/shadow/interruptions.py (the deadline of a leader).

Tests: tests/unit/config/test_start.py, tests/unit/bind/test_flags.py.
"""

from dataclasses import dataclass
from typing import Annotated

from trireme.config.scheduler_configuration import LeaderElection
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.componentbase.cli.flag_declarations import Declared

_REMOVED = {
    "endpoints": "migrate",
    "configmaps": "migrate",
    "endpointsleases": "migrate",
    "configmapsleases": "migrated",
}
#: By how much the time between attempts may exceed the retry period, in retry periods.
_JITTER_FACTOR = 1.2


#: The defaults of the configuration file, which these flags have too.
_DEFAULTS = LeaderElection()

_ELECTING = "Only with leader election."


@dataclass(frozen=True, slots=True)
class LeaderElectionOptions:
    """The flags of leader election, which take precedence over the configuration file."""

    leader_elect: Annotated[
        bool,
        Declared(
            "leader-elect",
            "Schedule only while holding the Lease; needed with replicas.",
            sets="leader_election.leader_elect",
        ),
    ] = True
    leader_elect_lease_duration: Annotated[
        Duration,
        Declared(
            "leader-elect-lease-duration",
            f"How long a standby waits for a renewal before it takes over. {_ELECTING}",
            sets="leader_election.lease_duration",
        ),
    ] = _DEFAULTS.lease_duration
    leader_elect_renew_deadline: Annotated[
        Duration,
        Declared(
            "leader-elect-renew-deadline",
            f"How long the leader tries to renew before it stops leading; less than the lease. {_ELECTING}",
            sets="leader_election.renew_deadline",
        ),
    ] = _DEFAULTS.renew_deadline
    leader_elect_retry_period: Annotated[
        Duration,
        Declared(
            "leader-elect-retry-period",
            f"How long to wait between two attempts. {_ELECTING}",
            sets="leader_election.retry_period",
        ),
    ] = _DEFAULTS.retry_period
    leader_elect_resource_lock: Annotated[
        str,
        Declared(
            "leader-elect-resource-lock",
            "Kind of the lock; 'leases' is the only one.",
            sets="leader_election.resource_lock",
        ),
    ] = "leases"
    leader_elect_resource_name: Annotated[
        str,
        Declared("leader-elect-resource-name", "Name of the lock.", sets="leader_election.resource_name"),
    ] = "kube-scheduler"
    leader_elect_resource_namespace: Annotated[
        str,
        Declared(
            "leader-elect-resource-namespace", "Namespace of the lock.", sets="leader_election.resource_namespace"
        ),
    ] = "kube-system"


def bind_flags(election: LeaderElection) -> list[str]:
    """The flags that name the Lease of the leader to a bind process, if there is one."""
    return [
        f"--leader-elect={str(election.leader_elect).lower()}",
        f"--leader-elect-resource-name={election.resource_name}",
        f"--leader-elect-resource-namespace={election.resource_namespace}",
    ]


def check_lock(election: LeaderElection) -> None:
    """Check the kind of the lock. Raises: ConfigurationError: there is no such lock."""
    lock = election.resource_lock
    if not election.leader_elect or lock == "leases":
        return
    if lock in _REMOVED:
        problem = f"{lock} lock is removed, {_REMOVED[lock]} to leases"
    else:
        problem = f"Invalid lock-type {lock}"
    raise ConfigurationError(f"couldn't create resource lock: {problem}")


def check_timing(election: LeaderElection) -> None:
    """Check the times against each other; without leader election there is nothing to check.

    Raises: ConfigurationError: nobody could hold the lock with them.
    """
    if not election.leader_elect:
        return
    lease, renewal, retry = election.lease_duration, election.renew_deadline, election.retry_period
    rules = (
        (lease > renewal, "leaseDuration must be greater than renewDeadline"),
        (
            renewal > Duration(int(_JITTER_FACTOR * retry.nanoseconds)),
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (lease > Duration(), "leaseDuration must be greater than zero"),
        (renewal > Duration(), "renewDeadline must be greater than zero"),
        (retry > Duration(), "retryPeriod must be greater than zero"),
    )
    for holds, rule in rules:
        if not holds:
            raise ConfigurationError(f"couldn't create leader elector: {rule}")
