"""The state of a training on the disk: written beside the training, whole or not there, restored under any mesh.

One folder a checkpoint, ``step-N.fence-F``, of safetensors files and a manifest in JSON; nothing in it is code.
"""
