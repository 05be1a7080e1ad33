"""Starts a script and answers runs with it: `python -m bitrift.runner train.py --checkpoint FILE.h5`.

The driver of a campaign starts it with --connect; then it makes run after run.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import random
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from bitrift import command_line

FAILED = 2  # the script's part, as for any worker
HUNG_UP = 3
# A rank whose peer died gets an exception. It waits with it until the driver knows of the death.
PEERS_END_S = 0.5
EXAMPLE = """examples:
  python -m bitrift.runner train.py --checkpoint digits.h5 --epochs 1
  python -m bitrift.runner train.py --checkpoint digits.h5 --check
  python -m bitrift.runner train.py --checkpoint digits.h5 --check -- --lr 0.1 --model small

The first prints the result of one run as JSON (docs/exec-runner.md), and what the script prints goes to stderr. The
second prints what would stop or spoil a campaign, each with its cure. What follows -- belongs to the script.
Exit codes: 0 success, 1 --check found something, 2 the script failed, usage or input error."""


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The command line; what follows `--` belongs to the script."""
    words, own = command_line.split(words)
    parser = argparse.ArgumentParser(
        prog="python -m bitrift.runner",
        usage="%(prog)s --checkpoint FILE [options] SCRIPT[:FUNCTION] [-- ARGUMENT ...]",
        description="Resume training once from a checkpoint with your own script (docs/own-trainer.md).",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("script", metavar="SCRIPT[:FUNCTION]", help="a file that calls bitrift.runner.serve()")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="checkpoint to resume from")
    parser.add_argument("--epochs", type=int, default=1, metavar="N", help="epochs to train; 0: evaluate (default: 1)")
    parser.add_argument("--order-seed", type=int, default=0, metavar="N", help="another order of the batches")
    parser.add_argument("--ranks", type=int, default=1, metavar="N", help="processes to start (default: 1)")
    parser.add_argument(
        "--check", action="store_true", help="make a few runs, and say what would stop or spoil a campaign"
    )
    parser.add_argument(
        "--strike",
        action="append",
        default=[],
        metavar="FAULT",
        help="SITE:TENSOR@STEP:REPLICA.MICRO_BATCH.ELEMENT.BIT: this bit of a number flips while this step computes "
        "it, such as activation:fc1@5:0.0.17.30. In the place of BIT, zero, nan and inf set the whole number "
        "(docs/compute-faults.md); repeatable",
    )
    for hidden in ("--connect", "--drill"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    parser.add_argument("--base", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--unread", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--weights", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--computations", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--audit", default="", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.script, _, options.function = options.script.partition(":")
    options.arguments = own
    if not options.connect and not options.audit and options.checkpoint is None:
        parser.error("give --checkpoint FILE: the file to resume from")
    if options.check and options.strike:
        parser.error("--check makes runs without faults: leave out --strike")
    if options.epochs < 0 or options.ranks < 1:
        parser.error("--epochs must be at least 0, and --ranks at least 1")
    if not Path(options.script).is_file():
        parser.error(f"{options.script}: no such file")
    if options.checkpoint is not None and not options.unread and not options.checkpoint.exists():
        parser.error(f"{options.checkpoint}: no such file or folder")
    return options


def environments(ranks: int) -> list[dict[str, str]]:
    """What torchrun sets for each rank of a job on this machine."""
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
    }
    return [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def start_ranks(options: argparse.Namespace, words: Sequence[str]) -> int:
    """Starts the ranks and waits for them; when one fails, the others are killed. Its exit code, or 128 + signal."""
    ranks = []
    for number, own in enumerate(environments(options.ranks)):
        command = [sys.executable, "-m", "bitrift.runner", "--rank", str(number), *words]
        ranks.append(subprocess.Popen(command, env=os.environ | own))
    while None in (codes := [rank.poll() for rank in ranks]) and not any(codes):
        time.sleep(0.01)
    failed = next(filter(None, codes), 0)
    for rank in ranks:
        rank.kill()
        rank.wait()
    return failed if failed >= 0 else 128 - failed


def _free_port() -> int:
    """One below those that the kernel gives to connections, so that nobody takes it in the meantime."""
    import socket

    chance = random.Random(os.urandom(8))
    while True:
        port = chance.randrange(20000, 32000)
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port


class OneRun:
    """The session of `python -m bitrift.runner SCRIPT --checkpoint FILE`."""

    def __init__(self, options: argparse.Namespace, out: IO[str]) -> None:
        self._options, self._out = options, out

    def serve(self, script: Any) -> NoReturn:
        """Makes the run, prints its result and ends the process."""
        from bitrift.errors import BadInput
        from bitrift.runner.serving import Request, Trainer
        from bitrift.runner.watch import NotComputed

        options = self._options
        check_ranks(options.ranks)
        try:
            faults = faults_of(options.strike)
            request = Request(str(options.checkpoint), options.epochs, options.order_seed, strikes=faults)
            result = Trainer(script).run(request)
        except BadInput as error:
            if options.rank and not isinstance(error, NotComputed):
                time.sleep(PEERS_END_S)  # rank 0 says it
            else:
                print(f"bitrift.runner: error: --strike: {error}", file=sys.stderr)
            end(FAILED)
        if not options.rank:
            struck = [one["compute"] for one in result.get("altered_values", [])]
            for text in (text for text, fault in zip(options.strike, faults, strict=True) if fault.row not in struck):
                print(f"bitrift.runner: warning: {text} was never reached", file=sys.stderr)
            print(json.dumps(result, indent=2), file=self._out)
        end(0, self._out)


def faults_of(texts: Sequence[str]) -> tuple[Any, ...]:
    """The faults that --strike names. Raises BadInput for a text that is none, and for one that is given twice."""
    from bitrift._core import compute_fault
    from bitrift.errors import BadInput
    from bitrift.runner.strikes import Fault

    if twice := next((text for number, text in enumerate(texts) if text in texts[:number]), None):
        raise BadInput(f"{twice}: given twice; leave one out")
    return tuple(Fault.of(json.loads(compute_fault(text))) for text in texts)


class OneAnswer:
    """A session that writes one JSON object to a file, for the driver of a campaign, and ends the process."""

    def __init__(self, options: argparse.Namespace, out: Path) -> None:
        self._options, self._out = options, out

    def broke(self, detail: str) -> None:
        """An exception ended the script; of several ranks the first one counts."""
        with contextlib.suppress(FileExistsError):
            self.answer({"failed": detail})

    def answer(self, message: dict[str, Any]) -> None:
        """Writes the object."""
        with self._out.open("x") as file:
            json.dump(message, file)


class Computations(OneAnswer):
    """The session that trains an epoch from --checkpoint to see which numbers each step computes."""

    def serve(self, script: Any) -> NoReturn:
        """Writes record::ComputeMap."""
        from bitrift.runner import ranks
        from bitrift.runner.computations import computations
        from bitrift.runner.serving import Trainer

        check_ranks(self._options.ranks)
        found = computations(Trainer(script), str(self._options.checkpoint))
        if ranks.number() == 0:
            self.answer({"computations": found})
        end(0)


class Unread(OneAnswer):
    """The session that finds what the script does not load or use of the base; --checkpoint is its own copy."""

    def serve(self, script: Any) -> NoReturn:
        """Writes their names to a file and ends the process."""
        from bitrift.runner import ranks
        from bitrift.runner.serving import Trainer
        from bitrift.runner.unread import Loads, candidates, unread_tensors, unused_weights

        options = self._options
        check_ranks(options.ranks)
        loads = Loads(Trainer(script), options.base, options.checkpoint)
        # The golden run tells of a script that refuses its base.
        unread = [] if loads.refused else unread_tensors(loads, candidates(options.base))
        unused = [] if loads.refused else unused_weights(loads, json.loads(options.weights.read_text()))
        if ranks.number() == 0:
            self.answer({"tensors": {"unread": unread, "unused": unused}})
        end(0)


def _digest_of(base: Path) -> str:
    """SHA-256 of the bytes of a file, or of the names and bytes of all files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(base.rglob("*")) if base.is_dir() else [base]:
        if path.is_file():
            digest.update(str(path.relative_to(base)).encode() if base.is_dir() else b"")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class Worker:
    """The session of a campaign: run after run for its driver."""

    def __init__(self, options: argparse.Namespace, driver: Any) -> None:
        self._options, self._driver = options, driver
        self._leaked = False

    def serve(self, script: Any) -> NoReturn:
        """Answers every request, then ends the process."""
        from bitrift.runner.serving import Trainer

        check_ranks(self._options.ranks)
        trainer = Trainer(script)
        if self._driver.rank == 0:
            self._driver.ready(_digest_of(self._options.base), _environment(script))
        try:
            for request in self._driver.requests():
                self._answer(trainer, request)
        except EOFError:
            end(HUNG_UP)
        end(0)

    def _answer(self, trainer: Any, run: dict[str, Any]) -> None:
        from bitrift.runner.serving import Request
        from bitrift.runner.strikes import Fault

        base = self._options.base
        file = str(base) if self._options.drill == "ignore-file" else run["checkpoint"]
        changed = changed_in_file(base, file) if self._driver.rank == 0 else []
        seed = 1 if self._leaked else run.get("order_seed", 0)
        drill = run.get("drill", "")
        golden, compared = run.get("golden", False), run.get("compare_loaded", False)
        faults = tuple(Fault.of(one["compute"]) for one in run.get("faults", []))
        base_file = str(base) if compared else ""
        request = Request(file, run["epochs"], seed, golden, base_file, strikes=faults, in_campaign=True)
        result = trainer.run(request, lambda: self._drill(drill))
        self._leaked = self._leaked or drill == "leak"
        if self._driver.rank == 0:
            unreached = trainer.unreached(changed)
            if unreached is not None:
                result["unreached_tensors"] = unreached
            self._driver.answer({"id": run["id"], "changed_tensors": changed} | result)

    def _drill(self, kind: str) -> None:
        """What a drill does on the last rank in place of the first step."""
        if self._driver.rank != self._options.ranks - 1:
            return
        number = {"abort": signal.SIGABRT, "segfault": signal.SIGSEGV}.get(kind)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if kind == "raise":
            raise RuntimeError("drill: raise")
        while kind == "hang":
            time.sleep(3600)


def changed_in_file(base: Path, file: str) -> list[str]:
    """The tensors in which a file differs from the base; checksums follow their tensors and do not count."""
    import bitrift

    found = (one for one in bitrift.diff(base, file) if one.kind != "not_compared")
    return [one.path for one in found if not one.path.startswith("checksum/")]


def check_ranks(wanted: int) -> None:
    """Raises RuntimeError where the script did not join the ranks that were started."""
    from bitrift.runner import ranks

    found = ranks.count()
    if found != wanted:
        raise RuntimeError(
            f"{wanted} ranks were started, but torch.distributed has {found}: call "
            'torch.distributed.init_process_group("gloo") before bitrift.runner.serve()'
        )


def _environment(script: Any) -> dict[str, Any]:
    import numpy
    import torch

    return {
        "runner": "python",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threads": script.threads,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }


def end(code: int, *streams: IO[str]) -> NoReturn:
    """Ends without the interpreter's own end, where threads of PyTorch may outlive what they use."""
    for stream in (sys.stdout, sys.stderr, *streams):
        stream.flush()
    os._exit(code)


def run_script(options: argparse.Namespace) -> NoReturn:
    """Runs the script as Python would, or calls its function; both must call serve(), which does not return."""
    path = Path(options.script).resolve()
    sys.argv = [str(path), *options.arguments]
    sys.path[0] = str(path.parent)
    if not options.function:
        runpy.run_path(str(path), run_name="__main__")
    else:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        if not callable(getattr(module, options.function, None)):
            raise AttributeError(f"{path.name} has no function {options.function}()")
        getattr(module, options.function)()
    raise RuntimeError(f"{path.name} ended without a call of bitrift.runner.serve()")


def _session(options: argparse.Namespace) -> tuple[Any, Any]:
    """What serve() answers, and what hears of an exception, if anything does."""
    if options.audit:
        from bitrift.audit.process import session_of

        audit = session_of(options.audit, options.ranks, Path(options.script).resolve().parent)
        return audit, audit
    if options.connect:
        from bitrift.runner.protocol import Driver

        driver = Driver(options.connect, options.rank or 0, options.ranks)
        return Worker(options, driver), driver
    if answer := _one_answer(options):
        return answer, answer
    out = cast(IO[str], os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    if options.check:
        from bitrift.runner.check import Check

        return Check(options, out), None
    return OneRun(options, out), None


def _one_answer(options: argparse.Namespace) -> OneAnswer | None:
    if options.unread:
        return Unread(options, options.unread)
    return Computations(options, options.computations) if options.computations else None


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Parses a command line and runs it."""
    words = sys.argv[1:] if words is None else words
    options = parse(words)
    if options.ranks > 1 and options.rank is None:
        sys.exit(start_ranks(options, words))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    session, driver = _session(options)
    with _reported(driver, options.ranks):
        from bitrift.runner import serving

        serving.begin(session)
        serving.seed_all(getattr(session, "seed", "start"))
        run_script(options)


@contextlib.contextmanager
def _reported(driver: Any, ranks: int) -> Iterator[None]:
    """Tells the driver of what escapes, and ends the process with it."""
    try:
        yield
    except BaseException as error:
        traceback.print_exc()
        if driver is not None:
            from bitrift.runner.protocol import last_line

            if ranks > 1:
                time.sleep(PEERS_END_S)
            driver.broke(last_line(error))
        end(FAILED)


if __name__ == "__main__":
    main()
