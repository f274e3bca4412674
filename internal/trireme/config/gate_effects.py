"""The effect of each feature gate: the one table behind warnings, docs/feature-gates.md and the tests.

It has every gate that kube-scheduler v1.37 accepts. Gates that its code reads have a row. The others are accepted
because clusters set the same gates on every component; they do nothing in kube-scheduler either.
"""

import enum
from dataclasses import dataclass
from typing import Final


class Effect(enum.Enum):
    """The effect of a gate."""

    OBEYED = "obeyed"
    NOTHING_TO_DO = "nothing to do"
    NOT_HEEDED = "not heeded"


@dataclass(frozen=True, slots=True)
class Row:
    """Gates with the same effect. `text` explains it; `unheeded` is the value that has no effect."""

    gates: tuple[str, ...]
    effect: Effect
    text: str = ""
    unheeded: bool | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under one heading, and the text below them."""

    title: str
    rows: tuple[Row, ...]
    below: str = ""


def _obeyed(*gates: str, text: str = "") -> Row:
    return Row(gates, Effect.OBEYED, text)


def _nothing_to_do(*gates: str, text: str) -> Row:
    return Row(gates, Effect.NOTHING_TO_DO, text)


def _unheeded(*gates: str, value: bool, text: str) -> Row:
    return Row(gates, Effect.NOT_HEEDED, text, value)


_QUEUEING = Section(
    "Queueing, preemption, groups",
    (
        _obeyed(
            "SchedulerPopFromBackoffQ",
            text="with nothing else to do, refused pods are taken before their back-off is over",
        ),
        _obeyed(
            "SchedulerAsyncPreemption",
            text="victims are deleted beside the scheduling of others, and the preemptor is held meanwhile; off: the "
            "attempt waits for it",
        ),
        _obeyed(
            "NominatedNodeNameForExpectation", text="a pod is nominated before a PreBind or Permit that takes long"
        ),
        _nothing_to_do(
            "SchedulerAsyncAPICalls",
            text="bind is a process of its own, so writing is always asynchronous; the metrics of such calls are not "
            "served",
        ),
        _nothing_to_do("SchedulerPreQueueingHints", text="a hint is asked about a class of pods, not about each pod"),
        _obeyed(
            "OpportunisticBatching",
            text="the log names plugins and extenders that rule out batches; pods of one class are scheduled in "
            "batches, exactly, either way",
        ),
        _obeyed("GenericWorkload", text="PodGroups"),
        _obeyed("TopologyAwareWorkloadScheduling", text="a PodGroup in one domain"),
        _obeyed("PodGroupPreemptionPolicy", text="the PodGroup's `preemptionPolicy`, which its pods have to share"),
        _obeyed(
            "CompositePodGroup",
            text="groups of groups, which the API server serves as `v1alpha3` only; needs `GenericWorkload` and "
            "`TopologyAwareWorkloadScheduling`",
        ),
        _obeyed("DRAWorkloadResourceClaims", text="claims for devices that belong to a PodGroup are reserved for it"),
        _obeyed(
            "InPlacePodVerticalScalingSchedulerPreemption",
            text="room is made on its own node for a running pod whose resize is deferred",
        ),
    ),
    below="""The embedded cluster serves groups, and groups of groups, where they are on:
`make up ARGS=--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true`;
`kubectl get podgroups` shows what became of them.

