"""A campaign driver whose disk, memory, base or time runs out, around a stand-in for the trainer."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest
from campaign_support import (
    BIN,
    PREPARATION_PER_ARM,
    STUDY_ROWS,
    STUDY_SPEC,
    Study,
    campaign,
    journal_lines,
    read_incidents,
    read_rows,
    reference_study,
    scratch_folders,
    wait_until,
)

SLOW = {"FAKE_TRAIN_SECONDS": "0.05"}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return reference_study(tmp_path_factory.mktemp("reference"))


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a file system of so many KiB; all are gone after the test."""
    mounted = []

    def mount(size):
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", place]
        if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
            pytest.skip("mounting a small file system is not allowed here")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", place], check=True)


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def flip(path, at=3000):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def test_full_disk_at_the_journal_loses_nothing_and_the_same_command_goes_on(reference, study, small_disk):
    disk = small_disk(96)
    done = campaign("run", study.spec, "-o", disk / "full", "--ignore-space", env=study.env)
    assert done.returncode == 2, done.stderr
    assert "trials.jsonl: cannot append: No space left on device" in done.stderr.splitlines()[-1]
    assert len(read_rows(disk / "full", check_crc=True)) < STUDY_ROWS
    subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
    assert campaign("run", study.spec, "-o", disk / "full", env=study.env).returncode == 0
    assert read_rows(disk / "full") == reference.rows


