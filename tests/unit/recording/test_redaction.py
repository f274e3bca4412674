"""Redaction: no name of the original is left, and what is left replays as before."""

import json
import pathlib
import re

import pytest

from tests.helpers import console_states
from tests.helpers.recorded_decisions import IMPORTANT, SMALL, RecordedCluster
from tests.helpers.recordings import read
from tests.helpers.snapshot_views import pod_of
from trireme.recording import export, redaction, segment_folder
from trireme.registry import in_tree_args
from trireme.replay import decision_replay
from trireme.v1 import core_pb2, cycle_pb2, decision_pb2, filter_phase_pb2, policy_pb2, recording_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

SECRETS = (
    "payments", "checkout", "ledger", "goldteam", "acme", "fleet", "bluefleet", "topsecret", "n0", "n1", "pod-0",
    "guard", "vault-disk", "alpha-path", "vip-class",
)  # fmt: skip


async def recorded(folder: pathlib.Path) -> RecordedCluster:
    """A recording whose objects, classes, events and decisions have names and labels, as a segment of the folder."""
    cluster = await RecordedCluster(2).open()
    secret = pod_of(
        {
            "containers": [
                {
                    "name": "topsecret",
                    "image": "registry.acme.example/checkout:v7",
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
            "nodeSelector": {"acme.example/fleet": "bluefleet"},
            "tolerations": [{"key": "dedicated", "value": "goldteam", "operator": "Equal"}],
            "priorityClassName": "vip-class",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "ledger"}}],
        },
        labels={"app": "checkout", "tier": "7"},
    )
    secret.metadata.namespace = "payments"
    cluster.builder.add_class(9, secret)
    labels = {"kubernetes.io/hostname": "n1", "acme.example/fleet": "bluefleet"}
    cluster.builder.set_node("n1", labels=labels, taints=[("dedicated", "goldteam", "NoSchedule")])
    budget = {
        "metadata": {
            "namespace": "payments",
            "name": "guard",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"name": "ledger"}'},
        },
        "spec": {"selector": {"matchLabels": {"app": "checkout"}}},
    }
    volume = {
        "metadata": {"name": "vault-disk", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"local": {"path": "/mnt/alpha-path"}, "claimRef": {"namespace": "payments", "name": "ledger"}},
    }
    cluster.builder.apply(
        objects=[
            snapshot_pb2.ClusterObject(pod_disruption_budget=decode.decode(budget, policy_pb2.PodDisruptionBudget)),
            snapshot_pb2.ClusterObject(persistent_volume=decode.decode(volume, core_pb2.PersistentVolume)),
        ]
    )
    await cluster.schedule_at_random(40)
    await cluster.schedule(9, 1)
    (folder / segment_folder.file_name(1)).write_bytes(cluster.content())
    return cluster


def all_text(frames: list[recording_pb2.RecordedFrame], header: recording_pb2.RecordingHeader) -> str:
    """Everything in the file as text, unknown fields and decisions too."""
    decisions = [decision_pb2.Decision.FromString(content) for frame in frames for content in frame.message.decisions]
    return "\n".join(map(str, [header, *frames, *decisions]))


async def test_no_name_of_the_original_is_left_and_it_replays_the_same(tmp_path: pathlib.Path) -> None:
    """It goes to strangers with a bug report."""
    await recorded(tmp_path)
    plain, redacted = tmp_path / "plain", tmp_path / "redacted"
    export.export(tmp_path, plain, 0)
    export.export(tmp_path, redacted, 0, redact=True, in_tree=in_tree_args.plugin_args())
    before, reader = read(plain.read_bytes())
    assert reader.header is not None
    original = all_text(before, reader.header)
    frames, reader = read(redacted.read_bytes())
    assert reader.header is not None
    content = all_text(frames, reader.header)
    for name in SECRETS:
        pattern = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
        assert re.search(pattern, original), name
        assert not re.search(pattern, content), name
    replay = decision_replay.DecisionReplay(reader.header)
    differences = [each async for each in replay.replay(frames)]
    assert differences == []
    assert replay.counts.same > 60
    assert (replay.counts.incomplete, replay.counts.inexact) == (0, 0)
    assert not list(tmp_path.glob("*.partial*")) + list(tmp_path.glob(".*"))


