package peloton.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import mesos.v1.CommandInfo;
import mesos.v1.Environment;
import org.apache.spark.launcher.JavaModuleOptions;
import org.apache.spark.util.Utils;
import peloton.api.v0.job.JobConfig;
import peloton.api.v0.job.JobType;
import peloton.api.v0.job.SlaConfig;
import peloton.api.v0.task.PortConfig;
import peloton.api.v0.task.PreemptionPolicy;
import peloton.api.v0.task.ResourceConfig;
import peloton.api.v0.task.RestartPolicy;
import peloton.api.v0.task.TaskConfig;
import peloton.api.workload.Peer;
import peloton.api.workload.TaskWorkload;
import scala.collection.Iterator;

/**
 * The job of an application. Instance 0 is its controller: the driver, or in client mode a small
 * task that ends with the driver. The others are executors.
 */
final class JobSpecs {
  static final String APPLICATION = "PELOTON_SPARK_APPLICATION";
  static final String DRIVER_URL = "PELOTON_SPARK_DRIVER_URL";
  private static final String ENDPOINT = "spark://CoarseGrainedScheduler@";
  private static final String PORT = "driver";
  private static final String UI_PORT = "ui";
  /** The archive of classes in Spark's folder, with which executors start faster. */
  private static final String ARCHIVE = "peloton-executor.jsa";

  /** Spark's launcher puts it first since 4; an archive holds for the same class path only. */
  private static final String FIRST_JAR = "$(echo \"$home\"/jars/slf4j-api-*.jar):";

  /** SIGTERM ends neither the executor nor its Python: the driver has it move its blocks, and end. */
  private static final String DEAF = "trap '' TERM\n";

  private static final double FOLLOWER_CPUS = 0.01;
  private static final double FOLLOWER_MEMORY_MB = 32;
  private static final int DRIVER_GRACE_SECONDS = 30;

  /** Exits as the driver says, and with 1 when the driver has not answered for half a minute. */
  private static final String FOLLOWER =
      """
      exec bash -c '
        misses=0
        while [ "$misses" -lt 6 ]; do
          if { exec 3<>"/dev/tcp/$0/$1"; } 2>/dev/null; then
            misses=0
            while read -r -t 30 word <&3; do
              case "$word" in exit*) exit "${word#exit}" ;; esac
            done
            exec 3>&-
          fi
          misses=$((misses + 1))
          sleep 5
        done
        echo "the driver at $0:$1 does not answer" >&2
        exit 1
      ' %s %d""";

  private static final String EXECUTOR =
      """
      home=%s
      task="${MESOS_TASK_ID:-$MESOS_EXECUTOR_ID}"
      id=$((${task##*-} * %d + PELOTON_INSTANCE_ID))
      host=%s
      url="${%s:-%s$PELOTON_PEER_HOST:$PELOTON_PEER_PORT}"
      application="${%s:-$PELOTON_JOB_ID}"
      case "$url" in *@127.*|*@localhost:*) host="${host:-127.0.0.1}" ;; esac
      host="${host:-$(hostname -f 2>/dev/null || hostname)}"
      export SPARK_HOME="$home" SPARK_EXECUTOR_ID="$id" SPARK_USER=%s
      export SPARK_LOCAL_DIRS="${SPARK_LOCAL_DIRS:-$MESOS_SANDBOX}"
      archive=%s
      archive="${archive:-$home/%s}"
      if [ -f "$archive" ]; then set -- "-XX:SharedArchiveFile=$archive"; else set --; fi
      %s%sexec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" -Xmx%dm %s \
      -cp %s"${SPARK_CONF_DIR:-$home/conf}:%s$home/jars/*" \
      org.apache.spark.executor.CoarseGrainedExecutorBackend --driver-url "$url" \
      --executor-id "$id" --hostname "$host" --cores %d --app-id "$application" \
      --resourceProfileId 0""";

  private final ExecutorSettings settings;
  private final ExecutorIds ids;

  JobSpecs(ExecutorSettings settings, ExecutorIds ids) {
    this.settings = settings;
    this.ids = ids;
  }

  /** Returns the job of a driver that runs elsewhere, at an address, and is followed at a port. */
  JobConfig outside(
      String host, int port, int followedPort, String application, int executors, String ui) {
    TaskConfig.Builder executor = executor();
    addVariable(executor, DRIVER_URL, ENDPOINT + host + ":" + port);
    addVariable(executor, APPLICATION, application);
    TaskConfig.Builder follower = TaskConfig.newBuilder().setName("driver").setController(true);
    follower.setResource(
        ResourceConfig.newBuilder()
            .setCpuLimit(FOLLOWER_CPUS)
            .setMemLimitMb(FOLLOWER_MEMORY_MB)
            .build());
    follower.setCommand(shell(FOLLOWER.formatted(Shell.quoted(host), followedPort)));
    // With 1, it follows again where its host is lost, and its own failure is its last.
    follower.setRestartPolicy(RestartPolicy.newBuilder().setMaxFailures(1));
    return job(executor, follower, executors, ui.isEmpty() ? "" : ", with its UI at " + ui);
  }

