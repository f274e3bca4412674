// Also change: internal/trireme/sdk/invoker.py (which names the other languages' files).
package dev.trireme.sdk;

import com.google.gson.JsonElement;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.trireme.v1.Code;
import dev.trireme.v1.Cycle;
import dev.trireme.v1.NodeSelection;
import io.grpc.Context;
import io.grpc.ServerCallHandler;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.function.Consumer;

/**
 * Calls a plugin's methods for RPCs: with its limit of concurrent calls, its configuration, and fencing.
 *
 * <p>Whatever a method throws or returns, the caller gets a message of the contract or a gRPC error that names plugin
 * and method, and the process goes on.
 */
final class Invoker {
  /** The RPCs of methods that are named otherwise. */
  private static final Map<String, String> RPCS =
      Map.of(
          "sortKey", "QueueSort", "filterNodes", "Filter", "scoreNodes", "Score", "normalizeScores", "NormalizeScore");

  /** How often a call that waits for its turn looks whether its caller is still there; milliseconds. */
  private static final long TURN_POLL_MS = 20;

  final Configurations configurations = new Configurations();
  final String instance = UUID.randomUUID().toString().replace("-", "");
  /** Follows the cluster; null unless the plugin's node data is SNAPSHOT. */
  final Follower follower;
  private final Plugin plugin;
  private final String name;
  private final Metrics metrics;
  private final Fencing.SchedulerEpochs epochs = new Fencing.SchedulerEpochs();
  private final Semaphore turns;

  /** The answer to an RPC. */
  interface Answer<I, O> {
    O answer(I request) throws Exception;
  }

  /** The answers to an RPC, each handed on at once. */
  interface Answers<I, O> {
    void answer(I request, Consumer<O> responses) throws Exception;
  }

  /** What is done with the call of a cycle. */
  interface Body<T> {
    T run(Call call) throws Exception;
  }

  Invoker(Plugin plugin, Metrics metrics, ScheduledExecutorService timer) {
    this.plugin = plugin;
    this.metrics = metrics;
    Info info = plugin.info();
    name = info.name();
    turns = info.maxConcurrentCalls() > 0 ? new Semaphore(info.maxConcurrentCalls(), true) : null;
    follower = info.nodeData() == NodeData.SNAPSHOT ? new Follower(instance, timer) : null;
  }

  String name() {
    return name;
  }

  Plugin plugin() {
    return plugin;
  }

  /** The plugin as one that has the extension point. Throws UNIMPLEMENTED if it has not. */
  <P extends Plugin> P as(Class<P> point) {
    if (!point.isInstance(plugin)) {
      String method = Character.toLowerCase(point.getSimpleName().charAt(0)) + point.getSimpleName().substring(1);
      throw Refusals.of(Status.UNIMPLEMENTED, "plugin " + name + " has no " + method);
    }
    return point.cast(plugin);
  }

  /** The handler of an RPC with one answer. */
  <I extends Message, O extends Message> ServerCallHandler<I, O> unary(Rpc<I, O> rpc, Answer<I, O> answer) {
    return ServerCalls.asyncUnaryCall((request, observer) -> run(rpc, observer, () -> {
      observer.onNext(answer.answer(request));
      return null;
    }));
  }

  /** The handler of an RPC with a stream of answers. */
  <I extends Message, O extends Message> ServerCallHandler<I, O> streaming(Rpc<I, O> rpc, Answers<I, O> answers) {
    return ServerCalls.asyncServerStreamingCall((request, observer) -> run(rpc, observer, () -> {
      answers.answer(request, observer::onNext);
      return null;
    }));
  }

  /** Runs the body with the call of a cycle; with SNAPSHOT the cluster does not change meanwhile. */
  <T> T withCall(Cycle cycle, int count, Body<T> body) throws Exception {
    epochs.admit(cycle.getFence());
    requireConfiguration(cycle.getConfigHash());
    Lock held = follower == null ? null : follower.await(cycle);
    try {
      return body.run(new Call(
          cycle.getPod(),
          cycle.getProfile(),
          Math.max(count, 1),
          configurations.get(cycle.getConfigHash(), cycle.getProfile()),
          stateReader(cycle.getState()),
          List.of(),
          List.of(),
          follower == null ? null : follower.cluster(),
          Context.current()));
    } finally {
      if (held != null) {
        held.unlock();
      }
    }
  }

