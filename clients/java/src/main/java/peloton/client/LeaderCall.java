package peloton.client;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ClientStreamTracer;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/**
 * A call of one request to the leader. One of one answer is made again where that is safe, before
 * its deadline; a stream ends with its connection.
 */
final class LeaderCall<Q, A> extends ClientCall<Q, A> {
  /** The key of the trailing metadata of a call that was refused before it began. */
  private static final Metadata.Key<String> NOT_BEGUN =
      Metadata.Key.of("peloton-not-begun", Metadata.ASCII_STRING_MARSHALLER);

  /** The key of the metadata of a call whose earlier try may have been carried out. */
  private static final Metadata.Key<String> REPEATED =
      Metadata.Key.of("peloton-repeated", Metadata.ASCII_STRING_MARSHALLER);

  private final LeaderChannel leaders;
  private final MethodDescriptor<Q, A> method;
  private final boolean unary;
  private final Context context = Context.current();
  private final CallOptions options;
  private final Deadline deadline;
  private Listener<A> listener;
  private Metadata headers;
  private Q request;

  // Guarded by this.
  private ClientCall<Q, A> inner;
  private int requested;
  private boolean cancelled;
  private boolean done;
  private int tries;
  private boolean lost; // an earlier try may have been carried out
  private Calls.Pauses pauses = new Calls.Pauses();
  private PelotonException last;

  LeaderCall(LeaderChannel leaders, MethodDescriptor<Q, A> method, CallOptions options) {
    this.leaders = leaders;
    this.method = method;
    unary = method.getType() == MethodDescriptor.MethodType.UNARY;
    deadline = deadline(options);
    this.options = deadline == null ? options : options.withDeadline(deadline);
  }

  private Deadline deadline(CallOptions given) {
    Deadline first = given.getDeadline();
    Deadline around = context.getDeadline();
    if (first == null || (around != null && around.isBefore(first))) {
      first = around;
    }
    if (first == null && unary && !leaders.timeout().isZero()) {
      return Deadline.after(leaders.timeout().toNanos(), TimeUnit.NANOSECONDS);
    }
    return first;
  }

  @Override
  public void start(Listener<A> to, Metadata with) {
    listener = to;
    headers = with;
  }

  @Override
  public void sendMessage(Q message) {
    request = message;
  }

  @Override
  public void halfClose() {
    begin();
  }

  @Override
  public void request(int count) {
    ClientCall<Q, A> to;
    synchronized (this) {
      requested += count;
      to = inner;
    }
    if (to != null && !unary) {
      to.request(count);
    }
  }

  @Override
  public void cancel(String message, Throwable cause) {
    ClientCall<Q, A> to;
    synchronized (this) {
      cancelled = true;
      to = inner;
    }
    if (to != null) {
      to.cancel(message, cause);
    } else {
      finish(PelotonException.failure(Status.Code.CANCELLED, message, cause));
    }
  }

  private void begin() {
    var leader = leaders.leader();
    Engine.Alarm alarm =
        deadline == null || leader.isDone()
            ? null
            : leaders
                .engine()
                .after(
                    deadline.timeRemaining(TimeUnit.NANOSECONDS),
                    () -> finish(expired("the look-up of the leader takes longer")));
    var unused =
        leader.whenComplete(
            (target, thrown) -> {
              if (alarm != null) {
                alarm.cancel();
              }
              if (thrown == null) {
                attempt(target);
                return;
              }
              PelotonException failure = PelotonException.of(thrown);
              if (failure.code() == Status.Code.UNAVAILABLE) {
                retry(failure, false);
              } else {
                finish(failure);
              }
            });
  }

  private void attempt(Target target) {
    Metadata sent = new Metadata();
    sent.merge(headers);
    try {
      leaders.identify(sent);
    } catch (RuntimeException e) {
      finish(PelotonException.failure(Status.Code.UNAUTHENTICATED, "no token: " + e, e));
      return;
    }
    Sent note = new Sent();
    Attempt attempt = new Attempt(target, note);
    Context before = context.attach();
    try {
      synchronized (this) {
        if (done || cancelled) {
          return;
        }
        tries++;
        if (lost) {
          sent.put(REPEATED, "1");
        }
        inner = target.channel().newCall(method, options.withStreamTracerFactory(note));
        inner.start(attempt, sent);
        inner.request(unary ? 2 : requested);
        inner.sendMessage(request);
        inner.halfClose();
        attempt.of(inner);
      }
      attempt.begin();
    } finally {
      context.detach(before);
    }
  }

  /** Makes the call again, without a pause where another leader is known. */
  private void retry(PelotonException failure, boolean known) {
    synchronized (this) {
      pauses = known ? new Calls.Pauses() : pauses;
      long pause = known ? 0 : pauses.next();
      if (!cancelled
          && (deadline == null || deadline.timeRemaining(TimeUnit.NANOSECONDS) > pause)) {
        last = failure;
        inner = null;
        leaders.later(pause, this::begin);
        return;
      }
    }
    finish(failure);
  }

  private PelotonException expired(String reason) {
    synchronized (this) {
      String text =
          last == null ? reason : "tries: " + tries + "; the one before: " + last.reason();
      return PelotonException.expired(
          method.getFullMethodName(), "no answer before the deadline: " + text, last);
    }
  }

