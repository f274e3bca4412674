"""Random configurations: trees put together from values that each field may and may not have.

What becomes of a tree until it is a file is `drawn_texts`.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

Case = dict[str, Any]
Tree = Any


class Draw(random.Random):
    """Chance, and how little care the file's author took."""

    carelessness = 0.0


Value = Callable[[Draw], Tree]

VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
#: What may stand anywhere, and seldom belongs there.
ODD: tuple[Tree, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    1.0,
    1e3,
    1e30,
    2**31,
    2**31 - 1,
    -(2**31) - 1,
    2**63,
    2**63 - 1,
    "",
    " ",
    "x",
    "1",
    "true",
    "null",
    "1s",
    "é\u2028\U0001f600",
    'a"b\\c',
    "two\nlines",
    [],
    {},
    [None],
    ["a"],
    [1],
    {"a": 1},
    {"name": "x"},
    [{}],
)
#: Field names that no struct has.
UNKNOWN = ("foo", "extra", "name_", "Name", "LeaderElect", "", "a.b", "é", "weight2", "apiVersion", "kind", "-", "a b")


def odd(draw: Draw) -> Tree:
    """Something that may stand anywhere, of its own: parts of a tree are changed in place."""
    return copy.deepcopy(draw.choice(ODD))


def one_of(*good: Tree, bad: tuple[Tree, ...] = ()) -> Value:
    """One of some values that a field may have; in a file written without care, of those that it may not have too."""
    return lambda draw: draw.choice(bad if bad and draw.random() < draw.carelessness else good)


