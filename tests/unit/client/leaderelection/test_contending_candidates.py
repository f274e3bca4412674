"""Candidates that contend for a Lease over a bad network."""

import heapq
import itertools
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.elections import AWAY, CONFLICT, NOT_FOUND
from trireme_kube.client.leaderelection import election
from trireme_kube.client.leaderelection.election import (
    Create,
    Election,
    ElectionSettings,
    End,
    Leading,
    Lost,
    Notice,
    Phase,
    Read,
    Turn,
    Wait,
)
from trireme_kube.client.rest.errors import ApiError


class _World:
    """A Lease behind a network that delays, loses and reorders; candidates that live and die."""

    def __init__(self, rng: random.Random, candidates: int) -> None:
        self.rng = rng
        self.now = 0.0
        self.version = 100
        self.stored: dict[str, Any] | None = None
        self.order = itertools.count()
        self.agenda: list[tuple[float, int, str, int, Any]] = []
        self.machines = [
            Election(ElectionSettings(f"c{number}", retry_period=0.3), rng.random, lambda: int(self.now * 1e9))
            for number in range(candidates)
        ]
        self.step = [0] * candidates  # outcomes of earlier instructions are stale
        self.valid_until = [0.0] * candidates
        self.epochs: list[int] = []
        for number, machine in enumerate(self.machines):
            self.execute(number, machine.start(self.now))

    def at(self, delay: float, what: str, number: int, value: Any) -> None:
        heapq.heappush(self.agenda, (self.now + delay, next(self.order), what, number, value))

    def execute(self, number: int, turn: Turn) -> None:
        for notice in turn.notices:
            self.take(number, notice)
        self.step[number] += 1
        instruction, step = turn.instruction, self.step[number]
        if isinstance(instruction, End):
            return
        if isinstance(instruction, Wait):
            late = self.rng.choice(
                [0.0, 0.0, 0.0, self.rng.uniform(0, 5), self.rng.uniform(12, 20)]
            )  # a process may be stopped for a while
            self.at(instruction.seconds + late, "outcome", number, (step, None))
            return
        self.at(self.rng.choice([0.01, 0.01, 0.01, self.rng.uniform(0, 8)]), "serve", number, (step, instruction))
        self.at(instruction.deadline, "outcome", number, (step, AWAY))

    def take(self, number: int, notice: Notice) -> None:
        if isinstance(notice, Leading):
            self.valid_until[number] = notice.valid_until
            if not notice.renewal:
                self.epochs.append(notice.epoch)
        elif isinstance(notice, Lost):
            self.valid_until[number] = 0.0
        leaders = [other for other, until in enumerate(self.valid_until) if until > self.now]
        assert len(leaders) <= 1, f"at {self.now} {leaders} all lead"

    def serve(self, instruction: Any) -> Any:
        if isinstance(instruction, Read):
            return election.lease_record(self.stored) if self.stored else NOT_FOUND
        if isinstance(instruction, Create):
            if self.stored:
                return ApiError(409, "AlreadyExists", "exists")
        elif (
            not self.stored
            or self.stored["metadata"]["resourceVersion"] != instruction.body["metadata"]["resourceVersion"]
        ):
            return CONFLICT
        self.version += self.rng.randint(1, 5)
        metadata = {**instruction.body["metadata"], "resourceVersion": str(self.version)}
        self.stored = {**instruction.body, "metadata": metadata}
        return election.lease_record(self.stored)

    def run(self, until: float) -> None:
        while self.agenda and self.now < until:
            self.now, _, what, number, (step, value) = heapq.heappop(self.agenda)
            if what == "serve":
                if self.rng.random() < 0.1:
                    continue  # the request is lost
                answer = self.serve(value)
                if self.rng.random() > 0.1:  # else the answer is lost
                    self.at(self.rng.choice([0.01, 0.01, self.rng.uniform(0, 4)]), "outcome", number, (step, answer))
            elif step == self.step[number]:
                machine = self.machines[number]
                leading = machine.phase is Phase.LEADING
                turn = machine.stop(self.now) if leading and self.rng.random() < 0.03 else machine.done(self.now, value)
                self.execute(number, turn)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_at_most_one_leads_and_epochs_only_grow(seed: int, candidates: int) -> None:
    """If this fails, some order of delays, losses and stops lets two schedulers lead at once."""
    world = _World(random.Random(seed), candidates)
    world.run(until=600.0)
    assert world.epochs == sorted(set(world.epochs))
    assert world.epochs, "somebody must have led"
