"""Injections, their undo and their repetition, killed at every call that alters a file, and at 200 random instants."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import inject_support as support
import pytest
from inject_support import BITRIFT, names_in, run
from kill_support import Victim, contiguous, growing, growing_with_sums, quick_folder, run_until, victim, with_checksums

KINDS = [contiguous, with_checksums, growing, growing_with_sums]
FEW = ["--role", "weight", "--measure", "element", "--count", 12]
MANY = ["--role", "weight", "--measure", "element", "--count", 4000]
Make = Callable[[Path, int], Path]


folder = pytest.fixture(quick_folder, name="folder")


def take_back(one: Victim) -> None:
    """Undo where there is a journal: the original."""
    if one.journal.exists():
        run("undo", one.path)
    assert one.path.read_bytes() == one.before
    assert not one.journal.exists()


def repeat(one: Victim) -> None:
    """The injection once more: it ends with the altered file, whatever the first one left."""
    done = subprocess.run(one.call, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "already holds an injection" in done.stderr
    assert one.leftovers() == []
    assert one.path.read_bytes() == one.after


def every_call(call: list[str], prepare: Callable[[], object]) -> Iterator[str]:
    """Kills a command at each of its calls that alter a file, before it and in the middle of it; names that call."""
    for half in (False, True):
        at = 1
        prepare()
        while (name := run_until(call, at, half)) is not None:
            yield name
            at += 1
            prepare()
        assert at > 3  # else nothing was counted


def say(capsys: pytest.CaptureFixture[str], what: str, phases: Counter[str]) -> None:
    with capsys.disabled():
        print(f"\n{what}: {sum(phases.values())} kills ({', '.join(f'{n} {name}' for name, n in phases.items())})")


def phases_of(one: Victim) -> set[str]:
    """What a kill can leave behind."""
    found = {"journal half-written", "journal written", "bytes half-written", "all bytes written"}
    return found | ({"tail half-written", "tail written"} if len(one.after) > len(one.before) else set())


@pytest.mark.parametrize("make", KINDS)
def test_killed_at_every_call_an_injection_is_taken_back_or_repeated(
    folder: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    one = victim(make(folder / "f.h5", 1200), *FEW)
    phases: Counter[str] = Counter()
    for recover in (take_back, repeat):
        calls = set()
        for name in every_call(one.call, one.reset):
            calls.add(name)
            phases[one.phase()] += 1
            recover(one)
            assert len(one.leftovers()) <= 1
        assert calls == {"fchmod", "pwrite", "fsync", "rename"}
    assert set(phases) == phases_of(one)
    say(capsys, f"inject, {make.__name__}", phases)


@pytest.mark.parametrize("make", KINDS)
def test_killed_at_every_call_an_undo_is_repeated_or_injected_over(
    folder: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    one = victim(make(folder / "f.h5", 1200), *FEW)
    journal = one.altered()
    phases: Counter[str] = Counter()
    for recover in (take_back, repeat):
        calls = set()
        for name in every_call([str(BITRIFT), "undo", str(one.path)], lambda: one.put(one.after, journal)):
            calls.add(name)
            phases[one.phase()] += 1
            recover(one)
        assert calls == {"pwrite", "fsync", "unlink"} | ({"ftruncate"} if one.grows else set())
    assert set(phases) >= {"all bytes written", "bytes half-written", "journal written", "before the journal"}
    say(capsys, f"undo, {make.__name__}", phases)


@pytest.mark.parametrize("make", [with_checksums, growing_with_sums])
def test_killed_while_it_takes_back_a_killed_one_an_injection_is_taken_back_or_repeated(
    folder: Path, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    one = victim(make(folder / "f.h5", 1200), *FEW)
    journal, half = one.altered(), one.half_way()
    phases: Counter[str] = Counter()
    for recover in (take_back, repeat):
        for _ in every_call(one.call, lambda: one.put(half, journal)):
            phases[one.phase()] += 1
            recover(one)
    assert set(phases) >= phases_of(one) - {"tail half-written"}
    say(capsys, f"inject after a kill, {make.__name__}", phases)


def test_killed_at_every_call_a_copy_is_whole_or_absent_and_so_is_its_manifest(folder: Path) -> None:
    path, out, manifest = folder / "f.h5", folder / "out.h5", folder / "m.json"
    growing_with_sums(path, 1200)
    before, older = path.read_bytes(), b"something else"
    call = [str(BITRIFT), "inject", str(path), "-o", str(out), "--seed", "1", "--count", "9"]
    run(*call[1:])
    expected = out.read_bytes()
    call += ["--manifest", str(manifest)]

    def clear(content: bytes | None) -> None:
        for name in names_in(folder):
            if name != path.name:
                (folder / name).unlink()
        if content is not None:
            out.write_bytes(content)

    seen: Counter[tuple[bool, bool]] = Counter()
    for content in (None, older):
        for _ in every_call(call, lambda content=content: clear(content)):
            found = out.read_bytes() if out.exists() else None
            assert found in (content, expected)
            assert path.read_bytes() == before
            assert found == expected or not manifest.exists()
            if manifest.exists():
                run("inject", path, "-o", folder / "again.h5", "--replay", manifest)
                assert (folder / "again.h5").read_bytes() == expected
            seen[found == expected, manifest.exists()] += 1
            subprocess.run(call, check=True, capture_output=True)
            assert [name for name in names_in(folder) if name.startswith(".")] == []
    assert set(seen) == {(False, False), (True, False), (True, True)}


PARTS: list[set[str]] = [
    {"before the journal"},
    {"journal half-written"},
    {"journal written", "tail half-written", "tail written", "bytes half-written", "all bytes written"},
    {"finished"},
]


class Instants:
    """Random moments of a run, as many before the journal is begun, while it is written, and after it."""

    def __init__(self, one: Victim, seed: int) -> None:
        self.one = one
        self.generator = random.Random(seed)
        marks = []
        start = time.monotonic()
        child = subprocess.Popen(one.call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for reached in (self.begun, one.journal.exists):
            self.wait(child, reached)
            marks.append(time.monotonic() - start)
        assert child.wait() == 0
        marks.append(time.monotonic() - start)
        self.parts = [end - begin for begin, end in zip([0.0, *marks], marks, strict=False)]
        one.reset()

    def begun(self) -> bool:
        return bool(self.one.leftovers()) or self.one.journal.exists()

    @staticmethod
    def wait(child: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
        while not reached() and child.poll() is None:
            pass

    def kill(self, part: int) -> str:
        """One run, killed in a part of it; what that left, "finished" when it was too late."""
        child = subprocess.Popen(self.one.call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if part > 0:
            self.wait(child, [self.begun, self.one.journal.exists][part - 1])
        time.sleep(self.generator.uniform(0, self.parts[part]))
        child.send_signal(signal.SIGKILL)
        phase = "finished" if child.wait() == 0 else self.one.phase()
        # A busy machine is slow at one moment and quick at the next: too late means, the part is shorter.
        late = PARTS.index(next(names for names in PARTS if phase in names)) > part
        self.parts[part] *= 0.8 if late else 1.1
        return phase


# At every call of the system: above.
@pytest.mark.thorough
def test_killed_at_200_random_instants_an_injection_is_taken_back_or_repeated(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phases: Counter[str] = Counter()
    for seed, make in enumerate(KINDS):
        # One of them on a disk, where a sync takes its time.
        one = victim(make((folder if seed else tmp_path) / f"{seed}.h5", 12_000), *MANY)
        instants = Instants(one, seed)
        killed = attempt = 0
        while killed < 50:
            assert attempt < 300, phases
            phase = instants.kill((0, 1, 2, 2)[attempt % 4])
            attempt += 1
            if phase != "finished":
                killed += 1
                phases[phase] += 1
                (repeat if killed % 2 else take_back)(one)
            one.reset()
    say(capsys, "random instants", phases)
    assert sum(phases.values()) == 200
    # How often chance reaches which phase is up to the machine; the calls above reach every one.
    assert len(phases) >= 2


def test_a_killed_copy_leaves_its_output_whole_or_absent(tmp_path: Path) -> None:
    path = support.model_file(tmp_path / "big.h5", 30_000)
    call = [BITRIFT, "inject", path, "-o", tmp_path / "out.h5", "--count", "5000", "--seed", "1"]
    start = time.monotonic()
    subprocess.run(call, check=True, capture_output=True)
    latest = time.monotonic() - start
    expected = (tmp_path / "out.h5").read_bytes()
    generator = random.Random(2)
    killed = 0
    while killed < 15:
        assert time.monotonic() - start < 120, killed
        (tmp_path / "out.h5").unlink(missing_ok=True)
        child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0, latest))
        child.send_signal(signal.SIGKILL)
        hit = child.wait() == -signal.SIGKILL
        killed += hit
        latest *= 1.1 if hit else 0.8
        assert not (tmp_path / "out.h5").exists() or (tmp_path / "out.h5").read_bytes() == expected
