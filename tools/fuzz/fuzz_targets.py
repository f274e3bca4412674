"""What is fuzzed: each parser of input from outside, and each RPC handler.

A target takes any bytes. It returns if they are read or refused as documented, and raises what it should not: such an
input is a bug. Targets load what they need when they are made, so that fuzzing one does not instrument all.

Also change: docs/reliability.md (what is fuzzed).
"""

import asyncio
import contextlib
import functools
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from trireme_kube.apimachinery import configuration_files

Target = Callable[[bytes], object]

_CEL_SECONDS = 1.0
# How long a call of a service that has a virtual clock may take, by that clock.
_CALL_SECONDS = 30.0


@contextlib.contextmanager
def _refused(*errors: type[Exception]) -> Iterator[None]:
    """These errors are refusals."""
    with contextlib.suppress(*errors):
        yield


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop that RPC handlers run on, as long as the process."""
    return asyncio.new_event_loop()


def quantity() -> Target:
    """Quantities: what is read is written and read again as the same number."""
    from trireme_kube.apimachinery import quantity as subject

    def run(data: bytes) -> None:
        with _refused(ValueError):
            parsed = subject.parse_quantity(_text(data))
            assert subject.parse_quantity(str(parsed)).nanos == parsed.nanos, str(parsed)

    return run


def yaml_document() -> Target:
    """YAML and JSON as configuration files have them."""
    from trireme_kube.apimachinery import yaml_document as subject

    def run(data: bytes) -> None:
        with _refused(ValueError):
            subject.parse(data)

    return run


def json_document() -> Target:
    """JSON as Go reads it."""
    from trireme_kube.apimachinery import json_document as subject

    def run(data: bytes) -> None:
        with _refused(ValueError):
            subject.parse(_text(data))

    return run


def pod_json() -> Target:
    """Pods from the API server, in JSON."""
    import orjson

    from trireme.cache import pod_projection
    from trireme_kube.apimachinery.field_error import FieldError

    def run(data: bytes) -> None:
        with _refused(orjson.JSONDecodeError, FieldError):
            pod_projection.parse(orjson.loads(data))

    return run


def pod_protobuf() -> Target:
    """Pods from the API server, in protobuf."""
    from trireme.cache import pod_projection
    from trireme_kube.apimachinery.field_error import FieldError

    def run(data: bytes) -> None:
        with _refused(FieldError):
            pod_projection.parse_protobuf(data)

    return run


def watch_json() -> Target:
    """Lines of a watch, in pieces as they come."""
    from trireme_kube.client.informers import watch

    def run(data: bytes) -> None:
        with _refused(watch.BrokenStream):
            decoder = watch.LineDecoder()
            for start in range(0, len(data), 7):
                decoder.feed(data[start : start + 7])

    return run


def cel() -> Target:
    """Selectors of devices: compiled, and evaluated for a device."""
    import time

    from trireme.plugins.dynamic_resources import expressions
    from trireme_kube.cel.interpreter import program

    device = expressions.cel_device("gpu.example.com", False, {"gpu.example.com": {"model": "a", "count": 3}}, {})

    def run(data: bytes) -> None:
        end = time.monotonic() + _CEL_SECONDS
        with _refused(expressions.CompileError, expressions.DeviceExpressionError, program.InterruptedEvaluationError):
            expressions.CompiledExpressions().matches(_text(data), device, lambda: time.monotonic() > end)

    return run


def scheduler_configuration() -> Target:
    """KubeSchedulerConfiguration, of any version."""
    from trireme.config import gates, loading

    chosen = gates.FeatureGates()

    def run(data: bytes) -> None:
        with _refused(configuration_files.ConfigurationError):
            loading.load(data, chosen, lambda line: None)

    return run


def trireme_configuration() -> Target:
    """TriremeConfiguration."""
    from trireme.config import trireme_configuration

    def run(data: bytes) -> None:
        with _refused(ValueError):
            trireme_configuration.parse(data)

    return run


def kubeconfig() -> Target:
    """Kubeconfig files."""
    from trireme_kube.client.kubeconfig import connection

    file = Path(tempfile.mkdtemp()) / "kubeconfig"

    def run(data: bytes) -> None:
        file.write_bytes(data)
        with _refused(configuration_files.ConfigurationError):
            connection.from_kubeconfig(str(file), "", {})

    return run


def delta() -> Target:
    """Deltas of the snapshot, two in a row: what does not fit is refused, and the snapshot cleared."""
    from google.protobuf import message

    from trireme.snapshot import snapshot
    from trireme.v1 import snapshot_pb2

    def run(data: bytes) -> None:
        snap = snapshot.Snapshot()
        half = len(data) // 2
        for part in (data[:half], data[half:]):
            with _refused(message.DecodeError, snapshot.OutOfStepError):
                read = snapshot_pb2.Delta.FromString(part)
                read.from_generation = snap.generation
                snap.apply(read)

    return run


def recording() -> Target:
    """Files of recordings: what is written is read up to the damage, and replayed as far as it fits."""
    import io

    from trireme.recording import segment_reader
    from trireme.replay import decision_replay

    async def replay(data: bytes) -> None:
        reader = segment_reader.SegmentReader(io.BytesIO(data), "file")
        if reader.header is None:
            return
        async for _ in decision_replay.DecisionReplay(reader.header).replay(reader.frames()):
            pass

    def run(data: bytes) -> None:
        with _refused(segment_reader.RecordingError, ValueError):
            _loop().run_until_complete(replay(_with_checksums(data)))

    return run


def _with_checksums(data: bytes) -> bytes:
    """A recording of the input's parts, which begin with two bytes of length: else no checksum would ever match.

    The first part is the header; an input that begins as a recording is left as it is.
    """
    from google.protobuf import message

    from trireme.recording import segment_format
    from trireme.v1 import recording_pb2

    if data.startswith(segment_format.MAGIC[:4]):
        return data
    parts = []
    while len(data) > 2:
        size = int.from_bytes(data[:2], "little")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    header = recording_pb2.RecordingHeader()
    with _refused(message.DecodeError):
        header.ParseFromString(parts[0] if parts else b"")
    begin = segment_format.encode_header(header)
    encoder = segment_format.FrameEncoder(begin)
    return b"".join([begin, *(encoder.encode(part) for part in parts[1:])])


def plugin_answer() -> Target:
    """What a plugin answers about nodes and scores."""
    from google.protobuf import message

    from trireme.plugin_api import interfaces, scorers
    from trireme.remote import remote_response
    from trireme.v1 import filter_pb2, score_pb2

    def run(data: bytes) -> None:
        with _refused(message.DecodeError, ValueError):
            remote_response.read_filter(
                filter_pb2.FilterResponse.FromString(data), "p", 3, interfaces.Dependency.NODE_PODS
            )
        with _refused(message.DecodeError, ValueError):
            remote_response.read_score(score_pb2.ScoreResponse.FromString(data), "p", 3, scorers.Normalization.NONE)
        with _refused(message.DecodeError, ValueError):
            remote_response.read_pre_filter(filter_pb2.PreFilterResponse.FromString(data), "p")

    return run


def _handlers(make: Callable[[], Any], descriptor: Any) -> Target:
    """All methods of a servicer with one answer.

    The first byte chooses the method, and whether its cycle is made one that the replica accepts: otherwise almost
    every call would end as stale. The rest is its request.
    """
    from google.protobuf import message

    methods = _Methods([method for method in descriptor.methods if not method.client_streaming])
    servicer = make()

    def run(data: bytes) -> None:
        with _refused(message.DecodeError):
            name, request = methods.read(data, servicer.follow.statistics().generation)
            assert _loop().run_until_complete(_call(servicer, name, request, 0.05)) not in _BUGS

    return run


class _Methods:
    """The methods of a service: an input's first byte chooses one, the rest is the request."""

    def __init__(self, methods: Sequence[Any]) -> None:
        from google.protobuf import message_factory

        self._names = [method.name for method in methods]
        self._requests = [message_factory.GetMessageClass(method.input_type) for method in methods]

    def read(self, data: bytes, generation: int) -> tuple[str, Any]:
        """Name and request. Raises: DecodeError."""
        choice = data[0] if data else 0
        at = choice % 128 % len(self._names)
        request = self._requests[at].FromString(data[1:])
        if choice < 128:
            _accept(request, generation)
        return self._names[at], request


