"""Ratios of two contestants over the rounds of a run, with 95 % intervals."""

import math
import statistics
from collections import namedtuple

Interval = namedtuple("Interval", "low mean high")

# The quantile 0.975 of Student's t by degrees of freedom, from 1; the last is for more, too.
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
             2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)


def of_ratios(ours, theirs):
    """The geometric mean of the ratios within each round, and the interval by Student's t of their
    logarithms. One round has no interval: it is unbounded."""
    logs = [math.log(our / their) for our, their in zip(ours, theirs, strict=True)]
    mean, freedom = statistics.fmean(logs), len(logs) - 1
    half = math.inf
    if freedom:
        t = STUDENT_T[min(freedom, len(STUDENT_T)) - 1]
        half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(*map(math.exp, (mean - half, mean, mean + half)))


def exactly(value):
    return Interval(value, value, value)
