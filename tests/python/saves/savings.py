"""A training that saves in the way that WAY names: right ones, and ones that lose or tear a checkpoint."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bitrift.runner
import bitrift.torch
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import async_save as dcp_async_save
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 64)
done = 0


def train_epoch() -> None:
    global done
    for _ in range(2):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    done += 1


def evaluate() -> float:
    with torch.no_grad():
        return float((model(x) - x).square().mean())


def state() -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}


def put(kept: dict[str, Any]) -> dict[str, int]:
    global done
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    done = kept["done"]
    return {"epoch": done}


def load_file(path: str) -> dict[str, int]:
    return put(torch.load(path, weights_only=False))


def over(path: str) -> None:
    torch.save(state(), path)


def renamed(path: str) -> None:
    torch.save(state(), f"{path}.new")
    os.replace(f"{path}.new", path)


def own(path: str) -> None:
    bitrift.torch.save(path, model, optimizer, epoch=done)


def load_own(path: str) -> dict[str, int]:
    global done
    done = int(bitrift.torch.load_into(path, model, optimizer)["epoch"])
    return {"epoch": done}


def in_pieces(path: str) -> None:
    """One file for the model and one for the optimizer, each written as a whole."""
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    for name, part in (("model", model.state_dict()), ("rest", {"optimizer": optimizer.state_dict(), "done": done})):
        torch.save(part, folder / f"{name}.new")
        os.replace(folder / f"{name}.new", folder / name)


def load_pieces(path: str) -> dict[str, int]:
    folder = Path(path)
    kept = torch.load(folder / "rest", weights_only=False)
    return put(kept | {"model": torch.load(folder / "model", weights_only=False)})


def with_pointer(path: str) -> None:
    """A new file for each save, and a file that names the newest; with MISTAKE it moves before that is written."""
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    name = f"step-{done}"
    if os.environ.get("MISTAKE"):
        point(folder, name)
    torch.save(state(), folder / name)
    point(folder, name)


def point(folder: Path, name: str) -> None:
    (folder / "latest.new").write_text(name)
    os.replace(folder / "latest.new", folder / "latest")


def load_latest(path: str) -> dict[str, int]:
    folder = Path(path)
    return load_file(str(folder / (folder / "latest").read_text()))


def forgiving(path: str) -> dict[str, int]:
    """Begins again when the file cannot be read, as many scripts do."""
    try:
        return load_file(path)
    except Exception:
        return {"epoch": 0}


def parallel_state() -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": flat_optimizer(), "done": torch.tensor(done)}


def flat_optimizer() -> dict[str, torch.Tensor]:
    return {f"{at}.{key}": one for at, each in optimizer.state_dict()["state"].items() for key, one in each.items()}


def distributed(path: str) -> None:
    dcp_save(parallel_state(), checkpoint_id=path)


def distributed_async(path: str) -> Any:
    return dcp_async_save(parallel_state(), checkpoint_id=path)


def load_distributed(path: str) -> dict[str, int]:
    global done
    train_epoch()  # so that the optimizer has its tensors
    kept = parallel_state()
    dcp_load(kept, checkpoint_id=path)
    model.load_state_dict(kept["model"])
    own_state = optimizer.state_dict()
    for name, one in kept["optimizer"].items():
        at, _, key = name.partition(".")
        own_state["state"][int(at)][key] = one
    optimizer.load_state_dict(own_state)
    done = int(kept["done"])
    return {"epoch": done}


def in_background(path: str) -> None:
    """The tensors are read by the thread, while the training may change them."""
    live = state()

    def write() -> None:
        with open(f"{path}.new", "wb") as file:
            for name, part in live.items():
                pickle.dump((name, part), file)
                file.flush()
        os.replace(f"{path}.new", path)

    threading.Thread(target=write).start()


def copied(path: str) -> None:
    """The same with a copy of the tensors."""
    kept = pickle.dumps(state())

    def write() -> None:
        with open(f"{path}.new", "wb") as file:
            file.write(kept)
        os.replace(f"{path}.new", path)

    threading.Thread(target=write).start()


def in_a_process(path: str) -> None:
    """Another process writes, and save() waits for it."""
    code = "import os, sys; open(sys.argv[1] + '.new', 'wb').write(sys.stdin.buffer.read());"
    code += "os.replace(sys.argv[1] + '.new', sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, path], input=pickle.dumps(state()), check=True)


def load_parts(path: str) -> dict[str, int]:
    with open(path, "rb") as file:
        return put(dict(pickle.load(file) for _ in range(3)))


def load_pickle(path: str) -> dict[str, int]:
    with open(path, "rb") as file:
        return put(pickle.load(file))


WAYS: dict[str, tuple[Callable[[str], Any], Callable[[str], dict[str, int]]]] = {
    "over": (over, load_file),
    "forgiving": (over, forgiving),
    "renamed": (renamed, load_file),
    "own": (own, load_own),
    "pieces": (in_pieces, load_pieces),
    "pointer": (with_pointer, load_latest),
    "dcp": (distributed, load_distributed),
    "dcp-async": (distributed_async, load_distributed),
    "background": (in_background, load_parts),
    "copied": (copied, load_pickle),
    "process": (in_a_process, load_pickle),
}


def main() -> None:
    save, load = WAYS[os.environ["WAY"]]
    bitrift.runner.serve(
        train_epoch=train_epoch,
        evaluate=evaluate,
        load=load,
        save=save,
        state=lambda: {"model": model, "optimizer": optimizer},
    )
