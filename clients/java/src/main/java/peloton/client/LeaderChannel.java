package peloton.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientStreamTracer;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;

/** A channel to the leader of a role, and to the next one when it changes. */
final class LeaderChannel extends Channel {
  private static final Metadata.Key<String> NOT_BEGUN =
      Metadata.Key.of("peloton-not-begun", Metadata.ASCII_STRING_MARSHALLER);

  private final Role role;
  private final Resolver resolver;
  private final Function<String, ManagedChannel> open;
  private final Supplier<Metadata> identity;
  private final long timeoutMillis;
  private final ScheduledExecutorService threads;
  private final Map<String, ManagedChannel> channels = new ConcurrentHashMap<>();
  private String current = "";
  private String failed = "";

  LeaderChannel(
      Role role, Resolver resolver, Function<String, ManagedChannel> open, Supplier<Metadata> identity,
      long timeoutMillis, ScheduledExecutorService threads) {
    this.role = role;
    this.resolver = resolver;
    this.open = open;
    this.identity = identity;
    this.timeoutMillis = timeoutMillis;
    this.threads = threads;
  }

  @Override
  public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
    boolean unary = method.getType() == MethodType.UNARY;
    boolean bounded = options.getDeadline() != null || timeoutMillis <= 0 || !unary;
    CallOptions all = bounded ? options : options.withDeadlineAfter(timeoutMillis, TimeUnit.MILLISECONDS);
    return new Repeated<>(method, all, unary);
  }

  @Override
  public String authority() {
    return role.id;
  }

  /** Returns the leader's address. It may wait for ZooKeeper. */
  private synchronized String leader() {
    if (current.isEmpty()) {
      current = resolver.address(role, failed);
    }
    return current;
  }

  private synchronized void invalidate(String address) {
    if (current.equals(address)) {
      failed = address;
      current = "";
    }
  }

  void close() {
    channels.values().forEach(ManagedChannel::shutdownNow);
  }

  void awaitClosed() throws InterruptedException {
    for (ManagedChannel channel : channels.values()) {
      channel.awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  /** A call of one request, made until it is answered or may not be repeated. Streams are made once. */
  private final class Repeated<Q, A> extends ClientCall<Q, A> {
    private final MethodDescriptor<Q, A> method;
    private final CallOptions options;
    private final boolean unary;
    private final AtomicBoolean done = new AtomicBoolean();
    private Listener<A> listener;
    private Metadata headers;
    private Q request;
    private int tries;
    private int wanted;
    private ClientCall<Q, A> call;
    private Future<?> timer;
    private Future<?> next;

    Repeated(MethodDescriptor<Q, A> method, CallOptions options, boolean unary) {
      this.method = method;
      this.options = options;
      this.unary = unary;
    }

    @Override
    public void start(Listener<A> listener, Metadata headers) {
      this.listener = listener;
      this.headers = headers;
    }

    @Override
    public void sendMessage(Q message) {
      request = message;
    }

    @Override
    public synchronized void request(int count) {
      if (call != null) {
        call.request(count);
      } else {
        wanted += count;
      }
    }

    @Override
    public synchronized void halfClose() {
      Deadline deadline = options.getDeadline();
      if (deadline != null) {
        Status late = Status.DEADLINE_EXCEEDED.withDescription("no answer before the deadline");
        timer = threads.schedule(() -> finish(late), Math.max(deadline.timeRemaining(TimeUnit.MILLISECONDS), 0) + 50, TimeUnit.MILLISECONDS);
      }
      next = threads.submit(this::attempt);
    }

    @Override
    public void cancel(String message, Throwable cause) {
      finish(Status.CANCELLED.withDescription(message).withCause(cause));
    }

    private void finish(Status status) {
      deliver(() -> {}, status, new Metadata());
      ClientCall<Q, A> under;
      synchronized (this) {
        under = call;
        if (next != null) {
          next.cancel(false);
        }
      }
      if (under != null) {
        under.cancel(status.getDescription(), status.getCause());
      }
    }

    private void deliver(Runnable before, Status status, Metadata trailers) {
      if (!done.compareAndSet(false, true)) {
        return;
      }
      synchronized (this) {
        if (timer != null) {
          timer.cancel(false);
        }
      }
      onCaller(() -> {
        before.run();
        listener.onClose(status, trailers);
      });
    }

    /** Blocking stubs wait for what their executor is given. */
    private void onCaller(Runnable task) {
      Executor executor = options.getExecutor();
      (executor == null ? threads : executor).execute(task);
    }

    private void attempt() {
      if (done.get()) {
        return;
      }
      String address = "";
      AtomicBoolean sent = new AtomicBoolean();
      try {
        address = leader();
        Metadata all = new Metadata();
        all.merge(headers);
        all.merge(identity.get());
        ManagedChannel channel = channels.computeIfAbsent(address, open);
        ClientCall<Q, A> made = channel.newCall(method, options.withExecutor(threads).withStreamTracerFactory(noting(sent)));
        synchronized (this) {
          call = made;
          tries++;
        }
        made.start(new Attempt(address, sent), all);
        synchronized (this) {
          made.request(unary ? 2 : Math.max(wanted, 1));
        }
        made.sendMessage(request);
        made.halfClose();
        if (done.get()) {
          made.cancel("the call has ended", null);
        }
      } catch (PelotonException error) {
        Status status = Status.fromCode(error.code()).withDescription(error.getMessage());
        again(error.code() == Status.Code.UNAVAILABLE, status, new Metadata());
      } catch (RuntimeException error) {
        deliver(() -> {}, Status.fromThrowable(error), new Metadata());
      }
    }

    private void again(boolean may, Status status, Metadata trailers) {
      long pause = Calls.pauseMillis(Math.max(tries, 1));
      Deadline deadline = options.getDeadline();
      boolean late = deadline != null && deadline.timeRemaining(TimeUnit.MILLISECONDS) <= pause;
      if (!may || late || done.get()) {
        deliver(() -> {}, status, trailers);
        return;
      }
      synchronized (this) {
        next = threads.schedule(this::attempt, pause, TimeUnit.MILLISECONDS);
      }
    }

    private final class Attempt extends Listener<A> {
      private final String address;
      private final AtomicBoolean sent;
      private A answer;

      Attempt(String address, AtomicBoolean sent) {
        this.address = address;
        this.sent = sent;
      }

      @Override
      public void onMessage(A message) {
        if (unary) {
          answer = message;
        } else {
          onCaller(() -> listener.onMessage(message));
        }
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        Status.Code code = status.getCode();
        boolean gone = (code == Status.Code.UNAVAILABLE || code == Status.Code.CANCELLED) && !refusedTls(status);
        if (gone || code == Status.Code.DEADLINE_EXCEEDED) {
          invalidate(address);
        }
        boolean safe = !sent.get() || trailers.containsKey(NOT_BEGUN)
            || Calls.repeatable(method.getFullMethodName(), request);
        if (unary && gone && safe) {
          again(true, status, trailers);
          return;
        }
        Status shown = refusedTls(status) ? Status.UNAUTHENTICATED.withDescription(reason(status)).withCause(status.getCause()) : status;
        deliver(() -> {
          if (answer != null) {
            listener.onHeaders(new Metadata());
            listener.onMessage(answer);
          }
        }, shown, trailers);
      }
    }
  }

  private static ClientStreamTracer.Factory noting(AtomicBoolean sent) {
    return new ClientStreamTracer.Factory() {
      @Override
      public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
        return new ClientStreamTracer() {
          @Override
          public void outboundHeaders() {
            sent.set(true);
          }
        };
      }
    };
  }

  /** Returns whether one side did not take the other's certificate: another try would not help. */
  private static boolean refusedTls(Status status) {
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      if (cause instanceof javax.net.ssl.SSLException) {
        return true;
      }
    }
    return false;
  }

  private static String reason(Status status) {
    Throwable cause = status.getCause();
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return "TLS: " + cause.getMessage();
  }
}