  /** Returns the job of a driver that is its instance 0; the executors find it by its port. */
  JobConfig inside(String command, boolean python, Map<String, String> environment) {
    TaskConfig.Builder executor = executor();
    executor.getWorkloadBuilder().setPeer(Peer.newBuilder().setInstance(0));
    TaskConfig.Builder driver = TaskConfig.newBuilder().setName("driver").setController(true);
    driver.setResource(
        ResourceConfig.newBuilder()
            .setCpuLimit(settings.driverCpus())
            .setMemLimitMb(settings.driverMemoryMb(python))
            .build());
    driver.setCommand(shell(command));
    environment.forEach((name, value) -> addVariable(driver, name, value));
    driver.addPorts(PortConfig.newBuilder().setName(UI_PORT).setEnvName(ClusterSubmit.UI_PORT));
    driver.addPorts(PortConfig.newBuilder().setName(PORT).setEnvName("PELOTON_SPARK_DRIVER_PORT"));
    driver.setWorkload(
        TaskWorkload.newBuilder()
            .setToken(true)
            .setRendezvousPort(PORT)
            .setGraceSeconds(DRIVER_GRACE_SECONDS)
            .setPeer(Peer.newBuilder().setInstance(0)));
    return job(executor, driver, 0, ", with its UI at the port `ui` of instance 0");
  }

  private JobConfig job(
      TaskConfig.Builder executor, TaskConfig.Builder first, int executors, String ui) {
    first.setPreemptionPolicy(policy(false));
    return JobConfig.newBuilder()
        .setName(settings.name())
        .setType(JobType.BATCH)
        .setOwningTeam(settings.team())
        .setDescription("Spark application " + settings.name() + ui)
        .setInstanceCount(1 + executors)
        .setSla(
            SlaConfig.newBuilder().setPreemptible(true).setPriority(settings.priority()).build())
        .setDefaultConfig(executor)
        .putInstanceConfig(0, first.build())
        .build();
  }

  private static PreemptionPolicy policy(boolean kill) {
    return PreemptionPolicy.newBuilder()
        .setType(PreemptionPolicy.Type.TYPE_PREEMPTIBLE)
        .setKillOnPreempt(kill)
        .build();
  }

  private TaskConfig.Builder executor() {
    TaskConfig.Builder task =
        TaskConfig.newBuilder()
            .setName("executor")
            .setResource(
                ResourceConfig.newBuilder()
                    .setCpuLimit(settings.cpus())
                    .setMemLimitMb(settings.memoryMb())
                    .setDiskLimitMb(settings.diskMb())
                    .setGpuLimit(settings.gpus())
                    .build())
            .setCommand(shell(command()))
            .setRestartPolicy(RestartPolicy.newBuilder().setMaxFailures(0))
            .setPreemptionPolicy(policy(true))
            .setWorkload(TaskWorkload.newBuilder().setGraceSeconds(settings.graceSeconds()));
    settings.environment().forEach((name, value) -> addVariable(task, name, value));
    return task;
  }

  private String command() {
    String web = settings.conf().get(ExecutorSettings.WEB_URL, "");
    String links =
        web.isEmpty()
            ? ""
            : "export SPARK_LOG_URL_TASK="
                + Shell.quoted(web)
                + "/jobs/$PELOTON_JOB_ID/tasks/$PELOTON_INSTANCE_ID\n";
    String spark = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    String classPath = settings.conf().get("spark.executor.extraClassPath", "");
    return EXECUTOR.formatted(
        Shell.quoted(settings.home()),
        ids.factor(),
        Shell.quoted(settings.conf().get(ExecutorSettings.HOST, "")),
        DRIVER_URL,
        ENDPOINT,
        APPLICATION,
        Shell.quoted(System.getProperty("user.name")),
        Shell.quoted(settings.conf().get(ExecutorSettings.ARCHIVE, "")),
        ARCHIVE,
        links,
        settings.isDecommissionedByDriver() ? DEAF : "",
        settings.heapMb(),
        String.join(" ", options()),
        classPath.isEmpty() ? "" : Shell.quoted(classPath + ":"),
        spark.startsWith("3.") ? "" : FIRST_JAR,
        settings.cores());
  }

  private List<String> options() {
    List<String> words = new ArrayList<>();
    String modules = JavaModuleOptions.defaultModuleOptions();
    String extra = settings.conf().get("spark.executor.extraJavaOptions", "");
    addOptions(words, settings.conf().get("spark.executor.defaultJavaOptions", ""));
    addOptions(words, extra.contains(modules) ? "" : modules); // a SparkContext puts them there
    addOptions(words, extra);
    settings.startup().forEach((name, value) -> words.add(Shell.quoted("-D" + name + "=" + value)));
    return words;
  }

  /** Adds options, in which Spark's two placeholders stand for what the shell knows. */
  private static void addOptions(List<String> words, String options) {
    Iterator<String> split = Utils.splitCommandString(options).iterator();
    while (split.hasNext()) {
      words.add(
          Shell.quoted(split.next())
              .replace("{{APP_ID}}", "'\"$application\"'")
              .replace("{{EXECUTOR_ID}}", "'\"$id\"'"));
    }
  }

  private static CommandInfo shell(String command) {
    return CommandInfo.newBuilder().setShell(true).setValue(command).build();
  }

  private static void addVariable(TaskConfig.Builder task, String name, String value) {
    task.getCommandBuilder()
        .getEnvironmentBuilder()
        .addVariables(Environment.Variable.newBuilder().setName(name).setValue(value));
  }
}
