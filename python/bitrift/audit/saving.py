"""The process of an audit of saves: it holds the script as it starts, and forks children that train, save and load.

this process    the script as it starts; follows saves, and forks one child for each load
  trainer       has trained; forks one child for each save
    save        stops itself, is followed by the first process, saves, and is killed or held
  load          loads what is left, and says what it has become
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from bitrift import _core
from bitrift.audit.pieces import STATE, keep, pieces_of
from bitrift.audit.process import digest_of
from bitrift.audit.save import Left, SaveRequest
from bitrift.runner.protocol import last_line
from bitrift.runner.serving import Script, arguments_of, epoch_of, make_deterministic

LOAD_SECONDS = 60.0
"""A load that takes longer hangs."""
RACE_SECONDS = 5.0
"""The longest time for which writes are held; the training may wait for them."""
MOST_RACES = 5
MOST_TEXT = 200
EPOCH = "number of the epoch"

Call = tuple[str, int, bool]
"""Its name, the bytes that it writes, and whether another thread or process makes it than the first one."""
Traced = tuple[list[Call], int, int, bool]
"""What a followed save did (bitrift._core.trace_save)."""


class SaveSession:
    """The session of the process."""

    def __init__(self, request: SaveRequest, count: int, folder: Path) -> None:
        self._request, self._count, self._folder = request, count, folder
        self.seed = request.seed

    def serve(self, script: Script) -> NoReturn:
        """Writes what it finds, and ends the process."""
        from bitrift.runner.__main__ import check_ranks, end

        check_ranks(self._count)
        make_deterministic(1)  # threads of PyTorch do not survive a fork
        if script.save is None:
            raise TypeError("an audit needs the script's way to save: pass save= to bitrift.runner.serve()")
        found = Saves(self._request, script, self._folder).run()
        self._request.output.write_text(json.dumps(found), encoding="utf-8")
        end(0)

    def broke(self, detail: str) -> None:
        """An exception ended the script."""
        with open(f"{self._request.output}.failed", "a", encoding="utf-8") as file:
            file.write(detail + "\n")


class Saves:
    """Saves that are killed or raced, and what load() makes of them."""

    def __init__(self, request: SaveRequest, script: Script, folder: Path) -> None:
        self._request, self._script, self._folder = request, script, folder
        work = Path(os.path.realpath(f"{request.output}.d"))
        self._older, self._place = work / "older", work / "save"
        self._place.mkdir(parents=True)
        self._path = str(self._place / request.name)
        self._found: dict[str, Any] = {"problem": "", "calls": [], "points": 0, "aside": 0, "early": 0}
        self._found |= {"kills": [], "races": []}

    def run(self) -> dict[str, Any]:
        """The findings, as save.audit_save() takes them."""
        begun = self._state(lambda: None)
        trainer = Trainer(self._script, self._path, self._request.epochs)
        try:
            trainer.read()  # it has trained and saved
            self._place.rename(self._older)
            self._known = {Left.SCRATCH: begun, Left.PREVIOUS: self._complete(self._older, "the earlier save")}
            shutil.copytree(self._older, self._place)
            trainer.ask("train")
            calls, status, _ = self._save(trainer, "save", _core.trace_save, None, False)
            if status != (0, 0):
                raise ValueError(f"a save that is not killed ends with {_ending(status)}")
            self._known[Left.COMPLETE] = self._complete(self._place, "the save")
            self._check()
            if not self._found["problem"]:
                self._kill(trainer, calls)
                self._race(trainer, calls)
        finally:
            trainer.end()
        return self._found

    def _complete(self, place: Path, which: str) -> dict[str, str]:
        if place is self._older:
            shutil.copytree(place, self._place)
        found = self._loaded()
        if place is self._older:
            shutil.rmtree(self._place)
        if "state" not in found:
            raise ValueError(f"load() after {which}: {found.get('error') or found['ended']}")
        state: dict[str, str] = found["state"]
        return state

    def _check(self) -> None:
        known = self._known
        if known[Left.PREVIOUS] == known[Left.COMPLETE]:
            self._found["problem"] = (
                "load() gives the same state after one save and after the next: kills cannot be judged"
            )
        elif self._judge({"state": known[Left.COMPLETE] | {EPOCH: ""}})[0] is Left.SCRATCH:
            self._found["problem"] = "load() changes nothing in the script"

    def _kill(self, trainer: Trainer, calls: list[Call]) -> None:
        found = self._found
        found["calls"] = [name for name, _, _ in calls]
        points = [(call, half) for call, (_, size, _) in enumerate(calls) for half in (False, True)[: 1 + (size >= 2)]]
        found["points"] = len(points)
        if not points:
            found["problem"] = f"save() alters nothing in the folder of the path that it gets ({self._request.name})"
        for call, half in evenly(points, self._request.kills):
            made, status, _ = self._save(trainer, "save", _core.trace_save, call, half)
            if status[1] != signal.SIGKILL or len(made) <= call:
                found["early"] += 1  # threads need not make as many calls each time
                continue
            left, detail = self._judge(self._loaded())
            name = made[call][0]
            found["kills"].append({"call": call + 1, "name": name, "half": half, "left": left.value, "detail": detail})

    def _race(self, trainer: Trainer, calls: list[Call]) -> None:
        aside = [call for call, (_, _, other) in enumerate(calls) if other]
        self._found["aside"] = len(aside)
        for call in evenly(aside, MOST_RACES):
            _, status, waited = self._save(trainer, "race", _core.trace_race, call, RACE_SECONDS)
            if status == (0, 0):
                left, detail = self._judge(self._loaded(), "another state than that at the save")
            else:
                left, detail = Left.CRASH, f"the training ended with {_ending(status)}"
            self._found["races"].append({"call": call + 1, "left": left.value, "detail": detail, "waited": waited})

    def _save(
        self, trainer: Trainer, what: str, follow: Callable[..., Traced], *how: Any
    ) -> tuple[list[Call], tuple[int, int], bool]:
        """A save over the earlier one; the calls it made, its exit code and signal, and whether it was waited for."""
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(self._older, self._place, symlinks=True)
        trainer.ask(what)
        calls, code, ended_by, waited = follow(int(trainer.read()), self._place, *how)
        trainer.read()  # it has noticed the end
        return calls, (code, ended_by), waited

    def _judge(self, loaded: dict[str, Any], torn: str = "a state that no step had") -> tuple[Left, str]:
        if "error" in loaded:
            return Left.REFUSED, loaded["error"].replace(f"{self._place}/", "")[:MOST_TEXT]
        if "state" not in loaded:
            return (Left.HANG if loaded["hangs"] else Left.CRASH), loaded["ended"]
        state = loaded["state"]
        for left, known in self._known.items():
            if left is not Left.SCRATCH and state == known:
                return left, ""
        if all(digest == state[name] for name, digest in self._known[Left.SCRATCH].items() if name != EPOCH):
            return Left.SCRATCH, "load() raises nothing, and changes nothing"
        kinds: dict[str, list[str]] = {}
        for name, digest in state.items():
            kinds.setdefault(self._of(name, digest), []).append(name)
        kinds.pop("", None)
        said = "; ".join(f"{which}: {', '.join(sorted(names))}" for which, names in sorted(kinds.items()))
        return Left.TORN, f"load() raises nothing, and gives {torn} ({said})"

    def _of(self, name: str, digest: str) -> str:
        """Which save a piece is from; "" where that cannot be told."""
        older, newer = (self._known[left].get(name) for left in (Left.PREVIOUS, Left.COMPLETE))
        if older == newer == digest:
            return ""
        return "of the earlier save" if digest == older else "of this save" if digest == newer else "of neither"

    def _loaded(self) -> dict[str, Any]:
        """What a load in a new process gives: its state, its error, or how its process ended."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            with os.fdopen(write, "w") as answer:
                try:
                    answer.write(json.dumps({"state": self._state(lambda: self._script.load(self._path))}))
                except BaseException as error:
                    traceback.print_exc()
                    answer.write(json.dumps({"error": last_line(error)}))
                answer.flush()
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb", buffering=0) as answer:
            text, hangs = _read_until(answer, time.monotonic() + LOAD_SECONDS)
        if hangs:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if text:
            document: dict[str, Any] = json.loads(text)
            return document
        ended = f"load() takes more than {LOAD_SECONDS:.0f} s" if hangs else f"load() ends with {_ending((status, 0))}"
        return {"ended": ended, "hangs": hangs}

    def _state(self, load: Callable[[], Any]) -> dict[str, str]:
        """The digest of each piece of state after a load, with its tensors one by one."""
        script = self._script
        returned = load()
        functions: list[Callable[..., Any]] = [script.train_epoch, script.evaluate, script.load, script.state]
        found = {EPOCH: str(epoch_of(returned)) if returned is not None else ""}
        for name, kept in keep(pieces_of(functions, self._folder, script.state())[0]).items():
            if kept.kind in STATE:
                found[name] = digest_of(kept.state)
        return found


