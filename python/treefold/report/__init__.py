"""What people read: tables with nccl-tests' columns."""

from treefold.report.tables import compare_table, key_values, plan_table

__all__ = ["compare_table", "key_values", "plan_table"]
