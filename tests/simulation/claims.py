"""What the simulation claims of the product: for each claim its checks, and what shows that the checks can fail.

`make docs` writes the claims into docs/reference/simulation-checks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation import kept_state, pending_checks, snapshot_checks, unplaced_pods
from tests.simulation.answer_checks import AnswerChecks
from tests.simulation.column_checks import ColumnChecks
from tests.simulation.configuration_checks import ConfigurationChecks
from tests.simulation.error_checks import ErrorChecks
from tests.simulation.frontend_checks import FrontendChecks
from tests.simulation.insight_checks import InsightChecks
from tests.simulation.invariants import Invariants
from tests.simulation.leader_checks import LeaderChecks
from tests.simulation.leader_writes import LeaderWrites
from tests.simulation.lease_checks import LeaseChecks
from tests.simulation.leftover_checks import LeftoverChecks
from tests.simulation.oracle_checks import OracleChecks
from tests.simulation.queue_checks import QueueChecks
from tests.simulation.quota_checks import QuotaChecks
from tests.simulation.report_checks import ReportChecks
from tests.simulation.stream_checks import StreamChecks
from tests.simulation.wake_up_checks import WakeUpChecks


class Claim(NamedTuple):
    """What holds, the functions and classes that check it, and the defects by name that they find."""

    text: str
    checks: tuple[Callable[..., Any], ...]
    found_defects: tuple[str, ...] = ()


# After every write at the API server.
ON_WRITES = (
    Claim("No pod is bound twice.", (Invariants._on_pod,)),
    Claim(
        "No node has more requested than it has: CPUs, memory, ephemeral storage, an extended resource, pods.",
        (Invariants._check_room,),
    ),
    Claim(
        "No two pods on a node have the same host port, or labels that their anti-affinity keeps apart.",
        (Invariants._check_exclusions,),
        ("late-binding-of-a-former-leader",),
    ),
    Claim("No node has more volumes than it attaches.", (Invariants._check_volumes,), ("volumes-not-counted",)),
    Claim(
        "No device belongs to two claims, pods are where their devices are, and no pod has two claims for its"
        " extended resources.",
        (Invariants._check_devices, Invariants._on_device_claim, Invariants._check_made_claims),
        ("device-given-twice", "duplicate-claim"),
    ),
    Claim("A group that has to be in one zone is in one.", (Invariants._check_zone,)),
    Claim(
        "Of a refused pod, condition and event have a reason for each node, and events name the node that a pod got.",
        (ReportChecks,),
    ),
    Claim("The pods of a namespace use no more than its quotas allow.", (QuotaChecks._on_write,)),
    Claim(
        "A deposed leader writes nothing: no binding, deletion, condition, nomination, reservation or Lease.",
        (Invariants._check_epoch, LeaderWrites, LeaseChecks),
        ("late-binding-of-a-former-leader", "lease-taken-back", "wall-clock-in-the-election"),
    ),
)

# Whenever a leader decides or a replica answers.
ON_DECISIONS = (
    Claim(
        "A leader knows what others have written before it decides, replicas answer by its snapshot, and each delta"
        " fits theirs.",
        (LeaderChecks._on_cycle, StreamChecks),
        ("no-catching-up", "older-stream-goes-on"),
    ),
    Claim(
        "A member of a group is bound only if enough members were placed together, or had a node before.",
        (LeaderChecks._on_binding,),
        ("group-in-part",),
    ),
    Claim(
        "No pod takes room that is nominated to a pod no less important.",
        (LeaderChecks._on_assume,),
        ("nomination-ignored",),
    ),
    Claim(
        "Victims are less important than the preemptor, and a disruption budget is violated only where it has to be.",
        (LeaderChecks._on_eviction,),
        ("budget-ignored", "equal-pods-are-victims"),
    ),
    Claim(
        "No pod is placed where a remote plugin keeps pods off.",
        (Invariants._on_pod, ConfigurationChecks._on_assume),
        ("bypassed-remote-filter",),
    ),
    Claim(
        "A configuration is in force as a whole or not at all, between two cycles.",
        (ConfigurationChecks,),
        ("reload-in-a-cycle", "reload-in-part", "wrong-weight"),
    ),
    Claim(
        "The event that helps a pod wakes it, neither the flush nor the check of missed wake-ups.",
        (WakeUpChecks,),
        ("hint-answers-skip", "wake-up-lost"),
    ),
    Claim(
        "The queue hands out what is first, pods and groups back off as long as they failed, and its structures and"
        " statistics are what its pods' states say.",
        (QueueChecks,),
    ),
    Claim("Each call of bind that ends well answers about each pod and action once.", (AnswerChecks,)),
    Claim("No process logs an error of the program itself.", (ErrorChecks,)),
    Claim("Decisions are those of kube-scheduler's own framework.", (OracleChecks,), ("budget-ignored",)),
)

# At the end of each calm, at the latest 400 s after the last fault.
AT_REST = (
    Claim(
        "No pod that fits on some node is pending.",
        (unplaced_pods.pods_that_fit,),
        (
            "assumed-pod-stays",
            "back-off-without-end",
            "certificates-not-renewed",
            "frozen-leader",
            "lost-rows",
            "oversized-delta",
            "victim-stays-evicted",
        ),
    ),
    Claim(
        "What is prepared and not used is undone.",
        (LeftoverChecks,),
        ("assumed-objects-stay", "binding-never-ends", "condition-after-binding", "work-stays-in-flight"),
    ),
    Claim("Insight finds no feasible node for pods that wait, and its numbers add up.", (InsightChecks,)),
    Claim(
        "The caches of every frontend are the API server's state, and no pod is lost.",
        (FrontendChecks._differences,),
        ("expired-watch-goes-on", "relist-forgets-deletions"),
    ),
    Claim(
        "`status` names each pending pod once, and why it is pending.",
        (pending_checks.wrong_entries,),
        ("status-names-one-plugin", "wall-clock-in-the-queue"),
    ),
    Claim(
        "Snapshots are those made anew, and what they count on nodes is what the API server's pods take.",
        (snapshot_checks.differences, snapshot_checks.differences_from_store),
    ),
    Claim(
        "Cached columns are those computed from scratch.",
        (ColumnChecks.differences,),
        ("scores-not-renewed",),
    ),
    Claim(
        "Nothing is kept of pods and nodes that are gone.",
        (kept_state.containers_of_what_is_gone,),
        ("reports-kept",),
    ),
    Claim("No claim that was made for a pod outlives it.", (Invariants.useless_claims,)),
    Claim("The status of each quota is what its pods use.", (QuotaChecks.differences,)),
    Claim("Each frontend has the configuration of its files.", (ConfigurationChecks.differences,)),
)

CLAIMS = {
    "After every write at the API server": ON_WRITES,
    "Whenever a leader decides or a replica answers": ON_DECISIONS,
    "At rest, 400 s after the last fault at the latest": AT_REST,
}
