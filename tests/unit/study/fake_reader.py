"""Stands in for a Python with bitrift.study: answers as the file that it is to read says."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

words = sys.argv[1:]
assert words[:2] == ["-m", "bitrift.study.reader"]
options = dict(zip(words[2::2], words[3::2], strict=False))
channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
channel.connect("\0" + options["--connect"])


def say(message: dict) -> None:
    """One line."""
    channel.sendall((json.dumps(message) + "\n").encode())


if Path(options["--base"]).name == "mute":
    sys.exit("no module named h5py")
tensors = {"w": {"digest": "1", "bytes": 8, "elements": 2}, "b": {"digest": "2", "bytes": 4, "elements": 1}}
say({"hello": {"versions": {"python": "3"}, "formats": {"hdf5": True, "dcp": False}, "tensors": tensors}})
for line in channel.makefile():
    request = json.loads(line)
    what = Path(request["path"]).name
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "exit":
        os._exit(7)
    if what == "hang":
        time.sleep(3600)
    if what == "bad":
        say({"refused": "E: bad", "stale": False})
    elif what == "extents":
        say({"extents": [["f", 1, 3, "w"]]})
    elif what == "change" and request["change"]:
        say({"tensors": {"w": "3", "b": "2"}, "change": {"tensor": "w", "element": 1, "mask": "0x10"}})
    else:
        say({"tensors": {"w": "1", "b": "2", "pid": str(os.getpid())}, "stale": what == "stale"})
