package peloton.spark;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;

/**
 * Runs Spark on Peloton, for masters such as {@code local://peloton://HOST:PORT}. The ServiceLoader
 * finds it where its jar is on the driver's class path.
 *
 * <p>spark-submit refuses masters that it does not know, and takes {@code local://…} for a local
 * one; SparkContext then asks all cluster managers.
 */
public final class PelotonClusterManager implements ExternalClusterManager {
  @Override
  public boolean canCreate(String master) {
    return Master.matches(master);
  }

  @Override
  public TaskScheduler createTaskScheduler(SparkContext context, String master) {
    setDefaults(context.conf());
    return new TaskSchedulerImpl(context);
  }

  /**
   * An executor that is told to end moves its blocks to others within its grace time. Spark looks each half
   * minute for others, which is too long for that. Executors of one host fetch from each other, since they
   * may be other users, or in containers of their own, who cannot read each other's files.
   */
  private static void setDefaults(SparkConf conf) {
    conf.setIfMissing("spark.shuffle.readHostLocalDisk", "false");
    conf.setIfMissing("spark.decommission.enabled", "true");
    if (conf.getBoolean("spark.decommission.enabled", true)) {
      conf.setIfMissing("spark.storage.decommission.enabled", "true");
      conf.setIfMissing("spark.storage.decommission.rddBlocks.enabled", "true");
      conf.setIfMissing("spark.storage.decommission.shuffleBlocks.enabled", "true");
      conf.setIfMissing("spark.storage.decommission.replicationReattemptInterval", "5s");
      conf.setIfMissing("spark.storage.cachedPeersTtl", "5000");
    }
    if (conf.getBoolean("spark.dynamicAllocation.enabled", false)
        && !conf.getBoolean("spark.shuffle.service.enabled", false)) {
      conf.setIfMissing("spark.dynamicAllocation.shuffleTracking.enabled", "true");
    }
  }

  @Override
  public SchedulerBackend createSchedulerBackend(
      SparkContext context, String master, TaskScheduler scheduler) {
    return new PelotonBackend((TaskSchedulerImpl) scheduler, context, Master.parse(master));
  }

  @Override
  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
