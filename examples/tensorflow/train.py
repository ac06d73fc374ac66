"""A line is fitted by Keras on all workers that TF_CONFIG names.

Alone: python train.py.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow runs
    x = np.random.default_rng(0).standard_normal((4096, 1)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, 3 * x - 1)).batch(64)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    model.fit(data, epochs=arguments.epochs, verbose=2)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
    if task["index"] == 0:
        print(f"{strategy.num_replicas_in_sync} replicas found a line", flush=True)


if __name__ == "__main__":
    main()
