"""Apache Airflow provider of Peloton: operator, trigger and hook."""
