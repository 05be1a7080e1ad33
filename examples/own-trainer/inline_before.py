import digits
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
train_loader = DataLoader(digits.read("train"), batch_size=64, shuffle=True)
test_images, test_labels = digits.read("t10k").tensors

for epoch in range(5):
    model.train()
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        logits = model(test_images)
    test_loss = cross_entropy(logits, test_labels).item()
    accuracy = (logits.argmax(1) == test_labels).float().mean().item()
    print(epoch, test_loss, accuracy)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "inline.pt")
