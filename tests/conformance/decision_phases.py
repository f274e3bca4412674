"""Filter and score as real processes on Unix sockets, followed by the snapshot streams of one test frontend.

Each case is a frontend of its own: a new epoch opens new streams, so that each replica also goes through what happens
when a leader is replaced. With one replica of a phase it gets a full sync; with more, the first gets a full sync and
the others deltas (see decision_cluster), and calls go round.
"""

import asyncio
import hashlib
import itertools
import queue
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from trireme.cache import cluster_cache
from trireme.evaluation import score_engine
from trireme.framework import amounts, status
from trireme.registry import score_profiles
from trireme.snapshot import arrays, snapshot
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    filter_phase_pb2_grpc,
    score_phase_pb2,
    score_phase_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
)
from trireme.wire import identities, node_columns
from trireme.wire import status as wire_status

REPOSITORY = Path(__file__).parents[2]

# Deadline of every call, in seconds; an answer takes milliseconds.
DEADLINE = 30.0


class PhaseError(RuntimeError):
    """A process did not start, or a stream broke."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Filter's answer about a class: `refusal` where PreFilter refused it on all nodes, else `columns`.

    `narrowed` names the nodes that PreFilter left; None: all.
    """

    refusal: status.Status | None
    narrowed: frozenset[str] | None
    columns: node_columns.NodeColumns | None
    needs_reserve: bool

    @property
    def refused(self) -> node_columns.NodeColumns:
        """Why each node refuses."""
        return self.columns or node_columns.from_message(filter_pb2.NodeColumns())


