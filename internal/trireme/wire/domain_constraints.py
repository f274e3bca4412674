"""Domain constraints on the wire: from Filter's answer to Place; the frontend forwards them unread.

Also change: internal/trireme/framework/domain_rules.py (the kinds of rules).

Tests: tests/unit/evaluation/test_placement_domains.py.
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from trireme.framework import domain_rules
from trireme.v1 import filter_phase_pb2
from trireme.wire import packing
from trireme.wire import status as wire_status

_FIELDS = filter_phase_pb2.DomainConstraint.DESCRIPTOR.fields_by_name
_DOMAIN = _FIELDS["domain"].number
_COUNT = _FIELDS["count"].number
_COUNTS = filter_phase_pb2.SkewRule.DESCRIPTOR.fields_by_name["counts"].number


def to_message(constraint: domain_rules.DomainConstraint) -> filter_phase_pb2.DomainConstraint:
    """The message of a constraint."""
    out = filter_phase_pb2.DomainConstraint(
        refusal=wire_status.to_message(constraint.refusal), placement_adds=constraint.placement_adds
    )
    packing.extend_fixed32(out, _DOMAIN, constraint.domain)
    packing.extend_varint(out, _COUNT, constraint.count)
    rule = constraint.rule
    if isinstance(rule, domain_rules.SkewRule):
        out.skew.max_skew = rule.max_skew
        out.skew.self_match = rule.self_match
        out.skew.min_domains = rule.min_domains
        packing.extend_varint(out.skew, _COUNTS, rule.counts.astype(np.uint8))
    elif isinstance(rule, domain_rules.PresenceRule):
        out.presence.may_be_first = rule.may_be_first
        out.presence.group = rule.group
    elif isinstance(rule, domain_rules.AbsenceRule):
        out.absence.SetInParent()
    else:
        assert_never(rule)
    return out


def from_messages(messages: Sequence[filter_phase_pb2.DomainConstraint]) -> tuple[domain_rules.DomainConstraint, ...]:
    """Decode the constraints. Raises: ValueError naming the inconsistent field."""
    return tuple(_from_message(message, f"constraints[{index}]") for index, message in enumerate(messages))


def _from_message(message: filter_phase_pb2.DomainConstraint, path: str) -> domain_rules.DomainConstraint:
    """Decode one constraint at `path`. Raises: ValueError naming the inconsistent field."""
    domain = packing.to_array(message.domain, np.int32)
    count = packing.to_array(message.count, np.int64)
    if domain.size and not domain_rules.NO_DOMAIN <= int(domain.min()) <= int(domain.max()) < count.shape[0]:
        raise ValueError(f"{path}.domain: must be −1 or below the {count.shape[0]} domains")
    refusal = wire_status.from_message(message.refusal)
    return domain_rules.DomainConstraint(
        refusal, domain, count, message.placement_adds, _rule_from_message(message, path)
    )


def _rule_from_message(message: filter_phase_pb2.DomainConstraint, path: str) -> domain_rules.Rule:
    """Decode the rule of a constraint. Raises: ValueError naming the inconsistent field."""
    kind = message.WhichOneof("rule")
    if kind == "skew":
        skew = message.skew
        counts = packing.to_array(skew.counts, np.bool_)
        if counts.shape[0] != len(message.domain):
            raise ValueError(f"{path}.skew.counts: has {counts.shape[0]} entries, must have {len(message.domain)}")
        return domain_rules.SkewRule(skew.max_skew, skew.self_match, skew.min_domains or 1, counts)
    if kind == "presence":
        return domain_rules.PresenceRule(message.presence.may_be_first, message.presence.group)
    if kind == "absence":
        return domain_rules.AbsenceRule()
    raise ValueError(f"{path}.rule: must be set")
