"""What Airflow is told of the provider, by its entry point."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

PACKAGE = "airflow-provider-peloton"
_MODULES = "airflow_provider_peloton"
_TEXT = {"type": ["string", "null"]}


def get_provider_info() -> dict[str, Any]:
    """Return it in the form of Airflow's schema of providers."""
    return {
        "package-name": PACKAGE,
        "name": "Peloton",
        "description": "Jobs on Peloton, a cluster scheduler.",
        "versions": [version(PACKAGE)],
        "integrations": [
            {
                "integration-name": "Peloton",
                "tags": ["service"],
            }
        ],
        "operators": [
            {"integration-name": "Peloton", "python-modules": [f"{_MODULES}.operators.job"]},
        ],
        "hooks": [{"integration-name": "Peloton", "python-modules": [f"{_MODULES}.hooks.peloton"]}],
        "triggers": [{"integration-name": "Peloton", "python-modules": [f"{_MODULES}.triggers.job"]}],
        "extra-links": [f"{_MODULES}.operators.job.PelotonJobLink"],
        "connection-types": [
            {
                "connection-type": "peloton",
                "hook-class-name": f"{_MODULES}.hooks.peloton.PelotonHook",
                "hook-name": "Peloton",
                "conn-fields": {
                    "resource_manager": {"label": "Resource managers", "schema": _TEXT},
                    "zk_servers": {"label": "ZooKeeper servers", "schema": _TEXT},
                    "zk_root": {"label": "ZooKeeper root", "schema": _TEXT},
                    "ca_file": {"label": "CA file", "schema": _TEXT},
                    "cert_file": {"label": "Certificate file", "schema": _TEXT},
                    "key_file": {"label": "Key file", "schema": _TEXT},
                    "token": {"label": "Bearer token", "schema": {**_TEXT, "format": "password"}},
                    "web_url": {"label": "URL of the web pages", "schema": _TEXT},
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port", "extra"],
                    "relabeling": {"host": "Job managers"},
                    "placeholders": {
                        "host": "jobmgr1:5392,jobmgr2:5392",
                        "web_url": "https://peloton.example.com",
                    },
                },
            }
        ],
    }