class SnapshotStream:
    """The frontend's end of one stream."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._requests: queue.SimpleQueue[snapshot_pb2.SyncRequest | None] = queue.SimpleQueue()
        self._call = snapshot_pb2_grpc.SnapshotFollowerStub(channel).Sync(iter(self._requests.get, None))

    def send(self, request: snapshot_pb2.SyncRequest) -> None:
        """Send without waiting."""
        self._requests.put(request)

    def wait_for(self, generation: int) -> None:
        """Return once the replica says that it is there. Raises: PhaseError."""
        try:
            for answer in self._call:
                if answer.applied_generation >= generation:
                    return
        except grpc.RpcError as error:
            raise PhaseError(f"the snapshot stream broke: {error}") from error
        raise PhaseError("the snapshot stream ended")

    def close(self) -> None:
        """End the stream."""
        self._requests.put(None)
        self._call.cancel()


class Replica:
    """One process of a phase, and the connection to it."""

    def __init__(self, phase: str, directory: Path, number: int) -> None:
        self._log = directory / f"{phase}-{number}.log"
        self.address = f"unix:{directory}/{phase}-{number}.sock"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(REPOSITORY / "cmd" / phase), "--listen", self.address],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=REPOSITORY,
            )
        self.channel = grpc.insecure_channel(self.address)
        self.filter = filter_phase_pb2_grpc.FilterPhaseStub(self.channel)
        self.score = score_phase_pb2_grpc.ScorePhaseStub(self.channel)
        self._stream: SnapshotStream | None = None

    def wait_until_listening(self) -> None:
        """Return once it takes calls. Raises: PhaseError."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith(b"listening on "):
            raise PhaseError(f"{self.address}: did not start\n{self._log.read_text()}")

    def greet(self, hello: snapshot_pb2.Hello) -> None:
        """Open a stream; it replaces the one before."""
        self.leave()
        self._stream = SnapshotStream(self.channel)
        self._stream.send(snapshot_pb2.SyncRequest(hello=hello))

    def tell(self, deltas: Iterable[snapshot_pb2.Delta]) -> None:
        """Send deltas on the stream."""
        assert self._stream is not None
        for delta in deltas:
            self._stream.send(snapshot_pb2.SyncRequest(delta=delta))

    def wait_for(self, generation: int) -> None:
        """Return once the replica has the generation."""
        assert self._stream is not None
        self._stream.wait_for(generation)

    def leave(self) -> None:
        """End the stream, if there is one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def stop(self) -> None:
        """End the process. Raises: PhaseError if it did not end by itself, or by an error."""
        self.leave()
        self.channel.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(DEADLINE)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise PhaseError(f"{self.address}: did not end on SIGTERM\n{self._log.read_text()}") from error
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
        if code != 0:
            raise PhaseError(f"{self.address}: ended with exit code {code}\n{self._log.read_text()}")


class Phases:
    """Some replicas of filter and of score, all of one configuration at a time; a context manager."""

    def __init__(self, configuration: snapshot_pb2.Configuration, replicas: int = 1) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="trireme-conformance-")
        self._configuration = configuration
        self.config_hash = hash_of(configuration)
        self._replicas = replicas
        self.filters: list[Replica] = []
        self.scores: list[Replica] = []
        self._turn = itertools.count()
        self._snap = snapshot.Snapshot()
        self._scorer = self._make_scorer()
        self._epoch = 0

    def __enter__(self) -> "Phases":
        directory = Path(self._directory.name)
        try:
            for number in range(self._replicas):
                self.filters.append(Replica("filter", directory, number))
                self.scores.append(Replica("score", directory, number))
            for replica in self._all():
                replica.wait_until_listening()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._stop()

    @property
    def fence(self) -> cycle_pb2.Fence:
        """The leader that asks."""
        return cycle_pb2.Fence(epoch=self._epoch, lease_valid_ms=15_000)

    def next_leader(self, configuration: snapshot_pb2.Configuration | None = None) -> None:
        """From now on another frontend asks, with another configuration if one is given."""
        self._epoch += 1
        if configuration is not None and configuration is not self._configuration:
            self._configuration = configuration
            self.config_hash = hash_of(configuration)
            self._scorer = self._make_scorer()

    @property
    def follows_deltas(self) -> bool:
        """Whether there are replicas that come to a case by deltas."""
        return self._replicas > 1

    def sync_first(self, deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """The first replica of each phase gets all of the case."""
        chunks = list(deltas)
        self._apply(chunks)
        self._sync([self.filters[0], self.scores[0]], chunks, generation)

    def sync_others(self, deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """The replicas that follow deltas get all of what was before the case."""
        self._sync(self._others(), deltas, generation)

    def sync_all(self, deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """All replicas get all of the case."""
        chunks = list(deltas)
        self._apply(chunks)
        self._sync([*self._all()], chunks, generation)

    def tell_others(self, delta: snapshot_pb2.Delta) -> None:
        """The replicas that follow deltas get the next one."""
        for replica in self._others():
            replica.tell([delta])

    def prepare_others(self, cycle: cycle_pb2.Cycle) -> None:
        """The replicas that follow deltas evaluate the class."""
        for replica in self.filters[1:]:
            replica.filter.Prepare(filter_phase_pb2.FilterPhasePrepareRequest(cycle=cycle), timeout=DEADLINE)
        for replica in self.scores[1:]:
            replica.score.Prepare(score_phase_pb2.ScorePhasePrepareRequest(cycle=cycle), timeout=DEADLINE)

    def _make_scorer(self) -> score_engine.ScoreEngine:
        self._snap.amount_rules = amounts.rules_of(self._configuration.feature_gates)
        return score_engine.ScoreEngine(self._snap, score_profiles.make_profiles(self._configuration))

    def _apply(self, deltas: Iterable[snapshot_pb2.Delta]) -> None:
        for delta in deltas:
            # Its own copy, as if it came by a stream: the cache goes on with its messages.
            self._snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))

    def _others(self) -> list[Replica]:
        return [*self.filters[1:], *self.scores[1:]]

    def _sync(self, replicas: Sequence[Replica], deltas: Iterable[snapshot_pb2.Delta], generation: int) -> None:
        """Greet the replicas and bring them all of the cluster."""
        hello = snapshot_pb2.Hello(fence=self.fence, config_hash=self.config_hash, configuration=self._configuration)
        chunks = list(deltas)
        for replica in replicas:
            replica.greet(hello)
            replica.tell(chunks)
        for replica in replicas:
            replica.wait_for(generation)

    def cycle(self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod | None = None) -> cycle_pb2.Cycle:
        """What each question of the leader begins with; `pod` is the one that is asked about, where it matters."""
        return cycle_pb2.Cycle(
            fence=self.fence,
            generation=generation,
            config_hash=self.config_hash,
            profile=profile,
            pod=pod,
            pod_class=class_id,
        )

    def tell_changes(self, cache: cluster_cache.ClusterCache) -> None:
        """Tell all replicas what has changed since they were told last."""
        delta = cache.take_delta()
        if delta is not None:
            self._apply([delta])
            for replica in self._all():
                replica.tell([delta])

    def filter(self) -> Any:
        """FilterPhase of the replica whose turn it is."""
        return self.filters[next(self._turn) % len(self.filters)].filter

    def score(self) -> Any:
        """ScorePhase of the replica whose turn it is."""
        return self.scores[next(self._turn) % len(self.scores)].score

    def ask_filter(self, cycle: cycle_pb2.Cycle) -> Filtered:
        """Filter's answer about the class."""
        response = self.filter().Filter(
            filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), timeout=DEADLINE
        )
        said = wire_status.from_message(response.pre_filter.status) if response.HasField("pre_filter") else None
        return Filtered(
            said if said != status.SUCCESS else None,
            frozenset(response.pre_filter.node_names) if response.pre_filter.narrowed else None,
            node_columns.from_message(response.columns) if response.HasField("columns") else None,
            response.needs_reserve,
        )

    def ask_scores(
        self, cycle: cycle_pb2.Cycle, slots: arrays.SlotArray
    ) -> Sequence[score_engine.PluginScores] | status.Status:
        """The normalised scores of these slots, or what failed.

        Score answers where pods go; the scores are computed here, from its snapshot of the cluster.
        """
        return asyncio.run(self._scores_of(cycle, slots))

    async def _scores_of(
        self, cycle: cycle_pb2.Cycle, slots: arrays.SlotArray
    ) -> Sequence[score_engine.PluginScores] | status.Status:
        raw = await self._scorer.raw_scores(cycle, slots)
        return raw if isinstance(raw, status.Status) else await self._scorer.normalized_scores(cycle, slots, raw)

    def ask_place(self, cycle: cycle_pb2.Cycle, filtered: Filtered) -> tuple[int, int]:
        """The slot that the next pod goes to, and its total."""
        assert filtered.columns is not None
        request = score_phase_pb2.PlaceRequest(
            cycle=cycle, count=1, capacities=node_columns.to_message(filtered.columns), seed=cycle.generation
        )
        placed = self.score().Place(request, timeout=DEADLINE)
        assert not placed.status.messages, placed.status
        return placed.slots[0], placed.totals[0]

    def ask_reserve(self, cycle: cycle_pb2.Cycle, placement: filter_pb2.Placement) -> filter_pb2.Reservation:
        """What Reserve assumes beside the placement."""
        request = filter_pb2.ReserveRequest(cycle=cycle, placements=[placement])
        (reservation,) = self.filter().Reserve(request, timeout=DEADLINE).reservations
        return reservation

    def ask_post_filter(self, cycle: cycle_pb2.Cycle, filtered: Filtered) -> filter_pb2.PostFilterResponse:
        """How room can be made for the cycle's pod."""
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=cycle,
            columns=node_columns.to_message(filtered.refused),
            preemptors=[identities.preemptor(cycle.pod, cycle.generation)],
        )
        if filtered.refusal is not None:
            request.pre_filter.CopyFrom(wire_status.to_message(filtered.refusal))
        response: filter_phase_pb2.RunPostFilterResponse = self.filter().RunPostFilter(request, timeout=DEADLINE)
        return response.results[0].answer

    def ask_releasable_claims(
        self, question: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Which claims a group may give up."""
        response: filter_phase_pb2.ListReleasableClaimsResponse
        response = self.filter().ListReleasableClaims(question, timeout=DEADLINE)
        return response

    def _all(self) -> Iterator[Replica]:
        return iter([*self.filters, *self.scores])

    def _stop(self) -> None:
        problems = []
        for replica in self._all():
            try:
                replica.stop()
            except PhaseError as error:
                problems.append(str(error))
        self._directory.cleanup()
        if problems:
            raise PhaseError("\n".join(problems))


def hash_of(configuration: snapshot_pb2.Configuration) -> int:
    """The number by which calls name the configuration."""
    return int.from_bytes(hashlib.sha256(configuration.SerializeToString(deterministic=True)).digest()[:8], "big")