def one_redaction(*messages: recording_pb2.RecordedFrame) -> list[recording_pb2.RecordedFrame]:
    names = redaction.Names(in_tree_args.plugin_args())
    for message in messages:
        names.add(message)
    replacing = redaction.Redaction(names)
    for message in messages:
        replacing.redact(message)
    return list(messages)


def test_names_of_preemptions_are_replaced() -> None:
    """Who had to leave for whom goes to strangers with a bug report."""
    delta = snapshot_pb2.QueueDelta()
    delta.scheduler_status.preemptions.append(console_states.preemption(1))
    out, node = one_redaction(
        recording_pb2.RecordedFrame(message=snapshot_pb2.SyncRequest(queue=delta)),
        frame(nominations=[snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(namespace="default", name="vip"))]),
    )
    (record,) = out.message.queue.scheduler_status.preemptions
    assert record.preemptor == node.message.delta.nominations[0].pod
    names = (record.preemptor.name, record.node_name, record.victims[0].pod.name, record.victims[0].node_name)
    assert all(re.fullmatch(r"x\d+", name) for name in names)
    assert (record.number, record.victim_count, names[1]) == (1, 1, names[3])


def test_names_of_missed_wake_ups_are_replaced_and_their_plugins_and_events_stay() -> None:
    """A bug report about a missed wake-up names what went wrong, and nobody's pods and nodes."""
    delta = snapshot_pb2.QueueDelta()
    delta.scheduler_status.missed_wake_ups.append(console_states.missed_wake_up(1))
    (out,) = one_redaction(recording_pb2.RecordedFrame(message=snapshot_pb2.SyncRequest(queue=delta)))
    (record,) = out.message.queue.scheduler_status.missed_wake_ups
    names = (record.pod.name, record.node_name, record.events[0].object_name)
    assert all(re.fullmatch(r"x\d+", name) for name in names)
    assert names[1] == names[2]
    assert (list(record.plugins), record.events[0].label) == (["NodeAffinity"], "NodeAdd")


def frame(**delta: object) -> recording_pb2.RecordedFrame:
    message = snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(**delta))  # type: ignore[arg-type]
    return recording_pb2.RecordedFrame(message=message)


def test_one_name_has_one_replacement_and_the_order_stays() -> None:
    """A hostname label would no longer be the node's name, and plugins that sort would sort otherwise."""
    nodes = [
        snapshot_pb2.NodeEntry(
            slot=slot, node=core_pb2.Node(metadata={"name": name, "labels": {"kubernetes.io/hostname": name}})
        )
        for slot, name in enumerate(("beta", "alpha", "gamma"))
    ]
    (found,) = one_redaction(frame(nodes=nodes))
    names = [entry.node.metadata.name for entry in found.message.delta.nodes]
    assert names == ["x1", "x0", "x2"]
    assert [entry.node.metadata.labels["kubernetes.io/hostname"] for entry in found.message.delta.nodes] == names


def test_what_kubernetes_defines_and_numbers_stay() -> None:
    """Plugins know some labels by their keys, compare numbers, and split zones and images."""
    labels = {
        "topology.kubernetes.io/zone": "east__west",
        "acme.example/rank": "7",
        "acme.example/enabled": "true",
    }
    node = core_pb2.Node(metadata={"name": "n", "labels": labels})
    node.status.images.add(names=["registry.acme.example/web:latest"])
    node.status.allocatable["acme.example/gpu"].string = "4"
    (found,) = one_redaction(frame(nodes=[snapshot_pb2.NodeEntry(node=node)]))
    out = found.message.delta.nodes[0].node
    assert re.fullmatch(r"x\d__x\d", out.metadata.labels["topology.kubernetes.io/zone"])
    assert sorted(out.metadata.labels.values())[:2] == ["7", "true"]
    assert not any("acme" in key for key in out.metadata.labels)
    assert re.fullmatch(r"x\d:latest", out.status.images[0].names[0])
    # Expressions and plugins know resources by name.
    assert out.status.allocatable["acme.example/gpu"].string == "4"


