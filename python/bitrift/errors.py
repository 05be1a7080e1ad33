"""What bitrift raises: one class for each kind of error, all of them `Error`."""

from __future__ import annotations


class Error(RuntimeError):
    """What bitrift refuses or cannot do, on one line: what, where, what to do.

    `code` names the kind: bad_input, not_found, bad_file, unsupported, io, busy, conflict or internal. `key` names the
    argument, or the key of a spec, whose value is wrong, such as "bits" or "data.mean"; "" if no single one is.
    """

    code: str = "internal"

    def __init__(self, text: str = "", key: str = "") -> None:
        super().__init__(text)
        self.key = key


class BadInput(Error, ValueError):
    """An argument, a spec or a combination of them makes no sense."""

    code = "bad_input"


class NotFound(Error, FileNotFoundError, LookupError):
    """A file, a tensor or a key that was named does not exist."""

    code = "not_found"


class BadFile(Error, ValueError):
    """A file is damaged, truncated or of another kind."""

    code = "bad_file"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but it cannot be done faithfully; the text says why."""

    code = "unsupported"


class IoError(Error, OSError):
    """The operating system refused: full disk, permission, ..."""

    code = "io"


class Busy(Error, BlockingIOError):
    """Somebody else holds the file or folder."""

    code = "busy"


class Conflict(Error):
    """Two things that must agree do not, such as a manifest and the file that it is replayed on."""

    code = "conflict"


class Internal(Error):
    """A fault in bitrift itself: please report it."""

    code = "internal"


_CLASSES = {kind.code: kind for kind in (BadInput, NotFound, BadFile, Unsupported, IoError, Busy, Conflict, Internal)}


def error_of(code: str, text: str, key: str) -> Error:
    """The exception for an error of the libraries; `_core` calls this."""
    return _CLASSES[code](text, key)
