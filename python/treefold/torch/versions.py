"""The version of torch that the backend needs, and the errors for users who have another one or none."""

from treefold.errors import TreefoldError

OLDEST_TORCH = (2, 14)
"""The oldest torch on which the backend's tests pass."""


def check_torch() -> None:
    """Refuse a torch that lacks what the backend needs.

    Raises:
        TreefoldError: If torch is missing, too old, or built without torch.distributed.

    """
    install = "install it: pip install 'treefold[torch]'"
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise TreefoldError(f"treefold.torch needs PyTorch, which cannot be imported ({error}); {install}") from None
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise TreefoldError(f"torch {torch.__version__} is too old for treefold.torch, which needs {oldest}; {install}")
    if not torch.distributed.is_available():
        raise TreefoldError("this torch was built without torch.distributed; install one that has it, such as PyPI's")
