"""A real service in a process of its own, with a random model: for tests that go over HTTP.

One is shared by all test files of a session; tests that kill things start their own.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tiny

from engine import serving
from engine.client import Client, Unavailable

ROOT = Path(__file__).resolve().parent.parent
FINAL = ("done", "failed", "cancelled", "incomplete")


def heed_interrupts() -> None:
    """For `preexec_fn`: a test run in the background hands on that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass
class Live:
    """A home folder, and the service over it while it runs."""

    home: Path
    process: subprocess.Popen | None = None
    client: Client | None = None

    @property
    def env(self) -> dict[str, str]:
        # One thread: test machines are shared, and two of them would wait for each other.
        own = {"PHASESCOPE_HOME": str(self.home), "PHASESCOPE_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        return {**os.environ, **own}

    def start(self) -> Live:
        command = [sys.executable, "-m", "engine", "serve", "--port", "0"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=self.env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            address = self.address()
            if address and address.pid == self.process.pid:
                self.client = Client(address.url, address.token)
                try:
                    self.client.health()
                    return self
                except Unavailable:
                    self.client.close()
            time.sleep(0.05)
        raise RuntimeError("the service did not come up")

    def address(self) -> serving.Address | None:
        before = os.environ.get("PHASESCOPE_HOME")
        os.environ["PHASESCOPE_HOME"] = str(self.home)
        try:
            return serving.read_address()
        finally:
            if before is None:
                del os.environ["PHASESCOPE_HOME"]
            else:
                os.environ["PHASESCOPE_HOME"] = before

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def cli(self, *words: str, timeout: float = 240) -> subprocess.CompletedProcess:
        """The command line as a user calls it."""
        command = [sys.executable, "-m", "engine", *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=timeout
        )

    def wait(self, key: str, until=FINAL, timeout: float = 180) -> dict:
        """The run once its status is one of `until`."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            shown = self.client.run(key)
            if shown["status"] in until:
                return shown
            time.sleep(0.05)
        raise AssertionError(f"{key} is still {shown['status']}: {shown['progress']}")

    def wait_for_rows(self, key: str, count: int = 1, timeout: float = 180) -> None:
        """Until the run at work has so many answer rows."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if len(self.client.answers(key)) >= count:
                return
            time.sleep(0.02)
        raise AssertionError(f"{key} has no {count} rows: {self.client.run(key)['progress']}")

    def worker_pid(self) -> int:
        """The service's one child that runs our worker (Linux)."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (folder / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and b"spawn_main" in command:
                return int(folder.name)
        raise AssertionError("the service has no worker")


@functools.cache
def model_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="phasescope-model-"))
    atexit.register(shutil.rmtree, folder, True)
    return tiny.make_model(folder)


@functools.cache
def shared() -> Live:
    """The session's service."""
    home = Path(tempfile.mkdtemp(prefix="phasescope-home-"))
    atexit.register(shutil.rmtree, home, True)
    live = Live(home).start()
    atexit.register(live.stop)
    return live


def spec(samples: int = 2, first: int = 0, **changes) -> dict:
    """A sweep of `samples` short prompts at eight residues; `first` makes other prompts."""
    prompts = [
        {
            "text": "{{pad}}The code of room "
            + f"{first + i} is {{{{target}}}}{1000 + 7 * (first + i)}{{{{/target}}}}."
            + "{{pad}}{{question}} The code is ",
            "answer": str(1000 + 7 * (first + i)),
            "rivals": ["no"],
        }
        for i in range(samples)
    ]
    return {
        "model": {"id": str(model_folder())},
        "memory": {"kind": "pooled", "window": 4, "stride": 4, "local": 4, "sinks": 1},
        "task": {"kind": "custom", "prompts": prompts},
        "samples": samples,
        "modulus": 8,
        "batch": 4,
        **changes,
    }
