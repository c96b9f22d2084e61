package peloton.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import peloton.api.v0.job.CreateResponse;
import peloton.api.v0.job.GetResponse;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobInfo;
import peloton.api.v0.job.JobState;
import peloton.api.v0.job.JobSummary;
import peloton.api.v0.job.QueryRequest;
import peloton.api.v0.job.QueryResponse;
import peloton.api.v0.task.BrowseSandboxRequest;
import peloton.api.v0.task.BrowseSandboxResponse;
import peloton.api.v0.task.GetRequest;
import peloton.api.v0.task.ListRequest;
import peloton.api.v0.task.ListResponse;
import peloton.api.v0.task.TaskInfo;
import peloton.api.v0.task.TaskManagerGrpc;
import peloton.api.v0.task.TaskState;
import peloton.api.v1alpha.job.stateless.svc.JobServiceGrpc;
import peloton.api.v1alpha.job.stateless.svc.ListPodsRequest;
import peloton.api.v1alpha.job.stateless.svc.ListPodsResponse;
import peloton.api.v1alpha.pod.PodSummary;
import peloton.api.v1alpha.watch.svc.WatchRequest;
import peloton.api.v1alpha.watch.svc.WatchResponse;
import peloton.api.v1alpha.watch.svc.WatchServiceGrpc;

@Timeout(60)
class LayerTest {
  private static final Status GONE = Status.UNAVAILABLE.withDescription("gone");

  @Test
  void aJobThatAnEarlierTryHasMadeIsCreated() {
    var error = CreateResponse.Error.newBuilder();
    error.getAlreadyExistsBuilder().setMessage("it is there");
    try (FakeServer server = new FakeServer();
        PelotonClient client = FakeServer.clients(server).build()) {
      server.create = FakeServer.answering(CreateResponse.newBuilder().setError(error).build());
      assertFalse(client.jobs().create("", JobConfig.getDefaultInstance()).isEmpty());
      assertFalse(client.jobs().createAsync("", JobConfig.getDefaultInstance()).join().isEmpty());
    }
  }

  @Test
  void aJobIsFoundByItsNameOrByTheBeginningOfItsId() {
    String first = "11112222-0000-4000-8000-000000000000";
    String second = "11113333-0000-4000-8000-000000000000";
    QueryResponse.Builder found = QueryResponse.newBuilder();
    found.addResults(JobSummary.newBuilder().setId(Jobs.id(first)).setName("api"));
    found.addResults(JobSummary.newBuilder().setId(Jobs.id(second)).setName("1111"));
    List<QueryRequest> asked = new ArrayList<>();
    try (FakeServer server = new FakeServer();
        PelotonClient client = FakeServer.clients(server).build()) {
      server.query =
          (request, to) -> {
            asked.add(request);
            FakeServer.<QueryRequest, QueryResponse>answering(found.build()).accept(request, to);
          };
      Jobs jobs = client.jobs();
      assertEquals(first, jobs.find("api", "/team"));
      assertEquals("/team", asked.get(0).getSpec().getRespool().getValue());
      assertEquals("api", asked.get(0).getSpec().getReference());
      assertEquals(first, jobs.find("11112", ""));
      assertEquals(second, jobs.find("11113333-0000", ""));
      var several =
          assertThrows(
              PelotonException.FailedPrecondition.class, () -> jobs.find("1111", "/team"));
      assertTrue(several.getMessage().contains(first + ", " + second), several.getMessage());
      for (String reference : List.of("111", "ap", "none")) {
        assertThrows(PelotonException.NotFound.class, () -> jobs.find(reference, ""));
      }
    }
  }

  @Test
  void waitingTellsProgressAndOutlivesALeader() {
    try (FakeServer server = new FakeServer();
        PelotonClient client = FakeServer.clients(server).timeout(Duration.ofMillis(200)).build()) {
      List<JobState> seen = new ArrayList<>();
      // The first state is seen before calls begin to fail, however long a call takes.
      client
          .jobs()
          .await(
              "1",
              Duration.ofMinutes(1),
              now -> {
                seen.add(now.getState());
                server.get =
                    FakeServer.after(
                        5, FakeServer.failing(GONE), FakeServer.answered(JobState.SUCCEEDED));
              });
      assertEquals(List.of(JobState.RUNNING, JobState.SUCCEEDED), seen);
    }
  }