class Trainer:
    """A child that trains and forks a save for each request. Requests and answers are lines."""

    def __init__(self, script: Script, path: str, epochs: int) -> None:
        self._script, self._path, self._epoch = script, path, 0
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._write)
            os.close(self._read)
            with os.fdopen(to_read, "r") as requests, os.fdopen(to_write, "w") as answers:
                try:
                    self._work(epochs, requests, answers)
                except BaseException as error:
                    traceback.print_exc()
                    print(f"! {last_line(error)[:300]}", file=answers, flush=True)
                os._exit(0)
        os.close(to_read)
        os.close(to_write)
        self._requests, self._answers = os.fdopen(self._write, "w"), os.fdopen(self._read, "r")

    def ask(self, what: str) -> None:
        """train, save or race."""
        print(what, file=self._requests, flush=True)

    def read(self) -> str:
        """An answer. Raises ValueError with what the training says has failed."""
        line = self._answers.readline().strip()
        if not line or line.startswith("!"):
            raise ValueError(line[2:] or "the training ended")
        return line

    def end(self) -> None:
        """Ends the child."""
        with contextlib.suppress(OSError):
            self._requests.close()
        os.waitpid(self._pid, 0)

    def _work(self, epochs: int, requests: IO[str], answers: IO[str]) -> None:
        for _ in range(epochs):
            self._train_epoch()
        status = self._fork(self._save_once)
        if status != 0:
            raise ValueError(f"save() ends with {_ending((status, 0))}; see the log")
        print("saved", file=answers, flush=True)
        for line in requests:
            if line.strip() == "train":
                self._train_epoch()
                continue
            race = line.strip() == "race"
            pid = os.fork()
            if pid == 0:
                _stop()
                _run(functools.partial(self._save_once, race=race))
            print(pid, file=answers, flush=True)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            print("ended", file=answers, flush=True)

    def _fork(self, work: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            _run(work)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _train_epoch(self) -> None:
        outcome: Any = self._script.train_epoch(*([self._epoch] if arguments_of(self._script.train_epoch) else []))
        if isinstance(outcome, Iterator):
            for _ in outcome:
                pass
        self._epoch += 1

    def _save_once(self, *, race: bool = False) -> None:
        save: Any = self._script.save
        returned = save(self._path, *[self._epoch][: arguments_of(save) - 1])
        if race:
            self._train_epoch()
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
        if hasattr(returned, "result"):
            returned.result()


def _stop() -> None:
    """Waits for the process that follows this one."""
    os.kill(os.getpid(), signal.SIGSTOP)


def _run(work: Callable[[], None]) -> NoReturn:
    """Ends the process as Python does: after its threads, and with what atexit was told."""
    code = 0
    try:
        work()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _read_until(file: IO[bytes], deadline: float) -> tuple[bytes, bool]:
    """What comes until the end of a pipe, and whether the deadline passed before it."""
    text = b""
    while True:
        ready, _, _ = select.select([file], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return b"", True
        part = file.read(1 << 16)
        if not part:
            return text, False
        text += part


def _ending(status: tuple[int, int]) -> str:
    code, ended_by = status if status[1] else (status[0], -min(status[0], 0))
    return f"signal {ended_by} ({signal.Signals(ended_by).name})" if ended_by else f"exit code {code}"


def evenly(items: list[Any], most: int) -> list[Any]:
    """All items, or `most` of them, evenly spread from the first to the last."""
    if len(items) <= most:
        return items
    return [items[i * (len(items) - 1) // max(most - 1, 1)] for i in range(most)]
