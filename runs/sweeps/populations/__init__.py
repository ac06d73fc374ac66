"""Population based training (Jaderberg et al. 2017) and PB2 (Parker-Holder et al. 2020): functions of plain values.

Each member of the population is a trial whose run trains to the last step. Every so many steps it is compared with the
others at the same step. A bad one ends, and its successor goes on from a good one's checkpoint with other
hyperparameters. ``runs.sweeps`` reads the members from rows, and acts on the verdicts.
"""
