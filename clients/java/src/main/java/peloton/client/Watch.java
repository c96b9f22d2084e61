package peloton.client;

import io.grpc.Context;
import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import peloton.api.v1alpha.job.stateless.JobSummary;
import peloton.api.v1alpha.job.stateless.svc.GetJobRequest;
import peloton.api.v1alpha.job.stateless.svc.JobServiceGrpc;
import peloton.api.v1alpha.job.stateless.svc.ListJobsRequest;
import peloton.api.v1alpha.job.stateless.svc.ListPodsRequest;
import peloton.api.v1alpha.peloton.JobID;
import peloton.api.v1alpha.peloton.PodName;
import peloton.api.v1alpha.pod.PodSummary;
import peloton.api.v1alpha.watch.PodFilter;
import peloton.api.v1alpha.watch.StatelessJobFilter;
import peloton.api.v1alpha.watch.svc.WatchRequest;
import peloton.api.v1alpha.watch.svc.WatchResponse;
import peloton.api.v1alpha.watch.svc.WatchServiceGrpc;

/**
 * The events of a watch, one after the other, for one thread. It ends when it is closed, which any
 * thread may do; a failure that is not of the moment is thrown.
 *
 * @param <T> what is watched
 */
public final class Watch<T> implements Iterator<Watch.Event<T>>, AutoCloseable {
  /** What an event tells. */
  public enum Kind {
    /** A subject as it is now, also one that was there when the watch began. */
    CHANGED,
    /** A subject that does not exist any more. */
    GONE,
    /** The watcher knows all that is there: at the start, and after each cut. */
    SYNCED
  }

  /**
   * An event.
   *
   * @param kind what it tells
   * @param name the pod's name, or the service's id; empty where it is SYNCED
   * @param subject what is watched, as it is now; null unless it is CHANGED
   * @param <T> what is watched
   */
  public record Event<T>(Kind kind, String name, T subject) {}

  /** What is watched, as the wire has it. */
  private record Subject<T>(
      WatchRequest request,
      Function<T, String> name,
      ToLongFunction<T> version,
      Consumer<Consumer<T>> list,
      Function<WatchResponse, List<T>> changed,
      Function<WatchResponse, List<String>> gone) {}

  private final PelotonClient client;
  private final Subject<T> subject;
  private final Map<String, T> known = new TreeMap<>();
  private final Queue<Event<T>> events = new ArrayDeque<>();
  private final Context.CancellableContext life = Context.current().withCancellation();
  private Calls.Pauses pauses = new Calls.Pauses();
  private Context.CancellableContext attempt;
  private Iterator<WatchResponse> stream;
  private String watchId = "";

  private Watch(PelotonClient client, Subject<T> subject) {
    this.client = client;
    this.subject = subject;
  }

  static Watch<PodSummary> ofPods(PelotonClient client, String id) {
    JobID job = JobID.newBuilder().setValue(id).build();
    PodFilter filter = PodFilter.newBuilder().setJobId(job).build();
    ListPodsRequest listed = ListPodsRequest.newBuilder().setJobId(job).build();
    return new Watch<>(
        client,
        new Subject<>(
            WatchRequest.newBuilder().setPodFilter(filter).build(),
            pod -> pod.getPodName().getValue(),
            pod -> pod.getStatus().getRevision().getVersion(),
            found ->
                client
                    .stub(JobServiceGrpc::newBlockingStub)
                    .listPods(listed)
                    .forEachRemaining(answer -> answer.getPodsList().forEach(found)),
            WatchResponse::getPodsList,
            answer -> answer.getPodsNotFoundList().stream().map(PodName::getValue).toList()));
  }

  static Watch<JobSummary> ofServices(PelotonClient client, StatelessJobFilter filter) {
    return new Watch<>(
        client,
        new Subject<>(
            WatchRequest.newBuilder().setStatelessJobFilter(filter).build(),
            job -> job.getJobId().getValue(),
            job -> job.getStatus().getRevision().getVersion(),
            found -> listServices(client, filter, found),
            WatchResponse::getStatelessJobsList,
            answer ->
                answer.getStatelessJobsNotFoundList().stream().map(JobID::getValue).toList()));
  }