`SchedulerQueueingHints` is gone in v1.37: naming it fails, and hints are always used.
""",
)

_PLUGINS = Section(
    "Plugins",
    (
        _obeyed("DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints", "DRADeviceTaintRules"),
        _obeyed("DRAPartitionableDevices", "DRASchedulerFilterTimeout"),
        _obeyed("DRAFractionalCapacityRange", text="on with `--min-compatibility-version=1.37`"),
        _obeyed("DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAListTypeAttributes"),
        _obeyed("DRAOptionalNodeOperations"),
        _obeyed("DRANodeAllocatableResources", text="devices may stand for cpu, memory and huge pages of their node"),
        _obeyed("MatchLabelKeysInPodTopologySpread"),
        _obeyed("StorageCapacityScoring", "VolumeLimitScaling"),
        _nothing_to_do("InterPodAffinityHostnameFastPath", text="it is faster, and says the same"),
        _obeyed("PodLevelResources", text="requests of a pod as a whole count"),
        _obeyed("InPlacePodLevelResourcesVerticalScaling", text="so does what the status says of them during a resize"),
        _obeyed("TaintTolerationComparisonOperators", text="tolerations with `Lt` and `Gt`"),
    ),
)

_PROCESS = Section(
    "The process",
    (
        _obeyed(
            "CoordinatedLeaderElection",
            text="the API server chooses who leads, by LeaseCandidates; of the Lease `kube-system/kube-scheduler` "
            "alone, as in kube-scheduler",
        ),
        _obeyed("ComponentFlagz", text="`/flagz` is served"),
        _obeyed("ComponentStatusz", text="`/statusz` is served"),
        _obeyed("RemoteRequestHeaderUID", text="`--requestheader-uid-headers` may be set"),
        _obeyed("LoggingAlphaOptions", "LoggingBetaOptions", text="the logging flags of that stage may be set"),
        _obeyed("ContextualLogging", text="lines name the part of the scheduler that they are of"),
        _unheeded(
            "NativeHistograms",
            value=True,
            text="histograms have classic buckets alone, also in protobuf answers of `/metrics`",
        ),
        _obeyed("AllowParsingUserUIDFromCertAuth", text="a client's certificate may state its UID"),
        _unheeded("CBORServingAndStorage", value=True, text="`/statusz` and `/flagz` are not served as CBOR"),
    ),
)

_CLIENT = Section(
    "The connection to the API server",
    (
        _obeyed("WatchListClient", text="the API server streams what it lists; off: it is listed in pages"),
        _unheeded(
            "ClientsAllowCBOR",
            "ClientsPreferCBOR",
            value=True,
            text="objects are read as protobuf or JSON; without effect in kube-scheduler, too, unless "
            "`clientConnection.contentType` is `application/cbor`",
        ),
        _unheeded("ClientsAllowCARotation", value=False, text="files of certificates are read again when they change"),
        _nothing_to_do(
            "AtomicFIFO",
            "InOrderInformersBatchProcess",
            "InformerResourceVersion",
            "UnlockWhileProcessingFIFO",
            "ClientsAllowTLSCacheGC",
            text="how client-go keeps its caches; ours are others",
        ),
        _nothing_to_do("UnauthenticatedHTTP2DOSMitigation", text="HTTP/1.1 alone is served"),
    ),
)

SECTIONS: Final = (_QUEUEING, _PLUGINS, _PROCESS, _CLIENT)

_OTHERS: Final = """
APIResponseCompression APIServerIdentity APIServerWebhookAuthenticationToken APIServingWithRoutine AllowDNSOnlyNodeCSR
AllowInsecureKubeletCertificateSigningRequests AllowServiceExternalIPs AllowUnsafeMalformedObjectDeletion
AtomicWriteVolumeUserFields AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyAlphaOptions
CPUManagerPolicyBetaOptions CRDObservedGenerationTracking CRIListStreaming CSIVolumeHealth
ChangeContainerStatusOnKubeletRestart ClearingNominatedNodeNameAfterBinding
CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ClusterTrustBundle
ClusterTrustBundleProjection ConcurrentWatchObjectDecode ConsistentListFromCacheSkipTimeoutFallback
ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContainerStopSignals CrossNamespaceVolumeDataSource
CustomCPUCFSQuotaPeriod DRAPartitionableDevicesType DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
DeclarativeValidationBeta DefaultPodSysctls DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
EmptyDirVolumeMode EnvFiles EtcdRangeStream EventedPLEG EvictionRequestAPI ExcludeAdmissionWebhookVirtualResources
ExtendWebSocketsToKubelet GRPCContainerProbeTLS GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
H2CContainerProbe HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction ImageVolumeWithDigest
InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
InPlacePodVerticalScalingMemoryBackedVolumes KMSv1 KubeProxyIPVS KubeProxyNFTablesLocalhostNodePorts
KubeletAllocatedPodsEndpoint KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletInUserNamespace
KubeletPodResourcesListUseActivePods KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC
KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring
ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
MutatingAdmissionPolicy NFTablesNetlink NodeControllerLeaseCircuitBreaker NodeLifecycleConditions OpenAPIEnums
PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost
PodLevelResourceManagers PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodLogsQuerySplitStreams
PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets QOSReserved ReduceDefaultCrashLoopBackOffDecay
ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile ResourceHealthStatus ResourceHealthStatusMessage
RestartAllContainersOnContainerExits RotateKubeletServerCertificate RuntimeClassInImageCriApi SELinuxMount
ServiceAccountNodeAudienceRestriction ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate
StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA StaleControllerConsistencyJob
StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet StatefulSetRecreateStrategy
StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionAPI StorageVersionHash
StorageVersionMigrator StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport VolumeBindMountOptions WatchList
WatchListCompression WebhookRoundTripLoadBalancing WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown
WindowsHostNetwork WorkloadWithJob
"""

#: Gates that kube-scheduler does not read: those of the API server, the controllers, the kubelet and kube-proxy.
OF_OTHERS: Final = frozenset(_OTHERS.split())

#: Not features themselves: they set all gates of a stage.
OF_STAGES: Final = frozenset({"AllAlpha", "AllBeta"})


def rows() -> dict[str, Row]:
    """By gate, its effect."""
    return {gate: row for section in SECTIONS for row in section.rows for gate in row.gates}