def test_read_only_folder_is_analyzed_without_a_summary(reference, small_disk):
    disk = small_disk(1024)
    folder = shutil.copytree(reference.place / "plain", disk / "archive")
    (folder / "summary.json").unlink()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    done = subprocess.run([BIN / "bitrift", "analyze", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be written to: summary.json is left as it is" in done.stderr
    assert "crash %" in done.stdout


@pytest.mark.parametrize("name", ["rounds/0000.json", "summary.json", "campaign.json"])
def test_full_disk_at_a_published_file_names_it_and_keeps_what_was_there(reference, study, small_disk, name):
    disk = small_disk(1024)
    folder = shutil.copytree(reference.place / "plain", disk / "full")
    file = folder / name
    if name == "campaign.json":  # rewritten when the first worker has said what it is
        file.write_text(file.read_text().replace('"trainer": {', '"other": {', 1))
        (folder / "trials.jsonl").write_text("")
    if name.startswith("rounds"):
        file.unlink()
    before = file.read_bytes() if file.exists() else None
    fill(disk)
    done = campaign("run", study.spec, "-o", folder, "--ignore-space", env=study.env)
    assert done.returncode == 2
    assert name in done.stderr.splitlines()[-1] and "No space left on device" in done.stderr.splitlines()[-1]
    assert (file.read_bytes() if file.exists() else None) == before
    assert not list(folder.rglob(".*.tmp-*"))
    (disk / "filler").unlink()
    assert campaign("run", study.spec, "-o", folder, env=study.env).returncode == 0
    assert read_rows(folder) == reference.rows


def test_private_copies_that_do_not_fit_are_refused_by_name_before_anything_runs(reference, study, small_disk):
    disk = small_disk(16)
    refused = study.run("small", "--work-dir", disk)
    assert refused.returncode == 2
    last = refused.stderr.splitlines()[-1]
    assert str(disk) in last and "copies of the base need about" in last and "--ignore-space" in last
    assert journal_lines(study.place / "small") == 0
    fill(disk)
    done = study.run("small", "--work-dir", disk, "--ignore-space")
    assert done.returncode == 2 and "ckpt.h5: " in done.stderr.splitlines()[-1]
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert study.run("small").returncode == 0
    assert read_rows(study.place / "small") == reference.rows


def test_disk_use_is_printed_before_the_first_run_and_what_does_not_fit_refused(reference, study, small_disk):
    disk = small_disk(192)
    done = campaign("run", study.spec, "-o", disk / "full", env=study.env)
    assert done.returncode == 2
    assert "free there: free some disk space" in done.stderr.splitlines()[-1]
    assert journal_lines(disk / "full") == 0
    plain = study.run("plain")
    lines = plain.stderr.splitlines()
    use = next(i for i, line in enumerate(lines) if line.startswith("disk: base "))
    first = next(i for i, line in enumerate(lines) if f"0/{2 * PREPARATION_PER_ARM} runs" in line)
    assert use < first
    level = next(i for i, line in enumerate(lines) if line.startswith("level: "))
    assert level < first and lines[level] == (
        "level: 20 envelope runs can state 4.8 % at best, not the 1 % of analysis.level: set controls.envelope to 99, "
        "or analysis.level to 0.05"
    )
    number, unit = re.search(rf"journal ([\d.]+) (.)iB for {STUDY_ROWS} rows", lines[use]).groups()
    bound = float(number) * {"K": 1024, "M": 1024**2}[unit]
    size = (study.place / "plain" / "trials.jsonl").stat().st_size
    assert size < bound < 4 * size


def test_private_copies_lie_where_they_are_asked_to_and_are_removed_after_a_kill(reference, study):
    fast = study.place / "fast"
    driver = study.start("placed", "--work-dir", fast, env=SLOW)
    folder = study.place / "placed"
    wait_until(lambda: journal_lines(folder) > 3)
    copies = list(fast.glob("*/*/ckpt.h5"))
    assert copies and not list((folder / "work").rglob("ckpt.h5"))
    driver.kill_everything()
    assert copies[0].exists()
    again = study.start("placed", env=SLOW)
    wait_until(lambda: "/dev/shm/" in str((folder / "work" / "elsewhere").resolve()))
    assert list(fast.iterdir()) == []
    assert any(path.name.endswith("-copies") for path in scratch_folders(folder))
    again.process.terminate()
    again.finish(20)
    assert scratch_folders(folder) == []
    assert study.run("placed").returncode == 0
    assert read_rows(folder) == reference.rows


@pytest.mark.parametrize("change", ["byte", "other file", "gone"])
def test_base_that_changes_while_the_campaign_runs_stops_it_by_name_and_costs_no_row(reference, study, change):
    driver = study.start("changed", "--workers", "1", env=SLOW)
    folder = study.place / "changed"
    base = folder / "base.h5"
    wait_until(lambda: journal_lines(folder) > 2 * PREPARATION_PER_ARM + 5)
    whole = base.read_bytes()
    if change == "byte":
        flip(base)
    elif change == "gone":
        base.unlink()
    else:
        (study.place / "other.h5").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        (study.place / "other.h5").rename(base)
    done = driver.finish(20)
    assert done.returncode == 2
    assert f"{base}: " in done.stderr.splitlines()[-1] and "restore it" in done.stderr.splitlines()[-1]
    rows = read_rows(folder)
    assert rows.items() <= reference.rows.items() and len(rows) < STUDY_ROWS
    base.write_bytes(whole)
    assert study.run("changed").returncode == 0
    assert read_rows(folder) == reference.rows


def test_spec_that_changes_while_the_campaign_runs_changes_no_row_and_is_refused_at_the_next_start(reference, study):
    driver = study.start("edited", "--workers", "2", env=SLOW)
    wait_until(lambda: journal_lines(study.place / "edited") > 10)
    text = study.spec.read_text()
    study.spec.write_text(text.replace('"epochs": 2', '"epochs": 3'))
    assert driver.finish().returncode == 0
    assert read_rows(study.place / "edited") == reference.rows
    refused = study.run("edited")
    assert refused.returncode == 2 and "resume.epochs was 2, is now 3" in refused.stderr


REQUEUE = os.EX_TEMPFAIL  # what a job script requeues on


@pytest.mark.parametrize(
    ("name", "code"),
    [(signal.SIGTERM, REQUEUE), (signal.SIGUSR1, REQUEUE), (signal.SIGINT, 2), (signal.SIGHUP, 2)],
)
def test_signals_end_a_driver_with_busy_workers_within_three_seconds(study, name, code):
    note = study.place / "training"
    driver = study.start("busy", "--workers", "4", env={"FAKE_TRAIN_SECONDS": "60", "FAKE_TRAIN_NOTE": str(note)})
    wait_until(lambda: note.exists() and len(driver.ranks()) >= 2 and scratch_folders(study.place / "busy"))
    began = time.monotonic()
    driver.process.send_signal(name)
    ended = driver.finish(20)
    assert time.monotonic() - began < 3
    assert ended.returncode == code and "interrupted" in ended.stderr.splitlines()[-1]
    assert scratch_folders(study.place / "busy") == []


def test_signal_while_the_base_is_trained_ends_the_training_too(study):
    driver = study.start("base", env={"FAKE_TRAIN_BASE_SECONDS": "60"})
    wait_until(lambda: any(" train " in name for name in driver.descendants().values()))
    began = time.monotonic()
    driver.process.terminate()
    ended = driver.finish(20)
    assert time.monotonic() - began < 3
    assert ended.returncode == REQUEUE and "interrupted" in ended.stderr.splitlines()[-1]
    assert study.run("base").returncode == 0


def test_worker_that_needs_more_memory_than_allowed_is_named(study):
    done = study.run("little", "--set", "worker.memory=1M", "--set", 'arms=[{"name":"a","parallel":{"kind":"serial"}}]')
    assert done.returncode in (2, 3)
    last = done.stderr.splitlines()[-1]
    assert "workers cannot be started" in last and "worker.memory allows (1048576 bytes)" in last
    assert read_incidents(study.place / "little")[0]["failure"]["reason"] == "exception"
    for wrong in ("4GB", "0", "-1", "[1]"):
        refused = study.run("x", "--set", f"worker.memory={wrong}")
        assert refused.returncode == 2 and "worker.memory" in refused.stderr, wrong
    assert not (study.place / "x").exists()


def test_trace_of_a_run_in_another_data_order_is_refused_by_name(reference, study):
    folder = shutil.copytree(reference.place / "plain", study.place / "traced")
    for id_ in ("serial/envelope/3", "serial/held_out/0"):
        done = campaign("replay", folder, id_, "--trace", study.place / "t.jsonl", env=study.env)
        assert done.returncode == 2 and f"{id_} runs in the data order of seed" in done.stderr


def screen(output, columns):
    """What a terminal shows after these bytes: lines, the cursor's moves up and erasures obeyed."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[\d*[A-Z]|\r|\n|[^\x1b\r\n]+", output):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[K":
            lines[row] = lines[row][:column]
        elif piece == "\x1b[J":
            lines[row], lines[row + 1 :] = lines[row][:column], []
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row -= int(piece[2:-1])
        else:
            lines[row] = lines[row][:column] + piece + lines[row][column + len(piece) :]
            column += len(piece)
            rewritten = re.match("controls|trials|  ", piece)
            assert not rewritten or column < columns, "a line that wraps cannot be rewritten"
    return lines


@pytest.mark.parametrize("columns", [150, 60])
def test_terminal_shows_bar_speed_time_left_and_rates(study, columns):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [BIN / "bitrift", "campaign", "run", study.spec, "-o", "c"],
        env=os.environ | study.env | SLOW,
        cwd=study.place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    try:
        while piece := os.read(ours, 4096):
            output += piece
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert process.wait(20) == 0
    text = output.decode().replace("\r\n", "\n")
    pieces = [line for line in text.split("\x1b[J") if "trials [" in line]
    assert len(pieces) > 5, "it was rewritten on the way"
    under_way = screen(text[: text.rindex("trials [", 0, text.rindex("48/48"))], columns)
    at_end = screen(text, columns)
    assert sum("trials [" in line for line in at_end) == 1
    assert any("trials [####################] 48/48 runs" in line for line in at_end)
    rates = [line for line in at_end if re.match(r"  (serial|data-2): 24 trials: masked \d+\.\d %", line)]
    assert len(rates) == 2
    if columns == 150:
        assert all(re.search(r"SDC \d+\.\d % \(\d+\.\d to \d+\.\d\), crash \d+\.\d %", line) for line in rates)
        assert any(re.search(r"\[#+\.+\] \d+/48 runs, \d+\.\d a second, \d+ s left", piece) for piece in pieces)
    assert under_way


def test_without_a_terminal_there_are_whole_lines_only(study):
    done = study.run("plain")
    assert "\r" not in done.stderr and "\x1b" not in done.stderr
    lines = done.stderr.splitlines()
    assert any(re.fullmatch(r"trials: 48/48 runs, \d+\.\d a second", line) for line in lines)
    assert len(lines) < 15


def test_shard_shows_the_rates_of_all_shards_behind_a_stage(study):
    spec = {k: v for k, v in STUDY_SPEC.items() if k != "trials_per_stratum"}
    path = study.place / "sampled.json"
    path.write_text(json.dumps(spec | {"sampling": {"half_width": 0.2, "pilot": 4, "outcomes": ["masked"]}}))
    drivers = [study.start("c", "--shard", f"{i}/3", "--workers", "1", spec=path) for i in (1, 2, 3)]
    for driver in drivers:
        done = driver.finish()
        assert done.returncode == 0, done.stderr
        later = done.stderr.partition("\nround 1 ")[2]
        for arm in ("serial", "data-2"):
            # Four strata of four draws: all of them, although this shard ran a third.
            assert int(re.search(rf"  {arm}: (\d+) trials: masked ", later)[1]) >= 16
