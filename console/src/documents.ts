// Also change: protos/trireme/v1/shortage.proto (the messages).
// Also change: protos/trireme/v1/decision_explanation.proto (the messages).
// Also change: protos/trireme/v1/insight.proto (the messages).
// Also change: console/src/recording.tsx, internal/trireme/recording/frame_times.py (causes of gaps).
// Also change: console/src/views/decision.tsx, internal/trireme/cli/decision_display.py (how a decision is shown).
// Also change: console/src/views/pod.tsx, internal/trireme/cli/explain_command.py (what is shown of an explanation).
// Also change: console/src/views/simulation.tsx, internal/trireme/insight/http_api/simulation_page.py,
// internal/trireme/cli/simulation_display.py (what a simulation is asked and answers).
// Also change: internal/trireme/insight/console/documents.py,
// internal/trireme/insight/console/node_documents.py (the fields of documents).
// The documents of insight's HTTP API, as far as the page reads them. Times are milliseconds since 1970.

export interface QueueCounts {
  active: number;
  backoff: number;
  unschedulable: number;
  gated: number;
  inFlight: number;
  binding: number;
  waitingOnPermit: number;
}

export interface Latency {
  count: number;
  p50Seconds: number | null;
  p99Seconds: number | null;
}

export interface Series {
  atMs: number[];
  bound: number[];
  unschedulable: number[];
  errors: number[];
  active: number[];
  backoff: number[];
  waiting: number[];
  gated: number[];
}

export interface Overview {
  atMs: number;
  nowMs: number;
  instance: string;
  disconnectedMs: number;
  version: string;
  leader: string;
  lease: string;
  reportsScheduler: boolean;
  cluster: { nodes: number; pods: number; queued: number; generation: number };
  queue: QueueCounts;
  bound: { total: number; perSecond: number };
  attempts: { unschedulable: number; errors: number };
  attemptLatency: Latency;
  podLatency: Latency;
  replicas: { total: number; inStep: number };
  plugins: { total: number; ok: number };
  missingPhases: string[];
  series: Series;
  // Whether the reader may look at what was recorded.
  recorded: boolean;
  // Where what happens now is to be recorded and is not. The error is for readers who may see all.
  recordingFailure?: { sinceMs: number; error: string } | null;
  // Where it is as of a moment of a recording.
  recording?: Recording;
}

// A span of time in which what is shown may not be what was.
export interface RecordingGap {
  fromMs: number;
  toMs: number;
  reason: "notRecorded" | "noStream" | "clockSetBack";
}

export interface Recording {
  file: string;
  fromMs: number;
  toMs: number;
  atMs: number;
  // Whether there is a state of now as well.
  live: boolean;
  // All, in an overview those that its moment is in.
  gaps: RecordingGap[];
}

export interface WaitReason {
  id: string;
  plugins: string[];
  text: string;
  state: string;
  pods: number;
  states: Record<string, number>;
  oldestMs: number;
  mostAttempts: number;
  example: { namespace: string; name: string } | null;
}

export interface Pending {
  total: number;
  reasons: WaitReason[];
}

export interface PendingPod {
  namespace: string;
  name: string;
  state: string;
  attempts: number;
  sinceMs: number;
  backoffUntilMs: number;
  profile: string;
  podGroup: string;
}

export interface PodsOfReason {
  total: number;
  pods: PendingPod[];
}

export interface FoundPods {
  pods: { namespace: string; name: string; state: string }[];
  truncated: boolean;
}

export interface Taint {
  key: string;
  value: string;
  effect: string;
}

export interface ResourceColumns {
  name: string;
  allocatable: number[];
  requested: number[];
}

export interface NodeColumns {
  incarnation: number;
  generation: number;
  whole: boolean;
  gone: number[];
  label: string;
  labelKeys: string[];
  slot: number[];
  name: string[];
  value: string[];
  unschedulable: number[];
  taintSets: Taint[][];
  taints: number[];
  podCount: number[];
  allowedPods: number[];
  resources: ResourceColumns[];
}

export interface PodOnNode {
  namespace: string;
  name: string;
  priority: number;
  cpu: number;
  memory: number;
  startedMs: number;
  terminating: boolean;
  preempted: boolean;
}

export interface NodeDocument {
  name: string;
  labels: Record<string, string>;
  taints: Taint[];
  unschedulable: boolean;
  podCount: number;
  allowedPods: number;
  resources: { name: string; allocatable: number; requested: number }[];
  pods: PodOnNode[] | null;
}

export interface Group {
  namespace: string;
  name: string;
  exists: boolean;
  policy: string;
  needs: number | null;
  parent: string;
  placed: number;
  queued: Record<string, number>;
  conditions: { type: string; status: string; reason: string; message: string }[];
}

export interface Preemption {
  number: number;
  atMs: number;
  preemptor: string;
  priority: number;
  node: string;
  victimCount: number;
  victims: { pod: string; node: string }[];
}

