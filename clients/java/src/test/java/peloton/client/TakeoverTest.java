package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.BindableService;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.CreateResponse;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobInfo;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobState;

/** A leader that no longer answers: calls under way go on at the next one. */
@Timeout(14) // less than the 15 s after which gRPC gives up a silent connection
class TakeoverTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final CountDownLatch asked = new CountDownLatch(1);
  private final FakeServer old = new FakeServer();
  private final FakeServer next = new FakeServer(health(() -> {}, () -> {}));
  private final Election election = new Election(old.address);

  @AfterEach
  void end() {
    threads.shutdownNow();
    old.close();
    next.close();
  }

  /** Finds the first leader; its test tells the others, once the client follows the election. */
  private record Election(String first, CompletableFuture<Consumer<String>> tell)
      implements Leaders {
    Election(String first) {
      this(first, new CompletableFuture<>());
    }

    @Override
    public String address(Role role, String failed) {
      return first;
    }

    @Override
    public void watch(Role role, Consumer<String> to) {
      tell.complete(to);
    }

    void elect(String address) {
      tell.join().accept(address); // calls may begin before the client follows
    }
  }

  private PelotonClient client() {
    return PelotonClient.builder("tests")
        .channels(InProcessChannelBuilder::forName)
        .leaders(role -> election)
        .build();
  }

  /** Holds calls back, as a frozen daemon does. */
  private void frozen(GetRequest request, StreamObserver<GetResponse> to) {
    asked.countDown();
  }

  private static JobState state(PelotonClient client) {
    return client.jobs().get("1").getRuntime().getState();
  }

  @Test
  void aCallUnderWayGoesOnAtTheNewLeader() throws Exception {
    old.get = this::frozen;
    try (PelotonClient client = client()) {
      Future<JobState> call = threads.submit(() -> state(client));
      asked.await();
      election.elect("");
      election.elect(next.address);
      assertEquals(JobState.RUNNING, call.get());
      assertEquals(JobState.RUNNING, state(client));
    }
    assertEquals(2, next.calls.get());
  }

  @Test
  void aCallThatMayNotBeRepeatedStaysWithItsServer() throws Exception {
    AtomicReference<StreamObserver<CreateResponse>> held = new AtomicReference<>();
    old.create =
        (request, to) -> {
          held.set(to);
          asked.countDown();
        };
    try (PelotonClient client = client()) {
      CreateRequest request = CreateRequest.getDefaultInstance();
      Future<CreateResponse> call =
          threads.submit(() -> client.call(JobManagerGrpc.getCreateMethod(), request));
      asked.await();
      election.elect(next.address);
      assertEquals(JobState.RUNNING, state(client)); // what ends at once has ended by now
      held.get().onNext(CreateResponse.newBuilder().setJobId(Jobs.id("1")).build());
      held.get().onCompleted();
      assertEquals("1", call.get().getJobId().getValue());
    }
  }

  @Test
  void aPauseEndsWithNewsOfALeader() throws Exception {
    old.get =
        (request, to) -> {
          asked.countDown();
          FakeServer.<GetRequest, GetResponse>notLeading().accept(request, to);
        };
    try (PelotonClient client = client()) {
      Future<JobState> call = threads.submit(() -> state(client));
      asked.await();
      election.elect(next.address);
      assertEquals(JobState.RUNNING, call.get());
    }
  }

  @Test
  void aFrozenOneOfSeveralAddressesIsLeft() {
    old.get = this::frozen;
    try (PelotonClient client = FakeServer.clients(old, next).build()) {
      assertEquals(JobState.RUNNING, state(client));
    }
  }

  @Test
  void aSlowLeaderIsNotLeft() throws Exception {
    Semaphore answered = new Semaphore(0);
    Runnable inTime = () -> answered.release(Context.current().isCancelled() ? 0 : 1);
    // The other address answers after the slow one: never is it the only one in time.
    try (FakeServer slow = new FakeServer(health(() -> {}, inTime));
        FakeServer other = new FakeServer(health(() -> take(answered), () -> {}));
        PelotonClient client = FakeServer.clients(slow, other).build()) {
      slow.get =
          (request, to) -> {
            threads.execute(
                () -> {
                  try {
                    TimeUnit.MILLISECONDS.sleep(5 * Probe.MILLIS);
                  } catch (InterruptedException e) {
                    return;
                  }
                  FakeServer.answered(JobState.RUNNING).accept(request, to);
                });
          };
      assertEquals(JobState.RUNNING, state(client));
      assertEquals(0, other.gets.get());
    }
  }

  @Test
  void aRepeatedCallSaysSo() {
    AtomicReference<String> said = new AtomicReference<>();
    next.get =
        (request, to) -> {
          if (next.calls.get() == 1) {
            to.onError(Status.UNAVAILABLE.withDescription("lost").asRuntimeException());
            return;
          }
          said.set(next.header("peloton-repeated"));
          FakeServer.answered(JobState.RUNNING).accept(request, to);
        };
    try (PelotonClient client = FakeServer.clients(next).build()) {
      assertEquals(JobState.RUNNING, state(client));
    }
    assertEquals("1", said.get());
  }

  @Test
  void aJobWithAnIdMayBeCreatedAgain() {
    next.create = FakeServer.failing(Status.ALREADY_EXISTS);
    JobConfig mine = JobConfig.newBuilder().setName("mine").build();
    JobInfo info = JobInfo.newBuilder().setConfig(mine).build();
    next.get = FakeServer.answering(GetResponse.newBuilder().setJobInfo(info).build());
    try (PelotonClient client = FakeServer.clients(next).build()) {
      client.jobs().createWithId("1", "", mine);
      JobConfig another = JobConfig.newBuilder().setName("another").build();
      assertThrows(
          PelotonException.AlreadyExists.class, () -> client.jobs().createWithId("1", "", another));
    }
  }

  /** Waits for longer than a probe does. */
  private static void take(Semaphore from) {
    try {
      var unused = from.tryAcquire(5 * Probe.MILLIS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Says that it leads; something is done before each answer, and something after it. */
  private static BindableService health(Runnable before, Runnable after) {
    MethodDescriptor.Marshaller<byte[]> bytes =
        new MethodDescriptor.Marshaller<>() {
          @Override
          public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
          }

          @Override
          public byte[] parse(InputStream stream) {
            try {
              return stream.readAllBytes();
            } catch (IOException e) {
              throw new UncheckedIOException(e);
            }
          }
        };
    MethodDescriptor<byte[], byte[]> check =
        MethodDescriptor.<byte[], byte[]>newBuilder()
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("grpc.health.v1.Health/Check")
            .setRequestMarshaller(bytes)
            .setResponseMarshaller(bytes)
            .build();
    return () ->
        ServerServiceDefinition.builder("grpc.health.v1.Health")
            .addMethod(
                check,
                ServerCalls.asyncUnaryCall(
                    (request, to) -> {
                      before.run();
                      to.onNext(new byte[] {8, 1});
                      to.onCompleted();
                      after.run();
                    }))
            .build();
  }
}
