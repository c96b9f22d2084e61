package peloton.spark;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import scala.Tuple2;

/**
 * What an application's settings say of its executors, whose job is made of it.
 *
 * @param conf the settings
 */
record ExecutorSettings(SparkConf conf) {
  static final String POOL = "spark.peloton.pool";
  static final String TEAM = "spark.peloton.team";
  static final String HOME = "spark.peloton.executor.home";
  static final String ARCHIVE = "spark.peloton.executor.archive";
  static final String HOST = "spark.peloton.executor.host";
  static final String CPUS = "spark.peloton.executor.cpus";
  static final String DISK_MB = "spark.peloton.executor.diskMb";
  static final String GRACE_SECONDS = "spark.peloton.executor.graceSeconds";
  static final String PRIORITY = "spark.peloton.priority";
  static final String WEB_URL = "spark.peloton.webUrl";
  static final String DRIVER_CPUS = "spark.peloton.driver.cpus";

  private static final String DEFAULT_POOL = "/DefaultResPool";
  private static final long LEAST_OVERHEAD_MB = 384;
  private static final double OVERHEAD = 0.1;
  private static final double OVERHEAD_OF_PYTHON = 0.4;
  private static final int DEFAULT_GRACE_SECONDS = 60;
  private static final int DEFAULT_INSTANCES = 2;

  String name() {
    return conf.get("spark.app.name", "spark");
  }

  String pool() {
    String given = System.getenv("PELOTON_POOL");
    return conf.get(POOL, given == null || given.isEmpty() ? DEFAULT_POOL : given);
  }

  String team() {
    return conf.get(TEAM, System.getProperty("user.name"));
  }

  int priority() {
    return conf.getInt(PRIORITY, 0);
  }

  int cores() {
    return conf.getInt("spark.executor.cores", 1);
  }

  double cpus() {
    return conf.getDouble(CPUS, cores());
  }

  double gpus() {
    return conf.getDouble("spark.executor.resource.gpu.amount", 0);
  }

  double diskMb() {
    return conf.getDouble(DISK_MB, 0);
  }

  int graceSeconds() {
    return conf.getInt(GRACE_SECONDS, DEFAULT_GRACE_SECONDS);
  }

  long heapMb() {
    return conf.getSizeAsMb("spark.executor.memory", "1g");
  }

  /** Returns the memory of an executor's task: its heap, and what it needs besides. */
  long memoryMb() {
    long offHeap =
        conf.getBoolean("spark.memory.offHeap.enabled", false)
            ? conf.getSizeAsBytes("spark.memory.offHeap.size", 0) >> 20
            : 0;
    long python =
        conf.contains("spark.executor.pyspark.memory")
            ? conf.getSizeAsMb("spark.executor.pyspark.memory")
            : 0;
    return heapMb() + overheadMb("spark.executor", heapMb(), OVERHEAD) + offHeap + python;
  }

  /** Returns the memory of a driver's task, where it is one. */
  long driverMemoryMb(boolean python) {
    long heap = conf.getSizeAsMb("spark.driver.memory", "1g");
    return heap + overheadMb("spark.driver", heap, python ? OVERHEAD_OF_PYTHON : OVERHEAD);
  }

  double driverCpus() {
    return conf.getDouble(DRIVER_CPUS, conf.getInt("spark.driver.cores", 1));
  }

  private long overheadMb(String whose, long heap, double usual) {
    if (conf.contains(whose + ".memoryOverhead")) {
      return conf.getSizeAsMb(whose + ".memoryOverhead");
    }
    double factor = conf.getDouble(whose + ".memoryOverheadFactor", usual);
    long least = conf.getSizeAsMb(whose + ".minMemoryOverhead", LEAST_OVERHEAD_MB + "m");
    return Math.max(least, (long) (heap * factor));
  }

  /**
   * Returns whether the driver decommissions executors that Peloton ends, which are deaf to SIGTERM then.
   * Where a signal is named, executors do so by themselves.
   */
  boolean isDecommissionedByDriver() {
    return conf.getBoolean("spark.decommission.enabled", true)
        && !conf.contains("spark.executor.decommission.signal");
  }

  boolean isDynamic() {
    return conf.getBoolean("spark.dynamicAllocation.enabled", false);
  }

  /** Returns how many executors there are at first. */
  int initial() {
    if (!isDynamic()) {
      return conf.getInt("spark.executor.instances", DEFAULT_INSTANCES);
    }
    int least = conf.getInt("spark.dynamicAllocation.minExecutors", 0);
    int first = conf.getInt("spark.dynamicAllocation.initialExecutors", least);
    return Math.max(least, Math.max(first, conf.getInt("spark.executor.instances", 0)));
  }

  /** Returns how many executors there may be at a time. */
  long most() {
    return isDynamic()
        ? conf.getInt("spark.dynamicAllocation.maxExecutors", Integer.MAX_VALUE)
        : initial();
  }

  /** Returns how many executors may fail until the application is given up. */
  int mostFailures() {
    long executors = isDynamic() ? Math.min(most(), 1000) : initial();
    return conf.getInt("spark.executor.maxNumFailures", (int) Math.max(3, 2 * executors));
  }

  /** Returns the time after which a failure of an executor does not count any more. */
  long failuresValidMillis() {
    return conf.getTimeAsMs("spark.executor.failuresValidityInterval", "1h");
  }

  /** Returns where Spark is on the executors' hosts. */
  String home() {
    String here = System.getenv("SPARK_HOME");
    String found = conf.get(HOME, here == null ? "" : here);
    if (found.isEmpty()) {
      throw new IllegalArgumentException(
          HOME + " is not set, nor is SPARK_HOME: the folder of Spark on the hosts is needed");
    }
    return found;
  }

  /** Returns the variables of executors: those of spark.executorEnv. */
  Map<String, String> environment() {
    Map<String, String> found = new TreeMap<>();
    for (Tuple2<String, String> each : conf.getAllWithPrefix("spark.executorEnv.")) {
      found.put(each._1(), each._2());
    }
    return found;
  }

  /** Returns the settings that an executor needs before it has asked its driver for all. */
  Map<String, String> startup() {
    Map<String, String> found = new LinkedHashMap<>();
    for (Tuple2<String, String> each : conf.getAll()) {
      boolean secret = each._1().toLowerCase(Locale.ROOT).contains("password");
      if (SparkConf.isExecutorStartupConf(each._1()) && !secret) {
        found.put(each._1(), each._2());
      }
    }
    return new TreeMap<>(found);
  }
}
