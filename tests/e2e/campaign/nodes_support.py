"""Two nodes on one machine: network namespaces with a cable between them (two_nodes.sh)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("two_nodes.sh")
FIRST, SECOND = "10.11.0.1", "10.11.0.2"


def cannot() -> str:
    """Why two namespaces cannot be made here; "" when they can."""
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing"
    node = "unshare --uts --mount sh -c 'hostname x && mount -t tmpfs none /dev/shm'"
    words = f"ip link add cable0 type veth peer name cable1 && {node}"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", words], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


WHY_NOT = cannot()
two_nodes = pytest.mark.skipif(bool(WHY_NOT), reason=f"network namespaces need root: {WHY_NOT}")
