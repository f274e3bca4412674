// Also change: internal/trireme/plugin_verification/rpcs.py, tests/helpers/contract_document.py (RPCs of plugins).
// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.ActivateRequest;
import dev.trireme.v1.ActivateResponse;
import dev.trireme.v1.AllowRequest;
import dev.trireme.v1.AllowResponse;
import dev.trireme.v1.BindRequest;
import dev.trireme.v1.BindResponse;
import dev.trireme.v1.ConfigureRequest;
import dev.trireme.v1.ConfigureResponse;
import dev.trireme.v1.FilterDryRunRequest;
import dev.trireme.v1.FilterDryRunResponse;
import dev.trireme.v1.FilterRequest;
import dev.trireme.v1.FilterResponse;
import dev.trireme.v1.GetPluginInfoRequest;
import dev.trireme.v1.GetPluginInfoResponse;
import dev.trireme.v1.GetPluginStatisticsRequest;
import dev.trireme.v1.GetPluginStatisticsResponse;
import dev.trireme.v1.NormalizeScoreRequest;
import dev.trireme.v1.NormalizeScoreResponse;
import dev.trireme.v1.PermitRequest;
import dev.trireme.v1.PermitResponse;
import dev.trireme.v1.PlacementFeasibleRequest;
import dev.trireme.v1.PlacementFeasibleResponse;
import dev.trireme.v1.PostBindRequest;
import dev.trireme.v1.PostBindResponse;
import dev.trireme.v1.PostFilterRequest;
import dev.trireme.v1.PostFilterResponse;
import dev.trireme.v1.PreBindPreFlightRequest;
import dev.trireme.v1.PreBindPreFlightResponse;
import dev.trireme.v1.PreBindRequest;
import dev.trireme.v1.PreBindResponse;
import dev.trireme.v1.PreEnqueueRequest;
import dev.trireme.v1.PreEnqueueResponse;
import dev.trireme.v1.PreFilterRequest;
import dev.trireme.v1.PreFilterResponse;
import dev.trireme.v1.PreScoreRequest;
import dev.trireme.v1.PreScoreResponse;
import dev.trireme.v1.QueueSortRequest;
import dev.trireme.v1.QueueSortResponse;
import dev.trireme.v1.QueueingHintRequest;
import dev.trireme.v1.QueueingHintResponse;
import dev.trireme.v1.RejectRequest;
import dev.trireme.v1.RejectResponse;
import dev.trireme.v1.ReserveRequest;
import dev.trireme.v1.ReserveResponse;
import dev.trireme.v1.ScoreCopiesRequest;
import dev.trireme.v1.ScoreCopiesResponse;
import dev.trireme.v1.ScoreRequest;
import dev.trireme.v1.ScoreResponse;
import dev.trireme.v1.SyncRequest;
import dev.trireme.v1.SyncResponse;
import dev.trireme.v1.UnreserveRequest;
import dev.trireme.v1.UnreserveResponse;

/** The RPCs of the contract that a plugin serves or calls; a plugin's tests call them through gRPC's ClientCalls. */
public final class Rpcs {
  private Rpcs() {}

  /** PluginService.GetPluginInfo. */
  public static final Rpc<GetPluginInfoRequest, GetPluginInfoResponse> GET_PLUGIN_INFO =
      new Rpc<>("PluginService", "GetPluginInfo", GetPluginInfoRequest.getDefaultInstance(), GetPluginInfoResponse.getDefaultInstance());

  /** PluginService.Configure. */
  public static final Rpc<ConfigureRequest, ConfigureResponse> CONFIGURE =
      new Rpc<>("PluginService", "Configure", ConfigureRequest.getDefaultInstance(), ConfigureResponse.getDefaultInstance());

  /** PluginService.GetPluginStatistics. */
  public static final Rpc<GetPluginStatisticsRequest, GetPluginStatisticsResponse> GET_PLUGIN_STATISTICS =
      new Rpc<>("PluginService", "GetPluginStatistics", GetPluginStatisticsRequest.getDefaultInstance(), GetPluginStatisticsResponse.getDefaultInstance());

  /** QueueService.PreEnqueue. */
  public static final Rpc<PreEnqueueRequest, PreEnqueueResponse> PRE_ENQUEUE =
      new Rpc<>("QueueService", "PreEnqueue", PreEnqueueRequest.getDefaultInstance(), PreEnqueueResponse.getDefaultInstance());

  /** QueueService.QueueSort. */
  public static final Rpc<QueueSortRequest, QueueSortResponse> QUEUE_SORT =
      new Rpc<>("QueueService", "QueueSort", QueueSortRequest.getDefaultInstance(), QueueSortResponse.getDefaultInstance());

  /** QueueService.QueueingHint. */
  public static final Rpc<QueueingHintRequest, QueueingHintResponse> QUEUEING_HINT =
      new Rpc<>("QueueService", "QueueingHint", QueueingHintRequest.getDefaultInstance(), QueueingHintResponse.getDefaultInstance());

  /** FilterPlugin.PreFilter. */
  public static final Rpc<PreFilterRequest, PreFilterResponse> PRE_FILTER =
      new Rpc<>("FilterPlugin", "PreFilter", PreFilterRequest.getDefaultInstance(), PreFilterResponse.getDefaultInstance());

