"""The settings of clusters whose engine brings nodes: fields of a form, checks of values, and secrets."""
