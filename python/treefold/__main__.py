"""The command `treefold`, and `python -m treefold`. It handles interrupts before it imports anything else."""

import sys

from treefold import interrupts


def main() -> None:
    """Run the command line."""
    interrupts.install()
    try:
        from treefold.checkout import check_core

        check_core()
        from treefold.cli.main import main as run

        with interrupts.unwinding():
            run()
    except ImportError as error:
        from treefold.checkout import core_problem

        problem = core_problem(error)
        if problem is None:
            raise
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    except BaseException:
        if interrupts.was_interrupted():
            interrupts.end()
        raise


if __name__ == "__main__":
    main()
