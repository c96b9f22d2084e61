package peloton.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/** Calls the leader of a role, and the next one when it changes. */
final class LeaderChannel extends Channel implements AutoCloseable {
  /** A leader, or who was taken for it. */
  record Target(String address, ManagedChannel channel, Refusals refusals) {}

  private static final long CLOSING_SECONDS = 5;

  private final Role role;
  private final Leaders leaders;
  private final Engine engine;
  private final Duration timeout;
  private final Function<String, Target> dial;
  private final Consumer<Metadata> identify;

  // Guarded by this.
  private CompletableFuture<Target> leader;
  private Target former; // calls to it may be under way
  private String failed = "";
  private boolean closed;

  LeaderChannel(
      Role role,
      Leaders leaders,
      Engine engine,
      Duration timeout,
      Function<String, Target> dial,
      Consumer<Metadata> identify) {
    this.role = role;
    this.leaders = leaders;
    this.engine = engine;
    this.timeout = timeout;
    this.dial = dial;
    this.identify = identify;
  }

  @Override
  public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
    return new LeaderCall<>(this, method, options);
  }

  @Override
  public String authority() {
    return role.daemon();
  }

  Engine engine() {
    return engine;
  }

  Duration timeout() {
    return timeout;
  }

  /** Adds the metadata that a call lacks. */
  void identify(Metadata headers) {
    Metadata own = new Metadata();
    own.put(ClientBuilder.SERVICE, "peloton-" + role.daemon());
    identify.accept(own);
    if (headers.keys().isEmpty()) {
      headers.merge(own);
      return;
    }
    for (String name : own.keys()) {
      Metadata.Key<String> key = Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
      if (!headers.containsKey(key)) {
        headers.put(key, own.get(key));
      }
    }
  }

  /** Returns the leader; calls that wait for it share one look-up. */
  synchronized CompletableFuture<Target> leader() {
    if (closed) {
      return CompletableFuture.failedFuture(PelotonException.closed());
    }
    if (leader == null) {
      CompletableFuture<Target> looking = new CompletableFuture<>();
      leader = looking;
      String before = failed;
      engine.run(() -> look(looking, before));
    }
    return leader;
  }

  private void look(CompletableFuture<Target> looking, String before) {
    try {
      Target found = move(looking, leaders.address(role, before));
      if (!looking.complete(found)) { // outside of the lock: calls go on from here
        found.channel.shutdownNow(); // closed meanwhile
      }
    } catch (RuntimeException e) {
      synchronized (this) {
        leader = leader == looking ? null : leader;
      }
      looking.completeExceptionally(
          e instanceof PelotonException
              ? e
              : PelotonException.failure(Status.Code.INTERNAL, "look-up of " + role + ": " + e, e));
    }
  }

  /** Returns the target at an address, the former one where it is there. */
  private synchronized Target move(CompletableFuture<Target> looking, String address) {
    if (closed || leader != looking) {
      throw PelotonException.closed();
    }
    if (former != null && former.address.equals(address)) {
      Target again = former;
      former = null;
      again.channel.resetConnectBackoff(); // gRPC's own pauses grow to two minutes
      return again;
    }
    return dial.apply(address);
  }

  /**
   * Forgets a leader, unless another one is known already, so that the next call looks it up again.
   */
  @SuppressWarnings("ReferenceEquality") // the same connection, not one like it
  synchronized void invalidate(Target target) {
    if (closed || leader == null || !leader.isDone() || leader.getNow(null) != target) {
      return;
    }
    if (former != null) {
      former.channel.shutdownNow();
    }
    leader = null;
    former = target;
    failed = target.address;
  }

  @Override
  public void close() {
    List<Target> open = new ArrayList<>();
    CompletableFuture<Target> last;
    synchronized (this) {
      closed = true;
      last = leader;
      leader = null;
      if (former != null) {
        open.add(former);
      }
    }
    if (last != null && !last.completeExceptionally(PelotonException.closed())) {
      if (!last.isCompletedExceptionally()) {
        open.add(last.join());
      }
    }
    open.forEach(target -> target.channel.shutdownNow());
    try {
      for (Target target : open) {
        target.channel.awaitTermination(CLOSING_SECONDS, TimeUnit.SECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
