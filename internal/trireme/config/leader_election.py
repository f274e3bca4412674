"""Checks of leader election: locks that were removed, and impossible times; and the flags that name the Lease for bind.

The rules of a configuration file catch most of these earlier, but flags without a file are not held to them. The checks
run before anything connects, so that an instance that could never lead is no standby either.
"""

from trireme.config.model import LeaderElection
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import Duration

_REMOVED = {
    "endpoints": "migrate",
    "configmaps": "migrate",
    "endpointsleases": "migrate",
    "configmapsleases": "migrated",
}
#: By how much the time between attempts may exceed the retry period, in retry periods.
_JITTER_FACTOR = 1.2


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
