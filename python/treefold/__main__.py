"""The command `treefold`, and `python -m treefold`: heeds interrupts before all else is imported."""

from treefold import interrupts


def main() -> None:
    """Run the command line."""
    interrupts.heed()
    from treefold.cli.main import main as run

    try:
        with interrupts.unwinding():
            run()
    except BaseException:
        if interrupts.has_come():
            interrupts.end()
        raise


if __name__ == "__main__":
    main()
