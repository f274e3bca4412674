"""Several simulations of one cluster at the same time: what they share, and what one has to compute again."""

import itertools
from collections.abc import Sequence

from tests.helpers.simulated_insight import SimulatedInsight, stored
from trireme.simulation import known_classes, simulation
from trireme.v1 import simulation_pb2


async def simulations(count: int, **nodes: str) -> list[simulation.Simulation]:
    """Simulations on these nodes with so many CPUs, with one setup, as one request makes them."""
    insight = await SimulatedInsight(**(nodes or {"n0": "4", "n1": "3"})).start()
    insight.builder.add_class(1, stored(cpu="1"))
    snap = insight.builder.snap
    setup = insight.service._make_simulation_setup(simulation_pb2.SimulateRequest())
    known = known_classes.of_snapshot(snap)
    return [simulation.Simulation(snap, setup, known) for _ in range(count)]


async def add_pods(sim: simulation.Simulation, count: int) -> Sequence[str]:
    """Add pods, schedule, and return the nodes that they are on; empty: none."""
    added = [sim.parsed_of_class(1, sim.new_name("p"), sim.known.labels_of(1)) for _ in range(count)]
    sim.add_pods(added, simulation.Origin.ADDED)
    await sim.run()
    return [sim.node_of(pod.uid) for pod in added]


async def test_only_the_one_that_ran_last_keeps_what_it_has_computed() -> None:
    """Each would take as much memory for a class as the rest of a fork does three times."""
    first, second = await simulations(2)
    await add_pods(first, 1)
    assert first.engine.filter.evaluator.statistics().classes == first.engine.score.evaluator.statistics().classes == 1
    await add_pods(second, 1)
    assert first.engine.filter.evaluator.statistics().classes == first.engine.score.evaluator.statistics().classes == 0
    assert (
        second.engine.filter.evaluator.statistics().classes == second.engine.score.evaluator.statistics().classes == 1
    )
    await first.close()
    await second.close()


async def test_one_that_goes_on_after_another_one_places_pods_as_if_it_were_alone() -> None:
    """What it computes again is what it had: else the answer would depend on who else asks."""
    alone, mixed, other = await simulations(3)
    expected = [await add_pods(alone, 2), await add_pods(alone, 2), await add_pods(alone, 4)]
    found = []
    for count in (2, 2, 4):
        found.append(await add_pods(mixed, count))
        await add_pods(other, 1)
    assert found == expected
    assert sorted(itertools.chain(*found)) == ["", *["n0"] * 4, *["n1"] * 3]
    for sim in (alone, mixed, other):
        await sim.close()


async def test_a_simulation_that_has_ended_keeps_of_the_columns_what_differs() -> None:
    """Sixteen of them would take as many copies of the columns."""
    (sim,) = await simulations(1, **{f"n{number}": "4" for number in range(40)})
    await add_pods(sim, 1)
    kept = sim.snap.nodes.differing_nbytes
    assert kept < sum(each.nbytes for each in sim.snap.nodes.own_columns().values()) / 4
    assert await add_pods(sim, 1) != [""]
    await sim.close()
