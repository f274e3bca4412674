"""The faults of a simulation, at random times: processes, clocks, the network, and the API server."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence

from tests.simulation.simulated_cluster import API_HOST, Cluster, SupervisedProcess
from tests.simulation.simulated_network import Edge
from tests.simulation.simulated_plugin import Conduct
from tests.simulation.simulated_renewals import Renewals
from tests.simulation.simulation_plan import PlannedEvent
from trireme_kube.embedded.api.resources import LEASES
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction
from trireme_kube.embedded.storage.store import Event

# How long a fault that has an end lasts. Units: seconds; a Lease lasts 15.
SHORTEST, LONGEST = 0.5, 40.0
# How long something is held back before the leader is paused, and after that, when the next one may lead.
_BEFORE_PAUSE, _AFTER_PAUSE = (2.0, 12.0), (14.0, 28.0)
# The same of a leader's snapshot streams: after six seconds without acknowledgements it begins another one.
_BEFORE_PAUSE_OF_STREAMS = (7.0, 14.0)
# Within what time the next leader has begun to bind pods. Units: seconds.
_AFTER_SUCCESSION = 2.0
# How long a drawn configuration that is valid stays in force at most.
_VALID_SECONDS = 120.0
# After so many callbacks of a process at most it is killed or paused: what it does at one moment.
_MOST_CALLBACKS = 100
_ERRORS = (409, 429, 500, 503, 504)


class Faults:
    """Injects faults until `calm`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self._seed = seed
        self._random = random.Random(f"faults {seed}")
        self._undo: dict[Callable[[], None], None] = {}
        self._calms = 0
        self._replacing_until = 0.0
        self._renewals = Renewals(cluster, self._random, self._later)
        self.injected = 0
        self._kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (4, self._pause),
            (3, self._pause_leader),
            (3, self._isolate_leader),
            (3, self._lag),
            (3, self._cut),
            (3, self._slow),
            (2, self._reset),
            (2, self._move),
            (2, self._disturb_plugin),
            (4, self._stall),
            (3, self._answer_with_error),
            (2, self._refuse_writes),
            (3, self._lose_answers),
            (2, self._hang),
            (2, self._drop_watches),
            (1, self._compact),
            (2, self._list_the_past),
            (1, self._delete_lease),
            (1, self._late_watches),
            (1, self._late_bindings),
            (1, self._late_snapshots),
            (2, self._step_wall_clock),
            (1, self._drift),
            (2, self._reload_configuration),
            (2, self._rotate_certificates),
        ]
        self._injectors = {_name(inject): inject for _, inject in self._kinds}

    @property
    def weights(self) -> Mapping[str, int]:
        """The kinds of faults, and how often each comes, compared with the others."""
        return {_name(inject): weight for weight, inject in self._kinds}

    def inject(self, event: PlannedEvent) -> None:
        """Inject a fault of a plan."""
        self._random.seed(event.source(self._seed))
        self.injected += 1
        self._injectors[event.name]()

    def calm(self) -> None:
        """End all faults that last."""
        self._cluster.note("calm")
        for undo in list(self._undo):
            undo()
        self._undo.clear()
        self._calms += 1
        for process in self._cluster.processes.values():
            if process.current is not None:
                process.current.interruption = None
        self._cluster.api.faults.clear()

    def _for_a_while(self, undo: Callable[[], None], seconds: float | None = None) -> Callable[[], None]:
        """Undo a fault after some time, or when all are to end. Returns what ends it before."""

        def end() -> None:
            if undo in self._undo:
                del self._undo[undo]
                undo()

        self._undo[undo] = None
        seconds = self._random.uniform(SHORTEST, LONGEST) if seconds is None else seconds
        self._loop.call_at_simulated(self._loop.now + seconds, end, context=self._cluster.context)
        return end

    def _later(self, seconds: float, begin: Callable[[], None]) -> None:
        """Begin a fault after some time, unless all are to end before."""
        calms = self._calms

        def unless_calm() -> None:
            if self._calms == calms:
                begin()

        self._loop.call_at_simulated(self._loop.now + seconds, unless_calm, context=self._cluster.context)

    def _process(self, *, api_server: bool = True) -> SupervisedProcess:
        processes = [process for process in self._cluster.processes.values() if api_server or process.host != API_HOST]
        return self._random.choice(processes)

    # Processes

    def _kill(self) -> None:
        """Kill a process; it is started again after a while."""
        process = self._process()
        self._at_any_await(process, process.kill)

    def _pause(self) -> None:
        """Pause a process, perhaps for longer than its Lease."""
        self._pause_process(self._process())

    def _pause_leader(self) -> None:
        """Pause the leader, perhaps for longer than its Lease."""
        self._pause_process(self._leader())

    def _pause_process(self, process: SupervisedProcess) -> None:
        seconds = self._random.uniform(SHORTEST, LONGEST)

        def pause() -> None:
            process.pause()
            self._for_a_while(process.resume, seconds)

        self._at_any_await(process, pause)

    def _at_any_await(self, process: SupervisedProcess, begin: Callable[[], None]) -> None:
        """Begin a fault of a process at once, or after some more callbacks of it, so between any two of its awaits."""
        callbacks = self._random.choice((0, self._random.randint(1, _MOST_CALLBACKS)))
        if not callbacks or process.current is None or process.current.interruption is not None:
            begin()
        else:
            self._loop.interrupt(process.current, callbacks, begin)

    def _leader(self) -> SupervisedProcess:
        """The frontend that holds the Lease, or any."""
        lease = self._cluster.store.get(LEASES, "kube-system", "kube-scheduler")
        holder = lease.object["spec"].get("holderIdentity") or "" if lease is not None else ""
        frontends = self._cluster.kind("frontend")
        return next(
            (process for process in frontends if holder.startswith(process.name + "_")), self._random.choice(frontends)
        )

    # Clocks

    def _step_wall_clock(self) -> None:
        """Set a process's wall clock back or forward, by up to an hour."""
        process = self._process() if self._random.random() < 0.5 else self._leader()
        if process.current is not None:
            process.current.wall_ahead += self._random.choice((-3600.0, -60.0, -5.0, 5.0, 60.0, 3600.0))
            self._cluster.note(f"wall clock of {process.name} {process.current.wall_ahead:+g}")

    def _drift(self) -> None:
        """Let a process's monotonic clock run up to 1 % faster or slower."""
        process = self._process()
        if process.current is not None:
            rate = self._random.uniform(0.99, 1.01)
            process.current.set_rate(rate, self._loop.now)
            self._cluster.note(f"clock of {process.name} runs at {rate:.4f}")

    # The network

    def _hosts(self) -> tuple[str, str]:
        one, other = self._random.sample(list(self._cluster.processes.values()), 2)
        return one.host, other.host

    def _cut(self) -> None:
        """Cut the network between two processes, in one direction or both."""
        self._cut_between(*self._hosts())

    def _isolate_leader(self) -> None:
        """Keep the leader from the API server, or the API server from it."""
        hosts = [self._leader().host, API_HOST]
        self._random.shuffle(hosts)
        self._cut_between(*hosts)

    def _cut_between(self, one: str, other: str) -> None:
        ways = [(one, other), (other, one)] if self._random.random() < 0.5 else [(one, other)]
        self._for_a_while(self._cut_ways(ways))

    def _cut_ways(self, ways: Sequence[tuple[str, str]]) -> Callable[[], None]:
        """Cut them; returns what heals them."""
        self._cluster.note(f"cut {ways}")
        network = self._loop.network
        for way in ways:
            network.set_cut(*way, True)

        def heal() -> None:
            self._cluster.note(f"heal {ways}")
            for way in ways:
                network.set_cut(*way, False)

        return heal

    def _slow(self) -> None:
        """Delay what one process sends to another."""
        self._delay(*self._hosts(), self._random.choice((0.05, 0.5, 3.0)))

    def _lag(self) -> None:
        """Let a frontend's watches lag."""
        self._delay(
            API_HOST, self._random.choice(self._cluster.kind("frontend")).host, self._random.choice((2.0, 20.0))
        )

    def _delay(self, one: str, other: str, seconds: float) -> None:
        edge: Edge = self._loop.network.edge(one, other)
        edge.max_delay = seconds
        self._cluster.note(f"slow {one} {other} {edge.max_delay}")

        def heal() -> None:
            edge.max_delay = Edge().max_delay

        self._for_a_while(heal)

    def _reset(self) -> None:
        """Reset the connections between two processes."""
        one, other = self._hosts()
        self._cluster.note(f"reset {one} {other} {self._loop.network.reset_connections(one, other)}")

    def _stall(self) -> None:
        """Let some connections of a process to the API server stall, as after lost packets; others work meanwhile."""
        host = self._process(api_server=False).host
        self._stall_connections(host, API_HOST, self._random.uniform(SHORTEST, LONGEST), 0.5)

    def _stall_connections(self, source: str, target: str, seconds: float, share: float = 1.0) -> None:
        until = self._loop.now + seconds
        chosen = [each for each in self._loop.network.connections(source, target) if self._random.random() < share]
        self._cluster.note(f"stall {len(chosen)} of {source} until {until:.3f}")
        for endpoint in chosen:
            endpoint.stalled_until = until

    def _move(self) -> None:
        """Take a replica from the endpoints of its phase; it runs on."""
        phase = self._random.choice(list(self._cluster.hosts))
        host = self._random.choice(self._cluster.hosts[phase])
        self._cluster.note(f"take {host} from the endpoints of {phase}")
        self._cluster.set_listed(phase, host, False)
        self._for_a_while(lambda: self._cluster.set_listed(phase, host, True))

    def _disturb_plugin(self) -> None:
        """Let a remote plugin be slow, silent or wrong for a while."""
        plugins = self._cluster.plugins
        if not plugins:
            return
        plugin = plugins[self._random.choice(list(plugins))]
        plugin.conduct = self._random.choice((Conduct.SLOW, Conduct.SILENT, Conduct.WRONG))
        self._cluster.note(f"{plugin.NAME} is {plugin.conduct.value}")

        def recover() -> None:
            plugin.conduct = Conduct.SOUND

        self._for_a_while(recover)

    # Files that are renewed

    def _reload_configuration(self) -> None:
        """Replace the files of a frontend's configuration."""
        valid = self._renewals.reload_configuration()
        # A frontend that is started again ends at once as long as its files are invalid.
        # Each reload is undone by itself, so what undoes it is an object of its own.
        restore = functools.partial(self._renewals.restore_configuration)
        self._for_a_while(restore, _VALID_SECONDS if valid else None)

    def _rotate_certificates(self) -> None:
        """Renew certificates, or their authority, one process after the other."""
        self._renewals.rotate_certificates()
        self._for_a_while(functools.partial(self._renewals.settle_certificates), LONGEST)

    # A leader is replaced while something is on its way

    def _late_watches(self) -> None:
        """The next leader hears late what the last one has written."""
        leader, seconds = self._replace_leader()
        for frontend in self._cluster.kind("frontend"):
            if seconds and frontend is not leader:
                self._stall_connections(API_HOST, frontend.host, seconds)

    def _late_bindings(self) -> None:
        """What a replica of bind writes for a leader reaches the API server when the next one leads."""
        leader, seconds = self._replace_leader()
        if seconds:
            heal = self._cut_ways([(self._random.choice(self._cluster.hosts["bind"]), API_HOST)])
            self._until_next_leader(leader, self._for_a_while(heal, LONGEST))

    def _late_snapshots(self) -> None:
        """What a leader sends to a replica of filter or score gets there when the next one leads."""
        leader, seconds = self._replace_leader(_BEFORE_PAUSE_OF_STREAMS)
        if seconds:
            hosts = [host for phase in ("filter", "score") for host in self._cluster.hosts.get(phase, ())]
            if not hosts:
                return  # they are in the frontends' processes
            host = self._random.choice(hosts)
            self._for_a_while(self._cut_ways([(leader.host, host)]), seconds)

    def _replace_leader(self, before_pause: tuple[float, float] = _BEFORE_PAUSE) -> tuple[SupervisedProcess, float]:
        """Let the leader be paused soon, for longer than its Lease, unless no other frontend could lead then.

        Returns it, and how long something is to be held back, which may be until the next one leads; 0 if none
        could. Units: seconds.
        """
        leader = self._leader()
        before, after = self._random.uniform(*before_pause), self._random.uniform(*_AFTER_PAUSE)
        paused = self._random.uniform(after, LONGEST)
        if self._loop.now < self._replacing_until or not all(each.running for each in self._cluster.kind("frontend")):
            return leader, 0.0

        def pause() -> None:
            leader.pause()
            self._for_a_while(leader.resume, paused)

        self._later(before, pause)
        self._replacing_until = self._loop.now + before + paused
        return leader, before + after

    def _until_next_leader(self, leader: SupervisedProcess, end: Callable[[], None]) -> None:
        """End a fault soon after another frontend has the Lease."""
        delay = self._random.uniform(0.0, _AFTER_SUCCESSION)

        def on_lease(event: Event) -> None:
            holder = event.record.object["spec"].get("holderIdentity") or ""
            if event.record.name == "kube-scheduler" and holder.partition("_")[0] not in ("", leader.name):
                stop()
                self._later(delay, end)

        stop = self._cluster.store.listen(LEASES, on_lease)

    # The API server

    def _arm(self, action: FaultAction, **fields: object) -> None:
        fault = Fault(action, times=self._random.randint(1, 20), **fields)
        self._cluster.note(f"fault {action} {fields} {fault.times}")
        self._cluster.api.faults.add(fault)

    def _method(self) -> str:
        return self._random.choice(("GET", "WATCH", "LIST", "POST", "PUT", "PATCH", "DELETE", ".*"))

    def _answer_with_error(self) -> None:
        """Let the API server answer 409, 429, 500, 503 or 504."""
        code = self._random.choice(_ERRORS)
        retry_after = 1 if code == 429 else 0
        self._arm(FaultAction.STATUS, method=self._method(), code=code, retry_after=retry_after)

    def _refuse_writes(self) -> None:
        """Let the API server refuse bindings, evictions, or what PreBind writes, as a webhook does."""
        paths = ("/pods/[^/]*/binding", "/pods/[^/]*$", "/resourceclaims/[^/]*/status", "/persistentvolume")
        path = self._random.choice(paths)
        self._arm(FaultAction.STATUS, method="POST|PUT|PATCH|DELETE", path=path, code=403)

    def _lose_answers(self) -> None:
        """Let the API server apply writes and lose the answers."""
        action = self._random.choice((FaultAction.DROP_AFTER, FaultAction.DROP_BEFORE, FaultAction.DELAY_REPLY))
        self._arm(
            action, method=self._random.choice(("POST", "PUT", "PATCH", "DELETE")), seconds=self._random.uniform(1, 20)
        )

    def _hang(self) -> None:
        """Let requests to the API server hang."""
        action = self._random.choice((FaultAction.HANG, FaultAction.DELAY))
        self._arm(action, method=self._method(), seconds=self._random.uniform(1, 40))

    def _drop_watches(self) -> None:
        """End watches."""
        self._cluster.note(f"drop watches {self._cluster.api.drop_watches()}")

    def _compact(self) -> None:
        """Let the API server forget its history, so that watches get 410."""
        self._cluster.note("compact")
        self._cluster.store.compact()

    def _list_the_past(self) -> None:
        """Let lists be answered from the past for a while, and some be requested now, as after versions expired."""
        cache = self._cluster.watch_cache
        cache.lags = True
        self._arm(FaultAction.STATUS, method="WATCH", path="^(?!.*sendInitialEvents)", code=410)
        self._cluster.note(f"lists are answered from the past; drop watches {self._cluster.api.drop_watches()}")

        def catch_up() -> None:
            cache.lags = False

        self._for_a_while(catch_up)

    def _delete_lease(self) -> None:
        """Delete the Lease."""
        if self._cluster.store.get(LEASES, "kube-system", "kube-scheduler") is not None:
            self._cluster.store.remove(LEASES, "kube-system", "kube-scheduler")


def _name(inject: Callable[[], None]) -> str:
    """The name of a kind of fault."""
    return inject.__name__.strip("_")
