package peloton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import peloton.api.v0.job.CreateRequest;
import peloton.api.v0.job.CreateResponse;
import peloton.api.v0.job.GetRequest;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobAlreadyExists;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobManagerGrpc;
import peloton.api.v0.job.JobState;
import peloton.api.v1alpha.job.stateless.svc.JobServiceGrpc;
import peloton.api.v1alpha.job.stateless.svc.ListPodsRequest;
import peloton.api.v1alpha.job.stateless.svc.ListPodsResponse;
import peloton.api.v1alpha.pod.PodSummary;
import peloton.api.v1alpha.watch.svc.WatchRequest;
import peloton.api.v1alpha.watch.svc.WatchResponse;
import peloton.api.v1alpha.watch.svc.WatchServiceGrpc;

@Timeout(120)
class PelotonClientTest {
  private final List<AutoCloseable> open = new ArrayList<>();

  @AfterEach
  void closeAll() throws Exception {
    for (AutoCloseable each : open) {
      each.close();
    }
  }

  /** A job manager in this process. */
  private class Fake extends JobManagerGrpc.JobManagerImplBase implements ServerInterceptor {
    final AtomicInteger calls = new AtomicInteger();
    final Server server;
    volatile Metadata seen = new Metadata();

    Fake(io.grpc.BindableService... others) throws IOException {
      var builder = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(this).intercept(this);
      for (var each : others) {
        builder.addService(each);
      }
      server = builder.build().start();
      open.add(() -> server.shutdownNow().awaitTermination(30, TimeUnit.SECONDS));
    }

    String address() {
      return "127.0.0.1:" + server.getPort();
    }

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      calls.incrementAndGet();
      seen = headers;
      return next.startCall(call, headers);
    }

