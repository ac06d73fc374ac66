"""What a rank measures of itself: time, bytes, memory, FLOPs and how good the model is."""
