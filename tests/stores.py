"""A stand-in for a store of torch.distributed, for tests without torch."""

import threading
from datetime import timedelta


class Store:
    """What from_store uses of a torch.distributed Store, among threads."""

    def __init__(self, is_extended=True):
        self.values, self.changed, self.is_extended = {}, threading.Condition(), is_extended

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def wait(self, keys, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: all(key in self.values for key in keys), timeout.total_seconds()):
                raise RuntimeError("wait timeout")

    def get(self, key):
        return self.values[key]

    def has_extended_api(self):
        return self.is_extended

    @property
    def timeout(self):
        return timedelta(seconds=10)

    def multi_get(self, keys):
        self.wait(keys, self.timeout)
        return [self.values[key] for key in keys]

    def check(self, keys):
        return all(key in self.values for key in keys)
