"""Candidates that label a node: labels that no node has keep the pod off all of them.

Only where no node matches the pod's node selector and required node affinity, and a node lacks the keys of labels that
these need. A label that a node has says something of it, and is not replaced.

A pod may have thousands of terms, and each node a set of labels of its own. So the first terms are looked at, of each
the sets of the fewest labels; other calls are answered in between, and the rest is counted.

Tests: tests/unit/insight/test_label_proposals.py.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.framework import selectors
from trireme.snapshot import arrays, node_selection, snapshot
from trireme.snapshot.dictionary import ABSENT
from trireme.v1 import core_pb2

# On how many nodes the same labels are tried.
_NODES = 3

# How many terms of a pod are looked at, and how many sets of labels of each; more labels for a node are no advice.
_TERMS = 64
_SETS = 64
_LABELS = 16

# For Exists, which any value meets.
_ANY_VALUE = "true"

# Domains, with all below them, of programs that set labels: of Kubernetes, cloud providers, autoscalers, device plugins
# and nodes. Such a label is a fact about a node; what is excepted is for administrators.
_DOMAINS_OF_FACTS = (
    "kubernetes.io", "k8s.io", "x-k8s.io",
    "aliyun.com", "alibabacloud.com", "amazonaws.com", "aws.com", "azure.com", "civo.com", "cloud.google.com",
    "cloud.tencent.com", "digitalocean.com", "eksctl.io", "exoscale.com", "gke.io", "hetzner.cloud", "huaweicloud.com",
    "ibm.com", "linode.com", "oraclecloud.com", "ovhcloud.com", "scaleway.com", "vmware.com", "volcengine.com",
    "vultr.com",
    "cast.ai", "karpenter.sh", "k8s.aws", "spotinst.io",
    "amd.com", "habana.ai", "intel.com", "nvidia.com", "qualcomm.com", "xilinx.com",
    "cattle.io", "cilium.io", "coreos.com", "k3s.io", "kubevirt.io", "openshift.io", "projectcalico.org",
)  # fmt: skip
_OF_ADMINISTRATORS = ("node-restriction.kubernetes.io", "node-role.kubernetes.io")


@dataclass(frozen=True, slots=True)
class MissingLabels:
    """Labels to add, and the slots of some nodes that lack only these, the most promising first."""

    labels: Mapping[str, str]
    slots: Sequence[int]


@dataclass(slots=True)
class LabelCandidates:
    """The sets of labels any of which lets nodes match a pod, the fewest labels first.

    `others`: how many terms and sets there are beside those that were looked at.
    """

    found: list[MissingLabels] = field(default_factory=list)
    others: int = 0


async def missing_labels(
    pod: core_pb2.Pod,
    snap: snapshot.Snapshot,
    refused: Sequence[arrays.BoolArray],
    is_time_up: Callable[[], bool],
) -> LabelCandidates:
    """Find the labels that nodes lack; other calls are answered meanwhile, so `snap` must stay as it is.

    `refused`: the slots that each plugin refuses; of nodes with the same missing labels, those that the fewest plugins
    refuse are the most promising. Once `is_time_up` no further term is looked at. Shapes: refused (slot,).
    """
    slots = snap.nodes.live_slots()
    terms = list(_terms(pod))
    for term in terms:
        await asyncio.sleep(0)
        if node_selection.matches_term(snap.nodes, term, slots).any():
            return LabelCandidates()
    refusals = np.sum(refused, axis=0)[slots] if refused else np.zeros(slots.shape[0], dtype=np.int64)
    promising_first = slots[np.argsort(refusals, kind="stable")]
    slots_of_set: dict[tuple[tuple[str, str], ...], list[int]] = {}
    looked_at, others = 0, 0
    for term in terms[:_TERMS]:
        sets = await _missing_of_term(term, snap, promising_first, is_time_up)
        if is_time_up():
            break
        looked_at += 1
        for labels in (chosen := heapq.nsmallest(_SETS, sets, key=len)):
            slots_of_set.setdefault(labels, []).extend(sets[labels])
        others += len(sets) - len(chosen)
    found = [
        MissingLabels(dict(labels), list(dict.fromkeys(slots_of_set[labels]))[:_NODES])
        for labels in sorted(slots_of_set, key=lambda labels: (len(labels), labels))
    ]
    return LabelCandidates(found, others + len(terms) - looked_at)


def _terms(pod: core_pb2.Pod) -> Iterator[selectors.NodeTerm]:
    """The terms any of which a node has to match, each with the pod's node selector."""
    selected = [(key, value) for key, value in sorted(pod.spec.node_selector.items())]
    if not all(selectors.valid_key(key) and selectors.valid_value(value) for key, value in selected):
        return
    own = tuple(selectors.Requirement(key, selectors.IN, frozenset({value})) for key, value in selected)
    affinity = pod.spec.affinity.node_affinity
    if not affinity.HasField("required_during_scheduling_ignored_during_execution"):
        yield selectors.NodeTerm(own)
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    for term in selectors.parse_terms(required.node_selector_terms):
        yield selectors.NodeTerm((*own, *term.requirements), term.names, term.not_names)