  /** Ends the call from a thread that is not the caller's. */
  private void finish(PelotonException failure) {
    synchronized (this) {
      if (done) {
        return;
      }
      done = true;
    }
    Executor own = options.getExecutor();
    Runnable tell = () -> close(failure, new Metadata());
    if (own != null) {
      own.execute(tell);
    } else {
      leaders.engine().run(tell);
    }
  }

  private void close(PelotonException failure, Metadata trailers) {
    Status status = Status.fromCode(failure.code()).withDescription(failure.reason());
    listener.onClose(status.withCause(failure), trailers);
  }

  /** One try. gRPC calls the listener on the caller's executor. */
  private final class Attempt extends Listener<A> {
    private final Target target;
    private final Sent sent;
    private final Runnable leave = this::leave;
    private ClientCall<Q, A> call;
    private Engine.Alarm doubt;
    private boolean ended; // guarded by this
    private Metadata received;
    private A answer;

    Attempt(Target target, Sent sent) {
      this.target = target;
      this.sent = sent;
    }

    void of(ClientCall<Q, A> made) {
      call = made;
    }

    void begin() {
      synchronized (this) {
        if (ended) {
          return;
        }
        doubt = unary ? leaders.doubt(target) : null;
      }
      target.begin(leave);
      synchronized (this) {
        if (ended) {
          target.end(leave);
        }
      }
    }

    private void end() {
      synchronized (this) {
        ended = true;
        if (doubt != null) {
          doubt.cancel();
        }
      }
      target.end(leave);
    }

    /**
     * Ends the try where it may be made again at another leader; a stream is opened again there.
     */
    private void leave() {
      if (!unary || !sent.headers || Calls.repeatable(method.getFullMethodName(), request)) {
        call.cancel(target.address() + " does not lead any more", null);
      }
    }

    @Override
    public void onReady() {
      if (!unary) {
        listener.onReady();
      }
    }

    @Override
    public void onHeaders(Metadata with) {
      if (unary) {
        received = with;
      } else {
        listener.onHeaders(with);
      }
    }

    @Override
    public void onMessage(A message) {
      if (unary) {
        answer = message;
      } else {
        listener.onMessage(message);
      }
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      end();
      if (!status.isOk()) {
        failed(status, trailers);
        return;
      }
      synchronized (LeaderCall.this) {
        done = true;
      }
      if (received != null) {
        listener.onHeaders(received);
      }
      if (answer != null) {
        listener.onMessage(answer);
      }
      listener.onClose(status, trailers);
    }

    private void failed(Status told, Metadata trailers) {
      Status status = lost(told);
      if (status.getCode() == Status.Code.UNAVAILABLE) {
        status = judged(status);
      }
      if (status.getCode() == Status.Code.CANCELLED && target.isLeft() && !isCancelled()) {
        status = Status.UNAVAILABLE.withDescription(target.address() + " does not lead any more");
      }
      boolean expired = deadline != null && deadline.isExpired();
      boolean gone = !expired && serverGone(status.getCode());
      if (gone || expired) {
        leaders.invalidate(target);
      }
      PelotonException failure =
          expired && status.getCode() == Status.Code.DEADLINE_EXCEEDED
              ? expired(status.getDescription())
              : PelotonException.of(method.getFullMethodName(), status, null);
      boolean begun = sent.headers && !trailers.containsKey(NOT_BEGUN);
      if (unary && gone && (!begun || Calls.repeatable(method.getFullMethodName(), request))) {
        synchronized (LeaderCall.this) {
          lost |= begun;
        }
        retry(failure, target.isLeft());
        return;
      }
      synchronized (LeaderCall.this) {
        done = true;
      }
      close(failure, trailers);
    }

    private Status judged(Status status) {
      Status judged = target.refusals().judged(status);
      if (judged.getCode() == Status.Code.UNAUTHENTICATED) {
        // Who mends a certificate does not wait for gRPC's own pauses, which grow to two minutes.
        target.channel().resetConnectBackoff();
      }
      return judged;
    }
  }

  /** Returns whether the code is that of calls to a server that ends. */
  private boolean serverGone(Status.Code code) {
    return !isCancelled() && (code == Status.Code.UNAVAILABLE || code == Status.Code.CANCELLED);
  }

  /** Returns whether the caller has ended the call. */
  private synchronized boolean isCancelled() {
    return cancelled || context.isCancelled();
  }

  /**
   * Returns UNAVAILABLE where gRPC says UNKNOWN of a connection that broke as it was written to.
   */
  private static Status lost(Status status) {
    return status.getCode() == Status.Code.UNKNOWN && status.getCause() instanceof IOException
        ? Status.UNAVAILABLE.withDescription(status.getDescription()).withCause(status.getCause())
        : status;
  }

  /** Notes whether a call was sent to a server. */
  private static final class Sent extends ClientStreamTracer.Factory {
    volatile boolean headers;

    @Override
    public ClientStreamTracer newClientStreamTracer(
        ClientStreamTracer.StreamInfo info, Metadata with) {
      return new ClientStreamTracer() {
        @Override
        public void outboundHeaders() {
          headers = true;
        }
      };
    }
  }
}
