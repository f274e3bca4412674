"""The effect of each feature gate: the one table behind warnings, docs/feature-gates.md and the tests.

It has every gate that kube-scheduler accepts. Gates that its code reads have a row. The others are accepted
because clusters set the same gates on every component; they do nothing in kube-scheduler either.

Also change: internal/trireme/config/feature_gates.json, internal/trireme/plugins/dynamic_resources/features.py,
internal/trireme/framework/feature_gates.py (the gates that have an effect).

Tests: tests/unit/config/test_gates.py.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trireme.config.gates import FeatureGates


class Effect(enum.Enum):
    """The effect of a gate."""

    IMPLEMENTED = "implemented"
    NOT_APPLICABLE = "not applicable"
    INEFFECTIVE = "no effect"


@dataclass(frozen=True, slots=True)
class Row:
    """Gates with the same effect. `text` explains it; `ineffective` is the value that has no effect."""

    gates: tuple[str, ...]
    effect: Effect
    text: str = ""
    ineffective: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under one heading, and the text below them."""

    title: str
    rows: tuple[Row, ...]
    below: str = ""


def _implemented_row(*gates: str, text: str = "") -> Row:
    """Gates that Trireme implements."""
    return Row(gates, Effect.IMPLEMENTED, text)


def _not_applicable_row(*gates: str, text: str) -> Row:
    """Gates that say nothing about what the scheduler decides; `text` says why."""
    return Row(gates, Effect.NOT_APPLICABLE, text)


def _ineffective_row(*gates: str, value: bool, text: str) -> Row:
    """Gates that have no effect at this value; `text` says what is done instead."""
    return Row(gates, Effect.INEFFECTIVE, text, value)


_QUEUEING = Section(
    "Queueing, preemption, groups",
    (
        _implemented_row(
            "SchedulerPopFromBackoffQ",
            text="with nothing else to do, refused pods are scheduled before their back-off is over",
        ),
        _implemented_row(
            "SchedulerAsyncPreemption",
            text="victims are deleted while other pods are scheduled, and the preemptor waits; off: the attempt waits",
        ),
        _implemented_row("NominatedNodeNameForExpectation", text="a pod is nominated before a long PreBind or Permit"),
        _not_applicable_row(
            "SchedulerAsyncAPICalls",
            text="no cycle waits for bind, so writing is always asynchronous; such calls have no metrics of their own",
        ),
        _not_applicable_row("SchedulerPreQueueingHints", text="a hint is called for a class of pods, not for each pod"),
        _implemented_row(
            "OpportunisticBatching",
            text="the log names plugins and extenders that prevent signatures (`Disabling signatures for profile`: "
            "remote plugins and some in-tree ones, as in kube-scheduler); pods of one class are scheduled in "
            "batches either way, with the same decisions",
        ),
        _implemented_row("GenericWorkload", text="PodGroups"),
        _implemented_row("TopologyAwareWorkloadScheduling", text="a PodGroup in one domain"),
        _implemented_row(
            "CompositePodGroup",
            text="groups of groups, which v1.37's API server serves as `v1alpha3`; needs `GenericWorkload` and "
            "`TopologyAwareWorkloadScheduling`",
        ),
        _implemented_row("DRAWorkloadResourceClaims", text="device claims of a PodGroup are reserved for it"),
        _implemented_row(
            "InPlacePodVerticalScalingSchedulerPreemption",
            text="the scheduler preempts on its own node for a running pod whose resize is deferred",
        ),
    ),
    below="""The embedded cluster serves groups, and groups of groups, where they are on:
`make up
ARGS=--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true`; `kubectl
get podgroups` shows their state.

`SchedulerQueueingHints` was removed in v1.37: setting it fails, and hints are
always used.
""",
)

_PLUGINS = Section(
    "Plugins",
    (
        _implemented_row("DRAConsumableCapacity", "DRASchedulerFilterTimeout"),
        _implemented_row("DRAFractionalCapacityRange", text="on with `--min-compatibility-version=1.37`"),
        _implemented_row("DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAListTypeAttributes"),
        _implemented_row("DRAOptionalNodeOperations"),
        _implemented_row(
            "DRANodeAllocatableResources", text="devices may stand for a node's cpu, memory and huge pages"
        ),
        _implemented_row("MatchLabelKeysInPodTopologySpread"),
        _implemented_row("StorageCapacityScoring", "VolumeLimitScaling"),
        _not_applicable_row("InterPodAffinityHostnameFastPath", text="an optimisation without an effect on decisions"),
        _implemented_row("PodLevelResources", text="pod-level requests count"),
        _implemented_row(
            "InPlacePodLevelResourcesVerticalScaling",
            text="the pod-level resources in the status count during a resize",
        ),
        _implemented_row("TaintTolerationComparisonOperators", text="tolerations with `Lt` and `Gt`"),
    ),
)

_PROCESS = Section(
    "The process",
    (
        _implemented_row(
            "CoordinatedLeaderElection",
            text="the API server chooses the leader among LeaseCandidates; of the Lease `kube-system/kube-scheduler` "
            "alone, as in kube-scheduler",
        ),
        _implemented_row("ComponentFlagz", text="`/flagz` is served"),
        _implemented_row("ComponentStatusz", text="`/statusz` is served"),
        _implemented_row("RemoteRequestHeaderUID", text="`--requestheader-uid-headers` may be set"),
        _implemented_row(
            "LoggingAlphaOptions", "LoggingBetaOptions", text="the logging flags of that stage may be set"
        ),
        _implemented_row("ContextualLogging", text="lines name the part of the scheduler that wrote them"),
        _ineffective_row(
            "NativeHistograms",
            value=True,
            text="histograms have classic buckets alone, also in protobuf answers of `/metrics`",
        ),
        _implemented_row("AllowParsingUserUIDFromCertAuth", text="a client's certificate may state its UID"),
        _ineffective_row("CBORServingAndStorage", value=True, text="`/statusz` and `/flagz` are not served as CBOR"),
    ),
)

