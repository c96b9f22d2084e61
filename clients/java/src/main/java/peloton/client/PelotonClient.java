package peloton.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * The client of Peloton, a cluster scheduler.
 *
 * <p>It makes calls that survive what the cluster survives: it finds the leader of each daemon,
 * follows it when it changes, and repeats calls where that is safe, within one deadline. {@link
 * #stub} makes a stub of any public service, {@link #call} and {@link #callAsync} make one call,
 * {@link #jobs} and {@link #services} are a small layer for people.
 *
 * <pre>{@code
 * try (PelotonClient client =
 *     PelotonClient.builder("my-team").zooKeeper("zk1:2181,zk2:2181").build()) {
 *   String id = client.jobs().create("/team/batch", Path.of("job.yaml"));
 *   client.jobs().await(id, Duration.ofMinutes(5), now -> System.out.println(now.getState()));
 * }
 * }</pre>
 *
 * <p>Failures are of type {@link PelotonException}, except for those of stubs, which {@link
 * PelotonException#of} turns into it. Threads may share a client.
 */
public final class PelotonClient implements AutoCloseable {
  private final Engine engine = new Engine();
  private final Map<Role, Leaders> leaders;
  private final Map<Role, LeaderChannel> channels = new EnumMap<>(Role.class);
  private final Map<String, Refusals> refusals = new ConcurrentHashMap<>();
  private final AgentAccess agents;
  private final Channel channel = new Router();
  private volatile boolean closed;

  PelotonClient(ClientBuilder config) {
    leaders = config.leaders();
    agents = config.agents();
    Function<String, Target> dial =
        address -> {
          Refusals noted = refusals.computeIfAbsent(address, at -> new Refusals());
          ManagedChannelBuilder<?> made = config.channel(address);
          made.executor(engine::run).addTransportFilter(noted);
          return new Target(address, made.build(), noted);
        };
    leaders.forEach(
        (role, found) ->
            channels.put(
                role,
                new LeaderChannel(role, found, engine, config.timeout(), dial, config::identify)));
  }

  /** Returns a builder; the daemons show the caller's name in logs and metrics. */
  public static ClientBuilder builder(String caller) {
    return new ClientBuilder(caller);
  }

  /** Returns a stub, such as {@code client.stub(JobManagerGrpc::newFutureStub)}. */
  public <S> S stub(Function<Channel, S> factory) {
    return factory.apply(channel);
  }

  /** Returns the channel of all public services, each called at the leader that serves it. */
  public Channel channel() {
    return channel;
  }

  /** Returns the channel to the leader of a role, for stubs of other services that it serves. */
  public Channel channel(Role role) {
    return channels.get(role);
  }

  /** Makes a call; throws what an answer of a v0 service tells. */
  public <Q, A> A call(MethodDescriptor<Q, A> method, Q request) {
    try {
      return PelotonException.check(
          ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT, request));
    } catch (StatusRuntimeException e) {
      throw PelotonException.of(e);
    }
  }

  /** Makes a call as {@link #call} does. Cancelling the future cancels the call. */
  public <Q, A> CompletableFuture<A> callAsync(MethodDescriptor<Q, A> method, Q request) {
    ClientCall<Q, A> call = channel.newCall(method, CallOptions.DEFAULT);
    CompletableFuture<A> future = new CompletableFuture<>();
    ClientCalls.asyncUnaryCall(call, request, new Completion<>(future));
    var unused =
        future.whenComplete(
            (answer, thrown) -> {
              if (future.isCancelled()) {
                call.cancel("cancelled by the caller", thrown);
              }
            });
    return future;
  }

  private record Completion<A>(CompletableFuture<A> future) implements StreamObserver<A> {
    @Override
    public void onNext(A answer) {
      try {
        future.complete(PelotonException.check(answer));
      } catch (PelotonException e) {
        future.completeExceptionally(e);
      }
    }

    @Override
    public void onError(Throwable thrown) {
      future.completeExceptionally(PelotonException.of(thrown));
    }

    @Override
    public void onCompleted() {}
  }

  /** Returns what can be done with batch jobs. */
  public Jobs jobs() {
    return new Jobs(this);
  }

  /** Returns what can be done with services. */
  public Services services() {
    return new Services(this);
  }

  Engine engine() {
    return engine;
  }

  AgentAccess agents() {
    return agents;
  }

  boolean isClosed() {
    return closed;
  }

  /** Closes all connections and threads; calls under way and later ones fail. */
  @Override
  public void close() {
    closed = true;
    leaders.values().forEach(Leaders::close);
    channels.values().forEach(LeaderChannel::close);
    engine.close();
  }

  private final class Router extends Channel {
    @Override
    public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
      return channels.get(Role.serving(method.getServiceName())).newCall(method, options);
    }

    @Override
    public String authority() {
      return "peloton";
    }
  }
}
