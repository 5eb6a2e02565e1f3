"""The flow on a real server of Prefect and a real DVC; stages of a graph that take no time stand for ours."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest

from tests import tiny
from tests.toy_project import environment

ROOT = tiny.ROOT

WORK = """
import json, os, pathlib, signal, sys, time
name = sys.argv[1]
orders = json.loads(pathlib.Path("orders.json").read_text()).get(name, {})
count = pathlib.Path(f"count-{name}")
count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
print(f"{name} begins", flush=True)
for size in orders.get("lines", []):
    print("x" * size, flush=True)
print(os.environ.get("CUDA_VISIBLE_DEVICES", "-"), flush=True)
time.sleep(orders.get("sleep", 0))
codes = orders.get("codes", [])
if int(count.read_text()) <= len(codes) and codes[int(count.read_text()) - 1]:
    print(f"error: {name} is not well", file=sys.stderr, flush=True)
    sys.exit(codes[int(count.read_text()) - 1])
out = pathlib.Path(f"out/{name}")
out.parent.mkdir(exist_ok=True)
out.write_text("".join(pathlib.Path(one).read_text() for one in sys.argv[2:]) + name)
"""

GRAPH = """
stages:
  rows: {cmd: exec python work.py rows raw.csv, deps: [raw.csv, work.py], outs: [out/rows]}
  left: {cmd: exec python work.py left out/rows, deps: [out/rows], outs: [out/left], meta: {slot: train}}
  right: {cmd: exec python work.py right out/rows, deps: [out/rows], outs: [out/right], meta: {slot: train}}
  last: {cmd: exec python work.py last out/left out/right, deps: [out/left, out/right], outs: [out/last]}
"""

RUN = """
import json, sys
from pathlib import Path
from pipeline.flows import foreground
sys.exit(foreground.run(Path.cwd(), json.loads(sys.argv[1])))
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """`prefect server start` with SQLite; its API's URL."""
    home = tmp_path_factory.mktemp("prefect")
    port = free_port()
    settings = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}/api"
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5)
            break
        except OSError:
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.3)
    yield url
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


class Toy:
    """A checkout with a toy graph."""

    def __init__(self, root, url):
        self.root = root
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "DVC_", "PREFECT_"))},
            **environment(root.parent / "home"),
            "PREFECT_API_URL": url,
            "PREFECT_HOME": str(root.parent / "prefect"),
            "PYTHONPATH": str(ROOT),
            "REMINT_STATE": str(root.parent / "state"),
            "DVC_NO_ANALYTICS": "1",
        }

    def start(self, **parameters):
        return subprocess.Popen(
            [sys.executable, "-c", RUN, json.dumps({"retry_delay_seconds": 0.1, **parameters})],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, code=0, **parameters):
        """What a run says that ends with an exit code, and the outcome of each stage."""
        process = self.start(**parameters)
        said, _ = process.communicate(timeout=240)
        assert process.returncode == code, said
        table = re.split(r"outcome +seconds\n", said)[-1].splitlines()
        words = [line.split() for line in table if len(line.split()) >= 3]
        return said, {line[0]: " ".join(line[1:-1]) for line in words[:4]}

    def order(self, **orders):
        (self.root / "orders.json").write_text(json.dumps(orders))

    def count(self, stage):
        file = self.root / f"count-{stage}"
        return int(file.read_text()) if file.exists() else 0


@pytest.fixture
def toy(tmp_path, server):
    root = tmp_path / "checkout"
    root.mkdir()
    made = Toy(root, server)
    (root / "work.py").write_text(WORK)
    (root / "raw.csv").write_text("rows")
    (root / "dvc.yaml").write_text(GRAPH)
    tiny.write_params(root / "params.yaml", **{"data.raw": "raw.csv"})
    made.order()
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=root, env=made.environment, check=True)
    return made


def test_all_runs_then_nothing_then_what_a_change_touches(toy):
    assert toy.run()[1] == dict.fromkeys(["rows", "left", "right", "last"], "ran")
    said, outcomes = toy.run()
    assert outcomes == dict.fromkeys(["rows", "left", "right", "last"], "unchanged")
    assert "begins" not in said
    (toy.root / "raw.csv").write_text("more rows")
    assert toy.run(stage="left")[1] == {"rows": "ran", "left": "ran"}
    (toy.root / "raw.csv").write_text("rows")
    # What ran before comes from DVC's cache of runs; the others never saw the other rows.
    assert toy.run()[1] == {"rows": "restored", "left": "restored", "right": "unchanged", "last": "unchanged"}


