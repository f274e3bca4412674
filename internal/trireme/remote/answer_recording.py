"""Takes down what remote plugins answer during one call of a phase, if the caller wants it for a recording.

The plugins are called deep within an evaluation, and several calls are answered at once. So where the answers of a call
go is in the context of its task (`contextvars`), which the tasks that it starts inherit.

Also change: protos/trireme/v1/remote_answer.proto (the messages).

Tests: tests/unit/remote/test_answer_recording.py, tests/contract/test_recorded_remote_answers.py.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence

from trireme.evaluation.scoring import class_scores
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import node_verdicts
from trireme.snapshot import arrays
from trireme.v1 import filter_pb2, remote_answer_pb2
from trireme.wire import status as wire_status

# Dry runs of one call: of more, none is recorded.
MAX_DRY_RUNS = 20_000


class CollectedAnswers:
    """The answers of one call."""

    def __init__(self) -> None:
        self._answers = remote_answer_pb2.RemoteAnswers(complete=True)
        self._dry_runs = 0
        # By plugin and class.
        self._verdicts: dict[tuple[str, int], node_verdicts.VerdictCollection] = {}

    def content(self) -> bytes:
        """All of them, a serialised RemoteAnswers."""
        if not self._answers.complete:
            return self._answers.SerializeToString()
        out = remote_answer_pb2.RemoteAnswers()
        out.CopyFrom(self._answers)
        for (plugin, pod_class), verdicts in self._verdicts.items():
            out.answers.add(plugin=plugin, pod_class=pod_class, nodes=verdicts.to_message())
        return out.SerializeToString()

    def new_answer(self, plugin: str, pod_class: int = 0) -> remote_answer_pb2.RemoteAnswer:
        """The next answer, of this plugin, to be filled in. `pod_class`: what it is about, if that is a class."""
        return self._answers.answers.add(plugin=plugin, pod_class=pod_class)

    def verdicts_of(self, plugin: str, pod_class: int) -> node_verdicts.VerdictCollection:
        """Where the plugin's verdicts on nodes as they are go, for one class."""
        return self._verdicts.setdefault((plugin, pod_class), node_verdicts.VerdictCollection())

    def has_room_for(self, dry_runs: int) -> bool:
        """Whether so many more dry runs are recorded; else the answers are incomplete from now on."""
        self._dry_runs += dry_runs
        if self._dry_runs > MAX_DRY_RUNS:
            self._answers.complete = False
            del self._answers.answers[:]
        return self._answers.complete


_collected: contextvars.ContextVar[CollectedAnswers | None] = contextvars.ContextVar("answers", default=None)


@contextlib.contextmanager
def recording(wanted: bool) -> Iterator[CollectedAnswers | None]:
    """Collect the answers to what the block calls; None: they are not wanted."""
    if not wanted:
        yield None
        return
    collected = CollectedAnswers()
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def add_verdicts(
    plugin: str, pod_class: int, slots: arrays.SlotArray, index: arrays.Int16Array, table: interfaces.StatusTable
) -> None:
    """A dry run read the plugin's verdicts on these nodes as they are. Shapes: (slot,); index: the table's numbers."""
    collected = _collected.get()
    if collected is not None:
        collected.verdicts_of(plugin, pod_class).add(slots, index, table)


def add_dry_runs(
    plugin: str,
    pod_class: int,
    runs: Sequence[interfaces.DryRun],
    index: arrays.Int16Array,
    table: interfaces.StatusTable,
) -> None:
    """The plugin's verdicts on dry runs for the class. Shape: index (run,), numbers of the table."""
    collected = _collected.get()
    if collected is None or not collected.has_room_for(len(runs)):
        return
    about = collected.new_answer(plugin, pod_class).dry_runs
    numbers: dict[int, int] = {0: 0}
    for run, number in zip(runs, index.tolist(), strict=True):
        if number not in numbers:
            about.statuses.append(wire_status.to_message(table.statuses[number - 1]))
            numbers[number] = len(about.statuses)
        about.runs.add(
            slot=run.slot, removed_rows=run.removed_rows, added_classes=run.added_classes, status=numbers[number]
        )


def add_post_filter(plugin: str, response: filter_pb2.PostFilterResponse | None) -> None:
    """The plugin's PostFilter answer about one pod; None: its failure is ignored."""
    collected = _collected.get()
    if collected is not None:
        about = collected.new_answer(plugin).post_filter
        about.SetInParent()
        if response is not None:
            about.response.CopyFrom(response)


def add_reservations(
    plugin: str, placements: Sequence[filter_pb2.Placement], reservations: Sequence[filter_pb2.Reservation]
) -> None:
    """What the plugin assumes beside these pods, in order."""
    collected = _collected.get()
    if collected is None:
        return
    about = collected.new_answer(plugin).reservations
    for placement, reservation in zip(placements, reservations, strict=True):
        about.uid.append(placement.pod.uid)
        about.reservations.add().CopyFrom(reservation)
        about.reservations[-1].ClearField("state")


def add_normalized(plugin: str, slots: arrays.SlotArray, scores: arrays.Int64Array | status.Status) -> None:
    """The plugin's own normalisation of its scores of these slots. Shapes: (slot,)."""
    collected = _collected.get()
    if collected is not None and not isinstance(scores, status.Status):
        about = collected.new_answer(plugin).scores
        about.normalized_slots.extend(slots.tolist())
        about.normalized.extend(scores.tolist())


def add_scores(
    collected: CollectedAnswers, plugins: Mapping[str, scorers.AsyncScore], known: class_scores.ClassScores
) -> None:
    """The raw scores by which the class was placed, of these plugins."""
    for name in plugins:
        column = known.plugins.get(name)
        if column is not None:
            about = collected.new_answer(name).scores
            about.silent = column.silent
            if column.silent:
                continue
            about.raw.extend(column.raw.tolist())
            for slot in column.copies.slots():
                about.copied_slots.append(slot)
                about.copies.append(column.copies.known_copies(slot))
                about.copied.extend(column.copies.row(slot).tolist())
