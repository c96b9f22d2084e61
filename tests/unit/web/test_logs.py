from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from peloton.api.v0.task import task_pb2
from peloton.calls import web
from peloton.errors import InvalidArgument, NotFound, Unavailable
from peloton.web.sandbox import CHUNK_BYTES
from peloton.web.views.sandbox.follow import offsets_of
from peloton.web.views.sandbox.log_search import LogSearch, Matcher, Part, marked, part_of, plain
from peloton.web.views.sandbox.merging import by_time

from .agent import ROOT, Agent, running
from .fake import FakeCluster, application, browser
from .jobs_cluster import EVIL, JOB, cluster, task_info

BASE = f"/jobs/{JOB}/instances/1"


@pytest.fixture(scope="module")
def server() -> Iterator[Agent]:
    with running() as agent:
        yield agent


@pytest.fixture
def agent(server: Agent) -> Agent:
    server.files = {"stdout": b"one\ntwo\n", "stderr": b"bad\n", "out/report.txt": b"x"}
    return server


@pytest.fixture
def found(agent: Agent) -> FakeCluster:
    of = cluster()
    of.answers[web.BROWSE_SANDBOX] = task_pb2.BrowseSandboxResponse(
        hostname="127.0.0.1", port=str(agent.port), paths=[f"{ROOT}/stdout", f"{ROOT}/stderr"]
    )
    return of


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def search(query: str = "") -> LogSearch:
    return LogSearch.of(JOB, 1, QueryParams(query))


def events(text: str) -> list[tuple[str, dict[str, str]]]:
    """The events of a stream: name and data."""
    told = []
    for block in text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "event" in lines:
            told.append((lines["event"], json.loads(lines["data"])))
    return told


# Which part of a file is shown.


def test_each_part_has_its_own_address() -> None:
    for query in ("", "run=2&file=a%2Fb&from=12&find=x+y", "before=70&file=stdout", "from=start"):
        shown = search(query)
        assert search(shown.url.partition("?")[2]) == shown


@pytest.mark.parametrize(
    "query",
    ["run=x", "run=-1", "file=../secret", "file=", "from=middle", "before=x", f"find={'x' * 201}", "from=١"],
)
def test_what_cannot_be_shown_is_refused(query: str, client: TestClient) -> None:
    with pytest.raises(InvalidArgument):
        search(query)
    assert client.get(f"{BASE}/logs?{query}").status_code == 400


def test_parts_are_of_whole_lines() -> None:
    end = part_of(search("file=stdout"), "stdout", 5, b"alf\nwhole\nop", 17)
    assert ([line.parts[0][0] for line in end.lines], end.first, end.next) == (["whole", "op"], 9, 17)
    assert (end.at_end, end.lines[-1].whole) == (True, False)
    first = part_of(search("file=stdout&from=start"), "stdout", 0, b"one\ntwo\nthr", 100)
    assert (len(first.lines), first.next, first.at_end) == (2, 8, False)
    later = part_of(search("file=stdout&from=8"), "stdout", 8, b"three\n", 14)
    assert (later.first, later.lines[0].parts) == (8, [("three", False)])


def test_the_part_before_a_byte_ends_there() -> None:
    assert search(f"file=stdout&before={CHUNK_BYTES + 10}").span(CHUNK_BYTES * 3) == (10, CHUNK_BYTES)
    assert search("file=stdout&before=30").span(CHUNK_BYTES * 3) == (0, 30)
    assert search("file=stdout").span(CHUNK_BYTES * 3) == (CHUNK_BYTES * 2, CHUNK_BYTES)
    assert search("file=stdout&from=99").span(40) == (40, CHUNK_BYTES)


def test_text_is_shown_without_the_marks_of_a_terminal() -> None:
    assert plain("\x1b[1;31mred\x1b[0m\r\n") == "red\n"
    assert marked("an Error, an error", "ERROR") == [
        ("an ", False),
        ("Error", True),
        (", an ", False),
        ("error", True),
    ]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_search_finds_lines_however_the_file_arrives(size: int) -> None:
    data = b"one\nTWO two\nthree\ntwo"
    matcher = Matcher(search("find=two"), "stdout")
    for at in range(0, len(data), size):
        matcher.feed(data[at : at + size])
    matcher.end()
    assert [(each.number, each.url.partition("from=")[2]) for each in matcher.found] == [
        (2, "4&find=two"),
        (4, "18&find=two"),
    ]


# The page.


def test_output_of_both_files_is_shown_and_followed(client: TestClient) -> None:
    text = client.get(f"{BASE}/logs").text
    assert '<span class="line">one\n</span>' in text and '<span class="line stderr">bad\n</span>' in text
    assert "offsets=8%2C4" in text and "run=2" in text


