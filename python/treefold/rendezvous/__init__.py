"""How workers find each other: a rendezvous gathers a small blob from every worker, as often as they like.

It uses what started the workers: torchrun's store, mpiexec, or the variables RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT, for which worker 0 serves the others and listens on MASTER_ADDR only. The threads of one process have a
rendezvous, too. TREEFOLD_NAME names a worker, TREEFOLD_INTERFACE is the interface (or address) on which its sockets
listen, and TREEFOLD_JOB is a word that all workers of a job know and nobody else does.
"""

from treefold.rendezvous.launchers import from_environment
from treefold.rendezvous.master import from_master
from treefold.rendezvous.meeting import MOST_WORKERS, Rendezvous, local
from treefold.rendezvous.store import from_store

__all__ = ["MOST_WORKERS", "Rendezvous", "from_environment", "from_master", "from_store", "local"]