    @Override
    public void get(GetRequest request, StreamObserver<GetResponse> answer) {
      GetResponse.Builder found = GetResponse.newBuilder();
      found.getJobInfoBuilder().getRuntimeBuilder().setState(JobState.SUCCEEDED);
      answer.onNext(found.build());
      answer.onCompleted();
    }
  }

  private Fake follower() throws IOException {
    return new Fake() {
      @Override
      public void get(GetRequest request, StreamObserver<GetResponse> answer) {
        Metadata trailers = new Metadata();
        trailers.put(Metadata.Key.of("peloton-not-begun", Metadata.ASCII_STRING_MARSHALLER), "1");
        answer.onError(Status.UNAVAILABLE.withDescription("jobmgr does not lead").asRuntimeException(trailers));
      }
    };
  }

  private PelotonClient client(String address, Duration timeout) {
    PelotonClient made = PelotonClient.builder("tests").address(Role.JOB_MANAGER, address).basic("ann", "secret")
        .token(() -> "abc").timeout(timeout).build();
    open.add(0, made);
    return made;
  }

  private PelotonClient client(String address) {
    return client(address, Duration.ofMinutes(1));
  }

  @Test
  void callsFollowTheLeader() throws Exception {
    Fake follower = follower();
    Fake leader = new Fake();
    PelotonClient client = client(follower.address() + "," + leader.address());
    assertEquals(JobState.SUCCEEDED, client.jobs().get("1").getRuntime().getState());
    assertEquals(JobState.SUCCEEDED, client.jobs().getAsync("1").get().getRuntime().getState());
    assertEquals(JobState.SUCCEEDED, client.jobs().awaitAsync("1", Duration.ofMinutes(1)).get().getState());
    assertEquals(1, follower.calls.get());
    assertEquals(3, leader.calls.get());
  }

  @Test
  void callsCarryTheCaller() throws Exception {
    Fake leader = new Fake();
    client(leader.address()).jobs().get("1");
    List<String> values = new ArrayList<>();
    for (String key : List.of("rpc-caller", "rpc-service", "rpc-encoding", "username", "password", "authorization")) {
      values.add(leader.seen.get(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER)));
    }
    assertEquals(List.of("tests", "peloton-jobmgr", "proto", "ann", "secret", "Bearer abc"), values);
  }

  private Fake loses(JobAlreadyExists then) throws IOException {
    return new Fake() {
      @Override
      public void create(CreateRequest request, StreamObserver<CreateResponse> answer) {
        if (calls.get() == 1) {
          answer.onError(Status.UNAVAILABLE.withDescription("the answer was lost").asRuntimeException());
          return;
        }
        CreateResponse.Builder found = CreateResponse.newBuilder();
        found.getErrorBuilder().setAlreadyExists(then);
        answer.onNext(found.build());
        answer.onCompleted();
      }
    };
  }

  @Test
  void creationIsRepeatedByItsIdOnly() throws Exception {
    Fake fake = loses(JobAlreadyExists.getDefaultInstance());
    PelotonClient client = client(fake.address());
    var stub = JobManagerGrpc.newBlockingStub(client.channel(Role.JOB_MANAGER));
    var error = assertThrows(StatusRuntimeException.class, () -> stub.create(CreateRequest.getDefaultInstance()));
    assertEquals(Status.Code.UNAVAILABLE, error.getStatus().getCode());
    assertEquals(1, fake.calls.get());
    fake.calls.set(0);
    assertEquals(36, client.jobs().create("", JobConfig.getDefaultInstance()).length());
    assertEquals(2, fake.calls.get());
  }

  @Test
  void oneDeadlineIsOverAllTries() throws Exception {
    Fake fake = follower();
    var error = assertThrows(PelotonException.class, () -> client(fake.address(), Duration.ofMillis(700)).jobs().get("1"));
    assertTrue(error.passing(), error.toString());
    assertTrue(fake.calls.get() > 1);
  }

  @Test
  void serverThatSendsNothing() throws Exception {
    try (ServerSocket silent = new ServerSocket(0)) {
      PelotonClient client = client("127.0.0.1:" + silent.getLocalPort(), Duration.ofSeconds(1));
      var error = assertThrows(PelotonException.class, () -> client.jobs().get("1"));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, error.code());
    }
  }

  private static PodSummary pod(String name, long version) {
    PodSummary.Builder pod = PodSummary.newBuilder();
    pod.getPodNameBuilder().setValue(name);
    pod.getStatusBuilder().getRevisionBuilder().setVersion(version);
    return pod.build();
  }

  @Test
  void watchTellsWhatHappenedDuringACut() throws Exception {
    AtomicInteger opened = new AtomicInteger();
    var watches = new WatchServiceGrpc.WatchServiceImplBase() {
      @Override
      public void watch(WatchRequest request, StreamObserver<WatchResponse> answer) {
        answer.onNext(WatchResponse.newBuilder().setWatchId("w").build());
        if (opened.incrementAndGet() == 1) {
          answer.onNext(WatchResponse.newBuilder().addPods(pod("a", 0)).addPods(pod("b", 2)).build());
          answer.onError(Status.UNAVAILABLE.asRuntimeException());
        }
      }
    };
    var services = new JobServiceGrpc.JobServiceImplBase() {
      @Override
      public void listPods(ListPodsRequest request, StreamObserver<ListPodsResponse> answer) {
        ListPodsResponse.Builder found = ListPodsResponse.newBuilder();
        answer.onNext(opened.get() == 1
            ? found.addPods(pod("a", 1)).addPods(pod("b", 1)).build() : found.addPods(pod("a", 3)).addPods(pod("c", 1)).build());
        answer.onCompleted();
      }
    };
    List<String> seen = new ArrayList<>();
    try (PodWatch watch = client(new Fake(watches, services).address()).jobs().watchPods("1")) {
      while (seen.size() < 8) {
        PodEvent event = watch.next();
        seen.add(event.kind() + " " + event.name());
      }
    }
    assertEquals(List.of("CHANGED a", "CHANGED b", "SYNCED ", "CHANGED b", "CHANGED a", "CHANGED c", "GONE b", "SYNCED "), seen);
  }

  @Test
  void specs() {
    JobConfig config = Specs.parse("""
        name: test
        instance_count: 3
        type: service
        sla: {preemptible: yes}
        labels:
        - {key: a, value: 1.0}
        defaultConfig: &default
          resource: {cpuLimit: 0.5, memLimitMb: 1e3}
        instanceConfig: {2: *default}
        """, "job.yaml", JobConfig.newBuilder()).build();
    assertEquals(3, config.getInstanceCount());
    assertEquals("1.0", config.getLabels(0).getValue());
    assertEquals(1000, config.getInstanceConfigOrThrow(2).getResource().getMemLimitMb());
    var error = assertThrows(PelotonException.class,
        () -> Specs.parse("name: a\ninstanceCount: many", "job.yaml", JobConfig.newBuilder()));
    assertEquals("job.yaml:2: instanceCount: 'many' is not a whole number from 0 to 4294967295", error.getMessage());
    assertEquals(List.of("instanceCount", "many"), List.of(error.field(), error.value()));
  }
}
