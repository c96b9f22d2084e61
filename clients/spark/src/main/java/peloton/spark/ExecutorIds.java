package peloton.spark;

/**
 * The ids of executors, which Spark wants to be whole numbers: the run of an instance times a power
 * of ten, and the number of the instance. So no two runs have one id: 20003 is the second run of
 * instance 3.
 *
 * @param factor the power of ten, greater than all numbers of instances
 */
record ExecutorIds(int factor) {
  private static final int SMALLEST = 10_000;
  private static final int LARGEST = 100_000;

  /** Returns the ids for an application with up to {@code executors} executors at a time. */
  static ExecutorIds forMost(long executors) {
    // Released instances keep their numbers until they have ended: twice as many may be in use.
    return new ExecutorIds(executors * 2 < SMALLEST ? SMALLEST : LARGEST);
  }

  String of(int instance, long run) {
    return Long.toString(run * factor + instance);
  }

  int instance(String executor) {
    return (int) (Long.parseLong(executor) % factor);
  }

  long run(String executor) {
    return Long.parseLong(executor) / factor;
  }
}
