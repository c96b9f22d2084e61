"""Tokens of a program on a real API server: one that it refuses is replaced, and no task notices."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from peloton.clock import SystemClock
from peloton.kubernetes.access import Access
from peloton.kubernetes.client import ApiClient
from peloton.kubernetes.programs import VERSIONS, Program, TokenProgram
from peloton.model.states import TaskState
from tests.contract.backend.recorder import Recorder
from tests.contract.backend.systems import NAMESPACE, PORTS
from tests.kubernetes.real import RealKubernetes
from tests.kubernetes.rights import FILE, Rights


async def test_a_token_that_the_server_refuses_is_replaced(system: RealKubernetes, tmp_path: Path) -> None:
    rights = await asyncio.to_thread(Rights, system, FILE)
    answer = tmp_path / "answer"
    script = f"import pathlib; print(pathlib.Path({str(answer)!r}).read_text())"

    def give(token: str) -> None:
        answer.write_text(json.dumps({"apiVersion": VERSIONS[0], "status": {"token": token}}))

    give(rights.access.token)
    program = TokenProgram(Program([sys.executable, "-c", script], VERSIONS[0]))
    client = ApiClient(Access(rights.admin.server, rights.admin.tls, program=program))
    rules = ClusterRules(NAMESPACE, ports=(PORTS,))
    backend = KubernetesBackend(client, "", "", rules, system.pods, SystemClock())
    leader = Recorder(backend)
    try:
        await leader.connected()
        program.reject(rights.access.token)
        give("forged")
        assert await program.token() == "forged"
        give(rights.access.token)
        leader.launch(leader.task("true"))
        assert (await leader.ends(leader.run())).status.state is TaskState.SUCCEEDED
        assert await program.token() == rights.access.token
    finally:
        await leader.stop()
