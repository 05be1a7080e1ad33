"""Answers one request after the other: `python -m bitrift.study.reader --connect SOCKET --base FILE.h5`.

`bitrift-train checkpoint-study` starts it. Requests and answers are JSON objects, one on each line
(docs/checkpoint-cost.md, "The reader").
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.metadata
import json
import os
import platform
import re
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import h5py
from h5py import h5f

from bitrift.study import contents
from bitrift.study.contents import Contents
from bitrift.study.formats import FORMATS, is_installed, read_state, warm_up
from bitrift.study.timing import Timing

MOST_CHARACTERS = 200
_M_PERTURB = -6  # of mallopt(3)
_PATTERN = 0x5A  # what free(3) leaves; malloc(3) then returns its complement, 0xa5
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")


def bound_memory(allowed: int) -> None:
    """From now on, at most so many bytes of address space more than there are."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + allowed
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def fill_memory(pattern: int) -> None:
    """From now on, malloc(3) returns memory of one pattern; 0: whatever is there.

    Some readers return memory that they never wrote when a size or a method in a file is wrong, and what they say of
    such a file would differ from read to read. The study starts this process without glibc's cache per thread, which
    ignores the pattern.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, pattern)


def message_of(error: BaseException, path: Path) -> str:
    """Type and first line of an exception, without what differs between two runs: folders and addresses."""
    text = str(error).replace(f"{path.parent}/", "").strip()
    first = _ADDRESS.sub("at ...", text.splitlines()[0] if text else "")
    printable = "".join(c if " " <= c <= "~" else "?" for c in first)
    return f"{type(error).__name__}: {printable}"[:MOST_CHARACTERS]


def version_of(package: str) -> str:
    """The version of the distribution that brings a package: TensorFlow has several."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return importlib.metadata.version(importlib.metadata.packages_distributions()[package][0])


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in sorted({package for entry in FORMATS.values() for package in entry.packages}):
        if is_installed(package):
            found[package] = version_of(package)
    return found | {"libhdf5": h5py.version.hdf5_version}


class Reader:
    """Writes the base in a format, and reads files back."""

    def __init__(self, base: Path, memory: int, misread: bool) -> None:
        self._base, self._state = base, read_state(base)
        self._digests = {name: contents.of_array(value) for name, value in self._state.items()}
        self._memory, self._misread = memory, misread
        self._timing: Timing | None = None
        self._saving: int | None = None

    def hello(self) -> dict[str, Any]:
        """What is installed, and what the base holds."""
        tensors = {
            name: {"digest": self._digests[name], "bytes": value.nbytes, "elements": value.size}
            for name, value in self._state.items()
        }
        formats = {name: is_installed(*entry.packages) for name, entry in FORMATS.items()}
        return {"versions": versions(), "formats": formats, "tensors": tensors}

    def write(self, form: str, path: Path, source: Path | None = None) -> dict[str, Any]:
        """Writes the base, or another HDF5 checkpoint; the places of values, where the writer knows them."""
        try:
            state = self._state if source is None else read_state(source)
            return {"extents": FORMATS[form].write(state, path)}
        except Exception as error:
            return {"refused": message_of(error, path)}

    def start(self, form: str, path: Path, command: Sequence[str]) -> dict[str, Any]:
        """Another process, which stops itself, and then writes the base or becomes the program of a command.

        A library that does not work in a forked process gets a new one (bitrift.study.save).
        """
        if self._saving is not None:
            os.waitpid(self._saving, 0)  # it has ended
        sys.stdout.flush()
        sys.stderr.flush()
        self._saving = os.fork()
        if self._saving == 0:
            self._save_and_exit(form, path, command)
        return {"pid": self._saving}

    def _save_and_exit(self, form: str, path: Path, command: Sequence[str]) -> NoReturn:
        code = 1
        try:
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            if not command and not FORMATS[form].forks:
                words = [sys.executable, "-m", "bitrift.study.save", str(self._base), form, str(path)]
                os.execv(sys.executable, words)
            os.kill(os.getpid(), signal.SIGSTOP)
            if command:
                os.execv(command[0], list(command))
            FORMATS[form].write(self._state, path)
            code = 0
        except Exception as error:
            sys.stderr.write(message_of(error, path) + "\n")
            sys.stderr.flush()
        finally:
            os._exit(code)

    def time(self, form: str, path: Path, behind: bool, saves: int, between: float) -> dict[str, Any]:
        """Seconds of saves of the base, see Timing."""
        if self._timing is None:
            self._timing = Timing(self._state)
        try:
            self._timing.prepare(form)
            return {"times": self._timing.time(form, path, behind, saves, between)}
        except Exception as error:
            return {"refused": message_of(error, path)}

    def read(self, form: str, path: Path, change: bool) -> dict[str, Any]:
        """The digests of all tensors that the native reader returns, or how it refused.

        change: also the one element that differs from the base, if nothing else does.
        """
        bound_memory(self._memory)
        fill_memory(_PATTERN)
        changed: dict[str, Any] = {}
        try:
            if change:
                found, changed = self._read_changed(form, path)
            else:
                found = FORMATS[form].read(path, self._state)
        except BaseException as error:  # also what is not an Exception: errors of extensions in other languages
            answer: dict[str, Any] = {"refused": message_of(error, path)}
            del error
        else:
            if self._misread and found:
                found[min(found)] = "misread"
            answer = {"tensors": found} | changed
        finally:
            fill_memory(0)
        return answer | {"stale": _has_open_hdf5()}

    def _read_changed(self, form: str, path: Path) -> tuple[Contents, dict[str, Any]]:
        with contents.unknown_values(self._digests) as unknown:
            found = FORMATS[form].read(path, self._state)
            values = dict(unknown)
        differing = [name for name, digest in self._digests.items() if found.get(name) != digest]
        if found.keys() != self._digests.keys() or len(differing) != 1:
            return found, {}
        (name,) = differing
        after = values.get(found[name])
        if after is None:  # it is now what another tensor is
            after = contents.plain(self._state[next(k for k, v in self._digests.items() if v == found[name])])
        place = contents.changed_element(self._state[name], after)
        if place is None:
            return found, {}
        return found, {"change": {"tensor": name, "element": place[0], "mask": hex(place[1])}}