  @Test
  void waitingEndsInTimeAndWithAJobThatIsNotThere() {
    try (FakeServer server = new FakeServer();
        PelotonClient client = FakeServer.clients(server).build()) {
      Duration moment = Duration.ofMillis(300);
      var expired =
          assertThrows(
              PelotonException.DeadlineExceeded.class,
              () -> client.jobs().await("1", moment, now -> {}));
      assertEquals("the job 1 is still RUNNING", expired.reason());
      server.get = FakeServer.failing(Status.NOT_FOUND);
      assertThrows(
          PelotonException.NotFound.class,
          () -> client.jobs().await("1", Duration.ofMinutes(1), now -> {}));
    }
  }

  @Test
  void aProgressThatThrowsEndsTheWait() {
    try (FakeServer server = new FakeServer();
        PelotonClient client = FakeServer.clients(server).build()) {
      CompletableFuture<?> wait =
          client
              .jobs()
              .awaitAsync(
                  "1",
                  Duration.ofMinutes(1),
                  now -> {
                    throw new IllegalStateException("enough");
                  });
      assertTrue(assertThrows(RuntimeException.class, wait::join).getMessage().contains("enough"));
    }
  }

  /** The instances of a job, and the sandbox of one. */
  private static final class Tasks extends TaskManagerGrpc.TaskManagerImplBase {
    volatile TaskState state = TaskState.RUNNING;
    volatile int port;

    @Override
    public void list(ListRequest request, StreamObserver<ListResponse> to) {
      var answer = ListResponse.newBuilder();
      for (int i = request.getRange().getFrom();
          i < Math.min(request.getRange().getTo(), 1500);
          i++) {
        answer.getResultBuilder().putValue(i, TaskInfo.newBuilder().setInstanceId(i).build());
      }
      to.onNext(answer.build());
      to.onCompleted();
    }

    @Override
    public void get(GetRequest request, StreamObserver<peloton.api.v0.task.GetResponse> to) {
      var answer = peloton.api.v0.task.GetResponse.newBuilder();
      answer
          .getResultBuilder()
          .getRuntimeBuilder()
          .setState(state)
          .getMesosTaskIdBuilder()
          .setValue("run");
      to.onNext(answer.build());
      to.onCompleted();
    }

    @Override
    public void browseSandbox(
        BrowseSandboxRequest request, StreamObserver<BrowseSandboxResponse> to) {
      to.onNext(
          BrowseSandboxResponse.newBuilder()
              .setHostname("127.0.0.1")
              .setPort(Integer.toString(port))
              .addPaths("/sandbox/stdout")
              .build());
      to.onCompleted();
    }
  }

  @Test
  void instancesAreReadAThousandAtATime() {
    JobConfig config = JobConfig.newBuilder().setInstanceCount(1500).build();
    try (FakeServer server = new FakeServer(new Tasks());
        PelotonClient client = FakeServer.clients(server).build()) {
      server.get =
          FakeServer.answering(
              GetResponse.newBuilder().setJobInfo(JobInfo.newBuilder().setConfig(config)).build());
      var ids = client.jobs().instances("1").map(TaskInfo::getInstanceId).toList();
      assertEquals(1500, ids.size());
      assertEquals(1499, ids.get(1499));
      server.calls.set(0);
      assertEquals(0, client.jobs().instances("1").findFirst().orElseThrow().getInstanceId());
      assertEquals(2, server.calls.get());
    }
  }

  @Test
  void aLogIsFollowedToTheEndOfItsRun() throws IOException {
    Tasks tasks = new Tasks();
    String[] pieces = {"", "one\\n", "", "two\\n", ""};
    AtomicInteger reads = new AtomicInteger();
    HttpServer agent =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    agent.createContext(
        "/files/read",
        exchange -> {
          int number = Math.min(reads.getAndIncrement(), pieces.length - 1);
          if (number == pieces.length - 2) {
            tasks.state = TaskState.SUCCEEDED;
          }
          byte[] body = ("{\"data\": \"" + pieces[number] + "\"}").getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(200, body.length);
          exchange.getResponseBody().write(body);
          exchange.close();
        });
    agent.start();
    tasks.port = agent.getAddress().getPort();
    try (FakeServer server = new FakeServer(tasks);
        PelotonClient client = FakeServer.clients(server).build();
        InputStream log = client.jobs().follow("1", 0)) {
      assertEquals("one\ntwo\n", new String(log.readAllBytes(), StandardCharsets.UTF_8));
      var failure = assertThrows(PelotonException.NotFound.class, () -> client.jobs().logs("1", 0));
      assertTrue(failure.reason().contains("answered 404"), failure.reason());
    } finally {
      agent.stop(0);
    }
  }