def test_names_in_texts_are_replaced_and_words_are_not() -> None:
    """`Insufficient cpu` would be another text than the replay's, where a namespace is called cpu."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "books"}}]
    classes = [snapshot_pb2.PodClass(id=1, pod=pod_of({"volumes": volumes}))]
    classes[0].pod.metadata.namespace = "cpu"
    decision = decision_pb2.Decision(number=1)
    refusal = decision.filter.refusals.add(nodes=1)
    refusal.status.messages.extend(["Insufficient cpu", 'claim "books" not found', "pod cpu/books is late"])
    holder = recording_pb2.RecordedFrame()
    holder.message.decisions.append(decision.SerializeToString())
    found = one_redaction(frame(classes=classes), holder)
    out = decision_pb2.Decision.FromString(found[1].message.decisions[0])
    # Three names: books, cpu, data.
    claim = "x0"
    namespace = found[0].message.delta.classes[0].pod.metadata.namespace
    assert list(out.filter.refusals[0].status.messages) == [
        "Insufficient cpu",
        f'claim "{claim}" not found',
        f"pod {namespace}/{claim} is late",
    ]


def test_labels_in_arguments_of_plugins_are_replaced_too() -> None:
    """A profile's added affinity would match no node."""
    arguments = {
        "scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        "addedAffinity": {"key": "acme.example/fleet", "operator": "In", "values": ["bluefleet"]},
    }
    header = recording_pb2.RecordingHeader()
    profile = header.hello.configuration.profiles.add(scheduler_name="default-scheduler")
    profile.plugin_args.add(name="NodeAffinity", args_json=json.dumps(arguments).encode())
    names = redaction.Names(in_tree_args.plugin_args())
    names.add(header)
    redaction.Redaction(names).redact(header)
    out = json.loads(header.hello.configuration.profiles[0].plugin_args[0].args_json)
    assert out["addedAffinity"] == {"key": "x0", "operator": "In", "values": ["x1"]}
    assert out["scoringStrategy"] == arguments["scoringStrategy"]
    assert header.hello.configuration.profiles[0].scheduler_name == "default-scheduler"


def test_arguments_of_plugins_that_are_not_in_tree_are_left_out() -> None:
    """A token in them would be in a bug report: nobody but the plugin's author knows what they hold."""
    arguments = {"licenceServer": "https://lic.acme.example", "token": "s3cr3t", "weights": {"acme.example/team": 3}}
    header = recording_pb2.RecordingHeader()
    profile = header.hello.configuration.profiles.add(scheduler_name="default-scheduler")
    profile.plugin_args.add(name="Licences", args_json=json.dumps(arguments).encode())
    labels = {"presentLabels": ["acme.example/fleet"], "absentLabelsPreference": ["acme.example/spot"]}
    profile.plugin_args.add(name="NodeLabel", args_json=json.dumps(labels).encode())
    names = redaction.Names(in_tree_args.plugin_args())
    names.add(header)
    redaction.Redaction(names).redact(header)
    of_remote, of_in_tree = (each.args_json for each in header.hello.configuration.profiles[0].plugin_args)
    assert of_remote == b"{}"
    assert json.loads(of_in_tree) == {"presentLabels": ["x0"], "absentLabelsPreference": ["x1"]}


