"""Makes jargon.txt.gz and SHA256SUMS from Debian's package dict-jargon: python make.py DEB (needs dpkg-deb)."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import unicodedata
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEB_SHA256 = "405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1"
MEMBER = "./usr/share/dictd/jargon.dict.dz"  # dictzip is gzip
FIRST_LINE = "     The Jargon File (version 4.4.7, 29 Dec 2003)"
REPLACED = {
    "─": "-", "│": "|", "┌": "+", "┬": "+", "┐": "+", "├": "+", "┼": "+", "┤": "+", "└": "+", "┴": "+", "┘": "+",
    "“": '"', "”": '"', "‘": "'", "’": "'", "´": "'", "—": "--", "−": "-", "·": "*", "×": "x", "±": "+/-",
    "™": "(TM)", "∼": "~", "〈": "<", "〉": ">", "→": "->", "←": "<-", "⇔": "<=>", "Ø": "O", "ß": "ss", "æ": "ae",
    "\u00a0": " ", "\u00ad": "",
}  # fmt: skip


def ascii_of(character: str) -> str:
    """A character in ASCII: by the table, without its accent, or a question mark."""
    if character.isascii():
        return character
    if character in REPLACED:
        return REPLACED[character]
    plain = unicodedata.normalize("NFD", character)[0]
    return plain if plain.isascii() else "?"


def main() -> None:
    deb = Path(sys.argv[1])
    assert hashlib.sha256(deb.read_bytes()).hexdigest() == DEB_SHA256, "another version of the package"
    archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.extractfile(MEMBER)
        assert member is not None
        source = gzip.decompress(member.read()).decode("utf-8")
    source = source[source.index(FIRST_LINE) :]
    text = "".join(map(ascii_of, source))
    text = "\n".join(line.rstrip() for line in text.split("\n")).strip() + "\n"
    packed = gzip.compress(text.encode("ascii"), compresslevel=9, mtime=0)
    (HERE / "jargon.txt.gz").write_bytes(packed)
    (HERE / "SHA256SUMS").write_text(f"{hashlib.sha256(packed).hexdigest()}  jargon.txt.gz\n")


if __name__ == "__main__":
    main()
