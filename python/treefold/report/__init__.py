"""What people read: tables with nccl-tests' columns."""

from treefold.report.tables import bound_table, compare_table, key_values, plan_table

__all__ = ["bound_table", "compare_table", "key_values", "plan_table"]