def test_keys_in_paths_and_types_of_conditions_are_replaced() -> None:
    """They have the domain of a company, as labels have."""
    header = recording_pb2.RecordingHeader()
    paths = [
        "metadata.labels['payroll.acme.example/tier']",
        "spec.containers.resources",
        "metadata.labels['a.k8s.io/b']",
    ]
    header.hello.configuration.remote_plugins.add(name="P").info.pod_fields.extend(paths)
    pod = pod_of()
    for kind in ("payroll.acme.example/ready", "PodScheduled"):
        pod.status.conditions.add(type=kind)
    names = redaction.Names(in_tree_args.plugin_args())
    found = [header, frame(classes=[snapshot_pb2.PodClass(id=1, pod=pod)])]
    for each in found:
        names.add(each)
    for each in found:
        redaction.Redaction(names).redact(each)
    assert not any("acme" in str(each) for each in found)
    assert list(found[0].hello.configuration.remote_plugins[0].info.pod_fields)[1:] == paths[1:]
    conditions = found[1].message.delta.classes[0].pod.status.conditions
    assert [each.type for each in conditions][1:] == ["PodScheduled"]


@pytest.mark.parametrize(
    "text",
    [
        "node of team blue__payroll is reserved",
        "payroll/blue__payroll",
        "reserved by node-7",
        "reserved by node-7_payroll",
        "node-7.acme.example:8080 answers late",
        "see node-7.payroll",
        "image registry.acme.example/web:canary is not there",
        'persistentvolumeclaim "node-7-payroll" not found',
        "waits for cold_blue.payroll",
    ],
)
def test_names_that_a_text_joins_are_replaced(text: str) -> None:
    """The text of a plugin names a host without its domain, a value of two parts, or a name within another word."""
    labels = {"acme.example/team": "blue__payroll", "acme.example/rack": "cold_blue"}
    node = core_pb2.Node(metadata={"name": "node-7.acme.example", "labels": labels})
    node.status.images.add(names=["registry.acme.example/web:canary"])
    decision = decision_pb2.Decision(number=1)
    decision.filter.refusals.add(nodes=1).status.messages.append(text)
    holder = recording_pb2.RecordedFrame()
    holder.message.decisions.append(decision.SerializeToString())
    found = one_redaction(frame(nodes=[snapshot_pb2.NodeEntry(node=node)]), holder)
    out = decision_pb2.Decision.FromString(found[1].message.decisions[0])
    (redacted,) = out.filter.refusals[0].status.messages
    assert not re.search("node-7|payroll|blue|acme|canary|cold", redacted)


def test_labels_of_kubernetes_and_words_stay_in_texts() -> None:
    """The replay's text would be another one where something is called as a part of them is."""
    labels = {"app.kubernetes.io/name": "zone"}
    node = core_pb2.Node(metadata={"name": "app", "labels": labels})
    text = "0/1 nodes are available: 1 node(s) didn't match app.kubernetes.io/name in the topology-zone"
    decision = decision_pb2.Decision(number=1)
    decision.filter.refusals.add(nodes=1).status.messages.append(text)
    holder = recording_pb2.RecordedFrame()
    holder.message.decisions.append(decision.SerializeToString())
    found = one_redaction(frame(nodes=[snapshot_pb2.NodeEntry(node=node)]), holder)
    out = decision_pb2.Decision.FromString(found[1].message.decisions[0])
    assert list(out.filter.refusals[0].status.messages) == [text]


def test_names_of_resources_stay_in_texts() -> None:
    """The replay's text would be another one where a container is called as the resource is without its domain."""
    node = core_pb2.Node(metadata={"name": "gpu"})
    node.status.allocatable["acme.example/gpu"].string = "4"
    decision = decision_pb2.Decision(number=1)
    decision.filter.refusals.add(nodes=1).status.messages.append("Insufficient acme.example/gpu")
    holder = recording_pb2.RecordedFrame()
    holder.message.decisions.append(decision.SerializeToString())
    found = one_redaction(frame(nodes=[snapshot_pb2.NodeEntry(node=node)]), holder)
    out = decision_pb2.Decision.FromString(found[1].message.decisions[0])
    assert list(out.filter.refusals[0].status.messages) == ["Insufficient acme.example/gpu"]