def _has_open_hdf5() -> bool:
    """Whether libhdf5 holds a file open: it would answer the next request from memory."""
    kinds = h5f.OBJ_FILE | h5f.OBJ_GROUP | h5f.OBJ_DATASET | h5f.OBJ_ATTR  # data types of h5py's own are always open
    if h5f.get_obj_count(h5f.OBJ_ALL, kinds) > 0:
        gc.collect()
    return bool(h5f.get_obj_count(h5f.OBJ_ALL, kinds) > 0)


def serve(options: argparse.Namespace) -> None:
    """Answers requests until the other end hangs up."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel.connect("\0" + options.connect)

    def say(message: dict[str, Any]) -> None:
        channel.sendall((json.dumps(message) + "\n").encode())

    warm_up(options.formats)
    reader = Reader(options.base, options.memory, options.drill == "misread")
    say({"hello": reader.hello()})
    with channel.makefile(encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            form, path = request["format"], Path(request["path"])
            try:
                match request["do"]:
                    case "write":
                        say(reader.write(form, path, request.get("from") and Path(request["from"])))
                    case "start":
                        say(reader.start(form, path, request["command"]))
                    case "read":
                        say(reader.read(form, path, request.get("change", False)))
                    case "time":
                        say(reader.time(form, path, request["behind"], request["saves"], request["between"]))
            except MemoryError as error:  # where a file could be read, but not compared
                say({"refused": message_of(error, path), "stale": True})


def main(words: Sequence[str] | None = None) -> None:
    """Parses a command line and serves."""
    parser = argparse.ArgumentParser(prog="python -m bitrift.study.reader", description=__doc__)
    parser.add_argument("--connect", required=True, metavar="SOCKET", help="name of the abstract socket to answer")
    parser.add_argument("--base", required=True, type=Path, metavar="FILE", help="HDF5 checkpoint that is written")
    parser.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="most memory for one request")
    parser.add_argument("--formats", nargs="*", default=[], choices=FORMATS, help="formats that will be requested")
    parser.add_argument("--drill", default="", choices=["", "misread"], help=argparse.SUPPRESS)
    options = parser.parse_args(sys.argv[1:] if words is None else words)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        serve(options)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the study has ended
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without the end of libraries that read damaged files


if __name__ == "__main__":
    main()
