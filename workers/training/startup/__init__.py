"""Start of a rank before the first step: the place of a rank, its process group, the batch size, warm imports."""