def test_a_decision_that_cannot_be_decoded_is_an_error() -> None:
    """It might hold names."""
    holder = recording_pb2.RecordedFrame()
    holder.message.decisions.append(b"\xff")
    with pytest.raises(ValueError, match="a decision cannot be decoded"):
        one_redaction(holder)


async def test_an_important_pod_and_its_victims_are_still_those(tmp_path: pathlib.Path) -> None:
    """Preemption draws its first node by the UID, which is why UIDs stay."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 8)
    await cluster.schedule(IMPORTANT, 1)
    (tmp_path / segment_folder.file_name(1)).write_bytes(cluster.content())
    export.export(tmp_path, tmp_path / "redacted", 0, redact=True, in_tree=in_tree_args.plugin_args())
    frames, reader = read((tmp_path / "redacted").read_bytes())
    assert reader.header is not None
    replay = decision_replay.DecisionReplay(reader.header)
    assert [each async for each in replay.replay(frames)] == []
    assert replay.counts.same == len(cluster.decisions())


def test_what_the_scheduler_names_itself_stays() -> None:
    """A claim's allocation would name no node any more, or the texts and names of a replay would be others."""
    claim = snapshot_pb2.ClusterObject()
    claim.resource_claim.metadata.name = "<extended-resources>3883c367-eb2c-4f97-b3fc-51ab8684203d"
    claim.resource_claim.spec.devices.requests.add(name="container-0-request-1")
    terms = claim.resource_claim.status.allocation.node_selector.node_selector_terms
    terms.add().match_fields.add(key="metadata.name", operator="In", values=["secret-node"])
    decision = decision_pb2.Decision(number=1)
    decision.reserve.reservations.add(assumed=[claim])
    reprieved = decision_pb2.Decision(number=2)
    action = reprieved.group_reprieval.response.actions.add()
    action.evict.node_name, action.evict.message = "cluster", "preempting to accommodate a higher priority podgroup"
    classes = [snapshot_pb2.PodClass(id=1, pod=pod_of(labels={"example.com/group": "a"}))]
    holder = recording_pb2.RecordedFrame()
    holder.message.decisions.extend([decision.SerializeToString(), reprieved.SerializeToString()])
    out = [
        decision_pb2.Decision.FromString(each)
        for each in one_redaction(frame(classes=classes), holder)[1].message.decisions
    ]
    found = out[0].reserve.reservations[0].assumed[0].resource_claim
    assert found.metadata == claim.resource_claim.metadata
    assert found.spec == claim.resource_claim.spec
    (field,) = found.status.allocation.node_selector.node_selector_terms[0].match_fields
    assert field.key == "metadata.name"
    assert "secret-node" not in str(out[0])
    assert out[1].group_reprieval.response.actions[0].evict == action.evict


async def test_a_claim_release_without_its_state_is_not_decided_again(tmp_path: pathlib.Path) -> None:
    """The members' state has names in a form of the plugin's own; without it another answer might come out."""
    cluster = await RecordedCluster(2).open()
    request = filter_phase_pb2.ListReleasableClaimsRequest(
        cycle=cluster.evaluators.cycle("p", SMALL, cluster.generation)
    )
    request.tried.add(pod_class=SMALL, state=b"\x0a\x00")
    await cluster.evaluators.list_releasable_claims(request)
    (tmp_path / segment_folder.file_name(1)).write_bytes(cluster.content())
    for redact, same in ((False, 1), (True, 0)):
        target = tmp_path / f"{redact}"
        export.export(tmp_path, target, 0, redact=redact, in_tree=in_tree_args.plugin_args())
        frames, reader = read(target.read_bytes())
        assert reader.header is not None
        replay = decision_replay.DecisionReplay(reader.header)
        assert [each async for each in replay.replay(frames)] == []
        assert (replay.counts.same, replay.counts.incomplete) == (same, 1 - same)
