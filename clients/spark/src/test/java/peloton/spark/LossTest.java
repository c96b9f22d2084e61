package peloton.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import peloton.api.v1alpha.pod.ContainerStatus;
import peloton.api.v1alpha.pod.PodState;
import peloton.api.v1alpha.pod.PodStatus;
import peloton.api.v1alpha.pod.TerminationStatus;
import peloton.api.v1alpha.pod.TerminationStatus.Reason;

final class LossTest {
  private static PodStatus ended(PodState state, TerminationStatus.Builder how) {
    return PodStatus.newBuilder()
        .setState(state)
        .addContainersStatus(ContainerStatus.newBuilder().setTerminationStatus(how))
        .build();
  }

  @Test
  void failuresAreOfTheApplication() {
    TerminationStatus.Builder how =
        TerminationStatus.newBuilder()
            .setReason(Reason.TERMINATION_STATUS_REASON_FAILED)
            .setExitCode(52);
    Loss loss = Loss.of(ended(PodState.POD_STATE_FAILED, how));
    assertEquals(52, loss.exitCode());
    assertTrue(loss.byApplication());
  }

  @Test
  void aSignalMayBeForTooMuchMemory() {
    TerminationStatus.Builder how =
        TerminationStatus.newBuilder()
            .setReason(Reason.TERMINATION_STATUS_REASON_FAILED)
            .setSignal("Killed");
    Loss loss = Loss.of(ended(PodState.POD_STATE_FAILED, how));
    assertEquals(137, loss.exitCode());
    assertTrue(loss.byApplication());
  }

  @Test
  void whatTheClusterDoesIsNotOfTheApplication() {
    for (PodState state : new PodState[] {PodState.POD_STATE_KILLED, PodState.POD_STATE_FAILED}) {
      for (Reason reason :
          new Reason[] {
            Reason.TERMINATION_STATUS_REASON_PREEMPTED_RESOURCES,
            Reason.TERMINATION_STATUS_REASON_KILLED_HOST_MAINTENANCE,
            Reason.TERMINATION_STATUS_REASON_KILLED_ON_REQUEST
          }) {
        Loss loss = Loss.of(ended(state, TerminationStatus.newBuilder().setReason(reason)));
        assertFalse(loss.byApplication(), () -> state + " " + reason);
      }
    }
    assertFalse(
        Loss.of(PodStatus.newBuilder().setState(PodState.POD_STATE_LOST).build()).byApplication());
  }

  @Test
  void whatTheClusterDoesRunsAgain() {
    assertTrue(Loss.runsAgain(PodStatus.newBuilder().setState(PodState.POD_STATE_LOST).build()));
    for (Reason reason : Reason.values()) {
      if (reason != Reason.UNRECOGNIZED) {
        TerminationStatus.Builder how = TerminationStatus.newBuilder().setReason(reason);
        boolean expected =
            reason == Reason.TERMINATION_STATUS_REASON_PREEMPTED_RESOURCES
                || reason == Reason.TERMINATION_STATUS_REASON_KILLED_HOST_MAINTENANCE;
        assertEquals(expected, Loss.runsAgain(ended(PodState.POD_STATE_KILLED, how)), reason.name());
      }
    }
  }

  @Test
  void whatEndsByItselfWithoutFailureIsNone() {
    Loss loss = Loss.of(PodStatus.newBuilder().setState(PodState.POD_STATE_SUCCEEDED).build());
    assertEquals(0, loss.exitCode());
    assertFalse(loss.byApplication());
  }

  @Test
  void theReasonSaysWhy() {
    TerminationStatus.Builder how =
        TerminationStatus.newBuilder().setKilledFor("maintenance of h1");
    Loss loss = Loss.of(ended(PodState.POD_STATE_KILLED, how));
    assertEquals("KILLED: maintenance of h1", loss.reason());
  }
}
