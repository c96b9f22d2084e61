"""The server that tests and miniclusters start."""

from __future__ import annotations

from pathlib import Path

import pytest

from minicluster.servers.cassandra import Lasting
from minicluster.servers.maven import Missing
from storage.cassandra.connection import connect
from storage.cassandra.migrate import up
from storage.selection.factory import open_store
from tests.conftest import lacking
from tests.contract.storage.samples import job_id, task_runtime
from tests.servers.cassandra import cassandra_server
from tests.servers.store import settings_for


@pytest.mark.timeout(240)
async def test_what_was_written_outlives_a_kill(tmp_path: Path) -> None:
    try:
        with cassandra_server(tmp_path, lasting=Lasting.ALL) as server:
            settings = settings_for(server, tmp_path)
            up(settings)
            store = await open_store(settings)
            await store.write_all(job_id(1), {0: task_runtime()})
            await store.close()
            server.kill()
            server.start()
            connect(settings, settings.keyspace).close()
            again = await open_store(settings)
            assert await again.tasks.get(job_id(1), 0) == task_runtime()
            await again.close()
    except Missing as missing:
        lacking(missing)
