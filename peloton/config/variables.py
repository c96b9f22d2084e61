"""Environment variables that are settings of processes. Made by `make settings`."""

NAMES = frozenset(
    {
        "AUTH_CONFIG_FILE",
        "AUTH_TYPE",
        "AUTO_MIGRATE",
        "BIN_PACKING",
        "CASSANDRA_HOSTS",
        "CASSANDRA_PORT",
        "CASSANDRA_STORE",
        "CLUSTER",
        "ELECTION_ZK_SERVERS",
        "ENABLE_DEBUG_LOGGING",
        "ENABLE_HOST_POOL",
        "ENABLE_PREEMPTION",
        "ENABLE_REVOCABLE_RESOURCES",
        "ENABLE_SECRETS",
        "GRPC_PORT",
        "HTTP_PORT",
        "JOB_TYPE",
        "MESOS_CLUSTER",
        "MESOS_MASTER",
        "MESOS_SECRET_FILE",
        "MESOS_ZK_PATH",
        "PELOTON_SECRET_FILE",
        "SCARCE_RESOURCE_TYPES",
        "SLACK_RESOURCE_TYPES",
        "TASK_DEQUEUE_LIMIT",
        "TASK_PREEMPTION_PERIOD",
        "TASK_TYPE",
        "USE_HOST_POOLS",
    }
)
