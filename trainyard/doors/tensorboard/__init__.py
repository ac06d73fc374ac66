"""TensorBoard: its event files, read and written without TensorBoard."""
