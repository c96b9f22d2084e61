package peloton.client;

import peloton.api.v1alpha.pod.PodSummary;

/** An event of a watch. {@code pod} is set where it is CHANGED; {@code name} is empty where it is SYNCED. */
public record PodEvent(Kind kind, String name, PodSummary pod) {
  /** What an event tells. */
  public enum Kind {
    /** A pod as it is now, also one that was there when the watch began. */
    CHANGED,
    /** A pod that does not exist any more. */
    GONE,
    /** The watcher knows all that is there: at the start, and again after each cut. */
    SYNCED
  }
}