  /** Throws if the plugin takes arguments and does not have this configuration; the caller then sends it. */
  void requireConfiguration(long hash) {
    if (plugin instanceof Plugin.Configurable && !configurations.has(hash)) {
      throw Refusals.configMismatch(name);
    }
  }

  /** The nodes of a call: in the request, or by slot where the plugin follows the cluster. */
  List<Node> nodesOf(NodeSelection selection) {
    if (follower == null) {
      return selection.getNodesList().stream().map(Node::of).toList();
    }
    return selection.getSlotsList().stream().map(slot -> Node.at(slot, follower.cluster())).toList();
  }

  /** Calls an author's method; an exception becomes a gRPC error that names plugin and method. */
  <T> T call(String method, Callable<T> step) {
    try {
      return step.call();
    } catch (Throwable error) {
      throw describe(method, error);
    }
  }

  /** Another code that a status may have than that of success, a refusal or an error. */
  static final String SKIP = "Status.SKIP, ";

  /** The message of a status that a method returned; `also` is SKIP where the method may skip. */
  dev.trireme.v1.Status statusMessage(dev.trireme.sdk.Status status, String also) {
    if (status == null || (status.code() == Code.CODE_SKIP && !also.equals(SKIP))) {
      String shown = status == null ? "null" : "Status.SKIP";
      throw new InvalidResult("returned " + shown + ": must be Status.SUCCESS, " + also + "a refusal or an error");
    }
    return status.toMessage(name);
  }

  /** The result, where it must not be null. */
  static <T> T required(T result, String expected) {
    if (result == null) {
      throw new InvalidResult("returned null: must be " + expected);
    }
    return result;
  }

  /** The bytes of a method's state; null is none. */
  ByteString encode(Object state) {
    return state == null ? ByteString.EMPTY : plugin.stateCodec().encode(state);
  }

  BindItem item(dev.trireme.v1.BindItem message) {
    return new BindItem(message, plugin.stateCodec());
  }

  /** Decodes JSON of a request; null where there is none. */
  static JsonElement parse(String field, ByteString json) {
    try {
      return json.isEmpty() ? null : JsonParser.parseString(json.toStringUtf8());
    } catch (JsonParseException error) {
      throw Refusals.of(Status.INVALID_ARGUMENT, field + ": " + error.getMessage());
    }
  }

  private Call.StateReader stateReader(ByteString state) {
    StateCodec codec = plugin.stateCodec();
    return new Call.StateReader() {
      @Override
      public <T> T read(Class<T> type) {
        return state.isEmpty() ? null : codec.decode(state, type);
      }
    };
  }

  private <O> void run(Rpc<?, ?> rpc, StreamObserver<O> observer, Callable<Void> body) {
    long started = System.nanoTime();
    metrics.begin();
    StatusRuntimeException failure = null;
    try {
      runInTurn(body);
    } catch (Throwable error) {
      failure = describe("the SDK", error);
    }
    Status.Code code = failure == null ? Status.Code.OK : failure.getStatus().getCode();
    metrics.end(rpc.name(), code, System.nanoTime() - started);
    if (failure != null) {
      observer.onError(failure);
    } else if (!Context.current().isCancelled()) {
      observer.onCompleted();
    }
  }

  private void runInTurn(Callable<Void> body) throws Exception {
    if (turns == null) {
      body.call();
      return;
    }
    while (!turns.tryAcquire(TURN_POLL_MS, TimeUnit.MILLISECONDS)) {
      if (Context.current().isCancelled()) {
        throw Refusals.of(Status.CANCELLED, "the caller has given up");
      }
    }
    try {
      body.call();
    } finally {
      turns.release();
    }
  }

  private StatusRuntimeException describe(String method, Throwable error) {
    if (error instanceof StatusRuntimeException known) {
      return known;
    }
    String where = method;
    Throwable cause = error;
    if (error instanceof Calls.NodeFailure failure) {
      if (failure.getCause() instanceof StatusRuntimeException known) {
        return known;
      }
      where = failure.getMessage() + " for node " + failure.node;
      cause = failure.getCause();
    }
    if (cause instanceof InvalidResult) {
      where = RPCS.getOrDefault(method, Character.toUpperCase(method.charAt(0)) + method.substring(1)) + ": " + where;
    }
    String text = cause instanceof InvalidResult ? cause.getMessage() : cause.toString();
    String message = "plugin " + name + ": " + where + ": " + text;
    // The place in the SDK does not explain a wrong result.
    Log.error(message, cause instanceof InvalidResult ? null : cause);
    return Refusals.of(Status.INTERNAL, message);
  }
}