  /** Reads the services one by one where the filter names them, else all, and applies it. */
  private static void listServices(
      PelotonClient client, StatelessJobFilter filter, Consumer<JobSummary> found) {
    Consumer<JobSummary> matching =
        job -> {
          if (job.getLabelsList().containsAll(filter.getLabelsList())) {
            found.accept(job);
          }
        };
    if (filter.getJobIdsCount() == 0) {
      client
          .stub(JobServiceGrpc::newBlockingStub)
          .listJobs(ListJobsRequest.getDefaultInstance())
          .forEachRemaining(answer -> answer.getJobsList().forEach(matching));
    }
    for (JobID id : filter.getJobIdsList()) {
      GetJobRequest request = GetJobRequest.newBuilder().setJobId(id).setSummaryOnly(true).build();
      try {
        matching.accept(client.call(JobServiceGrpc.getGetJobMethod(), request).getSummary());
      } catch (PelotonException.NotFound e) {
        // so it is gone
      }
    }
  }

  /** Waits for an event; returns false when the watch is closed. */
  @Override
  public boolean hasNext() {
    while (events.isEmpty() && !life.isCancelled()) {
      try {
        more();
      } catch (RuntimeException e) {
        if (!life.isCancelled()) {
          cut(PelotonException.of(e));
        }
      }
    }
    return !life.isCancelled();
  }

  /** Waits for an event. */
  @Override
  public Event<T> next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the watch is closed");
    }
    return events.remove();
  }

  @Override
  public void close() {
    life.cancel(null);
  }

  private void more() {
    if (stream == null) {
      open();
    } else if (stream.hasNext()) {
      take(stream.next());
    } else {
      throw PelotonException.unavailable("the stream has ended", null);
    }
  }

  /** The watch is open before the list is read: what happens from the list on is not missed. */
  private void open() {
    attempt = life.withCancellation();
    Iterator<WatchResponse> opened =
        in(() -> client.stub(WatchServiceGrpc::newBlockingStub).watch(subject.request));
    if (!opened.hasNext()) {
      throw PelotonException.unavailable("the stream has ended", null);
    }
    watchId = opened.next().getWatchId();
    in(
        () -> {
          sync();
          return null;
        });
    stream = opened;
    pauses = new Calls.Pauses();
  }

  private <R> R in(Supplier<R> body) {
    Context before = attempt.attach();
    try {
      return body.get();
    } finally {
      attempt.detach(before);
    }
  }

  private void cut(PelotonException why) {
    stream = null;
    if (attempt != null) {
      attempt.cancel(why);
    }
    if (!isResumable(why)) {
      throw why;
    }
    pauses.pause();
  }

  private boolean isResumable(PelotonException why) {
    if (client.isClosed()
        || Thread.currentThread().isInterrupted()
        || why.reason().equals("watch " + watchId + " is cancelled")) { // by its id
      return false;
    }
    return switch (why.code()) {
      case UNAVAILABLE, CANCELLED, ABORTED -> true;
      case DEADLINE_EXCEEDED -> life.getDeadline() == null || !life.getDeadline().isExpired();
      default -> false;
    };
  }

  /** Tells what is there that the consumer does not know, and what is gone. */
  private void sync() {
    Set<String> there = new HashSet<>();
    PelotonException missing = null;
    try {
      subject.list.accept(
          one -> {
            there.add(subject.name.apply(one));
            change(one);
          });
    } catch (RuntimeException e) {
      missing = PelotonException.of(e);
      if (known.isEmpty() || !(missing instanceof PelotonException.NotFound)) {
        throw missing;
      }
    }
    List.copyOf(known.keySet()).stream()
        .filter(name -> !there.contains(name))
        .forEach(this::forget);
    if (missing != null) {
      throw missing; // the job itself is gone
    }
    events.add(new Event<>(Kind.SYNCED, "", null));
  }

  private void take(WatchResponse answer) {
    subject.changed.apply(answer).forEach(this::change);
    subject.gone.apply(answer).forEach(this::forget);
  }

  private void change(T now) {
    String name = subject.name.apply(now);
    T before = known.get(name);
    if (before != null
        && (subject.version.applyAsLong(now) < subject.version.applyAsLong(before)
            || before.equals(now))) {
      return; // a message that was on its way while the list was read
    }
    known.put(name, now);
    events.add(new Event<>(Kind.CHANGED, name, now));
  }

  private void forget(String name) {
    if (known.remove(name) != null) {
      events.add(new Event<>(Kind.GONE, name, null));
    }
  }
}
