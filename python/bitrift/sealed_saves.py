"""Seals what torch.save and torch.distributed.checkpoint write, as soon as it is written."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from bitrift.errors import Error
from bitrift.integrity import seal


def remove_seal(path: str | os.PathLike[str]) -> None:
    """A run that ends while it saves must not leave the seal of the file before."""
    Path(f"{os.fspath(path)}.seal").unlink(missing_ok=True)


def seal_saves(percent: float = 1) -> ExitStack:
    """Makes torch.save, torch.distributed.checkpoint.save and async_save seal what they write; see bitrift.seal().

    A file gets FILE.seal, the folder of a distributed checkpoint FOLDER.seal, which rank 0 writes after the save. Only
    paths are sealed, not open files, storage elsewhere, or what other libraries write. After an asynchronous save, it
    is done in the background, and an error becomes a warning.

    Call it before `from torch import save`, or call torch.save by that name. It holds until the program ends, or as
    long as a `with` block: with seal_saves(): ...
    """
    undo = ExitStack()
    _wrap(undo, torch, "save", functools.partial(_sealed_save, percent))
    if torch.distributed.is_available():
        import torch.distributed.checkpoint as dcp

        _wrap(undo, dcp, "save", functools.partial(_sealed_folder, percent))
        _wrap(undo, dcp, "async_save", functools.partial(_sealed_later, percent))
    return undo


def _wrap(undo: ExitStack, module: Any, name: str, wrapper: Callable[..., Any]) -> None:
    inner = getattr(module, name)
    setattr(module, name, functools.wraps(inner)(functools.partial(wrapper, inner)))
    undo.callback(setattr, module, name, inner)


def _sealed_save(percent: float, inner: Callable[..., Any], obj: object, f: Any, *rest: Any, **named: Any) -> Any:
    path = f if isinstance(f, str | os.PathLike) else None
    if path is not None:
        remove_seal(path)
    result = inner(obj, f, *rest, **named)
    if path is not None:
        seal(path, percent=percent, replace=True, check=False)
    return result


def _folder_here(named: dict[str, Any]) -> Path | None:
    """The folder of a distributed checkpoint, on the rank that finishes it."""
    alone = named.get("no_dist") or not torch.distributed.is_initialized()
    if not alone and torch.distributed.get_rank(named.get("process_group")) != 0:
        return None
    folder = named.get("checkpoint_id") or getattr(named.get("storage_writer"), "path", None)
    return Path(folder) if isinstance(folder, str | os.PathLike) and "://" not in os.fspath(folder) else None


def _sealed_folder(percent: float, inner: Callable[..., Any], *given: Any, **named: Any) -> Any:
    folder = _folder_here(named)
    if folder is not None:
        remove_seal(folder)
    result = inner(*given, **named)
    if folder is not None:
        seal(folder, percent=percent, replace=True, check=False)
    return result


def _sealed_later(percent: float, inner: Callable[..., Any], *given: Any, **named: Any) -> Any:
    folder = _folder_here(named)
    if folder is not None:
        remove_seal(folder)
    result = inner(*given, **named)

    def finish(done: Future[Any]) -> None:
        if folder is None or done.cancelled() or done.exception() is not None:
            return
        try:
            seal(folder, percent=percent, replace=True, check=False)
        except Error as error:
            warnings.warn(f"the checkpoint has no seal: {error}", stacklevel=2)

    upload: Future[Any] = getattr(result, "upload_completion", result)
    upload.add_done_callback(finish)
    return result
