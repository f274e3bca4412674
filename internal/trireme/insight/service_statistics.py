"""The numbers of an insight process. Each is a metric, named by its field, whose metadata has the help."""

from dataclasses import dataclass, field

from trireme.insight import recorder


@dataclass(frozen=True, slots=True)
class ServiceStatistics(recorder.RecorderStatistics):
    """What the service has done, what it knows, what it recorded, and what it decided again."""

    explained: int = field(metadata={"help": "Pods explained.", "total": True})
    remembered_decisions: int = field(metadata={"help": "Pods whose placement can be explained."})
    remembered_clusters: int = field(metadata={"help": "Copies of the cluster for explanations of past decisions."})
    memory_bytes: int = field(metadata={"help": "Memory of these copies and what follows them, in bytes, roughly."})
    simulated: int = field(metadata={"help": "Simulations answered.", "total": True})
    queued_pods: int = field(metadata={"help": "Pods in the queue, as far as the frontend has reported them."})
    classes: int = field(metadata={"help": "Pod classes whose answers are cached."})
    column_bytes: int = field(metadata={"help": "Memory of the cached answers and scores, in bytes."})
    self_checked_decisions: int = field(metadata={"help": "Recorded decisions made again to compare.", "total": True})
    self_check_failures: int = field(
        metadata={"help": "Samples of decisions that could not be made again.", "total": True}
    )
    self_check_cpu_seconds: float = field(
        metadata={"help": "Processor time of making recorded decisions again, in seconds.", "total": True}
    )
