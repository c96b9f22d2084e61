package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.ServerCallStreamObserver;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.CreateResponse;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.UpdateRequest;
import peloton.api.v0.job.UpdateResponse;

@Timeout(60)
class CallsTest {
  private static final Status GONE = Status.UNAVAILABLE.withDescription("gone");
  private static final UpdateRequest UPDATE =
      UpdateRequest.newBuilder().setId(Jobs.id("1")).build();

  private final FakeServer server = new FakeServer();

  @AfterEach
  void end() {
    server.close();
  }

  private static JobState state(PelotonClient client) {
    return client.jobs().get("1").getRuntime().getState();
  }

  @Test
  void callsCarryWhoCalls() {
    try (PelotonClient client =
        FakeServer.clients(server).basic("me", "word").token(() -> "secret").build()) {
      state(client);
    }
    assertEquals("tests", server.header("rpc-caller"));
    assertEquals("peloton-jobmgr", server.header("rpc-service"));
    assertEquals("proto", server.header("rpc-encoding"));
    assertEquals(ClientBuilder.VERSION, server.header("peloton-version"));
    assertEquals("268435456", server.header("peloton-answer-bytes"));
    assertEquals("me", server.header("username"));
    assertEquals("word", server.header("password"));
    assertEquals("Bearer secret", server.header("authorization"));
  }

