package peloton.client;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.BindableService;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.function.Executable;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.CreateResponse;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobInfo;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.QueryRequest;
import peloton.api.v0.job.QueryResponse;
import peloton.api.v0.job.RuntimeInfo;
import peloton.api.v0.job.UpdateRequest;
import peloton.api.v0.job.UpdateResponse;

/** A job manager in this process, found by an address of its own. */
final class FakeServer extends JobManagerGrpc.JobManagerImplBase implements AutoCloseable {
  private static final AtomicInteger COUNT = new AtomicInteger();

  final String address = "fake-" + COUNT.incrementAndGet() + ":1";
  final AtomicInteger calls = new AtomicInteger();
  final AtomicInteger gets = new AtomicInteger();
  volatile Metadata headers = new Metadata();
  volatile BiConsumer<GetRequest, StreamObserver<GetResponse>> get = answered(JobState.RUNNING);
  volatile BiConsumer<CreateRequest, StreamObserver<CreateResponse>> create;
  volatile BiConsumer<QueryRequest, StreamObserver<QueryResponse>> query;
  volatile BiConsumer<UpdateRequest, StreamObserver<UpdateResponse>> update;
  private final Server server;

  FakeServer(BindableService... more) {
    InProcessServerBuilder builder =
        InProcessServerBuilder.forName(address).addService(this).intercept(new Notes());
    for (BindableService each : more) {
      builder.addService(each);
    }
    try {
      server = builder.build().start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Returns a builder of clients that call servers in this process. */
  static ClientBuilder clients(FakeServer... servers) {
    StringBuilder addresses = new StringBuilder();
    for (FakeServer each : servers) {
      addresses.append(addresses.isEmpty() ? "" : ",").append(each.address);
    }
    return PelotonClient.builder("tests")
        .address(Role.JOB_MANAGER, addresses.toString())
        .channels(InProcessChannelBuilder::forName);
  }

  /**
   * Checks that a call to a server that is not there has failed. Its deadline may come during a try
   * or during the pause after one.
   */
  static PelotonException assertPassing(Executable call) {
    var failure = assertThrows(PelotonException.class, call);
    assertTrue(Jobs.isPassing(failure), failure.toString());
    return failure;
  }

  static BiConsumer<GetRequest, StreamObserver<GetResponse>> answered(JobState state) {
    RuntimeInfo runtime = RuntimeInfo.newBuilder().setState(state).build();
    JobInfo info = JobInfo.newBuilder().setRuntime(runtime).build();
    return answering(GetResponse.newBuilder().setJobInfo(info).build());
  }

  static <Q, A> BiConsumer<Q, StreamObserver<A>> answering(A answer) {
    return (request, to) -> {
      to.onNext(answer);
      to.onCompleted();
    };
  }

  static <Q, A> BiConsumer<Q, StreamObserver<A>> failing(Status status) {
    return (request, to) -> to.onError(status.asRuntimeException());
  }

  /** What a daemon answers that does not lead. */
  static <Q, A> BiConsumer<Q, StreamObserver<A>> notLeading() {
    Metadata trailers = new Metadata();
    trailers.put(Metadata.Key.of("peloton-not-begun", Metadata.ASCII_STRING_MARSHALLER), "1");
    Status status = Status.UNAVAILABLE.withDescription("jobmgr does not lead");
    return (request, to) -> to.onError(status.asRuntimeException(trailers));
  }

  /** Fails some times, then answers. */
  static <Q, A> BiConsumer<Q, StreamObserver<A>> after(
      int times, BiConsumer<Q, StreamObserver<A>> first, BiConsumer<Q, StreamObserver<A>> then) {
    AtomicInteger count = new AtomicInteger();
    return (request, to) -> (count.incrementAndGet() <= times ? first : then).accept(request, to);
  }

  @Override
  public void get(GetRequest request, StreamObserver<GetResponse> to) {
    gets.incrementAndGet();
    get.accept(request, to);
  }

  @Override
  public void create(CreateRequest request, StreamObserver<CreateResponse> to) {
    create.accept(request, to);
  }

  @Override
  public void query(QueryRequest request, StreamObserver<QueryResponse> to) {
    query.accept(request, to);
  }

  @Override
  public void update(UpdateRequest request, StreamObserver<UpdateResponse> to) {
    update.accept(request, to);
  }

  String header(String name) {
    return headers.get(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  private final class Notes implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata with, ServerCallHandler<Q, A> next) {
      calls.incrementAndGet();
      headers = with;
      return next.startCall(call, with);
    }
  }
}
