"""A trial of several machines: uploads and searches while machines are killed, cut off and have wrong clocks.

    PYTHONPATH=tests python tests/cluster/cluster_trial.py [--store postgresql|sqlite] [--broker rabbitmq|redis]
        [--kills 20] [--partitions 10] [--longest 60] [--texts FOLDER] [--seed 7] [--json FILE]

Two hosts with an API, four with a worker, one with the broker, two with PostgreSQL (primary and standby) and
one with the clients, all as network namespaces (`cluster_network.py`). Needs root, iproute2, PostgreSQL 15
and the broker's server. The clocks of two workers are an hour wrong, if there is a C compiler. With
`--store sqlite` all hosts share one file, which only the file system of one machine allows.

A client uploads batches of documents, each with an Idempotency-Key that it repeats until an API accepts it,
and waits for the end of the job. Meanwhile machines die and come back, connections are cut for 5 to 60
seconds, and once the primary dies for good and the standby takes over. At the end each accepted document must
be stored exactly once: the canonical export must equal that of an SQLite library that one worker made from
the same batches without any trouble. Prints a report; the exit code is 0 if all of this held.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from cluster_clients import Searcher, Uploader
from cluster_machines import SHOAL, Cluster, Plan
from cluster_network import Network, entered
from cluster_servers import private_folder
from cluster_trouble import Trouble
from generated_documents import Text
from running_service import Service

log = logging.getLogger("trial")


def run(plan: Plan, least_batches: int = 5) -> dict[str, Any]:
    """Do the trial and return its report. `wrong` in it lists what did not hold. Leaves nothing behind."""
    folder = private_folder()
    try:
        with Network() as network:
            cluster = Cluster(plan, network, folder)
            with entered(cluster.client):
                return _run(plan, cluster, least_batches)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(plan: Plan, cluster: Cluster, least_batches: int) -> dict[str, Any]:
    started = time.monotonic()
    cluster.start()
    log.info("all machines run after %.1f s", time.monotonic() - started)
    urls = [api.url for api in cluster.apis]
    uploader, searcher, trouble = Uploader(plan, urls, least_batches), Searcher(urls), Trouble(cluster, plan)
    begun = time.monotonic()
    uploader.start()
    searcher.start()
    trouble.run()
    uploader.end()
    while uploader.is_alive():
        trouble.wait(0.5)
    seconds = time.monotonic() - begun
    searcher.end()
    log.info("the last job has ended; comparing %d batches", len(uploader.accepted))
    wrong = list(uploader.wrong)
    doctor = _doctor(cluster)
    wrong += [f"doctor: {finding['problem']}" for finding in doctor if finding["severity"] != "note"]
    export = cluster.shoal("export", "--canonical")
    traces = Counter(f"{s.host.name}: {line}" for s in cluster.services for line in s.tracebacks())
    cluster.stop()
    expected = undisturbed(plan, uploader.accepted, cluster.folder / "undisturbed")
    wrong += _differences(export.splitlines(), expected.splitlines())
    return {
        "plan": {**dataclasses.asdict(plan), "texts": str(plan.texts or "")},
        "clocks": {w.host.name: w.clock_hours for w in cluster.workers if w.clock_hours},
        "seconds": round(seconds, 1),
        "trouble": dict(trouble.done),
        "seconds cut off": trouble.cut_seconds,
        "seconds without a primary": trouble.without_primary,
        "ended by themselves": trouble.ended_alone,
        "tracebacks in logs": dict(traces.most_common(20)),
        "batches": len(uploader.accepted),
        "documents accepted": sum(map(len, uploader.accepted)),
        "lines of the export": export.count("\n"),
        "doctor": [finding["problem"] for finding in doctor],
        "answers to uploads and jobs": dict(uploader.answers),
        "longest job, s": round(max(uploader.job_seconds, default=0), 1),
        "answers to searches": dict(searcher.answers),
        "search ms, p50 and p95": _percentiles(searcher.seconds),
        "wrong": wrong,
    }


def _doctor(cluster: Cluster) -> list[dict[str, Any]]:
    """Return what `shoal doctor` finds; its exit code is 1 if it finds harm."""
    try:
        printed = cluster.shoal("doctor", "--json")
    except RuntimeError as error:
        printed = str(error)
    found: list[dict[str, Any]] = json.loads(printed[printed.index("{\n") :])["findings"]
    return found


def undisturbed(plan: Plan, uploads: list[list[Text]], folder: Path) -> str:
    """Return the canonical export of the same uploads to SQLite, one worker and no trouble."""
    folder.mkdir()
    service = Service(folder, **{**plan.settings(), "SHOAL_WORKERS": "1"})
    try:
        uploader = Uploader(plan, [service.url], len(uploads))
        uploader.end()
        uploader.run()
        assert not uploader.wrong, uploader.wrong
        assert uploader.accepted == uploads
    finally:
        service.stop()
    command = [*SHOAL, "--db", str(service.db), "export", "--canonical"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=True)
    return done.stdout


def _differences(lines: list[str], expected: list[str]) -> list[str]:
    if lines == expected:
        return []
    missing, extra = Counter(expected) - Counter(lines), Counter(lines) - Counter(expected)
    found = [f"the export has {len(lines)} lines, without trouble {len(expected)}"]
    found += [f"missing: {line[:300]}" for line in list(missing)[:5]]
    return found + [f"too many: {line[:300]}" for line in list(extra)[:5]]


def _percentiles(seconds: list[float]) -> list[float]:
    if len(seconds) < 2:
        return []
    cuts = statistics.quantiles(seconds, n=20)
    return [round(1000 * statistics.median(seconds), 1), round(1000 * cuts[18], 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", choices=("postgresql", "sqlite"), default=Plan.store)
    parser.add_argument("--broker", choices=("rabbitmq", "redis"), default=Plan.broker)
    parser.add_argument("--kills", type=int, default=Plan.kills, help="the failover included")
    parser.add_argument("--partitions", type=int, default=Plan.partitions)
    parser.add_argument("--longest", type=float, default=Plan.longest, help="seconds a host is cut off")
    parser.add_argument("--texts", type=Path, help="a folder of .md files")
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--json", type=Path, help="file for the report")
    arguments = vars(parser.parse_args())
    target = arguments.pop("json")
    plan = Plan(**arguments)
    if reason := plan.why_not():
        sys.stderr.write(f"{reason}\n")
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # Clean up after a polite end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = run(plan)
    text = json.dumps(report, indent=2)
    sys.stdout.write(f"{text}\n")
    if target:
        target.write_text(f"{text}\n")
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
