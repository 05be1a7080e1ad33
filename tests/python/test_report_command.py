"""`bitrift report`: the file that it writes, what it refuses, and --watch."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bitrift.program import program
from report_page import ARMS, FAULT, Page, report, respec
from synthetic import clean_rows, study_rows, trial_rows, write_campaign


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_campaign(tmp_path / "study", study_rows(), ARMS)
    return tmp_path / "study"


def crc32c_of_many(lines: list[bytes]) -> list[int]:
    """CRC-32C of lines of equal length, side by side."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    columns = np.frombuffer(b"".join(lines), np.uint8).reshape(len(lines), -1).T
    crc = np.full(len(lines), 0xFFFFFFFF, np.uint32)
    for column in columns:
        crc = (crc >> 8) ^ table[(crc ^ column) & 255]
    return [int(one) for one in ~crc]


def write_large(folder: Path, draws: int) -> None:
    """Two arms and four strata of as many draws each, in mixed order."""
    write_campaign(folder, [row for arm in ARMS for row in clean_rows(arm)], ARMS)
    respec(folder, lambda identity: identity["spec"].update(trials_per_stratum=draws))
    random = np.random.default_rng(3)
    by_length: dict[int, list[bytes]] = {}
    for arm in ARMS:
        for number, stratum in enumerate(("weight.sign", "bias.sign", "weight.exponent", "bias.exponent")):
            kinds = [json.dumps(row | {"faults": [FAULT]}) for row in trial_rows(arm, stratum, 10**7 + number, 1, 1, 1)]
            halves = [re.split(r'(?<="draw": )\d+', kind) for kind in kinds]
            for draw, kind in enumerate(random.choice(3, size=draws, p=[0.8, 0.12, 0.08])):
                line = f"{halves[kind][0]}{draw}{halves[kind][1]}".encode()
                by_length.setdefault(len(line), []).append(line)
    with (folder / "trials.jsonl").open("ab") as file:
        for lines in by_length.values():
            for crc, line in zip(crc32c_of_many(lines), lines, strict=True):
                file.write(b'{"crc32c":"%08x","row":%s}\n' % (crc, line))


def test_a_hundred_thousand_trials_give_a_small_page(tmp_path: Path) -> None:
    write_large(tmp_path / "c", 12_500)
    done = report(tmp_path / "c", "-o", tmp_path / "c.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "c.html").read_text()
    assert "all 100,000 planned trials count" in text
    assert len(text) < 200_000


def test_a_file_is_written_as_a_whole_or_not_at_all(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    page = out / "report.html"
    page.write_text("old")
    (folder / "trials.jsonl").write_bytes((folder / "trials.jsonl").read_bytes().replace(b"0.2", b"0.3", 1))
    done = report(folder, "-o", page)
    assert done.returncode == 2 and "trials.jsonl:1" in done.stderr
    assert page.read_text() == "old"
    write_campaign(folder, study_rows(), ARMS)
    assert report(folder, "-o", page).returncode == 0
    assert page.read_text().endswith("</html>\n")
    assert [path.name for path in out.iterdir()] == ["report.html"]
    assert page.stat().st_mode & 0o777 == 0o666 & ~os.umask(os.umask(0o22))


def test_a_wrong_call_is_one_line_and_exit_code_two(folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "r.html")
    for options, text in (
        ([str(tmp_path / "nowhere"), "-o", out], "no campaign here"),
        ([str(folder), "-o", str(tmp_path / "nowhere" / "r.html")], "there is no folder"),
        ([str(folder), "-o", str(tmp_path)], "is a folder"),
        ([str(folder)], "-o"),
        ([str(folder), "-o", out, "--port", "80"], "--watch"),
        ([str(folder), "--watch", "--port", "70000"], "70000"),
    ):
        done = report(*options)
        assert (done.returncode, done.stdout) == (2, ""), (options, done)
        assert len(done.stderr.splitlines()) == 1 and text in done.stderr, done.stderr
    assert not Path(out).exists()


def test_a_python_that_lacks_a_package_says_what_to_install(folder: Path, tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    fake.chmod(0o755)
    done = report(folder, "-o", tmp_path / "r.html", BITRIFT_PYTHON=str(fake))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "lacks the package bitrift" in done.stderr and "pip install .[report]" in done.stderr
    done = report(folder, "-o", tmp_path / "r.html", BITRIFT_PYTHON=str(tmp_path / "none"))
    assert done.returncode == 2 and "name a Python interpreter" in done.stderr


@pytest.fixture
def watched(folder: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [program(), "report", str(folder), "-o", str(tmp_path / "r.html"), "--watch"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = re.fullmatch(r"report: http://127\.0\.0\.1:(\d+)/ \(Ctrl-C stops it\)\n", server.stdout.readline())
    assert address, server.communicate(timeout=10)
    yield server, int(address[1])
    if server.poll() is None:
        server.kill()
    server.communicate()


def ask(port: int, path: str = "/", host: str | None = None, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_watched_page_is_renewed_and_stops_by_ctrl_c(
    folder: Path, tmp_path: Path, watched: tuple[subprocess.Popen[str], int]
) -> None:
    server, port = watched
    whole = (folder / "trials.jsonl").read_bytes()
    status, page = ask(port)
    state = ask(port, "/state")[1]
    assert status == 200 and "all 80 planned trials count" in Page(page).text
    assert Page(page).all("html")[0]["data-state"] == state != ""
    (folder / "trials.jsonl").write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    limit = time.monotonic() + 60
    while ask(port, "/state")[1] == state and time.monotonic() < limit:
        time.sleep(0.1)
    assert "79 of 80 planned trials count" in Page(ask(port)[1]).text
    written = (tmp_path / "r.html").read_text()
    assert "79 of 80" in written and "fetch(" not in written
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=30)
    assert (server.returncode, out, err) == (0, "", "")


def test_a_watched_page_is_for_this_machine_only(watched: tuple[subprocess.Popen[str], int]) -> None:
    _, port = watched
    assert ask(port, host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}"):
        status, text = ask(port, host=host)
        assert status == 421 and "<html" not in text, host
    assert ask(port, "/../campaign.json")[0] == ask(port, "/trials.jsonl")[0] == 404
    assert ask(port, method="POST")[0] == 501
    assert ask(port, method="HEAD") == (200, "")
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.settimeout(5)
        other.connect(("127.0.0.2", port))