_BUGS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}


def _accept(request: Any, generation: int) -> None:
    """Make a request one of the leader, for the configuration and the snapshot that the replica has."""
    from tests.helpers import phase_calls

    fields = request.DESCRIPTOR.fields_by_name
    if "cycle" in fields:
        request.cycle.fence.epoch, request.cycle.config_hash = 1, phase_calls.HASH
        request.cycle.profile, request.cycle.pod_class = phase_calls.PROFILE, 1
        request.cycle.generation = generation
    if "fence" in fields:
        request.fence.epoch = 1
    for part in request.requests if "requests" in fields else ():
        _accept(part, generation)


async def _call(servicer: Any, method: str, request: Any, seconds: float) -> grpc.StatusCode | None:
    """How a call with so much time left ended; None: with an answer."""
    from tests.helpers import phase_calls

    try:
        answer = getattr(servicer, method)(request, phase_calls.context(seconds))
        if hasattr(answer, "__aiter__"):
            async for _ in answer:
                pass
        else:
            await answer
    except phase_calls.Aborted as ended:
        return ended.code
    return None


def _handlers_on_virtual_time(serve: Callable[[Callable[[], float]], Any], descriptor: Any) -> Target:
    """As `_handlers`, but each input has a service of its own, which `serve` makes for a clock.

    An exception in a task that nobody waits for is a bug, too, and so is one that the service catches because it has no
    better answer: it logs them.
    """
    from google.protobuf import message

    from tests.helpers import virtual_time

    methods = _Methods(descriptor.methods)
    errors = _LoggedErrors()
    logging.getLogger("trireme").addHandler(errors)

    async def call(clock: Callable[[], float], method: str, request: Any) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.found.append(str(context)))
        async with serve(clock) as servicer:
            deadline = asyncio.timeout(_CALL_SECONDS)
            try:
                async with deadline:
                    assert await _call(servicer, method, request, _CALL_SECONDS) not in _BUGS
            except TimeoutError:
                if not deadline.expired():
                    raise

    def run(data: bytes) -> None:
        with _refused(message.DecodeError):
            name, request = methods.read(data, 0)
            errors.found.clear()
            virtual_time.run(lambda clock: call(clock, name, request))
            assert not errors.found, errors.found

    return run


