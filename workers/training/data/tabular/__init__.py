"""Tables: their readers, their columns, and the numbers that a model sees of them."""
