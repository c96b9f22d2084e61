package peloton.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.SparkConf;
import peloton.api.v0.job.JobConfig;
import peloton.client.PelotonClient;
import scala.Tuple2;

/**
 * Creates the job of an application whose driver runs on the cluster, and prints its id. {@code
 * peloton spark submit --deploy-mode cluster} runs it by spark-submit, which reads all settings; its
 * arguments are the master, the folder, and the driver's own options and words for spark-submit,
 * with {@code --} between these.
 */
public final class ClusterSubmit {
  /** Names the job that the driver is instance 0 of; set in its own command. */
  static final String JOB = "spark.peloton.job";

  /** Variable of a driver on the cluster: the port of its UI, which Peloton has chosen. */
  static final String UI_PORT = "PELOTON_SPARK_UI_PORT";

  private static final String DRIVER_ENVIRONMENT = "spark.peloton.driverEnv.";
  private static final String SEPARATOR = "--";
  private static final String COMMAND =
      """
      export SPARK_HOME=%s
      case "$PELOTON_PEER_HOST" in 127.*|localhost) export SPARK_LOCAL_IP=127.0.0.1 ;; esac
      %sexec "$SPARK_HOME/bin/spark-submit" --conf spark.ui.port="$%s" %s --master local://peloton:// --deploy-mode client \
      --conf spark.driver.host="$PELOTON_PEER_HOST" --conf spark.driver.port="$PELOTON_PEER_PORT" \
      --conf %s="$PELOTON_JOB_ID" %s""";

  private ClusterSubmit() {}

  /** Exits with 1, and a line of why, where the job is not created. */
  public static void main(String[] arguments) {
    try {
      System.out.println("job " + submit(List.of(arguments), new SparkConf()));
    } catch (RuntimeException e) {
      System.err.println("peloton spark submit: " + e.getMessage());
      System.exit(1);
    }
  }

  private static String submit(List<String> arguments, SparkConf conf) {
    int end = arguments.indexOf(SEPARATOR);
    Master master = Master.parse(arguments.get(0));
    String folder = arguments.get(1);
    List<String> options = arguments.subList(2, end);
    List<String> program = arguments.subList(end + 1, arguments.size());
    ExecutorSettings settings = new ExecutorSettings(conf);
    JobSpecs specs = new JobSpecs(settings, ExecutorIds.forMost(settings.most()));
    String command =
        COMMAND.formatted(
            Shell.quoted(settings.home()),
            folder.isEmpty() ? "" : "cd " + Shell.quoted(folder) + "\n",
            UI_PORT,
            quoted(options),
            JOB,
            quoted(program));
    boolean python = program.get(0).endsWith(".py");
    JobConfig job = specs.inside(command, python, driverEnvironment(conf));
    String id = UUID.randomUUID().toString();
    try (PelotonClient client = master.connect(System.getenv())) {
      client.jobs().createWithId(id, settings.pool(), job);
    }
    return id;
  }

  private static String quoted(List<String> words) {
    List<String> out = new ArrayList<>();
    words.forEach(each -> out.add(Shell.quoted(each)));
    return String.join(" ", out);
  }

  private static Map<String, String> driverEnvironment(SparkConf conf) {
    Map<String, String> found = new TreeMap<>();
    for (Tuple2<String, String> each : conf.getAllWithPrefix(DRIVER_ENVIRONMENT)) {
      found.put(each._1(), each._2());
    }
    return found;
  }
}
