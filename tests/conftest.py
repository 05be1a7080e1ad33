"""Gives each pytest process its own folder for `tmp_path`.

By default all processes of a user share one and clean up each other's old folders. Those that CTest runs side by side
then fail at random, because an entry is gone before they reach it.
"""

import os
import shutil
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder; it stays after a failure, and is removed otherwise."""
    root = tempfile.mkdtemp(prefix="bitrift-tests-")
    os.environ["PYTEST_DEBUG_TEMPROOT"] = root
    failed = _Failed()
    config.pluginmanager.register(failed)

    def clean() -> None:
        if not failed.seen:
            shutil.rmtree(root, ignore_errors=True)

    # Cleanups run in reverse order: this one runs after those of tmp_path.
    config.add_cleanup(clean)


class _Failed:
    """Whether the session ended with anything but success."""

    seen = False

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.seen = exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
