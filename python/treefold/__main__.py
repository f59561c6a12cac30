"""The command `treefold`, and `python -m treefold`. It handles interrupts before it imports anything else."""

from treefold import interrupts


def main() -> None:
    """Run the command line."""
    interrupts.install()
    from treefold.cli.main import main as run

    try:
        with interrupts.unwinding():
            run()
    except BaseException:
        if interrupts.was_interrupted():
            interrupts.end()
        raise


if __name__ == "__main__":
    main()
