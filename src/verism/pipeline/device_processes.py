"""One process for each GPU of this machine, which share a run by leases."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from verism.errors import UsageError, VerismError
from verism.locations import remove_tree
from verism.pipeline.leases import FOLDER, LeasedShares
from verism.pipeline.ray_workers import Work
from verism.systems import end_with_parent

__all__ = ["DeviceProcesses", "visible_devices"]

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_S = 0.5


def visible_devices(
    gpus: str | int, *, environment: Mapping[str, str] = os.environ, listed: Callable[[], Sequence[str]] | None = None
) -> list[str]:
    """The GPUs to use, as ``CUDA_VISIBLE_DEVICES`` names them, one for each process.

    Args:
        gpus: ``all``, or how many.
        environment: environment variables; those who limit what is visible are heeded.
        listed: the machine's GPUs; None: asked of ``nvidia-smi``.

    Raises:
        UsageError: no number, no GPU, or fewer than asked for.
    """
    if gpus != "all" and not re.fullmatch(r"[1-9]\d{0,3}", str(gpus)):
        raise UsageError(f"--gpus {gpus}: expected all, or how many")
    if VISIBLE in environment:
        there = [name.strip() for name in environment[VISIBLE].split(",") if name.strip() not in ("", "-1")]
    else:
        there = list((listed or _listed)())
    if not there:
        raise UsageError("--gpus: no GPU is visible here (CUDA_VISIBLE_DEVICES, nvidia-smi)")
    if gpus == "all":
        return there
    if int(gpus) > len(there):
        raise UsageError(f"--gpus {gpus}: there are {len(there)}: {', '.join(there)}")
    return there[: int(gpus)]


def _listed() -> list[str]:
    """Numbers of the GPUs, without a library that would take one of them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    with suppress(OSError, subprocess.SubprocessError):
        asked = [program, "--query-gpu=index", "--format=csv,noheader"]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
        return [line.strip() for line in answer.stdout.splitlines() if line.strip().isdigit()]
    return []


class DeviceProcesses:
    """A process for each device, which sees that device alone; use it in a ``with`` block."""

    def __init__(self, devices: Sequence[str]) -> None:
        """Processes that are started when there is work.

        Args:
            devices: as ``visible_devices`` gives them.
        """
        self.devices = list(devices)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end: processes end with their work."""

    def run(
        self,
        work: Work,
        *,
        root: Path,
        roles: Sequence[str],  # noqa: ARG002 of workers of another kind
        items: int,  # noqa: ARG002
        on_failure: Callable[[str], None] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> list[Any]:
        """Let the processes do a piece of work together; what each of them returned.

        A process that dies is told of, and the others take over what it was at.

        Args:
            work: what each does of it.
            root: the run directory, where they lease their shares.
            roles: ignored: each process has all.
            items: ignored.
            on_failure: called with lines that processes tell.
            tell: called with a line about each process that died.

        Raises:
            VerismError: a process failed, or all died.
        """
        context = multiprocessing.get_context("spawn")
        messages: Any = context.Queue()
        threads = max(1, (os.cpu_count() or 1) // len(self.devices))
        processes = []
        for device in self.devices:
            process = context.Process(target=_work, args=(work, root, threads, messages), daemon=True)
            try:
                with _environment(VISIBLE, device):  # before any library is there to read it
                    process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as err:
                raise UsageError(
                    "other processes cannot have these objects of Python; name the model and the judges, or use "
                    f"classes and functions of a module: {err}"
                ) from err
            processes.append(process)
        results: list[Any] = []
        told: dict[str, None] = {}
        died: dict[int, int] = {}
        try:
            while len(results) + len(died) < len(processes):
                gone = [process for process in processes if process.exitcode is not None]  # first: then its last words
                with suppress(queue.Empty):
                    while True:
                        kind, value = messages.get(timeout=POLL_S)
                        if kind == "line" and value not in told and on_failure is not None:
                            on_failure(value)
                        told |= {value: None} if kind == "line" else {}
                        if kind == "result":
                            results.append(value)
                        if kind == "error":
                            raise value
                for process in gone:
                    if process.exitcode and process.pid not in died:
                        died[int(process.pid or 0)] = process.exitcode
                        if tell is not None:
                            tell(f"a process died (exit code {process.exitcode}); the others take over")
            if not results:
                raise VerismError(f"all {len(processes)} processes died; exit codes {sorted(set(died.values()))}")
            remove_tree(root / FOLDER)
            return results
        finally:
            for process in processes:
                if process.is_alive() and len(results) + len(died) < len(processes):
                    process.terminate()
                process.join()


def _work(work: Work, root: Path, threads: int, messages: Any) -> None:
    """What a process does."""
    end_with_parent()

    class Telling(LeasedShares):
        def tell(self, line: str) -> None:
            messages.put(("line", line))

    try:
        with Telling(root) as shares:
            messages.put(("result", work(None, shares, {"threads": threads})))
    except KeyboardInterrupt:
        pass  # the process that started this one has it, too
    except (VerismError, OSError, MemoryError) as err:
        messages.put(("error", err))
    except Exception as err:
        messages.put(("error", VerismError(f"a process failed: {type(err).__name__}: {err}")))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