  /** FilterPlugin.Filter. */
  public static final Rpc<FilterRequest, FilterResponse> FILTER =
      new Rpc<>("FilterPlugin", "Filter", FilterRequest.getDefaultInstance(), FilterResponse.getDefaultInstance());

  /** FilterPlugin.FilterDryRun. */
  public static final Rpc<FilterDryRunRequest, FilterDryRunResponse> FILTER_DRY_RUN =
      new Rpc<>("FilterPlugin", "FilterDryRun", FilterDryRunRequest.getDefaultInstance(), FilterDryRunResponse.getDefaultInstance());

  /** FilterPlugin.PostFilter. */
  public static final Rpc<PostFilterRequest, PostFilterResponse> POST_FILTER =
      new Rpc<>("FilterPlugin", "PostFilter", PostFilterRequest.getDefaultInstance(), PostFilterResponse.getDefaultInstance());

  /** FilterPlugin.Reserve. */
  public static final Rpc<ReserveRequest, ReserveResponse> RESERVE =
      new Rpc<>("FilterPlugin", "Reserve", ReserveRequest.getDefaultInstance(), ReserveResponse.getDefaultInstance());

  /** FilterPlugin.Unreserve. */
  public static final Rpc<UnreserveRequest, UnreserveResponse> UNRESERVE =
      new Rpc<>("FilterPlugin", "Unreserve", UnreserveRequest.getDefaultInstance(), UnreserveResponse.getDefaultInstance());

  /** ScorePlugin.PreScore. */
  public static final Rpc<PreScoreRequest, PreScoreResponse> PRE_SCORE =
      new Rpc<>("ScorePlugin", "PreScore", PreScoreRequest.getDefaultInstance(), PreScoreResponse.getDefaultInstance());

  /** ScorePlugin.Score. */
  public static final Rpc<ScoreRequest, ScoreResponse> SCORE =
      new Rpc<>("ScorePlugin", "Score", ScoreRequest.getDefaultInstance(), ScoreResponse.getDefaultInstance());

  /** ScorePlugin.ScoreCopies. */
  public static final Rpc<ScoreCopiesRequest, ScoreCopiesResponse> SCORE_COPIES =
      new Rpc<>(SCORE.service(), "ScoreCopies", ScoreCopiesRequest.getDefaultInstance(), ScoreCopiesResponse.getDefaultInstance());

  /** ScorePlugin.NormalizeScore. */
  public static final Rpc<NormalizeScoreRequest, NormalizeScoreResponse> NORMALIZE_SCORE =
      new Rpc<>("ScorePlugin", "NormalizeScore", NormalizeScoreRequest.getDefaultInstance(), NormalizeScoreResponse.getDefaultInstance());

  /** BindPlugin.Permit. */
  public static final Rpc<PermitRequest, PermitResponse> PERMIT =
      new Rpc<>("BindPlugin", "Permit", PermitRequest.getDefaultInstance(), PermitResponse.getDefaultInstance());

  /** BindPlugin.PreBindPreFlight. */
  public static final Rpc<PreBindPreFlightRequest, PreBindPreFlightResponse> PRE_BIND_PRE_FLIGHT =
      new Rpc<>("BindPlugin", "PreBindPreFlight", PreBindPreFlightRequest.getDefaultInstance(), PreBindPreFlightResponse.getDefaultInstance());

  /** BindPlugin.PreBind. */
  public static final Rpc<PreBindRequest, PreBindResponse> PRE_BIND =
      new Rpc<>("BindPlugin", "PreBind", PreBindRequest.getDefaultInstance(), PreBindResponse.getDefaultInstance());

  /** BindPlugin.Bind. */
  public static final Rpc<BindRequest, BindResponse> BIND =
      new Rpc<>("BindPlugin", "Bind", BindRequest.getDefaultInstance(), BindResponse.getDefaultInstance());

  /** BindPlugin.PostBind. */
  public static final Rpc<PostBindRequest, PostBindResponse> POST_BIND =
      new Rpc<>("BindPlugin", "PostBind", PostBindRequest.getDefaultInstance(), PostBindResponse.getDefaultInstance());

  /** PodGroupPlugin.PlacementFeasible. */
  public static final Rpc<PlacementFeasibleRequest, PlacementFeasibleResponse> PLACEMENT_FEASIBLE =
      new Rpc<>("PodGroupPlugin", "PlacementFeasible", PlacementFeasibleRequest.getDefaultInstance(), PlacementFeasibleResponse.getDefaultInstance());

  /** SnapshotFollower.Sync. */
  public static final Rpc<SyncRequest, SyncResponse> SYNC =
      new Rpc<>("SnapshotFollower", "Sync", SyncRequest.getDefaultInstance(), SyncResponse.getDefaultInstance());

  /** HandleService.Allow. */
  public static final Rpc<AllowRequest, AllowResponse> ALLOW =
      new Rpc<>("HandleService", "Allow", AllowRequest.getDefaultInstance(), AllowResponse.getDefaultInstance());

  /** HandleService.Reject. */
  public static final Rpc<RejectRequest, RejectResponse> REJECT =
      new Rpc<>("HandleService", "Reject", RejectRequest.getDefaultInstance(), RejectResponse.getDefaultInstance());

  /** HandleService.Activate. */
  public static final Rpc<ActivateRequest, ActivateResponse> ACTIVATE =
      new Rpc<>("HandleService", "Activate", ActivateRequest.getDefaultInstance(), ActivateResponse.getDefaultInstance());
}
