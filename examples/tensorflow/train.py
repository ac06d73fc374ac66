"""A line is fitted by Keras on all workers that TF_CONFIG names.

Alone: TF_USE_LEGACY_KERAS=1 python train.py. With --kept, a folder that all workers share, it goes on from the last
epoch. Where TensorFlow is not installed it names its place among the workers, and ends.
"""

import argparse
import json
import os
import sys

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--kept", default="")
    arguments = parser.parse_args()

    index, workers = place(os.environ.get("TF_CONFIG", "{}"))
    where = f" at {workers[index]}, chief at {workers[0]}" if workers else ""
    print(f"worker {index} of {max(1, len(workers))}{where}", flush=True)
    try:
        import tensorflow as tf
    except ModuleNotFoundError:
        sys.exit("TensorFlow is not installed here: name it in environment.requirements, or take a Python that has it.")

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow runs
    x = np.random.default_rng(0).standard_normal((4096, 1)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, 3 * x - 1)).batch(64)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    callbacks = [tf.keras.callbacks.BackupAndRestore(arguments.kept)] if arguments.kept else []
    if index == 0:  # whose event files are the run's curves
        callbacks.append(tf.keras.callbacks.TensorBoard(os.environ.get("TRAINYARD_OUTPUT", "logs")))
    model.fit(data, epochs=arguments.epochs, verbose=2, callbacks=callbacks)
    if index == 0:
        print(f"{strategy.num_replicas_in_sync} replicas found a line", flush=True)


def place(text: str) -> tuple[int, list[str]]:
    """Return this process's number and the addresses of all workers, of which a process alone has none."""
    config = json.loads(text)
    return config.get("task", {"index": 0})["index"], config.get("cluster", {}).get("worker", [])


if __name__ == "__main__":
    main()