class _LoggedErrors(logging.Handler):
    """The exceptions that were logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Remember a record that has an exception."""
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


def _greeted(make: Callable[[Any], Any]) -> Callable[[], Any]:
    """A service with a small cluster, after a frontend has greeted it."""

    def greeted() -> Any:
        from tests.helpers import phase_calls
        from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting

        builder = SnapshotBuilder()
        for number in range(3):
            builder.set_node(f"n{number}", allocatable={"cpu": "4", "pods": "9"})
        builder.add_class(1, pod_of(requesting(cpu="1")))
        builder.place(1, "n0")
        service = make(builder.snap)
        configuration = phase_calls.configuration(("NodeResourcesFit", "TaintToleration"), (("NodeResourcesFit", 1),))
        _loop().run_until_complete(phase_calls.greet(service, configuration))
        return service

    return greeted


def filter_rpcs() -> Target:
    """FilterPhase."""
    from trireme.filter import service
    from trireme.registry.remote_makers import no_remote_plugin as none
    from trireme.v1 import filter_phase_pb2

    make = _greeted(lambda snap: service.FilterPhase(snap, none, none))
    return _handlers(make, filter_phase_pb2.DESCRIPTOR.services_by_name["FilterPhase"])


def score_rpcs() -> Target:
    """ScorePhase."""
    from trireme.registry.remote_makers import no_remote_plugin as none
    from trireme.score import service
    from trireme.v1 import score_phase_pb2

    make = _greeted(lambda snap: service.ScorePhase(snap, none))
    return _handlers(make, score_phase_pb2.DESCRIPTOR.services_by_name["ScorePhase"])


def insight_rpcs() -> Target:
    """InsightService."""
    from trireme.insight import service
    from trireme.registry.remote_makers import no_remote_plugin as none
    from trireme.v1 import insight_pb2

    make = _greeted(lambda snap: service.InsightService(snap, none, none))
    return _handlers(make, insight_pb2.DESCRIPTOR.services_by_name["InsightService"])


def bind_rpcs() -> Target:
    """BindPhase."""
    from tools.fuzz import fuzzed_services
    from trireme.v1 import bind_phase_pb2

    return _handlers_on_virtual_time(
        fuzzed_services.bind_phase, bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"]
    )


def handle_rpcs() -> Target:
    """HandleService."""
    from tools.fuzz import fuzzed_services
    from trireme.v1 import frontend_pb2

    return _handlers_on_virtual_time(
        fuzzed_services.handle_service, frontend_pb2.DESCRIPTOR.services_by_name["HandleService"]
    )


TARGETS: Mapping[str, Callable[[], Target]] = {
    make.__name__: make
    for make in (
        quantity,
        yaml_document,
        json_document,
        pod_json,
        pod_protobuf,
        watch_json,
        cel,
        scheduler_configuration,
        trireme_configuration,
        kubeconfig,
        delta,
        recording,
        plugin_answer,
        filter_rpcs,
        score_rpcs,
        insight_rpcs,
        bind_rpcs,
        handle_rpcs,
    )
}


