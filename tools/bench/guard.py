"""What a pod costs in counts that no load on the machine changes: `make bench-guard`.

    python -m tools.bench.guard [--write]

Times differ by 20 % from run to run on a shared machine, and a few percent a day add up. So a fixed run in this process
is counted instead: calls of Trireme's own functions and calls that these make, bytes of the messages between the
processes, nodes that plugins looked at. The figures are stored in guard.json; more than `TOLERANCE` above one of them
fails, here and in CI. `--write` stores new ones, which belong in the commit that explains them.

`basic` is batches of equal pods, `distinct` pods that are each a class of their own, `lone` such pods that come one by
one, `mix` a drawn mixture with affinity and spread, `named` pods for a node each, `refused` pods of many sizes that fit
nowhere. What filter and score do is counted on 300 nodes, what the frontend does with fake phases.
"""

# Also change: tools/bench/guard.json (the sampled figures).

import argparse
import json
import pathlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from google.protobuf.message import Message

from tests.helpers import frontend_world
from tests.helpers.domain_cluster import affinity, pod, spread, term
from tools.bench import inprocess_filling
from tools.bench.inprocess_filling import HOST, ZONE
from trireme.v1 import score_phase_pb2

Json = dict[str, Any]

STORED = pathlib.Path(__file__).with_name("guard.json")
TOLERANCE = 0.05
NODES = 300
STEPS, WARM_STEPS = 6, 3
CLASSES_OF_CALL = 16
_OWN_CODE = str(pathlib.Path(inprocess_filling.__file__).parents[2] / "internal")


