"""Costs of a training, in the terms in which strategies change them: sections, layouts, stages."""
