"""Domain constraints: how a placement of a class changes on which other nodes the class may run.

Filter states them as data beside its columns, and Place goes by them step by step; so a batch ends as one-by-one cycles
would. Domains are numbered from 0 within one constraint; −1 is a node that is in none.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trireme.framework import status

NO_DOMAIN = -1


@dataclass(frozen=True, slots=True)
class SkewRule:
    """Count of the node's domain (0 in none) + self_match − the lowest count ≤ max_skew.

    With fewer domains than `min_domains` the lowest counts as 0. `counts` says of each node whether a placement there
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
