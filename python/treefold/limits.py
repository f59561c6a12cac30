"""The limits that the operating system sets for this process; Windows has none of them."""


def soft_limit(name: str) -> int | None:
    """Return a limit such as `RLIMIT_NOFILE`; None if there is none."""
    try:
        import resource
    except ImportError:
        return None
    limit, _ = resource.getrlimit(getattr(resource, name))
    return None if limit == resource.RLIM_INFINITY else limit
