"""Remote plugins of a recording at Score, PostFilter and Reserve: each answers what is recorded of the decision.

The verdicts of filter plugins on nodes as they are are in the recorded answer of Filter (`recorded_filter`); those in
dry runs, and what dry runs read of the rest, is found here.

Also change: protos/trireme/v1/remote_answer.proto (the messages).

Tests: tests/unit/remote/test_recorded_plugins.py, tests/unit/replay/test_decision_replay.py,
tests/contract/test_recorded_remote_answers.py.
"""

from collections.abc import Collection, Sequence

import numpy as np

from trireme.evaluation.preemption import post_filter_context
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import node_verdicts
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import cycle_pb2, decision_pb2, filter_pb2, remote_answer_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status

# A dry run: the slot, the rows that were gone, the classes that were there in addition.
RunKey = tuple[int, tuple[int, ...], tuple[int, ...]]


class MissingAnswerError(Exception):
    """A remote plugin is called about what is not recorded; the text names it."""


class RemoteAnswers:
    """What remote plugins answered in the decision that is made again."""

    def __init__(self) -> None:
        self._scores: dict[str, remote_answer_pb2.RemoteScores] = {}
        self._dry_runs: dict[tuple[str, int, RunKey], status.Status | None] = {}
        self._post_filters: dict[str, list[remote_answer_pb2.RemotePostFilter]] = {}
        self._reservations: dict[tuple[str, str], filter_pb2.Reservation] = {}
        self._verdicts: dict[tuple[str, int], node_verdicts.RecordedVerdicts] = {}
        #: How the plugin failed that failed the pods at Score; None: none did.
        self.failure: status.Status | None = None

    def take(self, decision: decision_pb2.Decision) -> None:
        """The decision that is made next. Raises: ValueError for answers that do not fit together."""
        for answers in (self._scores, self._dry_runs, self._verdicts, self._post_filters, self._reservations):
            answers.clear()
        failed = decision.place.HasField("failure")
        self.failure = wire_status.from_message(decision.place.failure) if failed else None
        for answer in decision.remote.answers:
            self._add(answer, answer.pod_class or decision.pod_class)

    def take_verdicts(
        self, decision: decision_pb2.Decision, plugins: Collection[str], same_nodes: arrays.BoolArray
    ) -> None:
        """Take these plugins' verdicts on nodes in a decision on an earlier cluster, for the nodes that are the same.

        Shape: same_nodes (slot,). Raises: ValueError for answers that do not fit together.
        """
        for answer in decision.remote.answers:
            if answer.plugin in plugins and answer.HasField("nodes"):
                key = answer.plugin, answer.pod_class or decision.pod_class
                self._verdicts[key] = node_verdicts.RecordedVerdicts(answer.nodes)
                self._verdicts[key].hold_only(same_nodes)

    def _add(self, answer: remote_answer_pb2.RemoteAnswer, pod_class: int) -> None:
        """Add one answer. Raises: ValueError."""
        name, kind = answer.plugin, answer.WhichOneof("answer")
        if kind == "scores":
            _check_copies(name, answer.scores)
            self._scores.setdefault(name, remote_answer_pb2.RemoteScores()).MergeFrom(answer.scores)
        elif kind == "dry_runs":
            statuses = [None, *(wire_status.from_message(each) for each in answer.dry_runs.statuses)]
            for run in answer.dry_runs.runs:
                key = run.slot, tuple(sorted(run.removed_rows)), tuple(run.added_classes)
                if run.status >= len(statuses):
                    raise ValueError(f"remote.dry_runs: a run of {name} refers to status {run.status}")
                self._dry_runs[name, pod_class, key] = statuses[run.status]
        elif kind == "nodes":
            self._verdicts[name, pod_class] = node_verdicts.RecordedVerdicts(answer.nodes)
        elif kind == "post_filter":
            self._post_filters.setdefault(name, []).append(answer.post_filter)
        elif kind == "reservations":
            about = answer.reservations
            if len(about.uid) != len(about.reservations):
                raise ValueError(f"remote.reservations: {name} has {len(about.reservations)} for {len(about.uid)} pods")
            self._reservations |= {(name, uid): one for uid, one in zip(about.uid, about.reservations, strict=True)}

    def scores_of(self, plugin: str) -> remote_answer_pb2.RemoteScores:
        """The plugin's scores. Raises: MissingAnswerError."""
        if plugin not in self._scores:
            raise MissingAnswerError(f"the scores of {plugin}")
        return self._scores[plugin]

    def verdicts_of(self, plugin: str, pod_class: int) -> node_verdicts.RecordedVerdicts | None:
        """What dry runs for the class read of the plugin's verdicts on nodes as they are; None: it is not recorded."""
        return self._verdicts.get((plugin, pod_class))

    def dry_run_of(self, plugin: str, pod_class: int, run: interfaces.DryRun) -> status.Status | None:
        """The plugin's verdict on a dry run for the class; None: the pod passes. Raises: MissingAnswerError."""
        if (plugin, pod_class) in self._verdicts and self._verdicts[plugin, pod_class].skipped:
            return None
        key = plugin, pod_class, (run.slot, tuple(sorted(run.removed_rows)), tuple(run.added_classes))
        if key not in self._dry_runs:
            raise MissingAnswerError(f"a dry run of {plugin}")
        return self._dry_runs[key]

    def next_post_filter_of(self, plugin: str) -> filter_pb2.PostFilterResponse | None:
        """The plugin's next PostFilter answer; None: its failure was ignored. Raises: MissingAnswerError."""
        left = self._post_filters.get(plugin)
        if not left:
            raise MissingAnswerError(f"a PostFilter answer of {plugin}")
        answer = left.pop(0)
        if not answer.HasField("response"):
            return None
        response = filter_pb2.PostFilterResponse()
        response.CopyFrom(answer.response)
        return response

    def reservation_of(self, plugin: str, uid: str) -> filter_pb2.Reservation:
        """What the plugin assumed for the pod. Raises: MissingAnswerError."""
        if (plugin, uid) not in self._reservations:
            raise MissingAnswerError(f"a reservation of {plugin}")
        return self._reservations[plugin, uid]


