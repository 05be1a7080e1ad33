"""A small GPT-2 that learns to count, trained by a Trainer of Hugging Face's Transformers."""

import bitrift.runner.huggingface
import numpy as np
import torch
import transformers

transformers.set_seed(1)
config = transformers.GPT2Config(
    vocab_size=32, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None
)
model = transformers.GPT2LMHeadModel(config)
rows = torch.from_numpy((np.random.default_rng(1).integers(0, 4, (320, 16)).cumsum(1) + 1) % 32)
data = [{"input_ids": row, "labels": row} for row in rows]
arguments = transformers.TrainingArguments(
    "checkpoints",
    num_train_epochs=6,
    per_device_train_batch_size=16,
    learning_rate=3e-3,
    save_strategy="no",
    use_cpu=True,
)
base = bitrift.runner.huggingface.SaveBase("gpt2.h5", epoch=3)
trainer = transformers.Trainer(model, arguments, train_dataset=data[:256], eval_dataset=data[256:], callbacks=[base])
bitrift.runner.huggingface.serve(trainer)
trainer.train()
print(trainer.evaluate()["eval_loss"])