def test_a_file_is_read_from_its_start_and_on(client: TestClient, agent: Agent) -> None:
    agent.files["stdout"] = b"".join(b"line %d\n" % at for at in range(20_000))
    text = client.get(f"{BASE}/logs?file=stdout&from=start").text
    assert ">line 0\n" in text and "line 19999" not in text and "data-stream" not in text
    assert "more bytes" in text
    end = client.get(f"{BASE}/logs?file=stdout").text
    assert ">line 19999\n" in end and ">line 0\n" not in end and "data-stream" in end


def test_a_search_reads_the_whole_file(client: TestClient, agent: Agent) -> None:
    agent.files["stdout"] = b"needle here\n" + b"hay\n" * 50_000
    text = client.get(f"{BASE}/logs?find=NEEDLE").text
    assert "1 line with" in text and "<mark>needle</mark>" in text
    assert "0 lines with" in client.get(f"{BASE}/logs?find=absent").text


def test_an_ended_run_has_its_output(client: TestClient, found: FakeCluster) -> None:
    over = task_info(1, "FAILED")
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=over, results=[over])
    text = client.get(f"{BASE}/logs?run=2").text
    assert "one" in text and "data-stream" not in text
    asked = [request for _, name, request in found.asked if name == "BrowseSandbox"]
    assert asked[0].taskId == f"{JOB}-1-2"


@pytest.mark.parametrize("page", ["logs", "files", "download?path=stdout"])
def test_while_a_run_waits_the_one_before_it_is_shown(
    client: TestClient, found: FakeCluster, page: str
) -> None:
    waits, over = task_info(1, "PENDING", host=""), task_info(1, "FAILED")
    waits.runtime.mesosTaskId.value = f"{JOB}-1-3"
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=waits, results=[waits, over])
    assert client.get(f"{BASE}/{page}").status_code == 200
    asked = [request for _, name, request in found.asked if name == "BrowseSandbox"]
    assert [request.taskId for request in asked] == [f"{JOB}-1-2"]


def test_a_run_without_a_sandbox_says_why(client: TestClient, found: FakeCluster) -> None:
    refused = task_pb2.BrowseSandboxResponse()
    refused.error.notRunning.message = "run 9 was not launched"
    found.answers[web.BROWSE_SANDBOX] = refused
    for page in ("logs", "files"):
        answer = client.get(f"{BASE}/{page}?run=9")
        assert answer.status_code == 200 and "run 9 was not launched" in answer.text
        assert "data-stream" not in answer.text
    assert client.get(f"{BASE}/download?path=stdout").status_code == 409


def test_an_agent_that_does_not_answer_is_named(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.BROWSE_SANDBOX] = task_pb2.BrowseSandboxResponse(
        hostname="127.0.0.1", port="9", paths=[f"{ROOT}/stdout"]
    )
    for page in ("logs", "files", "download?path=stdout"):
        answer = client.get(f"{BASE}/{page}")
        assert answer.status_code == 503 and "127.0.0.1:9" in answer.text


@pytest.mark.parametrize("page", ["", "/logs", "/files", "/download?path=stdout"])
def test_what_is_not_there_or_does_not_answer(client: TestClient, found: FakeCluster, page: str) -> None:
    methods = (web.GET_TASK, web.BROWSE_SANDBOX)
    found.answers |= dict.fromkeys(methods, NotFound("there is no job nobody"))
    answer = client.get(f"{BASE}{page}")
    assert answer.status_code == 404 and "there is no job nobody" in answer.text
    found.answers |= dict.fromkeys(methods, Unavailable("no leader of jobmgr is known"))
    answer = client.get(f"{BASE}{page}")
    assert answer.status_code == 503 and "no leader of jobmgr" in answer.text
    assert client.get(f"/jobs/{JOB}/instances/x{page}").status_code == 404
    assert client.get(f"/jobs/{JOB}/instances/{2**32}{page}").status_code == 404


OUT = b"2026-11-27 02:00:01,500 one\n  goes on\n2026-11-27 02:00:03,000 three\n"
ERR = b"[WARNING 2026-11-27T02:00:02.25] two\n[INFO 2026-11-27T02:00:04] four\n"


def test_lines_with_times_are_merged_by_them(client: TestClient, agent: Agent) -> None:
    agent.files = {"stdout": OUT, "stderr": ERR}
    page = client.get(f"{BASE}/logs").text
    places = [page.index(f"{word}\n</span>") for word in ("one", "  goes on", "two", "three", "four")]
    assert places == sorted(places)
    assert "In the order of the times" in page and page.count('class="line stderr"') == 2


@pytest.mark.parametrize(
    "err",
    [
        b"no time\n",
        b"2026-11-27T02:00:02Z of a zone\n",
        b"W1127 02:00:02.1 without a year\n",
        b"2026-11-27 27:00:00 x\n",
    ],
)
def test_lines_whose_times_cannot_be_compared_are_not_merged(
    client: TestClient, agent: Agent, err: bytes
) -> None:
    agent.files = {"stdout": OUT, "stderr": err}
    page = client.get(f"{BASE}/logs").text
    assert "The lines have no times to merge the two by" in page
    assert page.index("three") < page.index('class="line stderr"')


