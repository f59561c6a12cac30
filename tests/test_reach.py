"""Workers that do not listen, listen at one port, or are behind firewalls: who calls whom, and what plans go round."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treefold
from treefold import TreefoldError, runtime
from treefold.rendezvous.identity import listening_port
from treefold.rendezvous.sockets import free_port

LOOPBACK = "127.0.0.1"
NONE = None
ANY = 0


def act(ports, work, **options):
    """Return what each worker's `work` returns with its group, or its error; workers listen at these ports."""
    places = runtime.local(len(ports))

    def one(place):
        place.port = ports[place.rank]
        group = None
        try:
            group = runtime.join(place, **options)
            return work(group)
        except TreefoldError as error:
            return str(error)
        finally:
            place.close()
            if group is not None:
                group.close()

    with warnings.catch_warnings(record=True) as told, ThreadPoolExecutor(len(ports)) as pool:
        warnings.simplefilter("always")
        found = list(pool.map(one, places))
    return found, sorted({str(each.message) for each in told})


def summed(group):
    array = np.full(1000, group.worker + 1, np.int64)
    group.all_reduce(array)
    gathered = group.all_gather(np.array([group.worker]))
    exchanged = group.all_to_all(np.arange(group.size) + 10 * group.worker)
    assert gathered.tolist() == list(range(group.size))
    assert exchanged.tolist() == [10 * other + group.worker for other in range(group.size)]
    return int(array[0])


@pytest.mark.parametrize(
    ("ports", "is_told"),
    [([ANY, NONE, ANY], False), ([NONE, ANY, ANY], False), ([ANY, ANY, NONE], False), ([NONE, ANY, NONE], True)],
)
@pytest.mark.parametrize("algorithm", ["auto", "multitree"])
def test_who_does_not_listen_calls_the_others(ports, is_told, algorithm):
    found, told = act(ports, summed, network="full:3", algorithm=algorithm)
    assert found == [6] * 3
    assert [("worker 0 and worker 2 cannot connect; plans go round them" in line) for line in told] == [True] * is_told
