"""The error for users who lack torchft."""

from treefold.extras import missing


def check_torchft() -> None:
    """Refuse to go on without torchft.

    Raises:
        TreefoldError: If torchft is missing, or cannot be imported with this torch.

    """
    try:
        import torchft.process_group  # noqa: F401
    except ImportError as error:
        raise missing(f"treefold.torchft ({error})", "torchft") from None
