package peloton.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;

/** Calls the leader of a role, and the next one when it changes. */
final class LeaderChannel extends Channel implements AutoCloseable {
  private static final long CLOSING_SECONDS = 5;

  /** How long a call may be without an answer before the other addresses are asked who leads. */
  private static final long DOUBT_NANOS = TimeUnit.MILLISECONDS.toNanos(400);

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
  private boolean watched;
  private String announced = ""; // by the election
  private final Map<String, Target> probed = new HashMap<>();
  private boolean closed;

  private final Set<Engine.Alarm> pausing = ConcurrentHashMap.newKeySet();

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
        found.channel().shutdownNow(); // closed meanwhile, or another one leads
      }
      follow();
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

  private void follow() {
    synchronized (this) {
      if (closed || watched) {
        return;
      }
      watched = true;
    }
    leaders.watch(role, this::told);
  }

  /** Returns the target at an address, the former one where it is there. */
  private synchronized Target move(CompletableFuture<Target> looking, String address) {
    if (closed || leader != looking) {
      throw PelotonException.closed();
    }
    return at(address);
  }

  private Target at(String address) {
    if (former != null && former.address().equals(address)) {
      Target again = former.again();
      former = null;
      again.channel().resetConnectBackoff(); // gRPC's own pauses grow to two minutes
      return again;
    }
    return dial.apply(address);
  }

  /**
   * Takes what an election says: who leads now, empty while nobody does. New calls go there. Those
   * under way elsewhere that may be repeated end, as soon as there is another leader.
   */
  void told(String address) {
    CompletableFuture<Target> next;
    Target found = null;
    Target left = null;
    synchronized (this) {
      Target current = current();
      boolean there = current != null && current.address().equals(address);
      if (closed || (address.equals(announced) && (address.isEmpty() || there))) {
        return;
      }
      announced = address;
      if (current != null && !there) {
        setAside(current);
      }
      if (address.isEmpty()) {
        return;
      }
      if (former != null && !former.address().equals(address)) {
        left = former;
      }
      leader = leader == null ? new CompletableFuture<>() : leader;
      next = leader;
      if (!there) {
        found = at(address);
      }
    }
    if (found != null && !next.complete(found)) { // a look-up was quicker
      found.channel().shutdownNow();
    }
    if (left != null) {
      left.leave();
    }
    pausing.forEach(Engine.Alarm::ring);
  }

  private Target current() {
    return leader == null || leader.isCompletedExceptionally() ? null : leader.getNow(null);
  }

  private void setAside(Target target) {
    if (former != null) {
      former.leave();
      former.channel().shutdownNow();
    }
    leader = null;
    former = target;
    failed = target.address();
  }

  /** Goes on with a call after a pause, or at once when a new leader is known. */
  void later(long nanos, Runnable begin) {
    Engine.Alarm alarm = engine.after(nanos, begin);
    pausing.removeIf(each -> !each.isWaiting());
    pausing.add(alarm);
  }

  /** Seeks the leader elsewhere while a call is without an answer; null where it needs not be. */
  Engine.Alarm doubt(Target target) {
    List<String> others = leaders.others(target.address());
    return others.isEmpty() ? null : engine.after(DOUBT_NANOS, () -> begin(target, others));
  }

  private void begin(Target target, List<String> others) {
    if (target.beginSeeking()) {
      seek(target, others);
    }
  }

  private void seek(Target target, List<String> others) {
    if (isDoubted(target)) {
      String found = ask(target, others);
      if (found.isEmpty()) {
        engine.after(DOUBT_NANOS, () -> seek(target, others));
        return;
      }
      told(found);
    }
    target.endSeeking();
  }

  private synchronized boolean isDoubted(Target target) {
    boolean doubted = !closed && current() == target && target.isAsked();
    if (doubted) {
      announced = target.address();
    }
    return doubted;
  }

  /** Returns an address that says that it leads, while the target does not; empty if none does. */
  private String ask(Target target, List<String> others) {
    Probe still = probe(target);
    Map<String, Probe> probes = new LinkedHashMap<>();
    for (String address : others) {
      Target other = probed(address);
      if (other != null) {
        probes.put(address, probe(other));
      }
    }
    for (Map.Entry<String, Probe> each : probes.entrySet()) {
      if (each.getValue().leads()) {
        return still.leads() ? "" : each.getKey();
      }
    }
    return "";
  }

  private Probe probe(Target target) {
    Metadata headers = new Metadata();
    identify(headers);
    return new Probe(target.channel(), headers, role.service());
  }

  private synchronized Target probed(String address) {
    return closed ? null : probed.computeIfAbsent(address, dial);
  }

  /**
   * Forgets a leader, unless another one is known already, so that the next call looks it up again.
   */
  @SuppressWarnings("ReferenceEquality") // the same connection, not one like it
  synchronized void invalidate(Target target) {
    if (!closed && current() == target) {
      setAside(target);
    }
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
      open.addAll(probed.values());
      probed.clear();
    }
    if (last != null && !last.completeExceptionally(PelotonException.closed())) {
      if (!last.isCompletedExceptionally()) {
        open.add(last.join());
      }
    }
    open.forEach(target -> target.channel().shutdownNow());
    try {
      for (Target target : open) {
        target.channel().awaitTermination(CLOSING_SECONDS, TimeUnit.SECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
