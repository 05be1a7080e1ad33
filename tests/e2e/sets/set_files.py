"""Checkpoints in several files, written by the libraries whose formats they are, and read back by them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

Arrays = dict[str, np.ndarray]


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The stored bytes of a tensor's elements, so that NaN equals NaN."""
    return tensor.detach().contiguous().view(torch.uint8).numpy().copy() if tensor.dim() else tensor.numpy().copy()


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 6)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def flat(value: object, path: str = "") -> Arrays:
    """The tensors of nested dicts and lists, by their keys joined with '/'."""
    if isinstance(value, torch.Tensor) and value.is_complex():
        return {f"{path}:real": bits_of(value.real), f"{path}:imag": bits_of(value.imag)}
    if isinstance(value, torch.Tensor):
        return {path: bits_of(value)}
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {}
    found: Arrays = {}
    for key, one in value.items():
        found |= flat(one, f"{path}/{key}" if path else str(key))
    return found


# --- torch.distributed.checkpoint ---


def _save_sharded(rank: int, folder: str, port: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    model, optimizer = trained()
    state = {name: value.detach() for name, value in model.state_dict().items()}
    state["0.weight"] = distribute_tensor(state["0.weight"], mesh, [Shard(0)])
    state["0.bias"] = distribute_tensor(state["0.bias"], mesh, [Replicate()])
    state["3.weight"] = distribute_tensor(state["3.weight"], mesh, [Shard(1)])
    state["odd"] = distribute_tensor(torch.arange(33, dtype=torch.bfloat16).reshape(3, 11), mesh, [Shard(0)])
    turned = (torch.randn(5, 3) + 10 * rank).t()  # each rank holds columns, in an order of its own
    state["turned"] = DTensor.from_local(turned, mesh, [Shard(1)], run_check=False)
    state["waves"] = distribute_tensor(torch.randn(4, 3, dtype=torch.complex64), mesh, [Shard(0)])
    dcp.save({"model": state, "optim": optimizer.state_dict(), "epoch": 5}, checkpoint_id=folder)
    dist.destroy_process_group()


def save_distributed(folder: Path) -> None:
    """By two ranks: tensors are cut by rows, by columns, unevenly, and not at all."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(_save_sharded, (str(folder), port), nprocs=2)


def read_distributed(folder: Path) -> Arrays:
    state: dict = {}
    _load_state_dict(state, storage_reader=FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return flat(state)


# --- Hugging Face ---


def save_shards(folder: Path, names: str = "model-{:05}-of-00003.safetensors", optimizer: bool = True) -> None:
    """Three shards with an index, as transformers writes them, and the optimizer of its Trainer."""
    folder.mkdir(parents=True)
    model, adam = trained()
    tensors = {name: value.detach() for name, value in model.state_dict().items()}
    tensors["head"] = torch.randn(7, 3).bfloat16()
    weight_map = {name: names.format(1 + i % 3) for i, name in enumerate(sorted(tensors))}
    for shard in sorted(set(weight_map.values())):
        held = {name: tensors[name] for name, place in weight_map.items() if place == shard}
        if shard.endswith(".bin"):
            torch.save(held, folder / shard)
        else:
            save_file(held, folder / shard, metadata={"format": "pt"})
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    name = "pytorch_model.bin.index.json" if names.endswith(".bin") else "model.safetensors.index.json"
    (folder / name).write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "mlp"}')
    if optimizer:
        torch.save(adam.state_dict(), folder / "optimizer.pt")
        torch.save(torch.optim.lr_scheduler.StepLR(adam, 2).state_dict(), folder / "scheduler.pt")


def save_bin_shards(folder: Path) -> None:
    save_shards(folder, "pytorch_model-{:05}-of-00003.bin", optimizer=False)


def save_folder(folder: Path) -> None:
    """A folder of the Trainer of transformers whose model is one file."""
    folder.mkdir()
    model, adam = trained()
    save_file(dict(model.state_dict()), folder / "model.safetensors", metadata={"format": "pt"})
    torch.save(adam.state_dict(), folder / "optimizer.pt")
    (folder / "trainer_state.json").write_text('{"global_step": 5}')


def read_shards(folder: Path) -> Arrays:
    found: Arrays = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            found |= flat(load_file(path))
        elif path.suffix == ".bin":
            found |= flat(torch.load(path))
        elif path.name == "optimizer.pt":
            found |= flat({"optimizer": torch.load(path)})
    return found


# --- Accelerate, diffusers and sentence-transformers: several models ---


def save_model(path: Path) -> torch.optim.Optimizer:
    model, adam = trained()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(dict(model.state_dict()), path, metadata={"format": "pt"})
    return adam


def save_two_models(folder: Path) -> None:
    """Accelerator.save_state() with two models and their optimizers, such as those of a GAN."""
    for end in ("", "_1"):
        adam = save_model(folder / f"model{end}.safetensors")
        torch.save(adam.state_dict(), folder / f"optimizer{end}.bin")
    torch.save({"last_epoch": 3}, folder / "scheduler.bin")


def save_parts_in_training(folder: Path) -> None:
    """As scripts of diffusers save with Accelerate: a model and its mean in folders, the optimizer beside them."""
    save_shards(folder / "unet", "diffusion_pytorch_model-{:05}-of-00003.safetensors", optimizer=False)
    adam = save_model(folder / "unet_ema" / "diffusion_pytorch_model.safetensors")
    torch.save(adam.state_dict(), folder / "optimizer.bin")


def save_pipeline(folder: Path) -> None:
    """What DiffusionPipeline.save_pretrained() writes; a checkpoint in a folder that the pipeline does not name."""
    save_shards(folder / "text_encoder", optimizer=False)
    save_model(folder / "unet" / "diffusion_pytorch_model.safetensors")
    save_folder(folder / "checkpoint-5")
    (folder / "scheduler").mkdir()
    parts = {"_class_name": "DDPMPipeline", "unet": ["diffusers", "UNet2DModel"], "scheduler": ["diffusers", "DDPM"]}
    (folder / "model_index.json").write_text(json.dumps(parts | {"text_encoder": ["transformers", "CLIPTextModel"]}))


def read_parts(folder: Path) -> Arrays:
    found: Arrays = {}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder).parent.as_posix()
        if path.suffix not in (".safetensors", ".bin") or path.stem == "scheduler" or place == "checkpoint-5":
            continue
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path)
        above = path.stem if path.stem[-2:] == "_1" or path.suffix == ".bin" else "" if place == "." else place
        found |= flat({above: state} if above else state)
    return found


# --- DeepSpeed ---


def save_ranks(folder: Path) -> None:
    """What DeepSpeed's engine saves with ZeRO 1 on two data-parallel ranks: each has half of the master weights."""
    model, adam = trained()
    tag = folder / "global_step3"
    tag.mkdir(parents=True)
    parameters = list(model.parameters())
    groups = {"exp_avg": [adam.state[one]["exp_avg"] for one in parameters], "master": [one.data for one in parameters]}
    flat_groups = {name: torch.cat([one.flatten() for one in values]).chunk(2) for name, values in groups.items()}
    for rank in range(2):
        moments = {"step": torch.tensor(1.0), "exp_avg": flat_groups["exp_avg"][rank].clone()}
        kept = {
            "base_optimizer_state": {"state": {0: moments}, "param_groups": [{"lr": 1e-3, "params": [0]}]},
            "single_partition_of_fp32_groups": [flat_groups["master"][rank].clone()],
        }
        torch.save({"optimizer_state_dict": kept}, tag / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    state = model.bfloat16().state_dict()
    torch.save({"module": state, "dp_world_size": 2, "global_steps": 3}, tag / "mp_rank_00_model_states.pt")
    (folder / "latest").write_text("global_step3")
    (folder / "zero_to_fp32.py").write_text("print('converts')\n")


def read_ranks(folder: Path) -> Arrays:
    found: Arrays = {}
    for path in sorted(folder.rglob("*_states.pt")):
        found |= flat({path.stem: torch.load(path)})
    return found


# --- Keras ---


def keras_model() -> Any:
    """Trained for one step, so that its optimizer has moments."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(1)
    dense, norm = keras.layers.Dense, keras.layers.BatchNormalization
    layers = [dense(16, name="first"), norm(name="norm"), dense(4, name="second")]
    model = keras.Sequential([keras.layers.Input((8,)), *layers])
    model.compile(keras.optimizers.Adam(1e-3, name="adam"), "mse")
    draws = np.random.default_rng(1)
    model.fit(draws.standard_normal((32, 8)), draws.standard_normal((32, 4)), verbose=0)
    return model


def save_keras(folder: Path) -> None:
    """Weights that Keras has split into several files."""
    folder.mkdir()
    keras_model().save_weights(folder / "model.weights.json", max_shard_size=1e-6)


def read_keras(folder: Path) -> Arrays:
    found: Arrays = {}

    def take(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.asarray(item[()])

    for path in sorted(folder.glob("*.h5")):
        with h5py.File(path) as file:
            file.visititems(take)
    return found


class Kind(NamedTuple):
    save: Callable[[Path], None]
    read: Callable[[Path], Arrays]
    index: str  # the file that names the others; "" if none does
    shard: str  # one of the others


KINDS = {
    "distributed": Kind(save_distributed, read_distributed, ".metadata", "__1_0.distcp"),
    "safetensors shards": Kind(
        save_shards, read_shards, "model.safetensors.index.json", "model-00002-of-00003.safetensors"
    ),
    "PyTorch shards": Kind(
        save_bin_shards, read_shards, "pytorch_model.bin.index.json", "pytorch_model-00002-of-00003.bin"
    ),
    "folder of a Trainer": Kind(save_folder, read_shards, "", "optimizer.pt"),
    "two models": Kind(save_two_models, read_parts, "", "model_1.safetensors"),
    "parts in training": Kind(
        save_parts_in_training, read_parts, "", "unet/diffusion_pytorch_model-00002-of-00003.safetensors"
    ),
    "pipeline": Kind(
        save_pipeline, read_parts, "model.safetensors.index.json", "text_encoder/model-00002-of-00003.safetensors"
    ),
    "DeepSpeed": Kind(save_ranks, read_ranks, "", "global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"),
    "Keras shards": Kind(save_keras, read_keras, "model.weights.json", "model_00001.weights.h5"),
}