def _deltas() -> list[bytes]:
    """What a small cluster sends to its replicas, each twice as long as one because the target splits its input."""
    from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
    from trireme.snapshot import snapshot
    from trireme.v1 import snapshot_pb2

    made: list[bytes] = []

    class Recorded(snapshot.Snapshot):
        def apply(self, delta: snapshot_pb2.Delta) -> None:
            made.append(delta.SerializeToString())
            super().apply(delta)

    builder = SnapshotBuilder()
    builder.snap.__class__ = Recorded
    builder.set_node("n0", allocatable={"cpu": "4", "pods": "9"}, taints=[("dedicated", "db", "NoSchedule")])
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.place(1, "n0")
    return [part + part for part in made]


def _recordings() -> list[bytes]:
    """A small recording with decisions: as a file, and as parts with their lengths."""
    from tests.helpers import recorded_decisions

    cluster = _loop().run_until_complete(recorded_decisions.RecordedCluster(2).open())
    _loop().run_until_complete(cluster.schedule_at_random(4))
    parts = [cluster.header, *cluster.frames()]
    contents = [part.SerializeToString() for part in parts]
    return [cluster.content(), b"".join(len(each).to_bytes(2, "little") + each for each in contents)]


def _messages() -> list[bytes]:
    """Answers about three nodes, and requests, whose first byte chooses the method."""
    from trireme.v1 import filter_pb2, filter_phase_pb2, score_pb2, score_phase_pb2, status_pb2

    refused = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="p", messages=["m"])
    columns = filter_pb2.NodeColumns(size=3, statuses=[refused])
    answers = (
        filter_pb2.FilterResponse(columns=columns),
        filter_pb2.PreFilterResponse(status=refused),
        score_pb2.ScoreResponse(scores=[1, 2, 100]),
    )
    requests = (
        filter_phase_pb2.FilterPhaseFilterRequest(count=2),
        filter_phase_pb2.FilterNominatedRequest(nominees=[filter_phase_pb2.Nominee(slot=1)]),
        score_phase_pb2.PlaceRequest(count=2),
    )
    return [
        *(answer.SerializeToString() for answer in answers),
        *(bytes([method]) + request.SerializeToString() for request in requests for method in range(12)),
    ]


def seeds(name: str) -> list[bytes]:
    """Inputs that fuzzing begins with: valid ones of each kind."""
    if name == "delta":
        return _deltas()
    if name == "recording":
        return _recordings()
    if name in ("bind_rpcs", "handle_rpcs"):
        from tools.fuzz import fuzzed_requests

        return fuzzed_requests.of_bind() if name == "bind_rpcs" else fuzzed_requests.of_handle()
    examples = Path(__file__).resolve().parents[2] / "examples"
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}},
            "nodeSelector": {"x": "y"},
        },
    }
    if name == "pod_protobuf":
        from trireme.v1 import core_pb2
        from trireme_kube.apimachinery import decode

        return [decode.decode_unchecked(pod, core_pb2.Pod).SerializeToString()]
    if name in ("plugin_answer", "score_rpcs", "filter_rpcs"):
        return _messages()
    found: dict[str, list[bytes]] = {
        "quantity": [b"1", b"1.5Gi", b"100m", b"1e3", b"-0.1Ki", b"9E"],
        "pod_json": [json.dumps(pod).encode()],
        "watch_json": [json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n"],
        "cel": [
            b"device.driver == 'gpu.example.com'",
            b"device.attributes['gpu.example.com'].count > 2 && device.attributes['x'].all(k, k != 'a')",
            b"quantity('1Gi').isGreaterThan(quantity('1Mi')) || semver('1.2.3').major() == 1",
        ],
        "scheduler_configuration": [(examples / "scheduler.yaml").read_bytes()],
        "trireme_configuration": [(examples / "trireme.yaml").read_bytes()],
        "kubeconfig": [
            b"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
            b"clusters: [{name: k, cluster: {server: 'https://x:6443'}}]\nusers: [{name: u, user: {token: t}}]\n"
        ],
        "yaml_document": [b"a: [1, 2.5, ~, 'x']\nb: &x {c: d}\ne: *x\n", b'{"a": [1, true, null]}'],
        "insight_rpcs": [b"\x00\x0a\x09\x0a\x07default", b"\x00\x0a\x0c\x0a\x07default\x12\x01p\x18\x01"],
        "json_document": [b'{"a": [1, true, null, -2.5e3, "\\u00e9"]}'],
    }
    return found.get(name, [b""])
