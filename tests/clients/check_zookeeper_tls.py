"""The Go and Java clients find leaders in a ZooKeeper that speaks TLS and asks for certificates."""

from __future__ import annotations

import asyncio
from pathlib import Path

from peloton.membership.lease import Standing
from tests.integration.zookeeper.conftest import member, standing
from tests.integration.zookeeper.test_tls import Secure, joined, root, secure
from tests.waiting import until

from .conftest import GO, JAVA, java_test, run

__all__ = ["root", "secure"]


async def test_leaders_are_found_by_tls(secure: Secure, root: str, go_tests: str, java_tests: None) -> None:
    environment = {
        "ZK_SERVERS": secure.address,
        "ZK_ROOT": root,
        "ZK_TLS": "1",
        "PELOTON_CA_FILE": str(secure.ca),
        "PELOTON_CERT_FILE": str(secure.own.certificate),
        "PELOTON_KEY_FILE": str(secure.own.key),
        "PELOTON_TEST_LEADER": "127.0.0.1:2",
    }

    async def look(command: list[str], folder: Path) -> None:
        await asyncio.to_thread(run, command, folder, environment)

    own = joined(secure, root)
    await own.start()
    try:
        leadership = await own.campaign(member("one"))
        await until(lambda: standing(leadership) is Standing.HELD)
        await look([go_tests, "-test.v", "-test.run=^TestSecuredZooKeeper$"], GO)
        await look(java_test("ZooKeeperTlsTest"), JAVA)
    finally:
        await own.close()
