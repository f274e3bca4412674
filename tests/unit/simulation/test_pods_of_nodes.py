"""Which pods are on a node of a simulation: those that came are known at once, the others when somebody needs them."""

from tests.helpers.simulated_insight import SimulatedInsight, stored
from trireme.simulation import known_classes, simulation
from trireme.v1 import simulation_pb2

PODS = 1


async def simulated(*nodes: str) -> simulation.Simulation:
    """A simulation of nodes n0 and n1, with a pod on each of these nodes."""
    insight = await SimulatedInsight(n0="8", n1="8").start()
    insight.builder.add_class(PODS, stored(cpu="1"))
    insight.builder.place(PODS, *nodes)
    snap = insight.builder.snap
    setup = insight.service._make_simulation_setup(simulation_pb2.SimulateRequest())
    return simulation.Simulation(snap, setup, known_classes.of_snapshot(snap))


def come(sim: simulation.Simulation, node: str) -> str:
    """Another pod comes to the node; returns its UID."""
    pod = sim.parsed_of_class(PODS, sim.new_name("p"), ())._replace(node_name=node)
    sim.add_pods([pod], simulation.Origin.ADDED)
    return pod.uid


async def test_a_pod_comes_to_a_node_without_those_that_are_there_being_made() -> None:
    sim = await simulated("n0", "n0", "n1")
    uid = come(sim, "n0")
    assert not sim._forked._made
    sim.remove_pod(uid, replace=False)
    assert not sim._forked._made
    sim.publish()
    assert sim.snap.pods.count == 3
    await sim.close()


async def test_a_node_that_goes_takes_all_its_pods_and_no_others() -> None:
    """Replicas would go on counting pods of the beginning, or miss one that came back to the other node."""
    sim = await simulated("n0", "n0", "n0", "n1")
    first, moved, *_ = sim.snap.pods.uids
    come(sim, "n0")
    came_and_left = come(sim, "n0")
    for uid in (first, came_and_left):
        sim.remove_pod(uid, replace=False)
    pod = sim.cache.pod(moved)
    assert pod is not None
    sim.cache._take_off_node(pod)
    sim.cache._put_on_node(pod, "n1")
    assert {each.uid for each in sim.cache._on_node["n1"]} == {moved, sim.snap.pods.uids[3]}
    sim.cache.remove_node("n0")
    sim.publish()
    assert sim.snap.pods.count == 2
    await sim.close()
