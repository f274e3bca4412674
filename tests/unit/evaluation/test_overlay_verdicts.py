"""Filters over an overlay: as over a cluster that is so, or as kube-scheduler's after AddPod and RemovePod."""

import pathlib
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, given, settings

from tests.helpers import changed_clusters
from tests.helpers.changed_clusters import WANTED, Change
from trireme.framework import pod_takings
from trireme.plugin_api import interfaces
from trireme.snapshot import overlay

SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@SETTINGS
@given(change=changed_clusters.changes())
def test_a_hypothetical_overlay_is_a_snapshot_built_anew(change: Change) -> None:
    """A question about a hypothetical cluster is answered for that cluster."""
    snap, truth = changed_clusters.before(change).snap, changed_clusters.after(change).snap
    slots = np.arange(snap.nodes.size)
    with overlay.SnapshotOverlay(snap, overlay.Semantics.HYPOTHETICAL) as over:
        changed_clusters.apply(change, over)
        assert over.pod_count(slots).tolist() == truth.pod_count(slots).tolist()
        for number, name in enumerate(snap.nodes.resource_names.names):
            known = truth.nodes.resource_names.find(name)
            wanted = [0] * slots.size if known is None else truth.requested(known, slots).tolist()
            assert over.requested(number, slots).tolist() == wanted
        for number in change.classes:
            mask = snap.class_mask([number])
            assert over.count_pods(mask).tolist() == truth.count_pods(mask).tolist()
        for name in changed_clusters.PLUGINS:
            assert changed_clusters.verdicts(over, name) == changed_clusters.verdicts(truth, name), name


@SETTINGS
@given(change=changed_clusters.changes())
def test_plugins_that_follow_pods_exactly_answer_a_dry_run_as_if_it_were_so(change: Change) -> None:
    """A victim of these plugins helps in a dry run if, and only if, its eviction will."""
    snap, truth = changed_clusters.before(change).snap, changed_clusters.after(change).snap
    with overlay.SnapshotOverlay(snap, overlay.Semantics.DRY_RUN) as over:
        changed_clusters.apply(change, over)
        for name in ("NodeResourcesFit", "NodeVolumeLimits", "InterPodAffinity"):
            assert changed_clusters.verdicts(over, name) == changed_clusters.verdicts(truth, name), name


@SETTINGS
@given(change=changed_clusters.changes(changed_clusters.pods_with_ports()))
def test_in_a_dry_run_ports_are_a_set_that_each_pod_adds_to_and_takes_from(change: Change) -> None:
    """kube-scheduler keeps one entry for a port that two pods of a node have: it is free once one of them goes."""
    snap = changed_clusters.before(change).snap
    used: list[set[pod_takings.Port]] = [set() for _ in change.nodes]
    for number, node, _ in change.placed:
        used[node].update(snap.classes[number].host_ports)
    for place in change.removed:
        used[change.placed[place][1]].difference_update(snap.classes[change.placed[place][0]].host_ports)
    for number, node in [*(change.placed[place][:2] for place in change.restored), *change.added]:
        used[node].update(snap.classes[number].host_ports)
    wanted = snap.classes[WANTED].host_ports
    taken = [any(_clash(port, other) for port in wanted for other in ports) for ports in used]
    with overlay.SnapshotOverlay(snap, overlay.Semantics.DRY_RUN) as over:
        changed_clusters.apply(change, over)
        found = changed_clusters.verdicts(over, "NodePorts")
    assert [bool(text) for text, _, _ in found] == taken


@SETTINGS
@given(change=changed_clusters.changes(changed_clusters.pods_with_exclusive_claims()))
def test_in_a_dry_run_claims_in_use_are_counted_once_and_taken_off_by_each_pod(change: Change) -> None:
    """kube-scheduler's PreFilter counts a claim in use as one, and RemovePod takes one off for each volume with it."""
    snap = changed_clusters.before(change).snap
    own = set(_exclusive(change, [WANTED]))
    in_use = len(own & set(_exclusive(change, [number for number, _, _ in change.placed])))
    removed = _exclusive(change, [change.placed[place][0] for place in change.gone])
    added = _exclusive(change, [number for number, _ in change.added])
    left = in_use - sum(removed[name] for name in own) + sum(added[name] for name in own)
    with overlay.SnapshotOverlay(snap, overlay.Semantics.DRY_RUN) as over:
        changed_clusters.apply(change, over)
        found = changed_clusters.verdicts(over, "VolumeRestrictions")
    # Without a claim in use PreFilter skips the plugin, whatever is added.
    assert [bool(text) for text, _, _ in found] == [left > 0 and in_use > 0] * snap.nodes.size


@SETTINGS
@given(change=changed_clusters.changes(changed_clusters.pods_that_spread_from_all()))
def test_in_a_dry_run_each_pod_that_moves_counts_even_a_terminating_one(change: Change) -> None:
    """An empty selector counts every pod that is not terminating; AddPod and RemovePod do not look at that."""
    snap = changed_clusters.before(change).snap
    counts = np.zeros(snap.nodes.size, dtype=np.int64)
    for _, node, terminating in change.placed:
        counts[node] += not terminating
    for place in change.gone:
        counts[change.placed[place][1]] -= 1
    for _, node in change.added:
        counts[node] += 1
    skew = change.classes[WANTED].spec.topology_spread_constraints[0].max_skew
    with overlay.SnapshotOverlay(snap, overlay.Semantics.DRY_RUN) as over:
        changed_clusters.apply(change, over)
        found = changed_clusters.verdicts(over, "PodTopologySpread")
    assert [bool(text) for text, _, _ in found] == (counts + 1 - counts.min() > skew).tolist()


def _clash(wanted: pod_takings.Port, used: pod_takings.Port) -> bool:
    return wanted[1:] == used[1:] and (wanted[0] == used[0] or "0.0.0.0" in (wanted[0], used[0]))


def _exclusive(change: Change, numbers: Sequence[int]) -> Counter[str]:
    """How many volumes of pods of these classes name each exclusive claim."""
    names = (
        volume.volume_source.persistent_volume_claim.claim_name
        for number in numbers
        for volume in change.classes[number].spec.volumes
    )
    return Counter(name for name in names if name in changed_clusters.EXCLUSIVE)


def test_filters_read_what_pods_change_through_the_view() -> None:
    """A column of the snapshot's own has nothing of an overlay's changes, and who reads it evicts pods in vain."""
    plugins = pathlib.Path(interfaces.__file__).parents[1] / "plugins"
    sides = [*plugins.glob("*/filter.py"), *plugins.glob("dynamic_resources/*.py")]
    assert len(sides) > 20
    own = re.compile(r"\b(nodes|table)\.(requested|nonzero|pod_count)\b|\bsnap\.pods\b")
    assert {path.parent.name: own.findall(path.read_text()) for path in sides if own.search(path.read_text())} == {}
