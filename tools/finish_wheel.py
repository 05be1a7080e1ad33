"""Completes a wheel that auditwheel has repaired: data sets, dependencies, search paths of libraries, licences.

    finish_wheel.py WHEEL OUTPUT-FOLDER REQUIREMENT...

Prints the path of the new wheel. REQUIREMENT is what the programs were linked with and the wheel does not contain, as
torch==2.13.0.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA_SETS = ("digits", "jargon")
# Where a program of bitrift.scripts/ finds the libraries of this wheel, of PyTorch and of Open MPI.
SEARCH_PATH = "$ORIGIN/../bitrift.libs:$ORIGIN/../torch/lib:$ORIGIN/../../.."
# Debian packages that are only headers, which are compiled in. pybind11 is one of Python's.
HEADER_PACKAGES = ("nlohmann-json3-dev", "libcli11-dev", "libvalijson-dev", "libfmt-dev", "libspdlog-dev")
HEADERS_OF_BOOST = "/usr/include/boost/version.hpp"


def output_of(*command: str | Path) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def package_of(pattern: str) -> str:
    """The Debian package that a file comes from, without its architecture."""
    try:
        return output_of("dpkg", "-S", pattern).splitlines()[0].partition(":")[0]
    except subprocess.CalledProcessError:
        sys.exit(f"wheel: no Debian package has {pattern}: its licence is not known, so it cannot be passed on")


def bundled_packages(libraries: Path) -> set[str]:
    """The packages of the libraries that auditwheel copied: libz-0f1e2d3c.so.1.2 was libz.so.1.2."""
    names = (re.sub(r"-[0-9a-f]{8}(?=\.)", "", library.name) for library in libraries.iterdir())
    return {package_of(f"*/{name}") for name in names}


def add_licences(folder: Path, libraries: Path) -> None:
    folder.mkdir(parents=True)
    for package in sorted(bundled_packages(libraries) | set(HEADER_PACKAGES) | {package_of(HEADERS_OF_BOOST)}):
        terms = Path(f"/usr/share/doc/{package}/copyright")
        shutil.copy(terms, folder / f"{package}.txt")
        # Debian's files name texts that many packages share.
        text = terms.read_text(encoding="utf-8")
        for name in set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text)):
            shutil.copy(f"/usr/share/common-licenses/{name}", folder / f"common-{name}.txt")
    pybind11 = metadata.distribution("pybind11")
    licence = next(file for file in pybind11.files or [] if file.name == "LICENSE")
    shutil.copy(str(licence.locate()), folder / "pybind11.txt")


def main() -> None:
    wheel, output, *requirements = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        output_of(sys.executable, "-m", "wheel", "unpack", wheel, "-d", scratch)
        (unpacked,) = Path(scratch).iterdir()
        (info,) = unpacked.glob("bitrift-*.dist-info")
        for name in DATA_SETS:
            shutil.copytree(ROOT / "data" / name, unpacked / "bitrift" / "data" / name)
        output_of("patchelf", "--set-rpath", SEARCH_PATH, unpacked / "bitrift.scripts" / "bitrift-train")
        add_licences(info / "licenses" / "bundled", unpacked / "bitrift.libs")
        text = (info / "METADATA").read_text(encoding="utf-8")
        head, separator, body = text.partition("\n\n")
        needed = "".join(f"\nRequires-Dist: {requirement}" for requirement in requirements)
        (info / "METADATA").write_text(head + needed + separator + body, encoding="utf-8")
        output_of(sys.executable, "-m", "wheel", "pack", unpacked, "-d", output)
    print(Path(output) / Path(wheel).name)


if __name__ == "__main__":
    main()