def test_the_order_within_a_file_is_kept_and_lines_without_a_time_stay_where_they_are() -> None:
    def part(name: str, text: str) -> Part:
        return part_of(search(), name, 0, text.encode(), len(text))

    out = part("stdout", "head\nI1127 10:00:05.0 b\nI1127 10:00:04.0 late\n")
    err = part("stderr", "E1127 10:00:05.0 c\ntrace\nE1127 10:00:06.5 d\n")
    merged = ["".join(text for text, _ in each.line.parts)[-4:] for each in by_time([out, err])]
    assert merged == ["head", ".0 b", "late", ".0 c", "race", ".5 d"]
    assert by_time([out]) == [] and by_time([out, part("stderr", "")]) == []


# Following.


def test_a_stream_sends_what_is_new_and_ends_with_the_run(client: TestClient, found: FakeCluster) -> None:
    over = task_info(1, "SUCCEEDED")
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=over, results=[over])
    answer = client.get(f"{BASE}/logs/stream?offsets=4,0")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert events(answer.text) == [
        ("text", {"file": "stdout", "text": "two\n"}),
        ("text", {"file": "stderr", "text": "bad\n"}),
        ("over", {"state": "SUCCEEDED"}),
    ]
    assert "id: 8,4\n" in answer.text


def test_a_broken_connection_goes_on_where_it_was(client: TestClient, found: FakeCluster) -> None:
    over = task_info(1, "KILLED")
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=over, results=[over])
    answer = client.get(f"{BASE}/logs/stream?offsets=0,0", headers={"last-event-id": "8,4"})
    assert events(answer.text) == [("over", {"state": "KILLED"})]


def test_a_stream_reads_a_file_that_was_cut_anew(
    client: TestClient, found: FakeCluster, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peloton.web.views.sandbox.follow.CHECK_READS", 1)
    over = task_info(1, "SUCCEEDED")
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=over, results=[over])
    told = events(client.get(f"{BASE}/logs/stream?file=stdout&offsets=500").text)
    assert told[0] == ("text", {"file": "stdout", "text": "one\ntwo\n"})


@pytest.mark.parametrize("text", ["1", "1,2,3", "x,1", "-1,2"])
def test_wrong_offsets_are_refused(text: str, client: TestClient) -> None:
    with pytest.raises(InvalidArgument, match="offsets"):
        offsets_of(text, 2)
    assert client.get(f"{BASE}/logs/stream?offsets={text}").status_code == 400


# Files.


def test_folders_are_browsed_and_files_downloaded(client: TestClient) -> None:
    text = client.get(f"{BASE}/files").text
    assert "out/" in text and "path=out" in text
    inner = client.get(f"{BASE}/files?path=out").text
    assert f'href="{BASE}/logs?run=&amp;file=out%2Freport.txt"' in inner
    answer = client.get(f"{BASE}/download?path=out/report.txt")
    assert answer.content == b"x"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''report.txt"
    assert answer.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("files?path=..", 400),
        ("download?path=../../etc/passwd", 400),
        ("download", 400),
        ("download?path=absent", 404),
        ("files?path=absent", 404),
        ("logs?file=absent", 200),
        ("logs?file=out", 200),
    ],
)
def test_paths_stay_inside_of_the_sandbox(client: TestClient, path: str, status: int) -> None:
    answer = client.get(f"{BASE}/{path}")
    assert answer.status_code == status
    if "absent" in path:
        assert "there is no file" in answer.text
    if path.endswith("=out"):
        assert "it is a folder" in answer.text


@pytest.mark.parametrize(
    ("page", "status"),
    [("download?path=out/evil", 409), ("files?path=out/evil", 200), ("logs?file=out/evil", 200)],
)
def test_a_link_that_leads_out_is_said_not_to_be_followed(
    client: TestClient, agent: Agent, page: str, status: int
) -> None:
    agent.files["out/evil"] = b""
    agent.links.add("out/evil")
    answer = client.get(f"{BASE}/{page}")
    assert answer.status_code == status
    assert "is a link that leads out of the sandbox, or to nothing: it is not followed" in answer.text


def test_why_files_are_not_shown(client: TestClient, agent: Agent) -> None:
    assert "Not all files are shown" not in client.get(f"{BASE}/files").text
    agent.withheld = "its container has ended"
    assert "Not all files are shown: its container has ended" in client.get(f"{BASE}/files").text
    for page, status in (("files?path=gone", 200), ("download?path=gone/x", 409), ("logs?file=gone", 200)):
        answer = client.get(f"{BASE}/{page}")
        assert (answer.status_code, "its container has ended" in answer.text) == (status, True), page


def test_html_in_output_and_names_does_nothing(client: TestClient, agent: Agent) -> None:
    agent.files = {"stdout": EVIL.encode() + b"\n", EVIL.replace("/", ""): b"", "stderr": EVIL.encode()}
    for path in ("logs", "logs?find=script", "files", f"logs?find={EVIL}"):
        answer = client.get(f"{BASE}/{path}")
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text and "<img" not in answer.text
