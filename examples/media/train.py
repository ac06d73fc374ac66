"""A network learns one picture, from a place in it to its colour, and shows how far it has come.

    python train.py --steps 200

Beside the loss it logs what is no number: pictures, histograms of its weights, a table of errors, a tone and
a few words.
"""

import argparse

import torch
from torch import nn

import trainyard

SIZE = 96  # pixels on a side
PARTS = 3  # of the picture, down and across, in the table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--show-every", type=int, default=10)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    run = trainyard.init()
    places, picture = places_and_picture()
    model = nn.Sequential(Waves(32), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    for step in range(1, arguments.steps + 1):
        loss = nn.functional.mse_loss(model(places), picture.reshape(-1, 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log({"train/loss": loss.item()}, step=step)
        if step % arguments.show_every == 0 or step == 1:
            run.log(shown(model, places, picture), step=step)
            print(f"step {step}/{arguments.steps}  loss {loss.item():.5f}", flush=True)
    run.finish()


class Waves(nn.Module):
    """Turn x and y into waves of random directions and lengths (Fourier features, Tancik et al. 2020), since a small
    network cannot bend as often as a picture does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.register_buffer("directions", torch.randn(2, number) * 5)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        angles = places @ self.directions
        return torch.cat([angles.sin(), angles.cos()], dim=1)


def places_and_picture() -> tuple[torch.Tensor, torch.Tensor]:
    """Return where each pixel is, from -1 to 1, and the picture as height x width x 3, from 0 to 1."""
    line = torch.linspace(-1, 1, SIZE)
    y, x = torch.meshgrid(line, line, indexing="ij")
    distance = (x**2 + y**2).sqrt()
    rings = 0.5 + 0.5 * torch.sin(14 * distance)
    petals = 0.5 + 0.5 * torch.cos(6 * torch.atan2(y, x)) * torch.exp(-(distance**2))
    return torch.stack([x, y], dim=2).reshape(-1, 2), torch.stack([rings, petals, (x + 1) / 2], dim=2)


@torch.no_grad()
def shown(model: nn.Sequential, places: torch.Tensor, picture: torch.Tensor) -> dict[str, object]:
    """Return what is logged beside the loss."""
    learned = model(places).reshape(picture.shape)
    error = (learned - picture).abs().mean(dim=2)
    edge = SIZE // PARTS
    parts = error.reshape(PARTS, edge, PARTS, edge).mean(dim=(1, 3)).tolist()
    worst = max((value, row, column) for row, values in enumerate(parts) for column, value in enumerate(values))
    words = f"The mean error is **{error.mean():.4f}**.\n\nIt is worst in row {worst[1] + 1}, column {worst[2] + 1}."
    layers = {f"weights/layer {index}": layer.weight for index, layer in enumerate(model) if hasattr(layer, "weight")}
    return {
        "pictures": [trainyard.Image(learned.permute(2, 0, 1), "learned"), trainyard.Image(picture.numpy(), "given")],
        "error": trainyard.Image(error / error.max(), "where it is wrong"),
        **{name: trainyard.Histogram(weight) for name, weight in layers.items()},
        "error by part": trainyard.Table(["row", *(f"column {n + 1}" for n in range(PARTS))],
                                         [[f"row {n + 1}", *values] for n, values in enumerate(parts)]),
        "a row as a tone": trainyard.Audio((learned[SIZE // 2, :, 0] * 2 - 1).repeat(100), 16_000, "learned"),
        "in words": trainyard.Text(words, format="markdown"),
    }  # fmt: skip


if __name__ == "__main__":
    main()