async def _missing_of_term(
    term: selectors.NodeTerm, snap: snapshot.Snapshot, slots: arrays.SlotArray, is_time_up: Callable[[], bool]
) -> Mapping[tuple[tuple[str, str], ...], Sequence[int]]:
    """Each set of labels that nodes lack of the term, and the first of `slots` that lack it. Shape: slots (n,)."""
    possible = node_selection.matches_term(snap.nodes, selectors.NodeTerm((), term.names, term.not_names), slots)
    requirements: dict[str, list[selectors.Requirement]] = {}
    for requirement in term.requirements:
        requirements.setdefault(requirement.key, []).append(requirement)
    counts = np.zeros(slots.shape[0], dtype=np.int64)
    labels: list[tuple[str, str]] = []
    missing: list[arrays.BoolArray] = []
    for key in sorted(requirements):
        await asyncio.sleep(0)
        of_key = selectors.NodeTerm(tuple(requirements[key]))
        met = node_selection.matches_term(snap.nodes, of_key, slots)
        addable = possible & ~met & (snap.nodes.labels.column(key).at(slots) == ABSENT)
        value = _value_for(key, of_key) if addable.any() else None
        if value is not None:
            met |= addable
            counts += addable
            labels.append((key, value))
            missing.append(addable)
        possible &= met & (counts <= _LABELS)
        if not possible.any() or is_time_up():
            return {}
    lacked = np.packbits(np.stack(missing), axis=0).T.copy()
    places_by_set: dict[bytes, list[int]] = {}
    for place in np.flatnonzero(possible).tolist():
        places = places_by_set.setdefault(lacked[place].tobytes(), [])
        if len(places) < _NODES:
            places.append(place)
    return {
        tuple(labels[number] for number in _places_of_bits(packed, len(labels))): slots[places].tolist()
        for packed, places in places_by_set.items()
    }


def _places_of_bits(packed: bytes, count: int) -> list[int]:
    return np.flatnonzero(np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=count)).tolist()


def _value_for(key: str, of_key: selectors.NodeTerm) -> str | None:
    """A value with which a label of this key meets all requirements of it; None: none is proposed.

    None for Gt and Lt alone: how many of something a node has is nothing to be made up.
    """
    if _is_fact(key):
        return None
    wanted = [requirement.values for requirement in of_key.requirements if requirement.operator == selectors.IN]
    values = sorted(frozenset.intersection(*wanted)) if wanted else [_ANY_VALUE]
    return next((value for value in values if of_key.matches("", {key: value})), None)


def _is_fact(key: str) -> bool:
    """Whether a program sets labels of this key, and an administrator would not."""
    domain = key.rpartition("/")[0]
    return _is_in(domain, _DOMAINS_OF_FACTS) and not _is_in(domain, _OF_ADMINISTRATORS)


def _is_in(domain: str, domains: Sequence[str]) -> bool:
    """Whether the domain is one of these, or below one."""
    return any(domain == each or domain.endswith(f".{each}") for each in domains)
