package peloton.client;

import io.grpc.ManagedChannel;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;

/** A leader, or who was taken for it. */
final class Target {
  private final String address;
  private final ManagedChannel channel;
  private final Refusals refusals;
  private final Set<Runnable> calls = ConcurrentHashMap.newKeySet();
  private final AtomicBoolean seeking = new AtomicBoolean();
  private volatile boolean left;

  Target(String address, ManagedChannel channel, Refusals refusals) {
    this.address = address;
    this.channel = channel;
    this.refusals = refusals;
  }

  String address() {
    return address;
  }

  ManagedChannel channel() {
    return channel;
  }

  Refusals refusals() {
    return refusals;
  }

  /** Returns whether another one is known to lead. */
  boolean isLeft() {
    return left;
  }

  /** Returns this, or, where it was left, a new one with its channel. */
  Target again() {
    return left ? new Target(address, channel, refusals) : this;
  }

  /** Notes a call, with what is done when another one leads. */
  void begin(Runnable leave) {
    calls.add(leave);
    if (left) {
      leave.run();
    }
  }

  /** Notes that a call has ended. */
  void end(Runnable leave) {
    calls.remove(leave);
  }

  /** Ends the calls that may be repeated elsewhere. */
  void leave() {
    left = true;
    List.copyOf(calls).forEach(Runnable::run);
  }

  /** Returns whether calls are under way. */
  boolean isAsked() {
    return !calls.isEmpty();
  }

  /** Returns true for one caller at a time, until {@link #endSeeking}. */
  boolean beginSeeking() {
    return seeking.compareAndSet(false, true);
  }

  void endSeeking() {
    seeking.set(false);
  }
}