def _check_copies(plugin: str, scores: remote_answer_pb2.RemoteScores) -> None:
    """Raises: ValueError where the scores with copies do not fit together."""
    if len(scores.copies) != len(scores.copied_slots) or sum(scores.copies) != len(scores.copied):
        raise ValueError(
            f"remote.scores: {plugin} has {len(scores.copied)} scores with copies of {len(scores.copied_slots)} slots, "
            f"but copies has {len(scores.copies)} entries for {sum(scores.copies)}"
        )


class RecordedScorePlugin:
    """A remote score plugin. Its columns are not to be cached from one decision to the next."""

    def __init__(
        self,
        name: str,
        depends_on: interfaces.Dependency,
        normalization: scorers.Normalization,
        answers: RemoteAnswers,
        *,
        scores_copies: bool = False,
    ) -> None:
        self.name = name
        self.depends_on = depends_on
        self.normalization = normalization
        self.scores_copies = scores_copies
        self._answers = answers

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: remote_answer_pb2.RemoteScores | None,
        slots: arrays.SlotArray,
    ) -> scorers.PreparedScores:
        """The recorded scores, or the failure that is this plugin's."""
        failure = self._answers.failure
        if failure is not None and failure.plugin == self.name:
            return scorers.PreparedScores(None, failure=failure)
        scores = self._answers.scores_of(self.name)
        return scorers.PreparedScores(scores, silent=scores.silent)

    def score(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: remote_answer_pb2.RemoteScores,
        slots: arrays.SlotArray,
    ) -> arrays.Int64Array:
        """The recorded raw scores; 0 of a node that the plugin was not called about. Shape: as slots."""
        out = np.zeros(max(len(state.raw), int(slots.max(initial=-1)) + 1), dtype=np.int64)
        out[: len(state.raw)] = state.raw
        chosen: arrays.Int64Array = out[slots]
        return chosen

    async def prepare_copies(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: remote_answer_pb2.RemoteScores,
        slots: arrays.SlotArray,
        copies: int,
    ) -> arrays.Int64Array | None:
        """All recorded scores of the slots with copies there: where they end, the batch ended. Shape: (slot, copy)."""
        ends = np.cumsum(np.array(state.copies, dtype=np.intp))
        rows = {
            slot: state.copied[int(end) - number : int(end)]
            for slot, number, end in zip(state.copied_slots, state.copies, ends, strict=True)
        }
        out = np.full((slots.shape[0], max(state.copies, default=0)), scorers.UNKNOWN, dtype=np.int64)
        for at, slot in enumerate(slots.tolist()):
            row = rows.get(slot, ())
            out[at, : len(row)] = row
        return out

    async def normalize(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: remote_answer_pb2.RemoteScores,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status:
        """The recorded scores. Raises: MissingAnswerError for slots that the plugin was not called about."""
        failure = self._answers.failure
        if failure is not None and failure.plugin == self.name:
            return failure
        known = dict(zip(state.normalized_slots, state.normalized, strict=False))
        if not known.keys() >= set(slots.tolist()):
            raise MissingAnswerError(f"normalised scores of {self.name}")
        return np.array([known[slot] for slot in slots.tolist()], dtype=np.int64)


class RecordedPostFilterPlugin:
    """A remote plugin at PostFilter."""

    remote = True

    def __init__(self, name: str, answers: RemoteAnswers) -> None:
        self.name = name
        self._answers = answers

    async def post_filter(
        self,
        context: post_filter_context.PostFilterContext,
        snap: snapshot.Snapshot,
        refused: node_columns.NodeColumns | None,
    ) -> filter_pb2.PostFilterResponse | None:
        """The recorded answer about the next pod. Raises: MissingAnswerError."""
        return self._answers.next_post_filter_of(self.name)


class RecordedReservePlugin:
    """A remote plugin at Reserve."""

    must_be_called = True

    def __init__(self, name: str, answers: RemoteAnswers) -> None:
        self.name = name
        self._answers = answers

    async def reserve(
        self,
        cycle: cycle_pb2.Cycle,
        placements: Sequence[filter_pb2.Placement],
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
    ) -> Sequence[filter_pb2.Reservation]:
        """The recorded reservations. Raises: MissingAnswerError."""
        return [self._answers.reservation_of(self.name, placement.pod.uid) for placement in placements]

    async def unreserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], pod_class: classes.PodClass
    ) -> None:
        """Nothing is reserved."""
