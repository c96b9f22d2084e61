package peloton.client;

import io.grpc.Channel;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import java.util.TreeSet;
import peloton.api.v1alpha.job.stateless.svc.JobServiceGrpc;
import peloton.api.v1alpha.job.stateless.svc.ListPodsRequest;
import peloton.api.v1alpha.peloton.JobID;
import peloton.api.v1alpha.pod.PodSummary;
import peloton.api.v1alpha.watch.PodFilter;
import peloton.api.v1alpha.watch.svc.WatchRequest;
import peloton.api.v1alpha.watch.svc.WatchResponse;
import peloton.api.v1alpha.watch.svc.WatchServiceGrpc;

/**
 * The pods of a job, then each change. After a cut it goes on with what has changed meanwhile: the last state of each
 * pod is never missed, states in between may be. {@link #next} waits; closing the watch, also from another thread, ends
 * it.
 */
public final class PodWatch implements Iterator<PodEvent>, AutoCloseable {
  private final Channel channel;
  private final JobID job;
  private final Context.CancellableContext context = Context.current().withCancellation();
  private final Map<String, PodSummary> known = new TreeMap<>();
  private final Deque<PodEvent> ready = new ArrayDeque<>();
  private Iterator<WatchResponse> stream;
  private String watchId = "";
  private int tries;

  PodWatch(Channel channel, String job) {
    this.channel = channel;
    this.job = JobID.newBuilder().setValue(job).build();
  }

  /** Returns true until the watch is closed. */
  @Override
  public boolean hasNext() {
    return !context.isCancelled();
  }

  @Override
  public PodEvent next() {
    while (ready.isEmpty()) {
      if (context.isCancelled()) {
        throw new NoSuchElementException("the watch is closed");
      }
      try {
        context.run(this::read);
      } catch (StatusRuntimeException error) {
        stream = null;
        pauseOrThrow(error);
      }
    }
    return ready.remove();
  }

  @Override
  public void close() {
    context.cancel(null);
  }

  private void pauseOrThrow(StatusRuntimeException error) {
    if (context.isCancelled()) {
      throw new NoSuchElementException("the watch is closed");
    }
    Status status = error.getStatus();
    boolean cancelled = ("watch " + watchId + " is cancelled").equals(status.getDescription());
    boolean passes = switch (status.getCode()) {
      case UNAVAILABLE, CANCELLED, ABORTED, DEADLINE_EXCEEDED -> true;
      default -> false;
    };
    if (cancelled || !passes) {
      throw PelotonException.of(error);
    }
    try {
      Thread.sleep(Calls.pauseMillis(++tries));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new PelotonException(Status.Code.CANCELLED, "interrupted", "", interrupted);
    }
  }

  /** The watch is open before the list is read, so that nothing that happens from the list on is missed. */
  private void read() {
    if (stream == null) {
      WatchRequest request = WatchRequest.newBuilder().setPodFilter(PodFilter.newBuilder().setJobId(job)).build();
      Iterator<WatchResponse> opened = WatchServiceGrpc.newBlockingStub(channel).watch(request);
      if (!opened.hasNext()) {
        throw Status.UNAVAILABLE.withDescription("the watch ended").asRuntimeException();
      }
      watchId = opened.next().getWatchId();
      list();
      stream = opened;
      tries = 0;
      return;
    }
    if (!stream.hasNext()) {
      throw Status.UNAVAILABLE.withDescription("the watch ended").asRuntimeException();
    }
    WatchResponse answer = stream.next();
    answer.getPodsList().forEach(this::change);
    answer.getPodsNotFoundList().forEach(name -> forget(name.getValue()));
  }

  private void list() {
    TreeSet<String> missing = new TreeSet<>(known.keySet());
    JobServiceGrpc.newBlockingStub(channel).listPods(ListPodsRequest.newBuilder().setJobId(job).build())
        .forEachRemaining(answer -> answer.getPodsList().forEach(pod -> {
          missing.remove(pod.getPodName().getValue());
          change(pod);
        }));
    missing.forEach(this::forget);
    ready.add(new PodEvent(PodEvent.Kind.SYNCED, "", null));
  }

  private void change(PodSummary pod) {
    PodSummary before = known.get(pod.getPodName().getValue());
    long version = pod.getStatus().getRevision().getVersion();
    if (before != null && (version < before.getStatus().getRevision().getVersion() || pod.equals(before))) {
      return; // a message that was on its way while the list was read
    }
    known.put(pod.getPodName().getValue(), pod);
    ready.add(new PodEvent(PodEvent.Kind.CHANGED, pod.getPodName().getValue(), pod));
  }

  private void forget(String name) {
    if (known.remove(name) != null) {
      ready.add(new PodEvent(PodEvent.Kind.GONE, name, null));
    }
  }
}
