package peloton.client;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import io.grpc.Status;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.net.ssl.SSLException;
import peloton.api.v0.task.BrowseSandboxRequest;
import peloton.api.v0.task.BrowseSandboxResponse;
import peloton.api.v0.task.GetRequest;
import peloton.api.v0.task.RuntimeInfo;
import peloton.api.v0.task.TaskManagerGrpc;

/** A file of an instance's sandbox; reads until its run has ended. For one thread. */
final class SandboxLog extends InputStream {
  private static final int BYTES_PER_READ = 64 << 10;
  private static final long INTERVAL_MILLIS = 500;

  private final PelotonClient client;
  private final String id;
  private final int instance;
  private final String file;
  private String run;

  private final CountDownLatch closed = new CountDownLatch(1);
  private SandboxFile found;
  private long offset;
  private byte[] rest = {};
  private int used;
  private boolean ended;

  SandboxLog(PelotonClient client, String id, int instance, String file, String run) {
    this.client = client;
    this.id = id;
    this.instance = instance;
    this.file = file;
    this.run = run;
  }

  /** Returns the file as it is. */
  InputStream download() {
    SandboxFile at = find();
    return at.get("/files/download", Map.of("path", at.path));
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public int read(byte[] into, int from, int most) throws IOException {
    if (most == 0) {
      return 0;
    }
    while (used == rest.length) {
      if (ended) {
        return -1;
      }
      more();
    }
    int count = Math.min(most, rest.length - used);
    System.arraycopy(rest, used, into, from, count);
    used += count;
    return count;
  }

  @Override
  public void close() {
    closed.countDown();
  }

  private void more() throws IOException {
    boolean over = false;
    boolean finding = false;
    try {
      over = isOver(); // asked before the read: a run that has ended has written all of its output
      if (found == null) {
        finding = true;
        found = find();
        finding = false;
      }
      readOn();
      ended = over && rest.length == 0;
      if (over || rest.length > 0) {
        return;
      }
    } catch (PelotonException e) {
      // The sandbox or the file is not there until the run has begun and made it.
      if (over || !(finding || Jobs.isPassing(e))) {
        throw e;
      }
    }
    try {
      if (closed.await(INTERVAL_MILLIS, TimeUnit.MILLISECONDS)) {
        throw new IOException("the log is closed");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    }
  }

  private boolean isOver() {
    GetRequest request =
        GetRequest.newBuilder().setJobId(Jobs.id(id)).setInstanceId(instance).build();
    RuntimeInfo runtime =
        client.call(TaskManagerGrpc.getGetMethod(), request).getResult().getRuntime();
    String current = runtime.getMesosTaskId().getValue();
    if (run.isEmpty()) {
      run = current;
    }
    return switch (runtime.getState()) {
      case SUCCEEDED, FAILED, LOST, KILLED, DELETED -> true;
      default -> !current.isEmpty() && !current.equals(run);
    };
  }

  private SandboxFile find() {
    BrowseSandboxResponse answer =
        client.call(
            TaskManagerGrpc.getBrowseSandboxMethod(),
            BrowseSandboxRequest.newBuilder()
                .setJobId(Jobs.id(id))
                .setInstanceId(instance)
                .setTaskId(run)
                .build());
    String wanted = "/" + file.replaceAll("^/+|/+$", "");
    String port = answer.getPort().isEmpty() ? "5051" : answer.getPort();
    return answer.getPathsList().stream()
        .filter(path -> path.endsWith(wanted))
        .min(Comparator.comparingInt(String::length))
        .map(path -> new SandboxFile(client.agents(), answer.getHostname() + ":" + port, path))
        .orElseThrow(() -> missing(answer));
  }

  private PelotonException missing(BrowseSandboxResponse answer) {
    String names =
        answer.getPathsList().stream()
            .map(path -> path.substring(path.lastIndexOf('/') + 1))
            .collect(Collectors.joining(", "));
    String reason = "no file \"" + file + "\" in the sandbox; there: " + names;
    return PelotonException.failure(Status.Code.NOT_FOUND, reason, null);
  }

  private record Read(String data) {}

  private void readOn() {
    Map<String, String> query =
        Map.of(
            "path", found.path,
            "offset", Long.toString(offset),
            "length", Integer.toString(BYTES_PER_READ));
    try (InputStream body = found.get("/files/read", query)) {
      rest = data(body.readAllBytes());
      used = 0;
      offset += rest.length;
    } catch (IOException e) {
      throw PelotonException.unavailable("the connection to agent " + found.agent + " broke", e);
    } catch (JsonParseException e) {
      String reason = "agent " + found.agent + " gave no file data: " + e;
      throw PelotonException.failure(Status.Code.UNKNOWN, reason, e);
    }
  }

  /**
   * Returns `data` of an answer, byte for byte: agents put bytes that are not UTF-8 raw into their
   * JSON. Each byte is carried as a character of its own.
   */
  static byte[] data(byte[] answer) {
    Read read = new Gson().fromJson(new String(answer, StandardCharsets.ISO_8859_1), Read.class);
    if (read == null || read.data == null) {
      throw new JsonParseException("no data");
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(read.data.length());
    read.data
        .codePoints()
        .forEach(
            point -> {
              if (point < 256) {
                bytes.write(point);
              } else { // from an escape
                bytes.writeBytes(Character.toString(point).getBytes(StandardCharsets.UTF_8));
              }
            });
    return bytes.toByteArray();
  }

  /** A file as its agent knows it. */
  private record SandboxFile(AgentAccess access, String agent, String path) {
    InputStream get(String endpoint, Map<String, String> query) {
      String text =
          query.entrySet().stream()
              .map(each -> each.getKey() + "=" + encoded(each.getValue()))
              .collect(Collectors.joining("&"));
      try {
        HttpURLConnection connection = access.connect(agent, endpoint + "?" + text);
        int status = connection.getResponseCode();
        if (status == HttpURLConnection.HTTP_OK) {
          return connection.getInputStream();
        }
        connection.disconnect();
        throw PelotonException.failure(
            code(status),
            "agent " + agent + " answered " + status + " to " + endpoint + " of " + path,
            null);
      } catch (SSLException e) {
        String reason = "the connection to agent " + agent + " was refused: " + e;
        throw PelotonException.failure(Status.Code.UNAUTHENTICATED, reason, e);
      } catch (IOException e) {
        throw PelotonException.unavailable("agent " + agent + " cannot be reached: " + e, e);
      }
    }

    private static Status.Code code(int status) {
      return switch (status) {
        case HttpURLConnection.HTTP_NOT_FOUND -> Status.Code.NOT_FOUND;
        case HttpURLConnection.HTTP_UNAUTHORIZED -> Status.Code.UNAUTHENTICATED;
        default -> Status.Code.UNKNOWN;
      };
    }

    private static String encoded(String text) {
      return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }
  }
}
