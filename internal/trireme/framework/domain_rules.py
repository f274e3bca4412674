"""Domain constraints: how a placement of a class changes on which other nodes the class may run.

Filter states them as data beside its columns, and Place applies them after each pod; so a batch ends as one-by-one
cycles would. Domains are numbered from 0 within one constraint; −1 is a node without a domain.

Also change: internal/trireme/wire/domain_constraints.py,
internal/trireme/evaluation/scoring/constraint_admission.py (what each kind of rule is on the wire, and does).

Tests: tests/unit/evaluation/test_reachable_nodes.py, tests/unit/evaluation/test_placement_domains.py.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trireme.framework import status

NO_DOMAIN = -1


@dataclass(frozen=True, slots=True)
class SkewRule:
    """Count of the node's domain (0 in none) + self_match − the lowest count ≤ max_skew.

    With fewer domains than `min_domains` the lowest counts as 0. `counts` has for each node whether a placement there
    is counted. Shape: (node,).
    """

    max_skew: int
    self_match: int
    min_domains: int
    counts: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PresenceRule:
    """The count of the node's domain is above 0; or nothing counts in any rule of the group and it may be the first."""

    may_be_first: bool
    group: int = 0


@dataclass(frozen=True, slots=True)
class AbsenceRule:
    """The count of the node's domain is 0; a node in no domain passes."""


Rule: TypeAlias = SkewRule | PresenceRule | AbsenceRule


@dataclass(frozen=True, slots=True)
class DomainConstraint:
    """One rule. Shapes: domain (node,), count (domain,). A placement adds `placement_adds` to its domain's count."""

    refusal: status.Status
    domain: npt.NDArray[np.int32]
    count: npt.NDArray[np.int64]
    placement_adds: int
    rule: Rule


# Up to this many domains, each is distinguished by its number.
_FEW = 8


def distinguishing_columns(domain: npt.NDArray[np.int32], state: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Columns in which nodes are equal only if placements elsewhere can never make them differ.

    Such are nodes of one domain, and nodes that are alone in domains of the same state.

    Shapes: domain and each column (node,), state (domain,); numbers of domains are not negative.
    """
    if state.shape[0] <= _FEW:
        return [domain]
    shared = np.bincount(domain, minlength=state.shape[0]) > 1
    if not shared.any():
        return [state[domain]]
    return [np.where(shared, 0, state)[domain], np.where(shared, np.cumsum(shared), 0)[domain]]
