"""Writes checkpoints of models of transformers and timm and of a trainer of Lightning, and what their modules say.

python model_roles.py FOLDER     FOLDER/NAME.pt, and FOLDER/NAME.json: {path: role}, null where no module says it.

Needs `tools/setup --with-frameworks`. The models are as small as they can be; nothing is downloaded.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from framework_files import QUIET, lightning_module
from torch import nn

SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = SIZES | {"vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GROUPED = TEXT | {"num_key_value_heads": 2}
PICTURE = SIZES | {"image_size": 32, "patch_size": 8}
SPEECH = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
SPEECH |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
TOKENS = {"vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
SOUND = SIZES | {"vocab_size": 32, "conv_dim": (16, 16), "conv_kernel": (3, 3), "conv_stride": (2, 2)}
SOUND |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99,
                                               "bos_token_id": 1, "eos_token_id": 2}),
    "bert": ("BertForMaskedLM", "BertConfig", TEXT),
    "deberta": ("DebertaV2Model", "DebertaV2Config", TEXT),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", GROUPED | {"num_local_experts": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", GROUPED | {"num_experts": 4, "moe_intermediate_size": 16}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", GROUPED | {"head_dim": 8}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", GROUPED),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", SPEECH | TOKENS),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", SPEECH | TOKENS | {"num_mel_bins": 8}),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", SOUND),
    "vit": ("ViTForImageClassification", "ViTConfig", PICTURE),
    "swin": ("SwinForImageClassification", "SwinConfig", {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
                                                          "image_size": 32, "patch_size": 4}),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", {"hidden_sizes": [8, 16], "depths": [1, 1],
                                                                      "num_stages": 2}),
    "resnet": ("ResNetForImageClassification", "ResNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16],
                                                                "depths": [1, 1]}),
    "mamba": ("MambaForCausalLM", "MambaConfig", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 99,
                                                  "state_size": 4}),
}  # fmt: skip
TIMM: tuple[str, ...]
TIMM = ("resnet18", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0", "mobilenetv3_small_050", "regnety_002")
TIMM += (
    "mobilevit_xxs",
    "pvt_v2_b0",
    "coat_tiny",
    "levit_128s",
    "xcit_nano_12_p16_224",
    "densenet121",
    "poolformer_s12",
)
# Names of parameters that are matrices or embeddings of a module of their own kind, by the source of transformers.
WEIGHTS = {
    "gate_up_proj",
    "down_proj",
    "cls_token",
    "position_embeddings",
    "pos_embed",
    "class_embedding",
    "masked_spec_embed",
}
WEIGHTS |= {"relative_position_bias_table", "attention_biases", "original", "layer_scale_parameter"}


def roles_of(model: nn.Module, prefix: str = "") -> dict[str, str | None]:
    """The role of each tensor of a state_dict, by the class of its module."""
    modules, roles = dict(model.named_modules(remove_duplicate=False)), {}
    for name in model.state_dict():
        owner, _, leaf = name.rpartition(".")
        kind = type(modules[owner]).__name__
        role: str | None = None
        if leaf in ("running_mean", "running_var", "num_batches_tracked"):
            role = "running_stat"
        elif leaf in ("weight", "bias"):
            role = "norm" if "Norm" in kind else leaf
        elif leaf.rstrip("0123456789") in WEIGHTS or "Scale" in kind:
            role = "weight"
        elif leaf == "final_logits_bias":
            role = "bias"
        roles[prefix + name] = role
    return roles


def save_models(folder: Path) -> None:
    import transformers

    transformers.logging.set_verbosity_error()
    for name, (model, config, sizes) in MODELS.items():
        made = getattr(transformers, model)(getattr(transformers, config)(**sizes))
        torch.save(made.state_dict(), folder / f"{name}.pt")
        (folder / f"{name}.json").write_text(json.dumps(roles_of(made)))


def import_timm() -> Any:
    """From its own folder (tools/setup): it imports torchvision, whose wheel on PyPI has operators for CUDA only.

    The two that must exist get no kernel here.
    """
    sys.path.append(str(Path(sys.prefix) / "timm"))
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import timm.utils

    return timm, library


def save_timm(folder: Path) -> None:
    """As its own training script saves them: with optimizer, averaged model and arguments."""
    timm, _library = import_timm()
    for name in TIMM:
        made = timm.create_model(name, num_classes=3)
        average = timm.utils.ModelEmaV3(made)
        optimizer = torch.optim.SGD(made.parameters(), 0.1)
        saver = timm.utils.CheckpointSaver(
            made, optimizer, model_ema=average, checkpoint_dir=folder, recovery_dir=folder, max_history=1
        )
        saver.save_checkpoint(1, metric=0.5)
        (folder / "last.pth.tar").rename(folder / f"timm_{name}.pt")
        for left in folder.glob("*.pth.tar"):
            left.unlink()
        roles = roles_of(made, "state_dict/") | roles_of(average.module, "state_dict_ema/")
        (folder / f"timm_{name}.json").write_text(json.dumps(roles))


def save_training(folder: Path) -> None:
    """A checkpoint of Lightning with two optimizers' worth of state and callbacks that keep tensors."""
    import lightning
    from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint

    module = lightning_module()
    callbacks = [EMAWeightAveraging(), ModelCheckpoint(folder / "kept")]
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", callbacks=callbacks, **QUIET)
    rows: Any = torch.randn(16, 4)
    trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=4))
    trainer.save_checkpoint(folder / "lightning.pt")
    kept = torch.load(folder / "lightning.pt", weights_only=False)
    roles: dict[str, str | None] = {}
    for part in ("state_dict", "current_model_state"):
        roles |= roles_of(module, f"{part}/")
    for number, slots in kept["optimizer_states"][0]["state"].items():
        roles |= {f"optimizer_states/0/state/{number}/{slot}": slot for slot in slots}
    (folder / "lightning.json").write_text(json.dumps(roles))


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    save: Callable[[Path], None]
    for save in (save_models, save_timm, save_training):
        save(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
