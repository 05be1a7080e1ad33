"""Packages that only some functions need."""

from __future__ import annotations

from typing import Any


def pandas_package() -> Any:
    """The package pandas. Raises ImportError that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables of bitrift are pandas DataFrames: pip install pandas") from error
    return pandas