class Counts:
    """Counts of a run, by what was done and what was counted."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.pods = 0

    @contextmanager
    def counting(self, what: str) -> Iterator[None]:
        """Count the calls within the context: of functions under internal/, and those that these make into C."""
        key, count = f"{what}: calls", 0

        def note(frame: FrameType, event: str, _: object) -> None:
            nonlocal count
            if event in ("call", "c_call") and frame.f_code.co_filename.startswith(_OWN_CODE):
                count += 1

        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.of[key] += count

    def add_message(self, what: str, message: Message | bytes) -> None:
        """Count a message and its bytes."""
        size = len(message) if isinstance(message, bytes) else message.ByteSize()
        self.of[f"{what}: messages"] += 1
        self.of[f"{what}: bytes"] += size

    def per_pod(self) -> dict[str, float]:
        """The counts for each pod that was placed."""
        return {key: round(count / self.pods, 2) for key, count in sorted(self.of.items())}


class _Phases(inprocess_filling.Filling):
    """Filter and score on a cluster of their own, and the cache that they follow."""

    def __init__(self) -> None:
        super().__init__(NODES, "basic")
        self.counts = Counts()

    def place_batch(self, wanted: Json, count: int) -> None:
        """Place pods of one class by a Filter and a Place call."""
        class_id, own = self.cluster.class_of(wanted), self._kind(wanted)
        self._follow()
        with self.counts.counting("filter"):
            filtered = self.cluster.ask_filter(class_id, count, 0)
        self.counts.add_message("filter", filtered)
        with self.counts.counting("score"):
            slots = self.cluster.ask_place(class_id, count, filtered)
        self._assume_at(own, slots)

    def place_in_turn(self, pods: list[Json]) -> None:
        """Place pods that are each a class of their own by a FilterClasses and a PlaceClasses call.

        Those that these leave out are placed by calls of their own, as the frontend does it.
        """
        kinds = [(self.cluster.class_of(each), self._kind(each)) for each in pods]
        self._follow()
        classes = [(class_id, 1) for class_id, _ in kinds]
        with self.counts.counting("filter"):
            filtered = self.cluster.ask_filter_classes(classes)
        self.counts.add_message("filter", filtered)
        answers: Sequence[score_phase_pb2.PlaceResponse] = ()
        if filtered.answers:
            with self.counts.counting("score"):
                answers = self.cluster.ask_place_classes(classes, filtered).answers
        for (_, own), answer in zip(kinds, answers, strict=False):
            self._assume_at(own, answer.slots)
        for each in pods[len(answers) :]:
            self.place_batch(each, 1)

    def refuse(self, wanted: Json) -> None:
        """Ask filter about a pod that fits nowhere."""
        class_id = self.cluster.class_of(wanted)
        self._follow()
        with self.counts.counting("filter"):
            filtered = self.cluster.ask_filter(class_id, 1, 0)
        self.counts.add_message("filter", filtered)
        self.counts.pods += 1

    def nodes_evaluated(self) -> int:
        """How many nodes plugins of filter and score looked at, once for each evaluation."""
        return self.cluster.filter.statistics().slots_evaluated + self.cluster.score.statistics().slots_evaluated

    def begin(self) -> None:
        """Count from here on."""
        self.counts = Counts()
        self._evaluated_before = self.nodes_evaluated()

    def end(self) -> dict[str, float]:
        """The counts for each pod."""
        self.counts.of["nodes evaluated"] = self.nodes_evaluated() - self._evaluated_before
        return self.counts.per_pod()

    def _follow(self) -> None:
        with self.counts.counting("cache"):
            delta = self._delta()
        self.counts.add_message("delta", delta)
        with self.counts.counting("snapshot"):
            self._apply(self.cluster.snap, delta)

    def _assume_at(self, own: Any, slots: Any) -> None:
        names = [self.cache.node_at(slot, self.cluster.snap.generation) for slot in slots]
        with self.counts.counting("cache"):
            self._assume(own, [name for name in names if name is not None])
        self.counts.pods += len(names)


def _requests(number: int) -> dict[str, str]:
    """Requests that no other number has."""
    return {"cpu": f"{100 + number * 7 % 397}m", "memory": f"{100 + number}Mi"}


def _basic(phases: _Phases, step: int) -> None:
    phases.place_batch(pod({"app": "own"}), 32)


def _distinct(phases: _Phases, step: int) -> None:
    first = step * CLASSES_OF_CALL
    phases.place_in_turn([pod({"app": "own"}, requests=_requests(first + n)) for n in range(CLASSES_OF_CALL)])


def _lone(phases: _Phases, step: int) -> None:
    for number in range(step * CLASSES_OF_CALL, (step + 1) * CLASSES_OF_CALL):
        phases.place_in_turn([pod({"app": "own"}, requests=_requests(number))])


def _named(phases: _Phases, step: int) -> None:
    pods = []
    for number in range(step * CLASSES_OF_CALL, (step + 1) * CLASSES_OF_CALL):
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{number}"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        pods.append(pod({"app": "own"}, affinity={"nodeAffinity": required}))
    phases.place_in_turn(pods)


def _refused(phases: _Phases, step: int) -> None:
    for number in range(CLASSES_OF_CALL):
        phases.refuse(pod({"app": "own"}, requests={"cpu": str(1000 + step * CLASSES_OF_CALL + number)}))


def _mix(phases: _Phases, step: int) -> None:
    draw = random.Random(step)
    for number in range(8):
        labels = {"app": draw.choice("abc")}
        spec: Json = {"requests": _requests(draw.randrange(50))}
        kind = draw.randrange(10)
        if kind == 0:
            spec["topologySpreadConstraints"] = [spread(ZONE, draw.random() < 0.5, labels, 5)]
        elif kind == 1:
            spec["affinity"] = affinity((), [term(HOST, labels)])
        elif kind == 2:
            spec["affinity"] = affinity(rather_near=[(10, term(ZONE, labels))])
        if number % 2:
            phases.place_batch(pod(labels, **spec), draw.choice([1, 2, 4]))
        else:
            phases.place_in_turn([pod(labels, requests=_requests(60 + step * 16 + number + n)) for n in range(2)])


def _count_phases(step: Callable[[_Phases, int], None]) -> dict[str, float]:
    phases = _Phases()
    try:
        for number in range(WARM_STEPS):
            step(phases, number)
        phases.begin()
        for number in range(WARM_STEPS, WARM_STEPS + STEPS):
            step(phases, number)
        return phases.end()
    finally:
        phases.cluster.close()


def _count_frontend(classes: int) -> dict[str, float]:
    """Count the frontend with fake phases: 8 pods of so many classes at a time, from watch events to bindings."""
    world = frontend_world.World()
    counts = Counts()
    try:
        for number in range(16):
            world.api.put_node(f"n{number}", 1000)
        world.deliver("nodes", 1000)
        for step in range(WARM_STEPS + STEPS):
            if step == WARM_STEPS:
                counts = Counts()
            for number in range(8):
                world.api.add_pod(f"p{step}-{number}", 4 + number % classes, 0)
            with counts.counting("frontend"):
                world.deliver("pods", 1000)
                world.answer_all()
                world.deliver("pods", 1000)
            counts.pods += 8
        bound = [each for each in world.api.pods.values() if each["spec"].get("nodeName")]
        assert len(bound) == 8 * (WARM_STEPS + STEPS), "not all pods were bound"
    finally:
        world.close()
    return counts.per_pod()


def figures() -> dict[str, dict[str, float]]:
    """The counts for each pod, by load and by what was counted."""
    return {
        "basic": _count_phases(_basic),
        "distinct": _count_phases(_distinct),
        "lone": _count_phases(_lone),
        "mix": _count_phases(_mix),
        "named": _count_phases(_named),
        "refused": _count_phases(_refused),
        "frontend of equal pods": _count_frontend(1),
        "frontend of distinct pods": _count_frontend(8),
    }


def excesses(counted: dict[str, dict[str, float]], stored: dict[str, dict[str, float]]) -> list[str]:
    """What costs more than is stored: a line for each figure that exceeds it by more than `TOLERANCE`."""
    out = []
    for load, of in counted.items():
        for what, count in of.items():
            before = stored.get(load, {}).get(what, 0.0)
            if count > before * (1 + TOLERANCE) + 0.02:
                out.append(f"{load}: {what}: {count:g} a pod, {before:g} is stored")
    return out


def python_version() -> str:
    """The version of Python that the stored figures are for: another one makes other calls."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def main() -> int:
    """Print the figures beside the stored ones; 1 if one is too high."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the figures")
    options = parser.parse_args()
    counted = figures()
    if options.write:
        STORED.write_text(json.dumps({"python": python_version(), "figures": counted}, indent=2) + "\n")
    stored = json.loads(STORED.read_text())["figures"]
    for load, of in counted.items():
        print(load)
        for what, count in of.items():
            print(f"  {what:<20} {count:>10g} {stored.get(load, {}).get(what, 0.0):>10g}")
    found = excesses(counted, stored)
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
