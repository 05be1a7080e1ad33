"""A GPT-2 of a few hundred weights, for test_unread_tensors.py: `gpt.py KIND`, or an arm with these words.

tied      embedding and head are one weight
two       the same, but the base has it twice, as versions of bitrift.torch before aliases wrote it
aux       a second head that the script never loads
lenient   the base of `aux`, loaded with strict=False into a model without that head
cropped   only the first rows of the table of positions are loaded
idle      two layers, first and last by name, that are loaded and never used
average   the evaluation uses an average of the weights
adagrad   the optimizer keeps sums of squares, whose role is unknown
fresh     the same base, of which the script loads the weights only
"""

import sys

import bitrift.runner
import bitrift.torch
import h5py
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

KIND = sys.argv[1]
TOKENS, WIDTH, LENGTH, LONGEST = 12, 8, 6, 32


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(TOKENS, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        self.attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.mlp = nn.Linear(WIDTH, WIDTH)
        self.ln_f = nn.LayerNorm(WIDTH)
        if KIND == "aux":
            self.aux = nn.Linear(WIDTH, 2)
        if KIND == "idle":
            self.a_pooler, self.zz_pooler = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        # After wte in path order, so that draws are equal whichever name of the weight they have.
        self.z_head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.z_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        x = x + scaled_dot_product_attention(*self.attn(x).chunk(3, -1), is_causal=True)
        return self.z_head(self.ln_f(x + torch.relu(self.mlp(x))))


torch.manual_seed(0)
model = Gpt()
ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.1))
averages = {"ema": ema} if KIND == "average" else {}
if KIND in ("adagrad", "fresh"):
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
text = torch.randint(0, TOKENS, (32, LENGTH), generator=torch.Generator().manual_seed(1)).cumsum(1) % TOKENS


def train_epoch():
    for batch in text[torch.randperm(len(text))].split(8):
        loss = cross_entropy(model(batch[:, :]).flatten(0, 1), batch.roll(-1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)


def evaluate():
    with torch.no_grad():
        logits = (ema if KIND == "average" else model)(text)
    answers = text.roll(-1, 1)
    return cross_entropy(logits.flatten(0, 1), answers.flatten()), (logits.argmax(-1) == answers).float().mean()


def load(path):
    if KIND in ("tied", "two", "average", "adagrad"):
        return bitrift.torch.load_into(path, model, optimizer, **averages)
    with h5py.File(path) as file:
        tensors = {name: torch.from_numpy(value[()]) for name, value in file["model"].items()}
    if KIND == "aux":
        tensors = {name: value for name, value in tensors.items() if not name.startswith("aux")}
    tensors["wpe.weight"] = tensors["wpe.weight"][:LENGTH]
    model.load_state_dict(tensors, strict=False)
    return None


def save(path):
    """As KIND says."""
    bitrift.torch.save(path, model, optimizer, epoch=4, **averages)
    with h5py.File(path, "r+") as file:
        if KIND == "two":
            del file["model/z_head.weight"]
            file["model/z_head.weight"] = file["model/wte.weight"][()]
        if KIND == "cropped":
            rows = torch.randn(LONGEST, WIDTH)
            rows[:LENGTH] = model.wpe.weight.detach()
            del file["model/wpe.weight"]
            file["model/wpe.weight"] = rows.numpy()


bitrift.runner.serve(load=load, state=lambda: [model, optimizer, averages], train_epoch=train_epoch, evaluate=evaluate)
for _ in range(4):
    train_epoch()
save(f"{KIND}.h5")
