"""Formats results as tables of text and as plots; columns have the names of nccl-tests.

Each function takes what a function of treefold returns: `plan_table(treefold.summarize(plan))`,
`plot_comparison(treefold.compare(network, sizes_bytes=sizes))`, `train_table(treefold.train(model, network))`.
"""

from treefold.report.align import key_values
from treefold.report.comparison import compare_table
from treefold.report.explanations import explain_table
from treefold.report.jobs import jobs_table
from treefold.report.looks import check_format
from treefold.report.maps import plot_winners
from treefold.report.networks import network_table
from treefold.report.plots import plot_comparison, plot_format
from treefold.report.tables import (
    bound_table,
    claims_table,
    plan_table,
    replan_table,
    schedule_table,
    size_bound_table,
    switch_table,
    train_table,
)
from treefold.report.timelines import plot_timelines
from treefold.report.winners import winners_table

__all__ = [
    "bound_table",
    "check_format",
    "claims_table",
    "compare_table",
    "explain_table",
    "jobs_table",
    "key_values",
    "network_table",
    "plan_table",
    "plot_comparison",
    "plot_format",
    "plot_timelines",
    "plot_winners",
    "replan_table",
    "schedule_table",
    "size_bound_table",
    "switch_table",
    "train_table",
    "winners_table",
]
