"""The batches of each step: the order of rows, reading ahead, and the copy to the device."""