_CLIENT = Section(
    "The connection to the API server",
    (
        _implemented_row("WatchListClient", text="lists are streamed; off: they are read in pages"),
        _ineffective_row(
            "ClientsAllowCBOR",
            "ClientsPreferCBOR",
            value=True,
            text="objects are read as protobuf or JSON; without effect in kube-scheduler, too, unless "
            "`clientConnection.contentType` is `application/cbor`",
        ),
        _ineffective_row(
            "ClientsAllowCARotation", value=False, text="certificate files are read again when they change"
        ),
        _not_applicable_row(
            "AtomicFIFO",
            "InOrderInformersBatchProcess",
            "InformerResourceVersion",
            "UnlockWhileProcessingFIFO",
            "ClientsAllowTLSCacheGC",
            "ClientsAllowConnectionPool",
            "WatchListClientConcurrentDecoding",
            text="internals of client-go, which Trireme does not use",
        ),
        _not_applicable_row("UnauthenticatedHTTP2DOSMitigation", text="HTTP/1.1 alone is served"),
    ),
)

SECTIONS: Final = (_QUEUEING, _PLUGINS, _PROCESS, _CLIENT)

_OTHERS: Final = """
APIResponseCompression APIServerIdentity APIServerWebhookAuthenticationToken APIServingWithRoutine
AllocatorPoolBufferCap AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests AllowServiceExternalIPs
AllowUnsafeMalformedObjectDeletion AtomicWriteVolumeUserFields CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions
CRDObservedGenerationTracking CRIListStreaming CSIVolumeHealth CertificateSigningRequestMLDSA
ChangeContainerStatusOnKubeletRestart ClearingNominatedNodeNameAfterBinding
CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
CloudNodeAdditionalLabelsReconciliation ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
ConditionalAuthorization ConsistentGetFromCache ConsistentListFromCacheSkipTimeoutFallback ConstrainedImpersonation
ContainerCheckpoint ContainerRestartRules ContainerStopSignals CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod
DRAPartitionableDevicesType DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DeclarativeValidationBeta
DefaultPodSysctls DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DynamicNodeLocalEphemeralVolumes
EmptyDirVolumeMode EtcdRangeStream EventedPLEG EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources
GRPCContainerProbeTLS GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority H2CContainerProbe
HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction ImageVolumeWithDigest
InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
InPlacePodVerticalScalingMemoryBackedVolumes KMSv1 KubeAPIServerWorkloadsTrust KubeProxyIPVS
KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint KubeletCrashLoopBackOffMax
KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletPodResourcesListUseActivePods
KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring ManagedFieldsOptOut ManagedFieldsOptOutClient
ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
MutatingAdmissionPolicy NFTablesNetlink NodeControllerLeaseCircuitBreaker NodeLifecycleConditions OpenAPIEnums
OpenAPIV2LazyBuild PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateMLDSA
PodCertificateRequest PodDeletionCost PodLevelResourceManagers PodLevelResourcesFixDefaulting
PodLevelResourcesFixKubeletQOSClass PodLogsQuerySplitStreams PodTopologyLabelsAdmission PodsAPI QOSReserved
ReduceDefaultCrashLoopBackOffDecay ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RequestCostAggregation
ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits RotateKubeletServerCertificate
RuntimeClassInImageCriApi SELinuxMount SecurityProfileOCI ServiceAccountNodeAudienceRestriction ServiceAccountTokenMLDSA
ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
StaleControllerConsistencyHPA StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
StaleControllerConsistencyStatefulSet StatefulSetRecreateStrategy StatefulSetSemanticRevisionComparison
StorageNamespaceIndex StorageVersionAPI StorageVersionHash StorageVersionMigrator
StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
TokenRequestServiceAccountUIDValidation TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions
UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport VolumeBindMountOptions
WatchFromStorageWithoutPrevKV WatchList WatchListCompression WebhookRoundTripLoadBalancing WindowsCPUAndMemoryAffinity
WindowsGracefulNodeShutdown WorkloadWithJob
"""

#: Gates that kube-scheduler does not read: those of the API server, the controllers, the kubelet and kube-proxy.
OF_OTHERS: Final = frozenset(_OTHERS.split())

#: Not features themselves: they set all gates of a stage.
OF_STAGES: Final = frozenset({"AllAlpha", "AllBeta"})


def rows_by_gate() -> dict[str, Row]:
    """By gate, its effect."""
    return {gate: row for section in SECTIONS for row in section.rows for gate in row.gates}


def warnings(gates: FeatureGates) -> Iterator[str]:
    """The warnings for gates set to a value that has no effect.

    Gates that only decide *how* kube-scheduler does something, and not the result, yield none.
    """
    values = gates.values or {}
    for gate, row in rows_by_gate().items():
        if row.ineffective is not None and values.get(gate) == row.ineffective:
            yield f"feature gate {gate}={str(row.ineffective).lower()} has no effect: {row.text}"
