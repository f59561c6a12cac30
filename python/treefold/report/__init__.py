"""Makes tables and plots of results for people; columns have the names of nccl-tests."""

from treefold.report.align import key_values
from treefold.report.comparison import compare_table
from treefold.report.networks import network_table
from treefold.report.plots import plot_comparison, plot_format
from treefold.report.tables import bound_table, claims_table, plan_table, train_table
from treefold.report.timelines import plot_timelines

__all__ = [
    "bound_table",
    "claims_table",
    "compare_table",
    "key_values",
    "network_table",
    "plan_table",
    "plot_comparison",
    "plot_format",
    "plot_timelines",
    "train_table",
]
