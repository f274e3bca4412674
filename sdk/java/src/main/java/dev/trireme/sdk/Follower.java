// Also change: internal/trireme/rpc/follower.py (which names the other languages' files).
package dev.trireme.sdk;

import dev.trireme.v1.Cycle;
import dev.trireme.v1.Delta;
import dev.trireme.v1.Fence;
import dev.trireme.v1.Hello;
import dev.trireme.v1.SyncRequest;
import dev.trireme.v1.SyncResponse;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Follows the snapshot stream for a plugin with NodeData.SNAPSHOT. A call holds the read lock while the author's method
 * runs, so the cluster does not change under it; a method that takes long delays the stream.
 */
final class Follower {
  /** How long a call waits for its generation, unless its deadline is sooner; milliseconds. */
  private static final long WAIT_MS = 2000;
  /** How long before its deadline a waiting call gives up, so that the answer still arrives; milliseconds. */
  private static final long REPLY_MS = 50;
  /** The delay of an acknowledgement: to acknowledge each delta would cost as much as to apply it. */
  private static final long ACKNOWLEDGE_MS = 100;

  private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
  private final Condition changed = lock.writeLock().newCondition();
  private final ClusterState cluster = new ClusterState();
  private final Fencing.EpochGuard guard = new Fencing.EpochGuard();
  private final Set<Stream> streams = new HashSet<>();
  private final String instance;
  private final ScheduledExecutorService timer;
  private Stream current;
  private Fence leader = Fence.getDefaultInstance();
  /** The leader whose full sync came last: each leader numbers generations from the start. */
  private Fence syncedBy = Fence.getDefaultInstance();

  Follower(String instance, ScheduledExecutorService timer) {
    this.instance = instance;
    this.timer = timer;
  }

  ClusterState cluster() {
    return cluster;
  }

  /** The RPC Sync. */
  StreamObserver<SyncRequest> sync(StreamObserver<SyncResponse> responses) {
    Stream stream = new Stream(responses);
    locked(() -> streams.add(stream));
    return stream;
  }

  /** Ends all streams, as the process stops. */
  void endStreams() {
    List<Stream> all = locked(() -> List.copyOf(streams));
    all.forEach(stream -> stream.end(Refusals.of(Status.UNAVAILABLE, "the process ends")));
  }

  /** Waits until the cluster is what the cycle needs; the lock that is returned holds it as it is until unlocked. */
  Lock await(Cycle cycle) throws InterruptedException {
    Lock write = lock.writeLock();
    write.lock();
    try {
      guard.admitCall(cycle.getFence());
      awaitReached(cycle);
      lock.readLock().lock(); // downgrades: nothing changes in between
      return lock.readLock();
    } finally {
      write.unlock();
    }
  }

  private void awaitReached(Cycle cycle) throws InterruptedException {
    long waits = WAIT_MS;
    Deadline deadline = Context.current().getDeadline();
    if (deadline != null) {
      waits = Math.min(waits, deadline.timeRemaining(TimeUnit.MILLISECONDS) - REPLY_MS);
    }
    long nanoseconds = TimeUnit.MILLISECONDS.toNanos(Math.max(waits, 0));
    while (!hasReached(cycle)) {
      if (nanoseconds <= 0) {
        throw Refusals.of(Status.FAILED_PRECONDITION, "cycle.generation: "
            + Long.toUnsignedString(cycle.getGeneration()) + " is not reached, the cluster is at "
            + Long.toUnsignedString(cluster.generation()));
      }
      nanoseconds = changed.awaitNanos(nanoseconds);
    }
  }

  private boolean hasReached(Cycle cycle) {
    Fence fence = cycle.getFence();
    boolean sameLeader = fence.getEpoch() == syncedBy.getEpoch()
        && fence.getSchedulerId().equals(syncedBy.getSchedulerId());
    return cluster.synced() && sameLeader
        && Long.compareUnsigned(cluster.generation(), cycle.getGeneration()) >= 0;
  }

  private <T> T locked(java.util.function.Supplier<T> step) {
    lock.writeLock().lock();
    try {
      return step.get();
    } finally {
      lock.writeLock().unlock();
    }
  }

  /** One stream. */
  private final class Stream implements StreamObserver<SyncRequest> {
    private final StreamObserver<SyncResponse> responses;
    private boolean acknowledged;
    private boolean scheduled;
    private boolean ended;

    Stream(StreamObserver<SyncResponse> responses) {
      this.responses = responses;
    }

    @Override
    public void onNext(SyncRequest request) {
      try {
        if (locked(() -> take(request))) {
          scheduleAcknowledgement();
        }
      } catch (StatusRuntimeException error) {
        end(error);
      }
    }

    @Override
    public void onError(Throwable error) {
      forget();
    }

    @Override
    public void onCompleted() {
      forget();
      synchronized (this) {
        if (!ended) {
          ended = true;
          responses.onCompleted();
        }
      }
    }

    private void forget() {
      locked(() -> {
        streams.remove(this);
        if (current == this) {
          current = null;
        }
        return null;
      });
    }

    /** Takes one message; whether it is to be acknowledged. */
    private boolean take(SyncRequest request) {
      if (request.hasHello()) {
        accept(request.getHello());
        return false;
      }
      if (current != this) {
        throw Refusals.of(Status.INVALID_ARGUMENT, "message: a stream begins with hello");
      }
      // A newer frontend may send messages of a kind that is unknown here.
      if (!request.hasDelta()) {
        return false;
      }
      apply(request.getDelta());
      return cluster.synced();
    }

    private void accept(Hello hello) {
      guard.admit(hello.getFence());
      Stream replaced = current;
      current = this;
      leader = hello.getFence();
      Log.info("following a scheduler", "scheduler", leader.getSchedulerId(),
          "epoch", Long.toUnsignedString(leader.getEpoch()));
      if (replaced != null && replaced != this) {
        replaced.end(Refusals.of(Status.ABORTED, "another stream has replaced this one"));
      }
    }

    private void apply(Delta delta) {
      try {
        cluster.apply(delta);
      } catch (ClusterState.OutOfStep error) {
        throw Refusals.of(Status.FAILED_PRECONDITION, "delta: " + error.getMessage());
      }
      if (cluster.synced()) {
        syncedBy = leader;
      }
      changed.signalAll();
    }

    private synchronized void scheduleAcknowledgement() {
      if (scheduled || ended) {
        return;
      }
      scheduled = true;
      timer.schedule(this::acknowledge, acknowledged ? ACKNOWLEDGE_MS : 0, TimeUnit.MILLISECONDS);
    }

    private void acknowledge() {
      SyncResponse response = locked(() -> {
        if (current != this || !cluster.synced()) {
          return null;
        }
        return SyncResponse.newBuilder()
            .setAppliedGeneration(cluster.generation()).setInstance(instance).build();
      });
      synchronized (this) {
        scheduled = false;
        if (response != null && !ended) {
          acknowledged = true;
          responses.onNext(response);
        }
      }
    }

    private void end(StatusRuntimeException error) {
      forget();
      synchronized (this) {
        if (!ended) {
          ended = true;
          responses.onError(error);
        }
      }
    }
  }
}
