"""Pods of manifests have in a simulation what the scheduler's remote plugins read of pods."""

from tests.helpers import phase_calls
from tests.helpers.simulated_insight import SimulatedInsight, default_configuration, manifest
from trireme.simulation import known_classes, manifests, simulation
from trireme.v1 import core_pb2, simulation_pb2


async def simulate(*fields: str) -> simulation.Simulation:
    """A simulation of a cluster where one remote plugin reads these fields; no pod has been there yet."""
    configuration = default_configuration()
    configuration.remote_plugins.add(name="Teams").info.pod_fields.extend(fields)
    insight = SimulatedInsight(n0="4")
    await phase_calls.greet(insight.service, configuration)
    setup = insight.service._make_simulation_setup(simulation_pb2.SimulateRequest())
    snap = insight.builder.snap
    return simulation.Simulation(snap, setup, known_classes.of_snapshot(snap))


def class_of(sim: simulation.Simulation, name: str, labels: dict[str, str], **metadata: object) -> core_pb2.Pod:
    """What a pod of a manifest has in common with its class."""
    raw = manifest(name, labels=labels)
    raw["metadata"].update(metadata)
    parsed = manifests.read_pod(raw, name, sim.new_uid(name), sim.setup.reads.paths).parsed
    return sim.cache.registry[sim.class_of(parsed)].pod


async def test_a_label_that_a_plugin_reads_is_known_before_any_pod_has_it() -> None:
    sim = await simulate("metadata.labels['team']")
    assert class_of(sim, "a", {"team": "x", "app": "web"}).metadata.labels == {"team": "x"}
    assert class_of(sim, "b", {"team": "y", "app": "web"}).metadata.labels == {"team": "y"}
    await sim.close()


async def test_all_labels_are_known_to_a_plugin_that_reads_all() -> None:
    sim = await simulate("metadata.labels")
    assert class_of(sim, "a", {"team": "x", "app": "web"}).metadata.labels == {"team": "x", "app": "web"}
    await sim.close()


async def test_a_field_that_no_plugin_of_the_scheduler_itself_reads_is_there() -> None:
    sim = await simulate("metadata.annotations['price']")
    pod = class_of(sim, "a", {}, annotations={"price": "7", "other": "1"})
    assert pod.metadata.annotations == {"price": "7"}
    await sim.close()