INTEGER = one_of(1, 2, 3, 5, 10, 16, 50, 99, 100, 101, 1000, 2**31 - 1, bad=(0, -1, -5, 2**31))
PERCENTAGE = one_of(0, 1, 5, 50, 99, 100, bad=(101, -1, 200))
BOOL = one_of(True, False)
DURATION = one_of(
    *(
        "15s",
        "10s",
        "2s",
        "1m",
        "1h30m",
        "1.5s",
        "20s",
        "1m0.5s",
        "100s",
        "5000ms",
        "1h1h",
        "+5s",
        "1.s",
        "9223372036s",
    ),
    bad=(
        *("0s", "0", "-1s", "500ms", "1us", "1µs", "3ns", ".5s", "1d", "10", "", "s", "1m-2s", "1e3s", " 5s", "5 s"),
        *("12345678901234567890ns", "9223372037s", "1.0000000000000000000001s", ".s", "-", "1H", "0.000000001ns"),
    ),
)
RESOURCE = one_of(
    *("nvidia.com/gpu", "example.com/foo", "a.io/x", "b.io/y", "a-b.io/x_y.z", "A.io/X", "kubernetes.iox/x"),
    bad=(
        *("cpu", "memory", "ephemeral-storage", "pods", "", "a b", "a/b/c", "foo", "kubernetes.io/x", "requests.cpu"),
        *("hugepages-2Mi", "-a", "a.io/", "/x", "x" * 64, "example.com/" + "y" * 64, "a_b.io/x", "x.kubernetes.io/y"),
        *("requests.a.io/x", "attachable-volumes-aws-ebs", "a..io/x", "a.io/" + "y" * 60, "x" * 254 + ".io/y"),
    ),
)
COMPUTE = one_of(
    *("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "example.com/foo", "pods", "storage"),
    bad=("", "a b", "cpu"),
)
LABEL_KEY = one_of(
    *("zone", "topology.kubernetes.io/zone", "kubernetes.io/hostname", "a_b.c-d", "A"),
    bad=("a b", "", "a/b/c", "-x", "é", "x" * 70, "a.io/", "/x"),
)
LABEL_VALUE = one_of("a", "b", "", "1", "a_b", bad=("a b", "-", "x" * 64, "é", 1))
PLUGINS = (
    *(
        "SchedulingGates",
        "PrioritySort",
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
    ),
    *("NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
    *("InterPodAffinity", "DynamicResources", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality"),
    *("DefaultBinder", "NodeDeclaredFeatures"),
)
STRANGERS = ("*", "Nope", "", "Coscheduling", "GangScheduling", "SelectorSpread", "noderesourcesfit", "EBSLimits")
SCORING = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "ImageLocality",
)
POINTS = {
    "preEnqueue": ("SchedulingGates", "DynamicResources", "DefaultPreemption"),
    "queueSort": ("PrioritySort",),
    "preFilter": ("NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeBinding", "InterPodAffinity"),
    "filter": ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeResourcesFit", "VolumeZone", "NodePorts"),
    "postFilter": ("DefaultPreemption", "DynamicResources"),
    "preScore": SCORING,
    "score": SCORING,
    "reserve": ("VolumeBinding", "DynamicResources"),
    "permit": (),
    "preBind": ("VolumeBinding", "DynamicResources"),
    "bind": ("DefaultBinder",),
    "postBind": (),
    "multiPoint": PLUGINS,
    "placementGenerate": (),
    "placementScore": (),
    "podGroupPostFilter": (),
}


def some(draw: Draw, make: Value, most: int = 3) -> list[Tree]:
    """A short list."""
    return [make(draw) for _ in range(draw.choice((0, *range(1, most + 1), 1)))]


def listed(make: Value, most: int = 3) -> Value:
    """A list of such values."""
    return lambda draw: some(draw, make, most)


def struct(often: float = 0.5, /, **fields: Value) -> Value:
    """An object with some of its fields, in any order."""

    def make(draw: Draw) -> Tree:
        names = [name for name in fields if draw.random() < often]
        draw.shuffle(names)
        return {name.rstrip("_"): fields[name](draw) for name in names}

    return make


EXPRESSION = struct(
    0.9,
    key=LABEL_KEY,
    operator=one_of("In", "NotIn", "Exists", "DoesNotExist", bad=("Gt", "Lt", "Near", "", "in")),
    values=listed(LABEL_VALUE, 2),
)
FIELD = struct(
    0.9,
    key=one_of("metadata.name", bad=("metadata.namespace", "spec.x", "")),
    operator=one_of("In", "NotIn", bad=("Exists", "Gt", "")),
    values=listed(one_of("a", "node-1", bad=("", "a b")), 2),
)
TERM = struct(0.6, matchExpressions=listed(EXPRESSION, 2), matchFields=listed(FIELD, 2))
SELECTOR = struct(
    0.5,
    matchLabels=lambda draw: {LABEL_KEY(draw): draw.choice(("a", "", "a b"))},
    matchExpressions=listed(EXPRESSION, 1),
)
SHAPE = listed(struct(0.95, utilization=INTEGER, score=one_of(0, 1, 5, 10, bad=(11, -1))))


def ascending(draw: Draw) -> Tree:
    """A shape that may be right."""
    points = sorted(draw.sample(range(101), draw.randint(1, 4)))
    return [{"utilization": point, "score": draw.randint(0, 10)} for point in points]


def either(*makers: Value) -> Value:
    """What one of some makes."""
    return lambda draw: draw.choice(makers)(draw)


WEIGHTED = listed(struct(0.9, name=COMPUTE, weight=one_of(1, 1, 1, bad=(2, 3, 100, 101, 0, -1))))
ARGS: dict[str, Value] = {
    "InterPodAffinity": struct(0.7, hardPodAffinityWeight=PERCENTAGE, ignorePreferredTermsOfExistingPods=BOOL),
    "DefaultPreemption": struct(0.7, minCandidateNodesPercentage=PERCENTAGE, minCandidateNodesAbsolute=INTEGER),
    "VolumeBinding": struct(0.7, bindTimeoutSeconds=INTEGER, shape=either(SHAPE, ascending)),
    "NodeResourcesFit": struct(
        0.6,
        ignoredResources=listed(RESOURCE),
        ignoredResourceGroups=listed(one_of("example.com", "a.io", "kubernetes.io", bad=("a/b", "", "a b"))),
        scoringStrategy=struct(
            0.8,
            type=one_of("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", bad=("Best", "")),
            resources=WEIGHTED,
            requestedToCapacityRatio=struct(0.9, shape=either(SHAPE, ascending, ascending)),
        ),
    ),
    "NodeResourcesBalancedAllocation": struct(0.8, resources=WEIGHTED),
    "PodTopologySpread": struct(
        0.8,
        defaultingType=one_of("List", "List", "List", "System", bad=("X", "")),
        defaultConstraints=listed(
            struct(
                0.9,
                maxSkew=one_of(1, 2, 5, bad=(0, -1)),
                topologyKey=LABEL_KEY,
                whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway", bad=("", "Never")),
            )
        ),
    ),
    "NodeAffinity": struct(
        0.9,
        addedAffinity=struct(
            0.7,
            requiredDuringSchedulingIgnoredDuringExecution=struct(0.9, nodeSelectorTerms=listed(TERM, 2)),
            preferredDuringSchedulingIgnoredDuringExecution=listed(
                struct(0.9, weight=one_of(1, 50, 100, bad=(0, 101, -1)), preference=TERM), 2
            ),
        ),
    ),
    "DynamicResources": struct(0.8, filterTimeout=DURATION, bindingTimeout=DURATION),
}
CONSTRAINT_EXTRAS = struct(
    0.3,
    minDomains=INTEGER,
    nodeAffinityPolicy=one_of("Honor", "Ignore", bad=("x", "")),
    nodeTaintsPolicy=one_of("Honor", "Ignore", bad=("x", "")),
    matchLabelKeys=listed(LABEL_KEY, 2),
    labelSelector=SELECTOR,
)


def arguments(draw: Draw) -> Tree:
    """One entry of `pluginConfig`."""
    name = draw.choice(tuple(ARGS))
    args = ARGS[name](draw)
    for constraint in args.get("defaultConstraints", ()):
        if draw.random() < 0.3:
            constraint.update(CONSTRAINT_EXTRAS(draw))
    if draw.random() < 0.3 * draw.carelessness:
        args["kind"] = draw.choice((name + "Args", name + "Args", draw.choice(tuple(ARGS)) + "Args", "Foo", "", KIND))
    if draw.random() < 0.3 * draw.carelessness:
        args["apiVersion"] = draw.choice((VERSION, VERSION, "v1", "kubescheduler.config.k8s.io/v1beta3", "", "a/b/c"))
    entry: Tree = {"name": name, "args": args}
    if draw.random() < 0.2 * draw.carelessness:
        entry["name"] = draw.choice((*PLUGINS, *STRANGERS))
    if draw.random() < 0.1 * draw.carelessness:
        del entry[draw.choice(("name", "args"))]
    return entry


WEIGHT = one_of(1, 2, 3, 5, 10, 100, 0, bad=(-1, 2**31 - 1, 10**8))


def plugin(point: str) -> Value:
    """A plugin of a point's list."""

    def make(draw: Draw) -> Tree:
        careful = POINTS[point] and draw.random() >= draw.carelessness
        known = POINTS[point] if careful else (*PLUGINS, *STRANGERS)
        entry_name = draw.choice(known)
        entry: Tree = {"name": entry_name}
        if draw.random() < (0.5 if point in ("score", "multiPoint") else 0.1):
            entry["weight"] = WEIGHT(draw)
        return entry

    return make


def plugin_set(point: str) -> Value:
    """What is enabled and disabled at a point."""

    def make(draw: Draw) -> Tree:
        made: Tree = {}
        if draw.random() < 0.7:
            made["enabled"] = unique(draw, some(draw, plugin(point)))
        if draw.random() < 0.5:
            named = [{"name": "*"}] if draw.random() < 0.4 else some(draw, plugin(point), 2)
            made["disabled"] = unique(draw, named)
        return made

    return make


def unique(draw: Draw, entries: list[Tree]) -> list[Tree]:
    """Mostly without what is named twice."""
    return (
        entries if draw.random() < draw.carelessness else list({entry.get("name"): entry for entry in entries}.values())
    )


def plugins(draw: Draw) -> Tree:
    """The plugins of a profile."""
    points = draw.sample(list(POINTS), draw.choice((0, 1, 1, 2, 3)))
    if draw.random() < 0.3 and "multiPoint" not in points:
        points.append("multiPoint")
    made = {point: plugin_set(point)(draw) for point in points}
    if draw.random() < 0.3:
        # A profile of one's own: nothing but what it names.
        made["multiPoint"] = {"disabled": [{"name": "*"}], **made.get("multiPoint", {})}
        for point, names in POINTS.items():
            if point in ("queueSort", "bind") and draw.random() < 0.9:
                made[point] = {"enabled": [{"name": names[0]}]}
    return made


def profile(draw: Draw) -> Tree:
    """A profile."""
    made: Tree = {}
    if draw.random() < 0.9:
        made["schedulerName"] = draw.choice(("default-scheduler", "a", "b", "c", "my scheduler", "x" * 300, "null"))
    if draw.random() < 0.2:
        made["percentageOfNodesToScore"] = PERCENTAGE(draw)
    if draw.random() < 0.5:
        made["plugins"] = plugins(draw)
    if draw.random() < 0.6:
        made["pluginConfig"] = unique(draw, [arguments(draw) for _ in range(draw.randint(0, 3))])
    return made


EXTENDER = struct(
    0.4,
    urlPrefix=one_of("http://127.0.0.1:8888/a", "https://x/y", "", bad=(":", "%zz", "/p", "http://a b", "ftp://x", 5)),
    filterVerb=one_of("filter", "f", ""),
    preemptVerb=one_of("preempt", ""),
    prioritizeVerb=one_of("prioritize", "p", ""),
    bindVerb=one_of("", "", bad=("bind",)),
    weight=one_of(1, 5, 100, 10**9, 2**63 - 1, bad=(0, -1, 2**63)),
    enableHTTPS=BOOL,
    httpTimeout=DURATION,
    nodeCacheCapable=BOOL,
    ignorable=BOOL,
    managedResources=listed(struct(0.9, name=RESOURCE, ignoredByScheduler=BOOL), 2),
    tlsConfig=struct(
        0.3,
        insecure=BOOL,
        serverName=one_of("x", ""),
        certFile=one_of("", bad=("{DIR}/a.crt", "{DIR}")),
        keyFile=one_of("", bad=("{DIR}/a.key",)),
        caFile=one_of("", bad=("{DIR}/ca.crt",)),
        certData=one_of("", bad=("YQ==", "YQ", "!", "YWJj\n")),
        keyData=one_of("", bad=("YQ==",)),
        caData=one_of("", bad=("YQ==", "LS0tLS1CRUdJTg==")),
    ),
)
CONFIGURATION = struct(
    0.2,
    parallelism=INTEGER,
    percentageOfNodesToScore=PERCENTAGE,
    podInitialBackoffSeconds=one_of(1, 2, 10, bad=(0, 11, -1, 2**63)),
    podMaxBackoffSeconds=one_of(10, 101, 2**31, 2**63 - 1, bad=(1, 0, -1)),
    delayCacheUntilActive=BOOL,
    enableProfiling=BOOL,
    enableContentionProfiling=BOOL,
    leaderElection=struct(
        0.3,
        leaderElect=BOOL,
        leaseDuration=one_of("15s", "60s", "1h", bad=("2s", "0s", "x", "-1s")),
        renewDeadline=one_of("10s", "9.5s", "11s", bad=("15s", "0s", "-1s")),
        retryPeriod=one_of("2s", "1s", "7s", bad=("15s", "0s", "-1s", "9s")),
        resourceLock=one_of("leases", "leases", bad=("endpoints", "configmapsleases", "", "x")),
        resourceName=one_of("kube-scheduler", "a b", "x", bad=("",)),
        resourceNamespace=one_of("kube-system", "a b", bad=("",)),
    ),
    clientConnection=struct(
        0.4,
        kubeconfig=one_of("", bad=("{DIR}/none",)),
        acceptContentTypes=one_of("", "application/json", "x"),
        contentType=one_of("", "application/json", "application/vnd.kubernetes.protobuf", "text/plain"),
        qps=one_of(0, 1, 50, 0.5, 1e10, -1, 3.4e38, 0.1, 16777217, 1e-7, 1e21, 123456789.123, bad=(1e39, -1e39)),
        burst=INTEGER,
    ),
    extenders=listed(EXTENDER, 2),
)


def tree(draw: Draw) -> Tree:
    """A configuration."""
    made: Tree = {"apiVersion": VERSION, "kind": KIND, **CONFIGURATION(draw)}
    if draw.random() < 0.75:
        profiles = [profile(draw) for _ in range(draw.choice((0, 1, 1, 1, 1, 1, 2, 2, 3)))]
        for number, entry in enumerate(profiles):
            if len(profiles) > 1 and draw.random() < 0.9:
                entry["schedulerName"] = f"s{number}"
        made["profiles"] = profiles
    return made