@pytest.mark.parametrize(
    ("code", "tries", "fault"),
    [(2, 1, "the input"), pytest.param(3, 1, "a gate", marks=pytest.mark.slow), (4, 3, "the machine")],
)
def test_only_what_the_machine_failed_is_tried_again_and_the_end_says_whose_fault_it_was(toy, code, tries, fault):
    """Case 18."""
    toy.order(left={"codes": [code] * 9})
    said, outcomes = toy.run(code=code, retries=2)
    assert outcomes == {"rows": "ran", "left": "failed", "right": "ran", "last": "not run"}
    assert (toy.count("left"), toy.count("rows")) == (tries, 1)
    assert f"left failed (exit {code}), the fault of {fault}" in said
    assert "left is not well" in said


@pytest.mark.slow
def test_a_second_try_goes_on_where_the_first_failed(toy):
    toy.order(left={"codes": [4]})
    assert toy.run(retries=2)[1] == dict.fromkeys(["rows", "left", "right", "last"], "ran")
    assert (toy.count("rows"), toy.count("left")) == (1, 2)


@pytest.mark.slow
def test_a_deadline_ends_a_stage_as_the_machines_fault(toy):
    """Case 13."""
    toy.order(left={"sleep": 300})
    began = time.monotonic()
    said, outcomes = toy.run(code=4, retries=0, deadline_minutes={"left": 0.05})
    assert outcomes["left"] == "failed"
    assert time.monotonic() - began < 120
    assert "deadline" in said


def family(process):
    return psutil.Process(process.pid).children(recursive=True)


def until(true, seconds=120):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGKILL))]
)
def test_nobody_outlives_a_flow_that_is_stopped(toy, number):
    toy.order(left={"sleep": 300})
    process = toy.start(train_slots=2)
    until(lambda: toy.count("left") == 1 and toy.count("right") == 1)
    alive = [one for one in family(process) if "work.py" in " ".join(one.cmdline())]
    assert alive
    everyone = family(process)
    process.send_signal(number)
    _, left = psutil.wait_procs(everyone, timeout=60)
    assert [one.cmdline() for one in left] == []
    process.communicate(timeout=60)
    assert process.returncode != 0
    toy.order()
    assert toy.run()[1]["last"] == "ran"


def test_a_second_run_in_a_checkout_is_refused_while_the_first_is_at_work(toy):
    toy.order(left={"sleep": 12})
    first = toy.start()
    until(lambda: toy.count("left") == 1)
    said, _ = toy.run(code=4)
    assert f"process {first.pid} (flow run " in said
    assert "is at work in this checkout" in said
    first.communicate(timeout=120)
    assert first.returncode == 0


def logs_of(server, name):
    """All messages in the log of the flow run of that name, as the server gives them."""
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName, LogFilter, LogFilterFlowRunId
    from prefect.client.schemas.sorting import LogSort

    async def read():
        async with PrefectClient(server) as client:
            (run,) = await client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[name])))
            found = []
            while True:
                page = await client.read_logs(
                    LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])),
                    sort=LogSort.TIMESTAMP_ASC,
                    limit=200,
                    offset=len(found),
                )
                found += page
                if not page:
                    return [one.message for one in found]

    return asyncio.run(read())


def test_every_line_is_in_the_log_of_the_run_and_one_over_the_servers_limit_is_kept_in_pieces(toy, server):
    toy.order(rows={"lines": [10, 1_200_000]})
    said, _ = toy.run(stage="rows")
    name = (
        said.partition("Beginning flow run '")[2].partition("'")[0] or said.partition("Flow run '")[2].partition("'")[0]
    )
    messages = []
    until(lambda: messages.extend(logs_of(server, name)) or any("Finished in state Ran" in one for one in messages))
    joined = "".join(one for one in logs_of(server, name) if set(one) == {"x"})
    assert len(joined) == 1_200_010
    (log,) = (toy.root / "logs").glob(f"*{name}*/rows.log")
    assert len(log.read_text()) >= 1_200_010


@pytest.mark.slow
def test_trainings_share_slots_and_each_has_gpus_of_its_own(toy):
    toy.environment["CUDA_VISIBLE_DEVICES"] = "6,7"
    said, _ = toy.run(train_slots=2)
    found = {line.rpartition(" - ")[2] for line in said.splitlines() if "'left'" in line or "'right'" in line}
    assert found & {"6", "7"}
    assert not found & {"6,7", "-"}


def test_a_mistake_in_params_yaml_ends_the_run_before_any_stage(toy):
    tiny.write_params(toy.root / "params.yaml", **{"data.raw": "raw.csv", "train.learning_rate": "fast"})
    said, _ = toy.run(code=2)
    assert "train.learning_rate" in said
    assert toy.count("rows") == 0
