"""The ranks of an attempt as one group: the place of each, how they meet, and what they agree on."""
