package peloton.client;

import io.grpc.Status;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import peloton.api.v0.job.GetActiveJobsRequest;
import peloton.api.v0.job.JobManagerGrpc;

/**
 * The program of {@code tests/clients/takeover.py}: calls until a file is there, a line for each.
 */
@EnabledIfEnvironmentVariable(named = "PELOTON_TAKEOVER_STOP", matches = ".+")
@Timeout(600)
class TakeoverProgramTest {
  private static final int CALLERS = 8;

  private final Path stop = Path.of(System.getenv("PELOTON_TAKEOVER_STOP"));

  @Test
  void callsUntilItIsStopped() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(CALLERS);
    try (PelotonClient client =
        PelotonClient.builder("takeover").environment(System.getenv()).build()) {
      List<Future<?>> running = new ArrayList<>();
      for (int caller = 0; caller < CALLERS; caller++) {
        int number = caller;
        running.add(
            threads.submit(
                () -> {
                  call(client, number);
                  return null;
                }));
      }
      for (Future<?> each : running) {
        each.get();
      }
    } finally {
      threads.shutdownNow();
    }
    say("end");
  }

  private void call(PelotonClient client, int caller) throws InterruptedException {
    while (!Files.exists(stop)) {
      double start = now();
      Status.Code code = Status.Code.OK;
      try {
        var unused =
            client.call(
                JobManagerGrpc.getGetActiveJobsMethod(), GetActiveJobsRequest.getDefaultInstance());
      } catch (PelotonException e) {
        code = e.code();
      }
      say(String.format(Locale.ROOT, "call %d %.6f %.6f %s", caller, start, now(), code));
      TimeUnit.MILLISECONDS.sleep(10);
    }
  }

  private static double now() {
    return System.currentTimeMillis() / 1e3;
  }

  private static void say(String text) {
    System.out.println("takeover: " + text);
  }
}