export interface Preemptions {
  evicting: number;
  nominated: number;
  preemptions: Preemption[];
}

export interface Replica {
  phase: string;
  address: string;
  inStep: boolean;
  behind: number;
  backlogBytes: number;
  fullSyncs: number;
  callsInFlight: number;
  lastError: string;
  standsIn: boolean;
}

export interface Plugin {
  name: string;
  address: string;
  version: string;
  failurePolicy: string;
  breaker: string;
  calls: number;
  failedCalls: number;
  p99Seconds: number | null;
  health: string;
  problem: string;
}

export interface Components {
  reportsScheduler: boolean;
  version: string;
  leader: string;
  lease: string;
  generation: number;
  missingPhases: string[];
  replicas: Replica[];
  plugins: Plugin[];
}

export interface Timeline {
  node: string | null;
  known: boolean;
  attempts: number;
  queuedSinceMs: number;
  leftQueueAtMs: number | null;
  entries: { atMs: number; state: string; cause: string }[];
}

// The answer of the RPC Explain, in protobuf's JSON mapping: 64-bit numbers are strings.

export interface RefusalStatus {
  plugin: string;
  code: string;
  messages: string[];
  reasons: { code: string; parameters: Record<string, string> }[];
}

export interface Quantity {
  string: string;
}

export interface Proposal {
  tolerateTaints?: { taints: { key: string; value: string; effect: string }[] };
  lowerRequest?: { container: string; resource: string; current: Quantity; proposed: Quantity };
  dropConstraint?: { field: string };
  labelNode?: { nodeName: string; labels: Record<string, string> };
  addNode?: { likeNode: string };
  deletePods?: { nodeName: string; pods: { namespace: string; name: string }[]; budgetViolations: number };
  feasibleCount: number;
  exampleNodes: string[];
}

export interface PreemptionPod {
  pod: { namespace: string; name: string };
  priority: number;
  reason: string;
  nodeName: string;
}

export interface PodPreemption {
  podGroup: string;
  placements: { pod: { namespace: string; name: string }; nodeName: string }[];
  reason: string;
  nodeName: string;
  victims: PreemptionPod[];
  spared: PreemptionPod[];
  candidates: { name: string }[];
  candidateCount: number;
  decidedBy: string;
  unresolvableCount: number;
  withoutVictimsCount: number;
  notEnoughCount: number;
}

export interface Explanation {
  queuedPod?: {
    pod: { namespace: string; name: string };
    profile: string;
    state: string;
    attempts: number;
    plugins: string[];
    backoffUntilMs: string;
    podGroup: string;
    reason: string;
  };
  nodeName: string;
  evaluatedGeneration: string;
  disconnectedMs: string;
  nodeCount: number;
  feasibleCount: number;
  // Where an answer of a remote plugin is not known.
  feasibleAtMost: boolean;
  preFilter?: RefusalStatus;
  refusals: { status: RefusalStatus; nodes: string[]; nodeCount: number; shortages: Shortage[] }[];
  feasibleNodes: { name: string; total: string; scores: string[] }[];
  scorePlugins: { name: string; weight: number; skipped: boolean }[];
  scoreFailure?: RefusalStatus;
  proposals: Proposal[];
  proposalSearchLimits: { kind: string; tried: number; candidates: number }[];
  preemption?: PodPreemption;
}

// A resource that the pod requests more of than is free, on the node with the most of it.
export interface Shortage {
  resource: string;
  requested: { string: string };
  nodeName: string;
  free: { string: string };
  allocatable: { string: string };
  users: { pod: PodName; used: { string: string }; nominated: boolean }[];
  moreUsers: number;
}

// The answer of the RPC ExplainDecision.
export interface Decision {
  nodeName: string;
  kind: string;
  decidedUnixMs: string;
  inexact: boolean;
  differs: boolean;
  notKnown: string[];
  nodeCount: number;
  feasibleCount: number;
  // Where an answer of a remote plugin is not known.
  feasibleAtMost: boolean;
  refusals: { status: RefusalStatus; nodes: string[]; nodeCount: number }[];
  scorePlugins: { name: string; weight: number; skipped: boolean }[];
  feasibleNodes: { name: string; total: string; scores: string[] }[];
  margin: string;
  tiedCount: number;
  batchSize: number;
  batchBefore: { pod: { namespace: string; name: string }; nodeName: string }[];
  preemption?: { victims: { pod: { namespace: string; name: string } }[] };
  steps: { name: string; durationUs: string }[];
  longestStep: string;
}

// The answer of the RPC Simulate, as far as the page reads it.
interface PodName {
  namespace: string;
  name: string;
}

export interface Simulated {
  placements: { pod: PodName; nodeName: string }[];
  pending: { pods: PodName[]; message: string }[];
  evictions: { pod: PodName; nodeName: string }[];
  blocked: { pod: PodName; nodeName: string }[];
  before: { usedNodes: number };
  after: { usedNodes: number };
  notSimulated: string[];
}
