"""kill -9: a worker's death fails its job alone; a service's death loses no row it had stored."""

from __future__ import annotations

import os
import signal
import time

import live
import pytest

from engine.store.ledger import STOPPED


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = live.Live(tmp_path_factory.mktemp("killed")).start()
    yield service
    service.stop()


def test_a_killed_worker_fails_its_job_and_the_queue_goes_on(service):
    client = service.client
    slow = client.submit(live.spec(samples=40, batch=1))
    after = client.submit(live.spec(samples=1, first=500))
    service.wait_for_rows(slow["key"], 3)
    started = time.monotonic()
    os.kill(service.worker_pid(), signal.SIGKILL)
    failed = service.wait(slow["key"])
    assert failed["status"] == "failed"
    assert "signal 9" in failed["reason"]
    assert "for lack of memory: the run's estimate is" in failed["reason"]
    assert "a batch of 1 with prompts of" in failed["reason"]
    assert time.monotonic() - started < 10
    assert len(client.answers(slow["key"])) >= 3
    assert service.wait(after["key"])["status"] == "done"


def test_a_killed_service_comes_back_with_true_states_and_resumes(service):
    client = service.client
    whole, waiting = live.spec(samples=12, first=600), live.spec(samples=1, first=700)
    running, queued = client.submit(whole), client.submit(waiting)
    service.wait_for_rows(running["key"], 8)
    worker = service.worker_pid()
    before = client.answers(running["key"])
    service.process.kill()
    service.process.wait()
    service.start()
    client = service.client
    stopped = client.run(running["key"])
    assert (stopped["status"], stopped["reason"]) == ("failed", STOPPED)
    assert service.wait(queued["key"])["status"] == "done"
    kept = client.answers(running["key"])
    assert kept.merge(before[["sample", "shift", "logprob"]]).shape[0] == len(before)
    assert len(kept) < 96
    client.submit(whole)
    resumed = service.wait(running["key"])
    assert resumed["status"] == "done"
    resumed_rows = client.answers(running["key"])
    assert len(resumed_rows) == 96
    # The batches that were there were not computed again, and all have the bits of one go.
    whole_cost = 2 * (resumed_rows["length"] + resumed_rows["token_ranks"].map(len)).sum()
    assert resumed["provenance"]["tokens"] < whole_cost
    client.delete(running["key"])
    client.submit(whole)
    service.wait(running["key"])
    assert client.answers(running["key"]).equals(resumed_rows)
    for _ in range(100):
        if not os.path.exists(f"/proc/{worker}"):
            break
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{worker}")  # no worker outlives its service
