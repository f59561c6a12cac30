"""An array of stationary outputs, cycle by cycle: which rows and columns read an operand in which cycle.

An oracle for the closed forms of `treefold.training.systolic`. A row works on outputs r, r + rows, ...; a column on
filters c, c + columns, ...; both start as many cycles late as they are far from the corner. Columns never wait. A row
that has fewer outputs than the one above it waits for that one before it goes on to the next filters.
"""


def cycles_to_read(outputs: int, terms: int, filters: int, rows: int, columns: int, *, rows_only: bool) -> int:
    """Return the cycles until all rows, and all columns unless `rows_only`, have read what they need."""
    turns = -(-filters // columns)
    folds = -(-outputs // rows)
    reads_of_column = [folds * terms * len(range(c, filters, columns)) for c in range(min(columns, filters))]
    end_of_columns = max(c + reads for c, reads in enumerate(reads_of_column))
    # When each row has ended each turn: row by row, a turn begins a cycle after the row above began it.
    end_of_rows = 0
    begins = [0] * turns
    for row in range(min(rows, outputs)):
        own = len(range(row, outputs, rows)) * terms
        now = row
        for turn in range(turns):
            begins[turn] = now if row == 0 else max(now, begins[turn] + 1)
            now = begins[turn] + own
        end_of_rows = max(end_of_rows, now)
    return end_of_rows if rows_only else max(end_of_rows, end_of_columns)


def cycles_to_write(outputs: int, terms: int, filters: int, rows: int, columns: int, *, by_columns: bool) -> int:
    """Return the cycles until all results are written, fold by fold as the authors' model does.

    A fold's results come a row a cycle. The first appear when a sum is done and the array is filled; going on to the
    next filters, filling starts again from where the last fold's corner was, but never before its results are written.
    """
    used = min(columns, filters)
    now = terms + (used if by_columns else min(rows, outputs)) - 1
    left = filters
    while True:
        for _ in range(0, outputs - rows, rows):
            now += max(terms, rows)
        last = (outputs - 1) % rows + 1
        written = now + last
        left -= used
        if not left:
            return written
        corner = now - (last + used - 1)
        used = min(columns, left)
        now = max(corner + terms + (used if by_columns else min(rows, outputs)), written)
