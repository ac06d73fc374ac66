"""The recipe ``image-classifier``: a ResNet or ViT that tells classes of images apart."""

import torch
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, PrepareModuleInput, RowwiseParallel

from trainyard.spec.sections import tasks as spec
from workers.training.data.samples import load_samples
from workers.training.recipes import ModelDocument, resnet, vit
from workers.training.recipes.parts import Alike, run_of
from workers.training.recipes.sample_task import SampleTask


class ImageClassifierTask(SampleTask):
    """Images in, one of the classes out; the loss is in nats per image."""

    shape: resnet.Shape | vit.Shape

    def make_model(self) -> nn.Module:
        return resnet.ResNet(self.shape) if isinstance(self.shape, resnet.Shape) else vit.ViT(self.shape)

    def inputs(self, stored: torch.Tensor) -> torch.Tensor:
        """Bytes of pixels (rows, channels, size, size) -> float32 from -1 to 1."""
        return stored.float().div_(127.5).sub_(1)

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        """(rows, width, side, side) of a ResNet, whose side halves on the way; (rows, patches, width) of a ViT."""
        if isinstance(self.shape, vit.Shape):
            return torch.Size((num_rows, self.shape.num_patches, self.shape.width))
        width, side = self.shape.flow(run_of(self.shape.layers, index, num_parts).stop - 1)
        return torch.Size((num_rows, width, side, side))

    def tensor_plan(self) -> dict[str, ParallelStyle]:
        """Return the cuts of a ViT: attention by heads, the MLP by columns, then rows. Between them every rank holds
        all patches, whose number need not divide."""
        if not isinstance(self.shape, vit.Shape):
            raise ValueError("parallel.tensor goes with task.model.architecture vit only: a resnet has no such cut")
        whole = Replicate()
        return {
            "embedding": Alike(),
            "layers.*.attention_norm": Alike(),
            # Once for the three projections, whose gradients are then summed in one message.
            "layers.*.attention": PrepareModuleInput(input_layouts=(whole,), desired_input_layouts=(whole,)),
            "layers.*.attention.query": ColwiseParallel(),
            "layers.*.attention.key": ColwiseParallel(),
            "layers.*.attention.value": ColwiseParallel(),
            "layers.*.attention.output": RowwiseParallel(),
            "layers.*.mlp_norm": Alike(),
            "layers.*.mlp.up": ColwiseParallel(),
            "layers.*.mlp.down": RowwiseParallel(),
            "norm": Alike(),
            "head": Alike(is_last=True),
        }

    def describe(self) -> ModelDocument:
        document = self.describe_with("image-classifier")
        document["model"]["architecture"] = "vit" if isinstance(self.shape, vit.Shape) else "resnet"
        return document


def make_shape(model: spec.ImageModel, channels: int, size: int, outputs: int) -> resnet.Shape | vit.Shape:
    """Return the sizes of ``task.model`` for such images. Raises ValueError naming the field at fault."""
    data = {"channels": channels, "size": size, "outputs": outputs}
    if model.architecture == "resnet":
        return resnet.Shape(layers=model.layers, width=model.width, **data)
    return vit.Shape(layers=model.layers, width=model.width, heads=model.heads, patch=model.patch, **data)


def load(task: spec.ImageClassifierTask, *, seed: int, device: torch.device) -> ImageClassifierTask:
    """Return the task for ``task.model`` and ``task.data`` of a spec. Raises ValueError naming the field at fault."""
    samples = load_samples(task.data)
    _, channels, size, _ = samples.train_inputs.shape
    shape = make_shape(task.model, channels, size, len(samples.classes))
    return ImageClassifierTask(shape, samples, task.data.source, seed, device)
