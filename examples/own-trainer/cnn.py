import bitrift.runner
import bitrift.torch
import digits
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(16 * 4 * 4, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
train_loader = DataLoader(digits.read("train"), batch_size=64, shuffle=True)
test_images, test_labels = digits.read("t10k").tensors


def train_epoch():
    model.train()
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


def evaluate():
    model.eval()
    with torch.no_grad():
        logits = model(test_images)
    accuracy = (logits.argmax(1) == test_labels).float().mean()
    return cross_entropy(logits, test_labels), accuracy


bitrift.runner.serve(model=model, optimizer=optimizer, train_epoch=train_epoch, evaluate=evaluate)
for epoch in range(5):
    train_epoch()
    print(epoch, *map(float, evaluate()))
bitrift.torch.save("digits.h5", model, optimizer, epoch=5)
