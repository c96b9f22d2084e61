"""Sort, join and aggregate tables that the program generates; print the rows.

The first argument is the number of orders, the second one that of partitions.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

SHOWN = 50


def main() -> None:
    """Print the first rows of each result, and a sum over all of its rows."""
    orders_count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    parts = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    spark = SparkSession.builder.appName("tables").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", parts)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)  # so that joins shuffle
    key = f.col("id")
    orders = spark.range(0, orders_count, 1, parts).select(
        key.alias("order"),
        (f.hash(key) % 1000).alias("customer"),
        (f.pmod(f.hash(key * 7), f.lit(10_000)) / 100).alias("amount"),
    )
    customers = spark.range(-1000, 1000, 1, parts).select(
        key.alias("customer"), f.pmod(f.hash(key * 13), f.lit(50)).alias("region")
    )
    joined = orders.join(customers, "customer")
    results = {
        "sort": orders.orderBy("amount", "order"),
        "join": joined.orderBy("order"),
        "aggregation": joined.groupBy("region")
        .agg(f.count("*").alias("orders"), f.round(f.sum("amount"), 2).alias("amount"))
        .orderBy("region"),
    }
    for name, table in results.items():
        for row in table.limit(SHOWN).collect():
            print(f"{name}: {row}")
        total = table.select(f.sum(f.xxhash64(*table.columns).cast("decimal(38,0)"))).collect()[0][0]
        print(f"{name}: {table.count()} rows, their hashes sum up to {total}")
    spark.stop()


if __name__ == "__main__":
    main()