  @Test
  void outputIsReadByteForByte() {
    byte[] raw = {
      '{', '"', 'd', 'a', 't', 'a', '"', ':', '"', (byte) 0xff, (byte) 0xc3, (byte) 0xa4
    };
    byte[] answer = new byte[raw.length + 8];
    System.arraycopy(raw, 0, answer, 0, raw.length);
    System.arraycopy("\\u20ac\"}".getBytes(StandardCharsets.US_ASCII), 0, answer, raw.length, 8);
    byte[] expected = {
      (byte) 0xff, (byte) 0xc3, (byte) 0xa4, (byte) 0xe2, (byte) 0x82, (byte) 0xac
    };
    assertArrayEquals(expected, SandboxLog.data(answer));
  }

  private static PodSummary pod(String name, long version) {
    PodSummary.Builder pod = PodSummary.newBuilder();
    pod.getPodNameBuilder().setValue(name);
    pod.getStatusBuilder().getRevisionBuilder().setVersion(version);
    return pod.build();
  }

  private static WatchResponse changed(PodSummary... pods) {
    return WatchResponse.newBuilder().setWatchId("w").addAllPods(List.of(pods)).build();
  }

  @Test
  void aWatchThatIsCutGoesOnAndMissesNothing() {
    AtomicInteger opened = new AtomicInteger();
    var watches =
        new WatchServiceGrpc.WatchServiceImplBase() {
          @Override
          public void watch(WatchRequest request, StreamObserver<WatchResponse> to) {
            int number = opened.incrementAndGet(); // before anything is sent: the list follows that
            to.onNext(changed());
            if (number == 1) {
              to.onNext(changed(pod("a", 1))); // older than what the list says
              to.onNext(changed(pod("a", 3)));
              to.onError(GONE.asRuntimeException());
            } else {
              to.onNext(changed(pod("c", 2)));
              to.onError(
                  Status.CANCELLED.withDescription("watch w is cancelled").asRuntimeException());
            }
          }
        };
    var lists =
        new JobServiceGrpc.JobServiceImplBase() {
          @Override
          public void listPods(ListPodsRequest request, StreamObserver<ListPodsResponse> to) {
            List<PodSummary> pods =
                opened.get() == 1
                    ? List.of(pod("a", 2), pod("b", 1))
                    : List.of(pod("a", 4), pod("c", 1));
            to.onNext(ListPodsResponse.newBuilder().addAllPods(pods).build());
            to.onCompleted();
          }
        };
    List<String> seen = new ArrayList<>();
    try (FakeServer server = new FakeServer(watches, lists);
        PelotonClient client = FakeServer.clients(server).build();
        var watch = client.jobs().watchPods("1")) {
      var failure =
          assertThrows(
              PelotonException.class,
              () -> {
                while (watch.hasNext()) {
                  var event = watch.next();
                  long version =
                      event.subject() == null
                          ? 0
                          : event.subject().getStatus().getRevision().getVersion();
                  seen.add(event.kind() + event.name() + version);
                }
              });
      assertEquals("watch w is cancelled", failure.reason());
    }
    assertEquals(
        List.of(
            "CHANGEDa2",
            "CHANGEDb1",
            "SYNCED0",
            "CHANGEDa3",
            "CHANGEDa4",
            "CHANGEDc1",
            "GONEb0",
            "SYNCED0",
            "CHANGEDc2"),
        seen);
  }

  @Test
  void closingAWatchEndsIt() {
    var silent =
        new WatchServiceGrpc.WatchServiceImplBase() {
          @Override
          public void watch(WatchRequest request, StreamObserver<WatchResponse> to) {}
        };
    try (FakeServer server = new FakeServer(silent);
        PelotonClient client = FakeServer.clients(server).build()) {
      var watch = client.jobs().watchPods("1");
      CompletableFuture<Boolean> next = CompletableFuture.supplyAsync(watch::hasNext);
      watch.close();
      assertFalse(next.join());
    }
  }
}