  @Test
  void metadataOfTheCallerCounts() {
    Metadata own = new Metadata();
    own.put(ClientBuilder.CALLER, "mine");
    own.put(Metadata.Key.of("x-request", Metadata.ASCII_STRING_MARSHALLER), "7");
    try (PelotonClient client = FakeServer.clients(server).build()) {
      var unused =
          client
              .stub(JobManagerGrpc::newBlockingStub)
              .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(own))
              .get(GetRequest.getDefaultInstance());
    }
    assertEquals("mine", server.header("rpc-caller"));
    assertEquals("7", server.header("x-request"));
    assertEquals("peloton-jobmgr", server.header("rpc-service"));
  }

  @Test
  void aTokenThatCannotBeHadIsUnauthenticated() {
    ClientBuilder config =
        FakeServer.clients(server)
            .token(
                () -> {
                  throw new IllegalStateException("expired");
                });
    try (PelotonClient client = config.build()) {
      var failure = assertThrows(PelotonException.Unauthenticated.class, () -> state(client));
      assertTrue(failure.getMessage().contains("expired"), failure.getMessage());
    }
    assertEquals(0, server.calls.get());
  }

  @Test
  void theNextAddressIsAskedWhenOneDoesNotLead() {
    server.get = FakeServer.notLeading();
    server.update = FakeServer.notLeading();
    try (FakeServer leader = new FakeServer();
        PelotonClient client = FakeServer.clients(server, leader).build()) {
      leader.get = FakeServer.answered(JobState.SUCCEEDED);
      leader.update = FakeServer.answering(UpdateResponse.getDefaultInstance());
      assertEquals(JobState.SUCCEEDED, state(client));
      client.call(JobManagerGrpc.getUpdateMethod(), UPDATE);
      assertEquals(1, server.calls.get());
      leader.get = FakeServer.notLeading();
      server.get = FakeServer.answered(JobState.FAILED);
      assertEquals(JobState.FAILED, state(client));
    }
  }

  @Test
  void aCallThatNeverBeganIsRepeated() {
    server.update =
        FakeServer.after(
            1, FakeServer.notLeading(), FakeServer.answering(UpdateResponse.getDefaultInstance()));
    try (PelotonClient client = FakeServer.clients(server).build()) {
      client.call(JobManagerGrpc.getUpdateMethod(), UPDATE);
    }
    assertEquals(2, server.calls.get());
  }

  @Test
  void aCallThatMayHaveBeenCarriedOutIsRepeatedWhereThatChangesNothing() {
    server.update = FakeServer.failing(GONE);
    server.get =
        FakeServer.after(2, FakeServer.failing(GONE), FakeServer.answered(JobState.FAILED));
    server.create =
        FakeServer.after(
            1, FakeServer.failing(GONE), FakeServer.answering(CreateResponse.getDefaultInstance()));
    try (PelotonClient client = FakeServer.clients(server).build()) {
      assertEquals(JobState.FAILED, state(client));
      assertEquals(3, server.calls.getAndSet(0));
      assertThrows(
          PelotonException.Unavailable.class,
          () -> client.call(JobManagerGrpc.getUpdateMethod(), UPDATE));
      assertEquals(1, server.calls.getAndSet(0));
      CreateRequest named = CreateRequest.newBuilder().setId(Jobs.id("1")).build();
      client.call(JobManagerGrpc.getCreateMethod(), named);
      assertEquals(2, server.calls.getAndSet(0));
      server.create = FakeServer.failing(GONE);
      assertThrows(
          PelotonException.Unavailable.class,
          () -> client.call(JobManagerGrpc.getCreateMethod(), CreateRequest.getDefaultInstance()));
      assertEquals(1, server.calls.get());
    }
  }

  /** What gRPC says of a connection that is closed as a call is written to it. */
  private static final class Breaking implements ClientInterceptor {
    private final AtomicInteger count = new AtomicInteger();

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
        MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      if (count.incrementAndGet() > 1) {
        return next.newCall(method, options);
      }
      return new ClientCall<>() {
        @Override
        public void start(Listener<A> to, Metadata headers) {
          Status status = Status.UNKNOWN.withCause(new ClosedChannelException());
          options.getExecutor().execute(() -> to.onClose(status, new Metadata()));
        }

        @Override
        public void request(int count) {}

        @Override
        public void cancel(String message, Throwable cause) {}

        @Override
        public void halfClose() {}

        @Override
        public void sendMessage(Q message) {}
      };
    }
  }

  @Test
  void aConnectionThatBreaksUnderACallIsUnavailable() {
    ClientBuilder config = FakeServer.clients(server);
    Breaking breaking = new Breaking();
    config.channels(address -> InProcessChannelBuilder.forName(address).intercept(breaking));
    try (PelotonClient client = config.build()) {
      assertEquals(JobState.RUNNING, state(client));
    }
    assertEquals(2, breaking.count.get());
  }

  @Test
  void allTriesAreWithinOneDeadline() {
    server.get = FakeServer.failing(GONE);
    long start = System.nanoTime();
    try (PelotonClient client = FakeServer.clients(server).timeout(Duration.ofSeconds(1)).build()) {
      var failure = FakeServer.assertPassing(() -> state(client));
      assertTrue(failure.reason().contains("gone"), failure.reason());
      assertEquals("peloton.api.v0.job.JobManager/Get", failure.method());
    }
    assertTrue(server.calls.get() > 1);
    assertTrue(System.nanoTime() - start < Duration.ofSeconds(20).toNanos());
  }

  @Test
  void aServerThatSendsNothingExceedsTheDeadline() {
    server.get = (request, to) -> {};
    try (PelotonClient client =
        FakeServer.clients(server).timeout(Duration.ofMillis(200)).build()) {
      assertThrows(PelotonException.DeadlineExceeded.class, () -> state(client));
      var stub =
          client.stub(JobManagerGrpc::newBlockingStub).withDeadlineAfter(50, TimeUnit.MILLISECONDS);
      var thrown =
          assertThrows(RuntimeException.class, () -> stub.get(GetRequest.getDefaultInstance()));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, Status.fromThrowable(thrown).getCode());
      assertTrue(PelotonException.of(thrown) instanceof PelotonException.DeadlineExceeded);
    }
  }

  @Test
  void aLeaderThatIsLookedForTooLongExceedsTheDeadline() {
    ClientBuilder config =
        PelotonClient.builder("tests").zooKeeper("127.0.0.1:1").timeout(Duration.ofMillis(300));
    try (PelotonClient client = config.build()) {
      assertThrows(PelotonException.DeadlineExceeded.class, () -> state(client));
    }
  }

  @Test
  void cancellingAFutureCancelsTheCall() throws InterruptedException {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch cancelled = new CountDownLatch(1);
    server.get =
        (request, to) -> {
          ((ServerCallStreamObserver<GetResponse>) to).setOnCancelHandler(cancelled::countDown);
          begun.countDown();
        };
    try (PelotonClient client = FakeServer.clients(server).build()) {
      CompletableFuture<GetResponse> future =
          client.callAsync(JobManagerGrpc.getGetMethod(), GetRequest.getDefaultInstance());
      begun.await();
      future.cancel(true);
      assertTrue(cancelled.await(60, TimeUnit.SECONDS));
    }
  }

  @RepeatedTest(50)
  void closingEndsCallsPausesAndThreads() throws InterruptedException {
    server.get = FakeServer.failing(GONE);
    PelotonClient client = FakeServer.clients(server).timeout(Duration.ZERO).build();
    var call = client.callAsync(JobManagerGrpc.getGetMethod(), GetRequest.getDefaultInstance());
    var wait = client.jobs().awaitAsync("1", Duration.ofHours(1), now -> {});
    client.close();
    client.close();
    for (CompletableFuture<?> each : new CompletableFuture<?>[] {call, wait}) {
      var thrown = assertThrows(ExecutionException.class, each::get);
      assertEquals("the client is closed", PelotonException.of(thrown).reason());
    }
    assertThrows(PelotonException.class, () -> state(client));
    long deadline = System.nanoTime() + Duration.ofSeconds(50).toNanos();
    while (Thread.getAllStackTraces().keySet().stream()
        .anyMatch(thread -> thread.getName().startsWith(Engine.THREADS))) {
      assertTrue(System.nanoTime() < deadline, "threads are left");
      Thread.onSpinWait();
    }
  }

  @Test
  void anAnswerThatTellsAFailureIsOne() {
    var error = CreateResponse.Error.newBuilder();
    error.getAlreadyExistsBuilder().setMessage("it is there").getIdBuilder().setValue("7");
    server.create = FakeServer.answering(CreateResponse.newBuilder().setError(error).build());
    try (PelotonClient client = FakeServer.clients(server).build()) {
      var failure =
          assertThrows(
              PelotonException.AlreadyExists.class,
              () ->
                  client.call(
                      JobManagerGrpc.getCreateMethod(), CreateRequest.getDefaultInstance()));
      assertEquals("it is there", failure.reason());
      assertEquals("7", failure.value());
    }
  }

  @Test
  void anArgumentThatIsRefusedIsNamed() {
    Status status =
        Status.INVALID_ARGUMENT.withDescription(
            "a bad job: config.instanceCount: '0' is not 1 or more");
    server.get = FakeServer.failing(status);
    try (PelotonClient client = FakeServer.clients(server).build()) {
      var failure = assertThrows(PelotonException.InvalidArgument.class, () -> state(client));
      assertEquals("config.instanceCount", failure.field());
      assertEquals("0", failure.value());
      assertEquals("1 or more", failure.expected());
    }
  }

  @Test
  void theDeadlineOfTheContextCounts() throws Exception {
    server.get = (request, to) -> {};
    var clock = Executors.newSingleThreadScheduledExecutor();
    try (PelotonClient client = FakeServer.clients(server).build()) {
      Context.CancellableContext context =
          Context.current().withDeadlineAfter(100, TimeUnit.MILLISECONDS, clock);
      context.run(() -> assertThrows(PelotonException.DeadlineExceeded.class, () -> state(client)));
      context.cancel(null);
    } finally {
      clock.shutdownNow();
    }
  }
}
