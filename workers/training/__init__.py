"""Code inside a rank: a recipe, the strategies that spread it over processes, and the loop that trains it."""
