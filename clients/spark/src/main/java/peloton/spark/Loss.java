package peloton.spark;

import java.util.Set;
import peloton.api.v1alpha.pod.ContainerStatus;
import peloton.api.v1alpha.pod.PodState;
import peloton.api.v1alpha.pod.PodStatus;
import peloton.api.v1alpha.pod.TerminationStatus;
import peloton.api.v1alpha.pod.TerminationStatus.Reason;

/**
 * Why an executor ended, as Spark counts it.
 *
 * @param exitCode that of the process, 128 and the signal's number where one ended it, -1 where none
 *     is known
 * @param byApplication whether the tasks that ran there may have caused it: these count as failed
 * @param reason for people
 */
record Loss(int exitCode, boolean byApplication, String reason) {
  private static final Set<PodState> ENDED =
      Set.of(
          PodState.POD_STATE_SUCCEEDED,
          PodState.POD_STATE_FAILED,
          PodState.POD_STATE_LOST,
          PodState.POD_STATE_KILLED,
          PodState.POD_STATE_DELETED);
  private static final Set<Reason> BY_PELOTON =
      Set.of(
          Reason.TERMINATION_STATUS_REASON_PREEMPTED_RESOURCES,
          Reason.TERMINATION_STATUS_REASON_KILLED_HOST_MAINTENANCE);
  private static final int UNKNOWN = -1;
  private static final int BY_SIGNAL = 128;

  static boolean isEnded(PodStatus status) {
    return ENDED.contains(status.getState());
  }

  /**
   * Returns whether a run has ended by Peloton's own doing, or with its host: one that may not be killed
   * for a preemption runs again.
   */
  static boolean runsAgain(PodStatus status) {
    return status.getState() == PodState.POD_STATE_LOST
        || BY_PELOTON.contains(termination(status).getReason());
  }

  /** Returns why a run ended that is followed by another one: only Peloton's own doing is. */
  static Loss replaced(String host) {
    return new Loss(UNKNOWN, false, "Peloton runs the instance again elsewhere than on " + host);
  }

  /** Returns why an executor is gone whose instance does not exist any more. */
  static Loss gone() {
    return new Loss(UNKNOWN, false, "the instance was released");
  }

  /** Returns why a run has ended. */
  static Loss of(PodStatus status) {
    TerminationStatus how = termination(status);
    String text = text(status, how);
    return switch (status.getState()) {
      case POD_STATE_SUCCEEDED -> new Loss(0, false, text);
      case POD_STATE_FAILED -> new Loss(code(how), isItsOwn(how.getReason()), text);
      default -> new Loss(UNKNOWN, false, text);
    };
  }

  private static TerminationStatus termination(PodStatus status) {
    for (ContainerStatus each : status.getContainersStatusList()) {
      if (each.hasTerminationStatus()) {
        return each.getTerminationStatus();
      }
    }
    return TerminationStatus.getDefaultInstance();
  }

  private static boolean isItsOwn(Reason reason) {
    return reason == Reason.TERMINATION_STATUS_REASON_INVALID
        || reason == Reason.TERMINATION_STATUS_REASON_FAILED;
  }

  private static int code(TerminationStatus how) {
    if (how.getExitCode() != 0) {
      return how.getExitCode();
    }
    return switch (how.getSignal()) {
      case "Killed" -> BY_SIGNAL + 9;
      case "Terminated" -> BY_SIGNAL + 15;
      case "Segmentation fault" -> BY_SIGNAL + 11;
      case "Aborted" -> BY_SIGNAL + 6;
      default -> UNKNOWN;
    };
  }

  private static String text(PodStatus status, TerminationStatus how) {
    String state = status.getState().name().replace("POD_STATE_", "");
    String why =
        switch (how.getReason()) {
          case TERMINATION_STATUS_REASON_PREEMPTED_RESOURCES -> "preempted";
          case TERMINATION_STATUS_REASON_KILLED_HOST_MAINTENANCE -> "its host was drained";
          default -> "";
        };
    String said = firstOf(how.getKilledFor(), why, status.getReason(), status.getMessage());
    return said.isEmpty() ? state : state + ": " + said;
  }

  private static String firstOf(String... texts) {
    for (String text : texts) {
      if (!text.isEmpty()) {
        return text;
      }
    }
    return "";
  }
}
